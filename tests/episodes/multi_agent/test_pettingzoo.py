"""PettingZoo's environments, played through multi-agent episodes: each agent's return is what the environment paid it.

Rewards are whole numbers, so sums are compared exactly. Agents of the generated environments appear and die at random,
are paid while they wait and when they appear, and are in no list of possible agents.
"""

import importlib
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pettingzoo
import pytest

from episodia import MultiAgentEpisode


def generated(name, kind):
    """Return a maker of one of PettingZoo's own test environments."""

    def make():
        with warnings.catch_warnings():
            # Their package imports another environment in a way that PettingZoo itself calls deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(f"pettingzoo.test.example_envs.generated_agents_{name}_v0")
        return getattr(module, kind)(max_cycles=4)

    return make


PARALLEL = {
    "rock, paper, scissors": lambda: pettingzoo.make("parallel", "classic/rps-v2"),
    "generated": generated("parallel", "parallel_env"),
    "generated, with tuples as ids": generated("parallel_cust_agentid", "parallel_env"),
}
TURNS = {
    "tic-tac-toe": lambda: pettingzoo.make("aec", "classic/tictactoe-v3"),
    "connect four": lambda: pettingzoo.make("aec", "classic/connect_four-v3"),
    "rock, paper, scissors": lambda: pettingzoo.make("aec", "classic/rps-v2"),
    "generated": generated("env", "raw_env"),
    "generated, with tuples as ids": generated("env_cust_agentid", "raw_env"),
}


def choose(rng, env, agent, observation):
    """Return a random action, one of the legal ones if the environment says which they are."""
    legal = np.arange(env.action_space(agent).n)
    if isinstance(observation, dict):
        legal = np.flatnonzero(observation["action_mask"])
    return int(rng.choice(legal))


def play_parallel(env, seed, fragment=None, most=40):
    """Play an episode; return its chunks of `fragment` steps, and what each agent was paid.

    The generated environments that act at once have no end, in spite of their `max_cycles`.
    """
    rng, paid = np.random.default_rng(seed), Counter()
    observations, infos = env.reset(seed=seed)
    chunks = [MultiAgentEpisode(f"seed {seed}")]
    chunks[0].add_env_reset(observations=observations, infos=infos)
    while env.agents and chunks[-1].env_t < most:
        if len(chunks[-1]) == fragment:
            chunks.append(chunks[-1].cut(len_lookback_buffer=2))
        assert chunks[-1].get_agents_to_act() == set(env.agents)
        actions = {agent: choose(rng, env, agent, observations[agent]) for agent in env.agents}
        observations, rewards, terminateds, truncateds, infos = env.step(actions)
        paid.update(rewards)
        chunks[-1].add_env_step(observations, actions, rewards, infos, terminateds=terminateds, truncateds=truncateds)
    assert chunks[-1].is_done == (not env.agents)
    return chunks, paid


def play_in_turns(env, seed, fragment=None):
    """Play an episode of an environment in which one agent acts at a time; return what `play_parallel` does.

    What an agent was paid is taken from `env.last()`, which adds it up for the agent's turn, and not from the rewards
    of each step, which go into the episode. Some environments go on paying an agent between its end and its last turn.
    """
    rng, paid = np.random.default_rng(seed), Counter()
    env.reset(seed=seed)
    while hasattr(env, "add_agent") and len(env.agents) < 18:
        env.add_agent(env.types[len(env.agents) % 3])  # in the generated environments, agents die in a crowd
    observation = env.observe(env.agent_selection)
    chunks = [MultiAgentEpisode(f"seed {seed}", rewards_after_done="add")]
    chunks[0].add_env_reset(observations={env.agent_selection: observation})
    ended = set()
    while env.agents:
        if len(chunks[-1]) == fragment:
            chunks.append(chunks[-1].cut(len_lookback_buffer=2))
        agent = env.agent_selection
        assert chunks[-1].get_agents_to_act() == {agent}
        paid[agent] += env.last(observe=False)[1]
        action = choose(rng, env, agent, observation)
        env.step(action)
        step = what_followed(env, ended)
        skip_the_dead(env, paid)
        if env.agents:
            observation = step["observations"][env.agent_selection] = env.observe(env.agent_selection)
        chunks[-1].add_env_step(actions={agent: action}, **step)
    assert chunks[-1].is_done
    return chunks, paid


