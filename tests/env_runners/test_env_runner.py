"""What both runners do alike, because their base does it; and what it takes to add another kind."""

import inspect

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors import ActionDecoder, ConnectorV2, EnvToModulePipeline, ModuleToEnvPipeline
from episodia.env_runners import (
    Callbacks,
    EnvRunner,
    MultiAgentEnv,
    MultiAgentEnvRunner,
    RunnerMetrics,
    SingleAgentEnvRunner,
)
from episodia.env_runners.runner_settings import RunnerSettings
from episodia.env_runners.seeding import Seeds
from episodia.errors import EnvRunnerError, SpaceError
from episodia.modules import MLPActorCritic
from episodia.testing.comparing import assert_same_episode

OBSERVATIONS, ACTIONS = spaces.Box(-1.0, 1.0, (2,)), spaces.Box(np.float32([0.0]), np.float32([10.0]))


class Solo(gym.Env):
    """Shows random numbers, and keeps the actions that it receives."""

    observation_space, action_space = OBSERVATIONS, ACTIONS
    scale = 1.0

    def __init__(self):
        self.received = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen(), {}

    def seen(self):
        return self.np_random.uniform(-self.scale, self.scale, 2).astype(np.float32)

    def step(self, action):
        self.received.append(action)
        self.t += 1
        return self.seen(), 1.0, self.t == 7, False, {}


class Team(MultiAgentEnv):
    """Two agents, each in a `Solo` of its own."""

    possible_agents = agents = ("red", "blue")
    observation_spaces, action_spaces = dict.fromkeys(agents, OBSERVATIONS), dict.fromkeys(agents, ACTIONS)
    scale = 1.0

    def __init__(self):
        self.parts = {agent: Solo() for agent in self.agents}
        for part in self.parts.values():
            part.scale = self.scale

    @property
    def received(self):
        return [action for part in self.parts.values() for action in part.received]

    def reset(self, *, seed=None, options=None):
        return {agent: part.reset(seed=seed)[0] for agent, part in self.parts.items()}, {}

    def step(self, actions):
        steps = {agent: self.parts[agent].step(action) for agent, action in actions.items()}
        shown, rewards, ends = ({agent: step[part] for agent, step in steps.items()} for part in range(3))
        return shown, rewards, ends, {}, {}


class WideSolo(Solo):
    scale = 1.5


class WideTeam(Team):
    scale = 1.5


def module_of(seed=0, action_space=ACTIONS):
    return MLPActorCritic(OBSERVATIONS, action_space, (4,), generator=torch.Generator().manual_seed(seed))


KINDS = {"one agent": (SingleAgentEnvRunner, Solo, WideSolo), "many agents": (MultiAgentEnvRunner, Team, WideTeam)}
both = pytest.mark.parametrize("kind", KINDS)


def runner_of(kind, module=None, *, wide=False, made=None, **settings):
    cls, plain, beyond = KINDS[kind]

    def make():
        env = (beyond if wide else plain)()
        if made is not None:
            made.append(env)
        return env

    return cls(make, module or module_of(), seed=3, **{"num_envs": 2, **settings})


def parts_of(episodes):
    """Return single-agent episodes: those of all agents, in the order of the episodes."""
    return [
        single
        for episode in episodes
        for single in ([episode] if isinstance(episode, SingleAgentEpisode) else episode.agent_episodes.values())
    ]


def observed(episodes):
    return np.concatenate([part.get_observations() for part in parts_of(episodes)])


# --- What both have --------------------------------------------------------------------------------------------------


@both
def test_it_is_an_env_runner_that_says_what_acts(kind):
    module = module_of()
    with runner_of(kind, module) as runner:
        assert isinstance(runner, EnvRunner)
        assert runner.is_multi_agent is (kind == "many agents")
        assert dict(runner.modules) == {"default_policy": module}
        assert "MLPActorCritic" in repr(runner)
        assert "num_envs=2, seed=3" in repr(runner)


@both
def test_without_a_module_actions_are_random_and_there_are_no_modules(kind):
    cls, env, _ = KINDS[kind]
    with cls(env, seed=0) as runner:
        assert not runner.modules
        assert "random actions" in repr(runner)
        assert len(runner.sample(num_episodes=1)) == 1


class Undeclared(ConnectorV2):
    def __call__(self, *, batch, **kwargs):
        return batch


