"""Multi-agent environments that tell in each observation where it comes from, and keep a log of all they did.

An observation is `[environment, episode, agent, environment step]`. What happens is drawn from the seed of the reset: who
comes late, who waits, who is paid, who dies. `replayed` makes of a log what a plain loop would have recorded.
"""

import copy
from collections import defaultdict
from itertools import pairwise

import numpy as np
from gymnasium import spaces

from episodia import MultiAgentEpisode
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.testing import assert_same_multi_agent_episode

OBSERVATIONS = spaces.Box(-1, 10**6, (4,), np.int64)
ACTIONS = spaces.Discrete(5)
KINDS = ("simultaneous", "turns", "random")


class ScriptedEnv(MultiAgentEnv):
    """Plays random schedules of one of `KINDS`, or "mixed": most steps are simultaneous, the others random.

    Its `log` has for each episode a list: what the reset returned, then pairs of what a step was given and returned.
    """

    def __init__(
        self,
        index=0,
        kind="random",
        num_agents=3,
        longest=9,
        reuses_buffers=False,
        tells_episode=True,
        tells_infos=True,
    ):
        self.index, self.kind, self.longest = index, kind, longest
        self.possible_agents = [f"agent {number}" for number in range(num_agents)]
        self.observation_spaces = dict.fromkeys(self.possible_agents, OBSERVATIONS)
        self.action_spaces = dict.fromkeys(self.possible_agents, ACTIONS)
        self.buffers = {agent: np.zeros(4, np.int64) for agent in self.possible_agents} if reuses_buffers else None
        self.tells_episode, self.tells_infos = tells_episode, tells_infos
        self.log, self.seeds, self.closed = [], [], 0

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.seeds.append(seed)
        self.log.append([])
        self.length = int(self.rng.integers(1, self.longest + 1))
        self.status = dict.fromkeys(self.possible_agents, "unseen")
        first = self.possible_agents[:1] if self.kind == "turns" else self.possible_agents
        if self.kind in ("random", "mixed"):
            first = [agent for agent in first if self.rng.random() < 0.6]
        return self.noted(({agent: self.shown(agent) for agent in first}, self.infos(first)))

    def step(self, actions):
        acting = [agent for agent, status in self.status.items() if status == "idle"]
        assert sorted(actions) == sorted(acting), (actions, self.status)
        given = copy.deepcopy(actions)
        self.t += 1
        self.is_plain = self.kind == "simultaneous" or (self.kind == "mixed" and self.rng.random() < 0.7)
        self.status.update(dict.fromkeys(acting, "pending"))
        over = self.t >= self.length
        watching, dying = self.watching(over), self.dying()
        observations = {agent: self.shown(agent) for agent in watching}
        rewards = {agent: self.reward() for agent in acting}
        if not self.is_plain:
            rewards.update({agent: self.reward() for agent in self.living() if self.rng.random() < 0.4})
        terminateds, truncateds = {}, {}
        for agent in dying:
            self.status[agent] = "done"
            # Who is truncated after acting needs a last observation, or its previous one is repeated.
            (terminateds if self.rng.random() < 0.5 else truncateds)[agent] = True
        if over:
            (terminateds if self.rng.random() < 0.5 else truncateds)["__all__"] = True
        result = observations, rewards, terminateds, truncateds, self.infos(watching)
        return self.noted((given, result))[1]

    def watching(self, over):
        living = self.living()
        if self.is_plain:
            return living
        if self.kind == "turns":
            return living if over else [self.possible_agents[self.t % len(self.possible_agents)]]
        unseen = [agent for agent, status in self.status.items() if status == "unseen"]
        waiting = [agent for agent, status in self.status.items() if status == "pending"]
        return [agent for agent in waiting if self.rng.random() < 0.6] + [
            agent for agent in unseen if self.rng.random() < 0.3
        ]

    def dying(self):
        is_deadly = self.kind in ("random", "mixed")
        return [agent for agent in self.living() if is_deadly and self.rng.random() < 0.05]

    def living(self):
        return [agent for agent, status in self.status.items() if status in ("idle", "pending")]

    def shown(self, agent):
        self.status[agent] = "idle"
        number = self.possible_agents.index(agent)
        values = [self.index, len(self.log) - 1 if self.tells_episode else 0, number, self.t]
        if self.buffers is None:
            return np.array(values)
        self.buffers[agent][:] = values
        return self.buffers[agent]

    def reward(self):
        return float(self.rng.integers(-8, 9) / 4)

    def infos(self, agents):
        return {agent: {"seen": self.t} for agent in agents if self.rng.random() < 0.3 and self.tells_infos}

    def noted(self, entry):
        self.log[-1].append(copy.deepcopy(entry))
        return entry

    def close(self):
        self.closed += 1


