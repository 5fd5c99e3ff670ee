"""How a runner acts: what is asked for, modes, states of modules, pieces of its pipelines, masks."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Columns
from episodia.connectors import ConnectorV2, FrameStacking, MeanStdFilter, SingleAgentObservationPreprocessor
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import ModuleError
from episodia.modules import LSTMActorCritic, MLPActorCritic
from episodia.testing import assert_same_episode
from scripted_envs import ScriptedEnv, places


def cartpole(kind=MLPActorCritic, seed=2):
    env = gym.make("CartPole-v1")
    return kind(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(seed))


def runner_for(module=None, **kwargs):
    return SingleAgentEnvRunner("CartPole-v1", module, **{"num_envs": 3, "seed": 7, **kwargs})


def assert_same(left, right):
    assert [episode.id_ for episode in left] == [episode.id_ for episode in right]
    for mine, other in zip(left, right, strict=True):
        assert_same_episode(mine, other, ignore=("times",))


# --- What is asked for ------------------------------------------------------------------------------------------------


def test_a_fragment_has_its_length_times_the_number_of_environments():
    with runner_for(rollout_fragment_length=10) as runner:
        chunks = runner.sample()

    assert 30 <= sum(map(len, chunks)) < 33


def test_complete_episodes_are_as_many_as_environments():
    with runner_for(batch_mode="complete_episodes") as runner:
        episodes = runner.sample()

    assert len(episodes) == 3
    assert all(episode.is_done for episode in episodes)


def test_a_forced_reset_begins_new_episodes():
    with SingleAgentEnvRunner(partial(ScriptedEnv, 9), num_envs=2, seed=0) as runner:
        first = runner.sample(num_timesteps=3)
        second = runner.sample(num_timesteps=3, force_reset=True)

    assert all(chunk.t_started == 0 for chunk in second)
    assert {chunk.id_ for chunk in first}.isdisjoint(chunk.id_ for chunk in second)


# --- How to act -------------------------------------------------------------------------------------------------------


def test_exploration_and_random_actions_are_switched_in_mid_episode():
    manners = [{"explore": True}, {"random_actions": True}, {"explore": False}, {"random_actions": True}, {}]
    with SingleAgentEnvRunner("Pendulum-v1", pendulum(), num_envs=2, seed=0) as runner:
        samples = [runner.sample(num_timesteps=10, **manner) for manner in manners]

    for chunks, manner in zip(samples, manners, strict=True):
        for chunk in chunks:
            assert chunk.id_ in {"0-0-0", "0-1-0"}
            assert (Columns.ACTION_LOGP in chunk.extra_model_outputs) == ("random_actions" not in manner)
    whole = samples[0][0]
    for chunks in samples[1:]:
        whole.concat_episode(next(chunk for chunk in chunks if chunk.id_ == whole.id_))
    assert len(whole) == 25
    assert (
        whole.get_extra_model_outputs("action_logp_mask").tolist()
        == [True] * 5 + [False] * 5 + [True] * 5 + [False] * 5 + [True] * 5
    )


def pendulum():
    env = gym.make("Pendulum-v1")
    return MLPActorCritic(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(0))


def test_without_exploration_the_most_probable_action_is_taken():
    module = cartpole()
    with runner_for(module, explore=False) as runner:
        chunks = runner.sample(num_timesteps=50)

    for chunk in chunks:
        inputs = chunk.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)
        np.testing.assert_array_equal(chunk.get_actions(), inputs.argmax(-1))
        assert (chunk.get_extra_model_outputs(Columns.ACTION_LOGP) == 0).all()


def test_random_actions_are_recorded_in_the_units_of_the_module():
    with SingleAgentEnvRunner("Pendulum-v1", pendulum(), num_envs=4, seed=0) as runner:
        chunks = runner.sample(num_timesteps=200, random_actions=True)

    actions = np.concatenate([chunk.get_actions() for chunk in chunks])
    assert 0.9 < np.abs(actions).max() <= 1.0


def test_a_module_without_weights_acts_too():
    class Right:
        observation_space = action_space = None

        def forward_inference(self, batch):
            return {"actions": np.ones(len(batch["obs"]), np.int64)}

        forward_exploration = forward_train = forward_inference

        def get_initial_state(self):
            return {}

        def is_stateful(self):
            return False

    with runner_for(Right()) as runner:
        chunks = runner.sample(num_timesteps=30)

    assert all((chunk.get_actions() == 1).all() for chunk in chunks)


# --- States -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manners", [[{}, {}, {}], [{}, {"random_actions": True}, {}]])
def test_states_are_those_of_a_module_that_sees_each_episode_alone(manners):
    module = cartpole(LSTMActorCritic)
    with runner_for(module) as runner:
        chunks = [chunk for manner in manners for chunk in runner.sample(num_timesteps=50, **manner)]

    states = {}
    for chunk in chunks:
        state = states.get(chunk.id_, module.get_initial_state())
        observations = torch.from_numpy(chunk.get_observations(slice(0, len(chunk))).copy())[None]
        stored = chunk.get_extra_model_outputs(Columns.STATE_OUT)
        batch = {"obs": observations, "state_in": {key: torch.tensor(value)[None] for key, value in state.items()}}
        with torch.no_grad():
            last = module.forward_inference(batch)[Columns.STATE_OUT]
        np.testing.assert_allclose(stored["h"][-1], last["h"][0], rtol=1e-4, atol=1e-5)
        states[chunk.id_] = {key: value[-1] for key, value in stored.items()}


@pytest.mark.parametrize(
    "state", [np.zeros(3), (np.zeros(3), np.zeros(2)), [np.zeros(3), np.zeros(2)], None, {"h": [0.0]}], ids=repr
)
def test_a_state_that_is_no_dict_of_arrays_is_rejected_before_a_step(state, monkeypatch):
    module = cartpole(LSTMActorCritic)
    monkeypatch.setattr(module, "get_initial_state", lambda: state)

    with (
        runner_for(module) as runner,
        pytest.raises(ModuleError, match=r"LSTMActorCritic.get_initial_state: found .*, expected a dict of arrays"),
    ):
        runner.sample(num_timesteps=3)


def test_the_state_of_a_module_is_reset_with_each_episode():
    class Counting:
        observation_space = action_space = None

        def forward_inference(self, batch):
            count = batch["state_in"]["count"] + 1
            return {"actions": np.zeros((len(count), 1), np.int64), "state_out": {"count": count}}

        forward_exploration = forward_train = forward_inference

        def get_initial_state(self):
            return {"count": np.zeros(1, np.float32)}

        def is_stateful(self):
            return True

    for mode in gym.vector.AutoresetMode:
        env = gym.vector.SyncVectorEnv([partial(ScriptedEnv, 5)] * 3, autoreset_mode=mode)
        with SingleAgentEnvRunner(env, Counting(), seed=0) as runner:
            chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=13)]

        for chunk in chunks:
            counted = chunk.get_extra_model_outputs(Columns.STATE_OUT)["count"][:, 0]
            assert counted.tolist() == list(range(chunk.t_started + 1, chunk.t + 1))


def test_a_recurrent_module_that_returns_no_state_is_an_error():
    class Forgetting(LSTMActorCritic):
        def forward_exploration(self, batch):
            outputs = super().forward_exploration(batch)
            del outputs[Columns.STATE_OUT]
            return outputs

    with (
        runner_for(cartpole(Forgetting)) as runner,
        pytest.raises(ModuleError, match="expected 'state_out' among them"),
    ):
        runner.sample(num_timesteps=3)


# --- Pieces -----------------------------------------------------------------------------------------------------------


def test_the_filter_is_frozen_during_a_sample_and_commits_at_its_end():
    seen = []

    class Watch(ConnectorV2):
        reads = writes = frozenset()
        lookback = 0

        def __call__(self, *, batch, **kwargs):
            seen.append(runner.env_to_module["MeanStdFilter"].version)
            return batch

    pieces = [MeanStdFilter(), Watch()]
    with runner_for(cartpole(), env_to_module=pieces) as runner:
        for version in range(3):
            runner.sample(num_timesteps=12)
            assert runner.env_to_module["MeanStdFilter"].version == version + 1

    # The observations after the last step are the next sample's, and are normalised with its numbers.
    assert seen == sorted(seen)
    assert seen.count(0) >= 4


def test_every_observation_is_noted_once():
    for mode in gym.vector.AutoresetMode:
        env = gym.vector.SyncVectorEnv([partial(ScriptedEnv, 4)] * 3, autoreset_mode=mode)
        module = MLPActorCritic(env.single_observation_space, env.single_action_space)
        with SingleAgentEnvRunner(env, module, seed=0, env_to_module=[MeanStdFilter()]) as runner:
            chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=20)]
            noted = runner.env_to_module["MeanStdFilter"].get_state()
            fresh = sum(runner._loop.recorder.episode(lane).t == 0 for lane in range(3))

        begun = sum(chunk.t_started == 0 for chunk in chunks) + fresh
        total = sum(entry["count"] for table in ("synced", "delta", "pending") for entry in noted[table])
        assert total == sum(map(len, chunks)) + begun


class Halved(SingleAgentObservationPreprocessor):
    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return input_observation_space

    def preprocess(self, observation, episode):
        return observation / 2


def test_pieces_that_write_into_episodes_reach_every_observation():
    for mode in gym.vector.AutoresetMode:
        env = gym.vector.SyncVectorEnv([partial(ScriptedEnv, 4)] * 3, autoreset_mode=mode)
        module = MLPActorCritic(env.single_observation_space, env.single_action_space)
        with SingleAgentEnvRunner(env, module, seed=0, env_to_module=[Halved()]) as runner:
            chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=20)]

        for chunk in chunks:
            halves = [step / 2 for step in range(chunk.t_started, chunk.t + 1)]
            assert places(chunk)[:, 2].tolist() == halves


def test_chunks_carry_the_lookback_that_the_pipelines_need():
    env = gym.make("CartPole-v1")
    pieces = [FrameStacking(num_frames=4)]
    space = spaces.Box(-np.inf, np.inf, (4, 4), np.float32)
    module = MLPActorCritic(space, env.action_space)
    with SingleAgentEnvRunner("CartPole-v1", module, num_envs=1, seed=0, env_to_module=pieces, lookback=2) as runner:
        runner.sample(num_timesteps=6)
        chunk = runner.sample(num_timesteps=2)[0]

    assert chunk.t_started == 6
    assert chunk.observations.lookback == 3


# --- Masks ------------------------------------------------------------------------------------------------------------


class MaskedEnv(gym.Env):
    """Allows one of three actions at a time, and none at the end."""

    observation_space = spaces.Dict(t=spaces.Discrete(9), action_mask=spaces.MultiBinary(3))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self._t = 0
        return self._seen(), {}

    def step(self, action):
        if action != self._t % 3:
            raise ValueError("a forbidden action")
        self._t += 1
        return self._seen(), 1.0, self._t == 5, False, {}

    def _seen(self):
        mask = np.zeros(3, np.int8)
        if self._t < 5:
            mask[self._t % 3] = 1
        return {"t": self._t, "action_mask": mask}


@pytest.mark.parametrize("random", [True, False])
def test_masks_in_observations_are_respected_also_where_the_last_one_allows_nothing(random):
    module = MLPActorCritic(MaskedEnv.observation_space, MaskedEnv.action_space)
    with SingleAgentEnvRunner(MaskedEnv, module, num_envs=3, seed=0, max_restarts=0) as runner:
        episodes = runner.sample(num_episodes=5, random_actions=random)

    assert [episode.get_actions().tolist() for episode in episodes] == [[0, 1, 2, 0, 1]] * 5