@both
@pytest.mark.parametrize("place", ["env_to_module", "module_to_env"])
def test_pieces_that_would_not_run_without_a_module_are_rejected(kind, place):
    cls, make, _ = KINDS[kind]

    with pytest.raises(EnvRunnerError, match=r"found the pieces \[Undeclared\(\)\] and no module.*RandomModule"):
        cls(make, **{place: [Undeclared()]})


@both
def test_no_steps_are_no_episodes_and_change_nothing(kind):
    made = []
    with runner_of(kind, made=made) as runner, runner_of(kind) as undisturbed:
        assert runner.sample(num_timesteps=0) == []
        before = runner.sample(num_timesteps=6)
        received = [len(env.received) for env in made]
        nothing = runner.sample(num_timesteps=0)

        assert isinstance(nothing, EpisodeList)
        assert nothing == []
        assert [len(env.received) for env in made] == received
        found = before + runner.sample(num_timesteps=6)
        expected = undisturbed.sample(num_timesteps=6) + undisturbed.sample(num_timesteps=6)
        for mine, other in zip(parts_of(found), parts_of(expected), strict=True):
            assert_same_episode(mine, other, ignore=["times"])


@both
def test_no_steps_reset_if_they_are_told_to(kind):
    with runner_of(kind) as runner:
        runner.sample(num_timesteps=6)
        assert runner.sample(num_timesteps=0, force_reset=True) == []
        assert {part.t_started for part in parts_of(runner.sample(num_timesteps=4))} == {0}


@both
def test_evaluations_with_the_same_seed_play_the_same_episodes(kind):
    with runner_of(kind) as runner:
        first, other, again = (runner.evaluate(2, seed=seed) for seed in (5, 6, 5))

    assert np.array_equal(observed(first), observed(again))
    assert not np.array_equal(observed(first), observed(other))


@both
def test_an_evaluation_with_a_seed_leaves_the_seeds_of_others_alone(kind):
    with runner_of(kind) as runner, runner_of(kind) as twin:
        runner.evaluate(1, seed=5)

        assert np.array_equal(observed(runner.evaluate(1)), observed(twin.evaluate(1)))


@both
@pytest.mark.parametrize(("size", "each"), [(12, 6), (13, 7), (1, 1)])
def test_environments_share_a_train_batch_evenly(kind, size, each):
    with runner_of(kind, rollout_fragment_length="auto", train_batch_size=size) as runner:
        assert [sum(map(len, runner.sample())) for _ in range(3)] == [2 * each] * 3
        runner.rollout_fragment_length = 3
        assert sum(map(len, runner.sample())) == 6


@both
@pytest.mark.parametrize(
    "settings",
    [
        {"rollout_fragment_length": "auto"},
        {"train_batch_size": 10},
        {"rollout_fragment_length": 5, "train_batch_size": 10},
        {"rollout_fragment_length": "auto", "train_batch_size": 0},
        {"rollout_fragment_length": "long", "train_batch_size": 10},
        {"rollout_fragment_length": "long"},
        {"rollout_fragment_length": "auto", "train_batch_size": 10, "batch_mode": "complete_episodes"},
        {"rollout_fragment_length": 50, "batch_mode": "complete_episodes"},
    ],
)
def test_a_fragment_length_and_a_batch_size_that_do_not_fit_together_are_rejected(kind, settings):
    with pytest.raises(EnvRunnerError, match=r"rollout_fragment_length|train_batch_size"):
        runner_of(kind, **settings)


class Told(Callbacks):
    """Notes each event, with what it was told."""

    def __init__(self):
        self.events = []

    def __getattribute__(self, name):
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda **told: self.events.append((name, told))


@both
def test_callbacks_are_told_when_an_evaluation_begins_and_what_it_has_played(kind):
    told = Told()
    with runner_of(kind, callbacks=[told]) as runner:
        told.events.clear()
        episodes = runner.evaluate(3)
        metrics = runner.get_metrics()

    (begun, before), (ended, after) = told.events
    assert (begun, ended) == ("on_evaluate_start", "on_evaluate_end")
    assert before["env_runner"] is after["env_runner"] is runner
    assert after["samples"] is episodes
    assert sorted(after["evaluation_metrics"].episode_lengths) == sorted(map(len, episodes))
    assert metrics == RunnerMetrics()


