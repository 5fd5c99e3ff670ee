"""Who acts for whom: modules, masks, recurrent states, pipelines, exploration, random actions."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Columns
from episodia.connectors import ConnectorV2, FrameStacking, MeanStdFilter, defaults
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.errors import ConnectorError, EpisodiaError
from episodia.modules import LSTMActorCritic, MLPActorCritic, MultiModule
from scripted_agents import ACTIONS, OBSERVATIONS, Echo, ScriptedEnv, makers

VECTORS = spaces.Box(-1.0, 1.0, (3,), np.float32)
THREE = spaces.Discrete(3)


class Walkers(MultiAgentEnv):
    """Two agents that see vectors, and whatever `actions` are; they act at once, or in turns."""

    possible_agents = agents = ("left", "right")

    def __init__(self, actions=THREE, turns=False, length=12, masks=None):
        self.observation_spaces = dict.fromkeys(self.agents, VECTORS)
        self.action_spaces = dict.fromkeys(self.agents, actions)
        self.turns, self.length, self.masks, self.received = turns, length, masks, []

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        return self.seen()

    def seen(self, everybody=False):
        agents = [self.agents[self.t % 2]] if self.turns and not everybody else self.agents
        infos = {agent: {"action_mask": self.masks[self.t % len(self.masks)]} for agent in agents if self.masks}
        return {agent: self.rng.uniform(-1, 1, 3).astype(np.float32) for agent in agents}, infos

    def step(self, actions):
        self.received.append(dict(actions))
        assert all(self.action_spaces[agent].contains(action) for agent, action in actions.items())
        self.t += 1
        observations, infos = self.seen(everybody=self.t == self.length)
        return observations, dict.fromkeys(actions, 1.0), {"__all__": self.t == self.length}, {}, infos


def odd_or_even(agent, episode):  # noqa: ARG001  # the signature of a mapping function
    return "odd" if agent.endswith("1") else "even"


def test_agents_of_one_module_in_all_environments_are_served_by_one_forward_pass():
    make, _ = makers(kind="simultaneous", num_agents=4, longest=50)
    module = Echo()
    MultiAgentEnvRunner(make, module, num_envs=3, seed=0).sample(num_timesteps=3)

    assert module.rows == [12]


def test_each_module_is_given_its_own_agents():
    modules = {"even": Echo(), "odd": Echo()}
    make, _ = makers(kind="simultaneous", num_agents=3, longest=50)
    runner = MultiAgentEnvRunner(
        make,
        modules,
        num_envs=2,
        agent_to_module_mapping_fn=odd_or_even,
    )
    samples = runner.sample(num_timesteps=2)

    assert (modules["even"].rows, modules["odd"].rows) == ([4], [2])
    assert {agent: single.module_id for agent, single in samples[0].agent_episodes.items()} == {
        "agent 0": "even",
        "agent 1": "odd",
        "agent 2": "even",
    }


def test_without_a_mapping_each_agent_has_the_module_of_its_name():
    runner = MultiAgentEnvRunner(Walkers, {"left": Mover(), "right": Mover()})

    assert runner.sample(num_timesteps=1)[0].module_for("right") == "right"


def test_an_agent_without_a_module_is_an_error_that_names_it():
    runner = MultiAgentEnvRunner(Walkers, {"left": Mover(), "middle": Mover()})

    with pytest.raises(EpisodiaError, match="right"):
        runner.sample(num_timesteps=1)


class Mover:
    """Puts out real-valued actions that are far out of bounds."""

    observation_space, action_space = VECTORS, spaces.Discrete(3)

    def forward_exploration(self, batch):
        return {"actions": np.zeros(len(batch["obs"]), np.int64)}

    forward_inference = forward_train = forward_exploration

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


class Giant(Mover):
    action_space = spaces.Box(0.0, 10.0, (2,), np.float32)

    def forward_exploration(self, batch):
        return {"actions": np.full((len(batch["obs"]), 2), 7.0, np.float32)}

    forward_inference = forward_train = forward_exploration


def test_episodes_keep_the_action_of_the_module_and_environments_get_one_within_bounds():
    env = Walkers(Giant.action_space)
    chunk = MultiAgentEnvRunner(env, Giant()).sample(num_timesteps=2)[0]

    assert chunk.agent_episodes["left"].get_actions().tolist() == [[7.0, 7.0]] * 2
    assert env.received[0]["left"].tolist() == [10.0, 10.0]


@pytest.mark.parametrize("with_module", [False, True])
def test_random_actions_of_a_box_lie_within_its_bounds_when_they_reach_the_environment(with_module):
    env = Walkers(Giant.action_space)
    runner = MultiAgentEnvRunner(env, Giant() if with_module else None, seed=2)
    runner.sample(num_timesteps=100, random_actions=True)
    received = np.stack([step["left"] for step in env.received])

    assert received.min() < 2.0
    assert received.max() > 8.0


def test_random_actions_of_nested_spaces():
    space = spaces.Dict(
        {"go": spaces.Discrete(2), "aim": spaces.Tuple([spaces.Box(-1.0, 1.0, (2,)), spaces.MultiBinary(3)])}
    )
    samples = MultiAgentEnvRunner(lambda: Walkers(space), seed=2).sample(num_timesteps=24)

    assert all(len(single) for chunk in samples for single in chunk.agent_episodes.values())


MASKS = [np.array(mask, np.int8) for mask in ([1, 0, 0], [0, 0, 1], [0, 1, 1])]


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("module", [None, MLPActorCritic, LSTMActorCritic])
def test_masks_in_infos_are_respected(turns, at_random, module):
    env = Walkers(turns=turns, masks=MASKS)
    runner = MultiAgentEnvRunner(env, module and module(VECTORS, spaces.Discrete(3), (4,)), seed=0)
    runner.sample(num_timesteps=24, random_actions=at_random)

    assert all(MASKS[step % 12 % 3][action] for step, actions in enumerate(env.received) for action in actions.values())


@pytest.mark.parametrize("turns", [False, True])
def test_recurrent_states_go_on_from_step_to_step_and_from_chunk_to_chunk(turns):
    torch.manual_seed(0)
    module = LSTMActorCritic(VECTORS, spaces.Discrete(3), cell_size=4)
    runner = MultiAgentEnvRunner(lambda: Walkers(turns=turns), module, num_envs=2, seed=0)
    # 14 of 24 steps are random: the states do not mind.
    samples = [runner.sample(num_timesteps=steps, random_actions=steps == 14) for steps in (6, 14, 4)]
    chunks = [chunk for sample in samples for chunk in sample if chunk.id_ == "0-0-0"]
    observations, states = [], []
    for chunk in chunks:
        single = chunk.agent_episodes["left"]
        observations += list(single.get_observations())[: len(single)]
        states += list(single.get_extra_model_outputs(Columns.STATE_OUT)["h"]) if len(single) else []
    batch = {
        "obs": torch.from_numpy(np.stack(observations))[None],
        "state_in": {name: torch.zeros(1, 4) for name in ("h", "c")},
    }
    with torch.no_grad():
        expected = module.forward_train(batch)["state_out"]["h"][0].numpy()

    assert len(states) == (6 if turns else 12)
    np.testing.assert_allclose(states[-1], expected, atol=1e-6)


def test_without_exploration_the_most_probable_action_is_taken():
    torch.manual_seed(1)
    module = MLPActorCritic(VECTORS, spaces.Discrete(3))
    for weight in module.parameters():
        weight.data *= 3
    chunk = MultiAgentEnvRunner(Walkers, module).sample(num_timesteps=12, explore=False)[0]
    single = chunk.agent_episodes["left"]
    logits = single.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)

    assert single.get_actions().tolist() == logits.argmax(-1).tolist()


def test_what_modules_put_out_is_recorded_beside_their_actions():
    modules = MultiModule({"default_policy": MLPActorCritic(VECTORS, spaces.Discrete(3))})
    chunk = MultiAgentEnvRunner(Walkers, modules).sample(num_timesteps=5)[0]
    single = chunk.agent_episodes["right"]
    distribution = torch.distributions.Categorical(
        logits=torch.from_numpy(np.array(single.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)))
    )

    assert set(single.extra_model_outputs) == {Columns.ACTION_DIST_INPUTS, Columns.ACTION_LOGP}
    np.testing.assert_allclose(
        single.get_extra_model_outputs(Columns.ACTION_LOGP),
        distribution.log_prob(torch.from_numpy(np.array(single.get_actions()))),
        atol=1e-6,
    )


@pytest.mark.parametrize("turns", [False, True])
def test_frames_are_stacked_over_the_ends_of_chunks(turns):
    frames = []

    class Seeing(Mover):
        def forward_exploration(self, batch):
            frames.append(batch["obs"].numpy())
            return super().forward_exploration(batch)

    env = Walkers(turns=turns)
    joint = spaces.Dict(env.observation_spaces), spaces.Dict(env.action_spaces)
    pipeline = defaults.env_to_module(*joint, custom=[FrameStacking(num_frames=3, multi_agent=True)], multi_agent=True)
    runner = MultiAgentEnvRunner(env, Seeing(), env_to_module=pipeline, seed=4)
    chunks = [chunk for _ in range(9) for chunk in runner.sample(num_timesteps=1)]
    seen = [chunk.agent_episodes["left"].get_observations(-1) for chunk in chunks]

    assert runner.lookback == 2
    if not turns:
        assert np.array_equal(frames[8][0], np.stack(seen[5:8], -1))


def test_filters_use_new_statistics_from_the_next_call_on():
    env = Walkers(length=100)
    joint = spaces.Dict(env.observation_spaces), spaces.Dict(env.action_spaces)
    pipeline = defaults.env_to_module(*joint, custom=[MeanStdFilter(multi_agent=True)], multi_agent=True)
    runner = MultiAgentEnvRunner(env, Mover(), env_to_module=pipeline, seed=4)
    runner.sample(num_timesteps=10)

    assert pipeline["MeanStdFilter"].version == 1
    runner.sample(num_timesteps=10, random_actions=True)
    state = pipeline["MeanStdFilter"].get_state()
    assert state["version"] == 2
    # Every observation once: that of the reset, and one after each step, of which the last one is not committed yet.
    assert [entry["count"] for entry in state["delta"]] == [20, 20]


class WriteNegated(ConnectorV2):
    """Writes other observations into the episodes, as plugins do."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            episode.set_observations(new_data=-episode.get_observations(-1), at_indices=-1)
        return batch