def what_followed(env, ended):
    """Return what a step brought, with the last observations of those who have ended with it."""
    flags = {agent: env.terminations[agent] or env.truncations[agent] for agent in env.agents}
    new = [agent for agent, flag in flags.items() if flag and agent not in ended]
    ended.update(new)
    return {
        "observations": {agent: env.observe(agent) for agent in new},
        "rewards": dict(env.rewards),
        "infos": dict(env.infos),
        "terminateds": dict(env.terminations),
        "truncateds": dict(env.truncations),
    }


class SelectedADeadAgentError(Exception):
    """PettingZoo asks an agent to act that it has removed: a rare defect of its generated environments."""


def skip_the_dead(env, paid):
    """Step for agents that have ended: they get one turn more, in which to act with None."""
    while env.agents:
        if env.agent_selection not in env.terminations:
            raise SelectedADeadAgentError(env.agent_selection)
        if not (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
            break
        paid[env.agent_selection] += env.last(observe=False)[1]
        env.step(None)


def assert_paid_in_full(chunks, paid):
    """Check that each agent has what it was paid, in its steps or from before its first observation."""
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole.concat_episode(chunk)
    whole.validate()
    found = Counter(whole._hanging_rewards_begin)
    found.update({agent: single.get_return() for agent, single in whole.agent_episodes.items()})

    assert whole._hanging_rewards_end == {}
    assert found == paid
    assert whole.get_return(include_hanging_rewards=True) == paid.total()


@pytest.mark.parametrize("fragment", [None, 1, 7])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", PARALLEL.values(), ids=PARALLEL)
def test_agents_that_act_at_once_get_what_the_environment_paid(make, seed, fragment):
    assert_paid_in_full(*play_parallel(make(), seed, fragment))


@pytest.mark.parametrize("fragment", [None, 1, 7])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", TURNS.values(), ids=TURNS)
def test_agents_that_take_turns_get_what_the_environment_paid(make, seed, fragment):
    assert_paid_in_full(*play_in_turns(make(), seed, fragment))


def test_each_move_is_the_difference_between_two_boards():
    (episode,), _ = play_in_turns(pettingzoo.make("aec", "classic/tictactoe-v3"), seed=1)

    for single in episode.finalize().agent_episodes.values():
        marks = single.get_observations()["observation"][..., 0].reshape(-1, 9)
        moves = [np.flatnonzero(after != before).tolist() for before, after in pairwise(marks)]
        # PettingZoo numbers the fields from the top left downwards, as it stores them.
        assert moves == [[move] for move in single.get_actions()]


def test_spaces_of_an_environment_fit_what_it_returns():
    env = pettingzoo.make("parallel", "classic/rps-v2")
    episode = MultiAgentEpisode(
        observation_space={agent: env.observation_space(agent) for agent in env.possible_agents},
        action_space={agent: env.action_space(agent) for agent in env.possible_agents},
    )
    observations, infos = env.reset(seed=3)
    episode.add_env_reset(observations=observations, infos=infos)
    while env.agents:
        actions = dict.fromkeys(env.agents, 1)
        observations, rewards, terminateds, truncateds, infos = env.step(actions)
        episode.add_env_step(observations, actions, rewards, infos, terminateds=terminateds, truncateds=truncateds)

    assert episode.finalize().get_truncateds()["__all__"]
    assert episode.get_rewards()["player_0"].tolist() == [0] * len(episode)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["generated", "generated, with tuples as ids"])
@pytest.mark.parametrize("play", [play_parallel, play_in_turns])
def test_a10_agents_get_what_the_environment_paid_in_hundreds_of_episodes(play, kind):
    makers, played = (PARALLEL if play is play_parallel else TURNS), 0
    for seed in range(300):
        try:
            chunks, paid = play(makers[kind](), seed, fragment=5 + seed % 20)
        except SelectedADeadAgentError:
            continue
        assert_paid_in_full(chunks, paid)
        played += 1

    assert played > 295