@both
@pytest.mark.parametrize("event", ["on_evaluate_start", "on_evaluate_end"])
def test_an_evaluation_can_be_repeated_after_a_callback_has_failed(kind, event):
    class Failing(Callbacks):
        def __init__(self):
            setattr(self, event, self.fail)
            self.calls = 0

        def fail(self, **told):
            self.calls += 1
            if self.calls == 1:
                raise ValueError("once")

    with runner_of(kind, callbacks=[Failing()]) as runner:
        with pytest.raises(ValueError, match="once"):
            runner.evaluate(2, seed=5)
        again = runner.evaluate(2, seed=5)
        assert len(again) == 2


@both
@pytest.mark.parametrize("seed", [-1, 0.5, "tea"])
def test_evaluating_rejects_a_seed_that_is_not_a_whole_number(kind, seed):
    with runner_of(kind) as runner, pytest.raises(EnvRunnerError, match="seed"):
        runner.evaluate(1, seed=seed)


@both
def test_weights_are_arrays_that_another_runner_takes(kind):
    with runner_of(kind) as runner, runner_of(kind, module_of(seed=1)) as other:
        weights = runner.get_weights()
        other.set_weights(weights)
        (mine,), (theirs,) = runner.modules.values(), other.modules.values()

        assert other.weights_version == 1
        for name, tensor in mine.state_dict().items():
            own = weights[name] if kind == "one agent" else weights["default_policy"][name]
            assert isinstance(own, np.ndarray)
            assert torch.equal(tensor, theirs.state_dict()[name])


@both
def test_weights_that_do_not_fit_change_nothing(kind):
    with runner_of(kind) as runner:
        before = runner.get_weights()
        broken = {"nobody": np.zeros(3)}
        with pytest.raises(EnvRunnerError, match="nobody"):
            runner.set_weights(broken if kind == "one agent" else {"default_policy": broken})

        assert str(runner.get_weights()) == str(before)
        assert runner.weights_version == 0


@both
def test_a_state_holds_arrays_and_plain_values_only(kind):
    with runner_of(kind) as runner:
        runner.sample(num_timesteps=5)

        assert not [value for value in leaves_of(runner.get_state()) if isinstance(value, torch.Tensor)]


def leaves_of(value):
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves_of(part)]
    return [leaf for part in value for leaf in leaves_of(part)] if isinstance(value, list | tuple) else [value]


@both
def test_actions_are_drawn_on_the_device_of_the_module(kind, monkeypatch):
    devices, plain = [], torch.Generator

    def noted(device="cpu"):
        devices.append(torch.device(device).type)
        return plain()

    monkeypatch.setattr(torch, "Generator", noted)
    with runner_of(kind, MLPActorCritic(OBSERVATIONS, ACTIONS, (4,)).to("meta")):
        assert "meta" in devices


@both
def test_chunks_look_back_one_step_by_default(kind):
    with runner_of(kind) as runner:
        runner.sample(num_timesteps=6)
        going_on = [part for part in parts_of(runner.sample(num_timesteps=6)) if part.t_started > 0]

    assert runner.lookback == 1
    assert [part.observations.lookback for part in going_on] == [1] * len(going_on) != []


def test_settings_that_both_kinds_have_have_the_same_defaults():
    single, multi = (inspect.signature(kind).parameters for kind in (SingleAgentEnvRunner, MultiAgentEnvRunner))
    different = {name for name in single.keys() & multi.keys() if single[name].default != multi[name].default}

    assert different == {"num_envs", "episode_class"}  # a ready vector environment has its own number


@both
def test_metrics_of_both_kinds_have_the_same_fields(kind):
    with runner_of(kind) as runner:
        runner.sample(num_episodes=4)
        metrics = runner.get_metrics()

    assert isinstance(metrics, RunnerMetrics)
    assert metrics.num_env_steps == 28
    assert metrics.num_agent_steps == (56 if kind == "many agents" else 0)
    assert ("agent_return_mean" in metrics.as_dict()) is (kind == "many agents")
    assert RunnerMetrics.merged([metrics, metrics]).num_episodes == 8


# --- Observations outside of their space -----------------------------------------------------------------------------