@pytest.mark.parametrize("kind", ["simultaneous", "turns"])
def test_what_pieces_write_reaches_every_observation_once(kind):
    space = spaces.Box(-(10**6), 10**6, (4,), np.int64)
    make, envs = makers(kind=kind)
    pipeline = defaults.env_to_module(custom=[WriteNegated()], multi_agent=True)
    runner = MultiAgentEnvRunner(
        make, Echo(), num_envs=2, env_to_module=pipeline, module_to_env=defaults.module_to_env(multi_agent=True), seed=0
    )
    runner._new_episode.observation_spaces = dict.fromkeys(envs[0].possible_agents, space)
    runner._new_episode.action_spaces = None
    samples = [chunk for _ in range(9) for chunk in runner.sample(num_timesteps=6)]
    waiting = 0 if kind == "simultaneous" else None

    for chunk in samples:
        for single in chunk.agent_episodes.values():
            # Agents 1 and 2 have positive numbers, unless they were negated.
            assert (single.get_observations()[:waiting] <= 0).all()
            assert (single.get_observations()[waiting or None :][..., :3] <= 0).all()


class Broken(ConnectorV2):
    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        raise RuntimeError("no way")


def test_after_a_broken_piece_is_removed_the_runner_goes_on():
    make, envs = makers(kind="simultaneous", longest=60)
    runner = MultiAgentEnvRunner(make, Echo(), seed=0)
    first = runner.sample(num_timesteps=5)
    runner.module_to_env.prepend(Broken())
    with pytest.raises(ConnectorError, match="no way"):
        runner.sample(num_timesteps=5)
    runner.module_to_env.remove(Broken)
    second = runner.sample(num_timesteps=5)

    assert [chunk.env_t_started for chunk in (*first, *second)] == [0, 5]
    assert len(envs[0].log[0]) == 11


def test_observations_and_actions_have_the_spaces_of_the_environment():
    chunk = MultiAgentEnvRunner(ScriptedEnv, Echo(), seed=1).sample(num_episodes=1)[0]
    single = next(iter(chunk.agent_episodes.values()))

    assert (single.observation_space, single.action_space) == (OBSERVATIONS, ACTIONS)