def makers(**options):
    """Return a callable that makes numbered environments, and the list of those that it has made."""
    made = []

    def make():
        made.append(ScriptedEnv(len(made), **options))
        return made[-1]

    return make, made


def echo_actions(observation):
    """Return what `Echo` does, and notes, on an observation."""
    return np.int64(int(observation.sum()) % 5), np.float32(observation[3] + observation[2] / 10)


class Echo:
    """A module by rules, whose outputs can be told from the observation; it notes how many rows each call had."""

    observation_space, action_space = OBSERVATIONS, ACTIONS

    def __init__(self):
        self.rows = []

    def forward_exploration(self, batch):
        observations = batch["obs"].numpy()
        self.rows.append(len(observations))
        chosen = [echo_actions(observation) for observation in observations]
        return {"actions": np.array([action for action, _ in chosen]), "tag": np.array([tag for _, tag in chosen])}

    forward_inference = forward_train = forward_exploration

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


def replayed(log, like, ends=(), with_tags=True):
    """Return the chunks that a plain loop over one episode's `log` would have recorded.

    Args:
        log: What the environment did.
        like: A chunk of the episode as it was found, for id, spaces and options.
        ends: For each chunk that goes on, the environment step at which it ends, and the lookback of the next one.
        with_tags: Whether `Echo` has acted.
    """
    (observations, infos), *steps = copy.deepcopy(log)
    episode = MultiAgentEpisode(
        like.id_,
        observation_space=like.observation_space,
        action_space=like.action_space,
        agent_to_module_mapping_fn=like.agent_to_module_mapping_fn,
        missing_final_observation="repeat",
        rewards_after_done="add",
    )
    episode.add_env_reset(observations=observations, infos=infos)
    episode.weights_version = 0
    chunks, ends = [], dict(ends)
    shown = dict(observations)
    for actions, (observations, rewards, terminateds, truncateds, infos) in steps:
        if episode.env_t in ends and len(episode):
            chunks.append(episode)
            episode = episode.cut(ends[episode.env_t])
        extras = {agent: {"tag": echo_actions(shown[agent])[1]} for agent in actions} if with_tags else None
        episode.add_env_step(
            observations,
            actions,
            rewards,
            infos,
            terminateds=terminateds,
            truncateds=truncateds,
            extra_model_outputs=extras,
        )
        shown.update(observations)
        if episode.is_done:
            break
    return [*chunks, episode]


def by_episode(samples):
    """Return the chunks of each episode, in order, by (environment, number of the episode)."""
    chunks = defaultdict(list)
    for chunk in samples:
        _, env, number = chunk.id_.split("-")
        chunks[int(env), int(number)].append(chunk)
    return chunks


def assert_recorded_as_by_a_plain_loop(samples, envs, with_tags=True):
    for (env, number), found in by_episode(samples).items():
        ends = [(chunk.env_t, follows.env_lookback) for chunk, follows in pairwise(found)]
        expected = replayed(envs[env].log[number], found[0], ends, with_tags)
        for chunk, other in zip(found, expected, strict=True):
            chunk.validate()
            assert_same_multi_agent_episode(chunk, other.finalize(), ignore=["times"])