@both
def test_observations_outside_of_their_box_are_recorded_with_one_warning(kind):
    with runner_of(kind, wide=True) as runner:
        with pytest.warns(UserWarning, match="observations: .*expected items inside") as warned:
            samples = [runner.sample(num_timesteps=20) for _ in range(3)]
        episodes = [episode for sample in samples for episode in sample]

    assert len(warned) == 1
    assert abs(observed(episodes)).max() > 1.0
    with pytest.raises(SpaceError, match="expected items inside"):
        validate_all(episodes)


def validate_all(episodes):
    for episode in episodes:
        episode.validate()


@both
def test_a_warning_that_is_an_error_loses_no_episode(kind):
    with runner_of(kind, wide=True) as runner:
        with pytest.raises(UserWarning, match="observations"):
            runner.sample(num_timesteps=20)

        assert sum(len(part) for part in parts_of(runner.sample(num_timesteps=20))) >= 20


# --- Random actions --------------------------------------------------------------------------------------------------


class Noise(ConnectorV2):
    """A piece of a user that counts how often it runs."""

    calls = 0

    def __call__(self, *, batch, **kwargs):
        self.calls += 1
        return batch


class Tenfold(ActionDecoder):
    """Makes an amount of one of three choices."""

    def decode(self, action, episode):
        return np.array([10.0 * action / 2], np.float32)


@both
def test_random_actions_are_drawn_in_the_units_of_the_module_and_pass_no_piece_of_a_user(kind):
    noise, made = Noise(), []
    with runner_of(kind, made=made, module_to_env=[noise]) as runner:
        episodes = runner.sample(num_timesteps=60, random_actions=True)

    drawn = np.concatenate([part.get_actions() for part in parts_of(episodes)])
    received = np.concatenate([action for env in made for action in env.received])
    assert noise.calls == 0
    assert -1.0 <= drawn.min() < -0.5
    assert 0.5 < drawn.max() <= 1.0
    assert received.max() > 5.0  # scaled to the bounds of the environment
    assert ((received >= 0.0) & (received <= 10.0)).all()


@both
def test_random_actions_pass_the_decoder(kind):
    made, choices = [], spaces.Discrete(3)
    decoder = Tenfold(module_action_space=choices)
    with runner_of(kind, module_of(action_space=choices), made=made, module_to_env=[decoder]) as runner:
        episodes = runner.sample(num_timesteps=60, random_actions=True)

    drawn = np.concatenate([part.get_actions() for part in parts_of(episodes)])
    assert set(drawn.tolist()) == {0, 1, 2}
    assert {float(action[0]) for env in made for action in env.received} == {0.0, 5.0, 10.0}


# --- Another kind of runner ------------------------------------------------------------------------------------------


class LogRunner(EnvRunner):
    """Replays a log, one episode after another."""

    def __init__(self, log):
        settings = RunnerSettings(
            vectorization="sync",
            explore=True,
            batch_mode="complete_episodes",
            lookback=0,
            horizon=None,
            soft_horizon=None,
            ignore_terminations=False,
            reward_delay=0,
            on_env_error="drop",
            max_restarts=None,
            step_timeout_s=None,
            async_context="spawn",
            check_finite=True,
        )
        super().__init__(settings, None, Seeds(0), callbacks=())
        self.log, self.position, self.is_open = log, 0, True

    num_envs = 1
    env_to_module, module_to_env = EnvToModulePipeline(), ModuleToEnvPipeline()
    _env = "a log"

    def _play(self, goal, mode, *, force_reset):
        taken = self.log[self.position : self.position + goal.episodes]
        self.position += len(taken)
        self._metrics.num_episodes += len(taken)
        return EpisodeList(taken)

    def _own_state(self):
        return {"position": self.position}

    def _set_own_state(self, state):
        self.position = state["position"]

    def _close_envs(self):
        self.is_open = False


def test_another_kind_of_runner_takes_a_class_that_steps():
    with runner_of("one agent") as runner:
        log = list(runner.sample(num_episodes=4))
    with LogRunner(log) as replaying, LogRunner(log) as other:
        first = replaying.sample(num_episodes=3)
        other.set_state(replaying.get_state())
        rest = other.sample(num_episodes=1)

        assert replaying.get_metrics().num_episodes == 3
        with pytest.raises(EnvRunnerError, match="evaluate: found LogRunner"):
            replaying.evaluate()
    for found, expected in zip([*first, *rest], log, strict=True):
        assert_same_episode(found, expected)
    assert not replaying.is_open
