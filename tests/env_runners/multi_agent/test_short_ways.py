"""The short ways, by which most steps are recorded and acted on, give what the long ones give, bit for bit."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.connectors import ConnectorV2, FlattenObservations, MeanStdFilter, OneHotObservations
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.episodes.multi_agent.joint_rows import JointRows
from episodia.modules import MLPActorCritic, RuleModule
from episodia.testing import assert_same_multi_agent_episode
from scripted_agents import ACTIONS, OBSERVATIONS, Echo, assert_recorded_as_by_a_plain_loop, makers


class Nothing(ConnectorV2):
    """Does nothing, but declares nothing, so that pipelines must call it."""

    lookback = 0

    def __call__(self, *, batch, **kwargs):
        return batch


@pytest.fixture
def joint(monkeypatch):
    """Return a list of how many agents had a step each time that steps were stored together."""
    counts, push = [], JointRows.push
    monkeypatch.setattr(JointRows, "push", lambda self, step: (counts.append(len(self.owners)), push(self, step))[1])
    return counts


BULK = {"kind": "simultaneous", "longest": 25, "tells_infos": False}


@settings(max_examples=40)
@given(
    num_envs=st.integers(1, 3),
    fragments=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    lookback=st.integers(0, 2),
    seed=st.integers(0, 2**32),
    reuses_buffers=st.booleans(),
    by=st.sampled_from(["env_steps", "agent_steps"]),
    kind_and_watching=st.tuples(st.sampled_from(["simultaneous", "mixed"]), st.booleans()),
)
def test_steps_that_are_stored_together_are_what_a_plain_loop_would_have_recorded(
    num_envs, fragments, lookback, seed, reuses_buffers, by, kind_and_watching
):
    kind, is_watched = kind_and_watching
    make, envs = makers(**{**BULK, "kind": kind}, reuses_buffers=reuses_buffers)
    callbacks = [{"on_episode_step": lambda episode, **_: episode.get_observations(-1)}] if is_watched else []
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=num_envs, seed=seed, lookback=lookback, callbacks=callbacks)
    samples = [chunk for steps in fragments for chunk in runner.sample(num_timesteps=steps, count_steps_by=by)]

    assert_recorded_as_by_a_plain_loop(samples, envs)


def test_all_steps_without_decisions_are_stored_together(joint):
    make, _ = makers(**{**BULK, "longest": 1})
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=3, seed=0)
    for env in runner.envs:
        env.longest = 10**6
    runner.sample(num_timesteps=300)

    assert len(joint) == 100


class Counting(MultiAgentEnv):
    """Two agents with spaces of their own, who count."""

    possible_agents = agents = ("a", "b")
    observation_spaces = {  # noqa: RUF012  # never changed
        "a": spaces.MultiDiscrete([9]),
        "b": spaces.MultiDiscrete([9], start=[-3]),
    }
    action_spaces = dict.fromkeys(agents, spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._shown(), {}

    def step(self, actions):
        self.t += 1
        return self._shown(), dict.fromkeys(actions, 0.0), {"__all__": self.t == 8}, {}, {}

    def _shown(self):
        return {"a": np.array([self.t]), "b": np.array([self.t - 3])}


SEEN = {
    "one hot": (lambda: [OneHotObservations(multi_agent=True)], lambda rows: rows.argmax(1)),
    "vectors": (lambda: [FlattenObservations(multi_agent=True)], lambda rows: rows.argmax(1)),
    "a filter": (lambda: [MeanStdFilter(multi_agent=True)], lambda rows: rows[:, 0]),
}


@pytest.mark.parametrize("name", SEEN)
def test_agents_with_spaces_and_statistics_of_their_own_act_on_what_they_were_shown_last(name):
    pieces, numbers = SEEN[name]
    seen = []

    def note(rows):
        seen.append(numbers(rows).tolist())
        return np.zeros(len(rows), np.int64)

    with MultiAgentEnvRunner(Counting, RuleModule(note), env_to_module=pieces(), seed=0) as runner:
        runner.sample(num_episodes=1)

    shift = -3 if name == "a filter" else 0
    assert seen == [[t, t + shift] for t in range(8)]


@pytest.mark.parametrize("kind", ["simultaneous", "turns", "random"])
@pytest.mark.parametrize("explore", [False, True])
def test_default_pipelines_act_the_same_with_and_without_a_plugin_that_does_nothing(kind, explore):
    samples, names = [], ("env_to_module", "module_to_env")
    for custom in ([], [Nothing]):
        make, _ = makers(kind=kind, longest=12, tells_infos=kind != "simultaneous")
        module = MLPActorCritic(OBSERVATIONS, ACTIONS, (8,), generator=torch.Generator().manual_seed(3))
        runner = MultiAgentEnvRunner(
            make, module, num_envs=3, seed=2, explore=explore, **{name: [piece() for piece in custom] for name in names}
        )
        samples.append([chunk for _ in range(4) for chunk in runner.sample(num_timesteps=15)])

    for found, expected in zip(*samples, strict=True):
        assert_same_multi_agent_episode(found, expected, ignore=["times"])


class Movers(MultiAgentEnv):
    """Agents whose actions are arrays, and that spoil the actions that they are given."""

    possible_agents = agents = ("left", "right")
    observation_spaces = dict.fromkeys(agents, spaces.Box(-1.0, 1.0, (3,), np.float32))

    def __init__(self, actions):
        self.action_spaces = dict.fromkeys(self.agents, actions)
        self.received = []

    def reset(self, *, seed=None, options=None):
        return {agent: np.zeros(3, np.float32) for agent in self.agents}, {}

    def step(self, actions):
        self.received.append({agent: action.copy() for agent, action in actions.items()})
        for action in actions.values():
            action[...] = 0
        observations = {agent: np.full(3, len(self.received) / 100, np.float32) for agent in self.agents}
        return observations, dict.fromkeys(self.agents, 1.0), {"__all__": False}, {}, {}


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize(
    ("with_module", "pieces"), [(False, []), (True, []), (True, [Nothing()])], ids=["no module", "short", "long"]
)
@pytest.mark.parametrize("space", [spaces.MultiDiscrete([9, 9]), spaces.Box(-1.0, 1.0, (2,), np.float32)], ids=str)
def test_environments_that_change_their_actions_do_not_change_what_is_recorded(pieces, at_random, with_module, space):
    env = Movers(space)
    module = MLPActorCritic(env.observation_spaces["left"], space) if with_module else None
    runner = MultiAgentEnvRunner(env, module, env_to_module=pieces, seed=1)
    chunk = runner.sample(num_timesteps=6, random_actions=at_random)[0]
    actions = chunk.agent_episodes["right"].get_actions()

    # What the environment gets of a Box is clipped; nothing else is done to it.
    expected = actions if isinstance(space, spaces.MultiDiscrete) else np.clip(actions, -1, 1)
    np.testing.assert_allclose([step["right"] for step in env.received], expected, rtol=1e-6)


class Careless(Echo):
    """Writes into its input, and puts out the same memory again and again."""

    def __init__(self):
        super().__init__()
        self.actions, self.tags = np.zeros(3, np.int64), np.zeros((3, 2), np.float32)

    def forward_exploration(self, batch):
        self.actions[:] = batch["obs"][:, 3].numpy() % 5
        self.tags[:] = batch["obs"][:, 3:].numpy()
        batch["obs"].zero_()
        return {"actions": self.actions, "tag": self.tags}

    forward_inference = forward_train = forward_exploration


@pytest.mark.parametrize("pieces", [[], [Nothing()]], ids=["short", "long"])
def test_modules_that_use_their_memory_again_do_not_change_what_was_recorded(pieces):
    make, _ = makers(**{**BULK, "longest": 1})
    runner = MultiAgentEnvRunner(make, Careless(), env_to_module=pieces, seed=1)
    runner.envs[0].longest = 10**6
    single = runner.sample(num_timesteps=8)[0].agent_episodes["agent 1"]

    assert single.get_observations()[:, 3].tolist() == list(range(9))
    assert single.get_actions().tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert single.get_extra_model_outputs("tag")[:, 1].tolist() == list(range(8))


def test_an_interrupt_while_steps_are_stored_leaves_no_half_step(monkeypatch):
    make, _ = makers(**{**BULK, "longest": 1})
    runner = MultiAgentEnvRunner(make, Echo(), seed=1)
    runner.envs[0].longest = 10**6
    runner.sample(num_timesteps=2)
    push, pushed = JointRows.push, []

    def interrupted(self, step):
        if len(pushed) == 3:
            self.records[0].episode.observations.push(step.observations[0])
            raise KeyboardInterrupt
        pushed.append(None)
        push(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(JointRows, "push", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runner.sample(num_timesteps=7)
    chunk = runner.sample(num_timesteps=12)[0]

    # The environment has made a step that is not known, so its episode is dropped.
    assert runner.get_metrics().num_env_steps_dropped == 3
    assert [len(single) for single in chunk.agent_episodes.values()] == [12] * 3
    assert chunk.agent_episodes["agent 2"].get_observations()[:, 3].tolist() == list(range(13))


def test_what_does_not_look_like_the_step_before_goes_the_long_way(joint):
    class Turning(Movers):
        def step(self, actions):
            *result, infos = super().step(actions)
            count = len(self.received)
            if count % 7 == 0:
                infos = {"left": {"count": count}}
            if count % 11 == 0:
                result[1] = {"left": 1, "right": np.float32(2.0)}
            return (*result, infos)

    env = Turning(spaces.MultiDiscrete([9, 9]))
    chunk = MultiAgentEnvRunner(
        env, MLPActorCritic(Movers.observation_spaces["left"], spaces.MultiDiscrete([9, 9])), seed=0
    )
    chunk = chunk.sample(num_timesteps=50)[0]
    infos = chunk.agent_episodes["left"].get_infos()

    assert 20 < len(joint) < 50
    assert [info.get("count") for info in infos] == [None if t % 7 or not t else t for t in range(51)]
    assert chunk.agent_episodes["right"].get_rewards().sum() == 50 + 4


def test_steps_are_stored_together_while_callbacks_see_them(joint):
    make, envs = makers(**{**BULK, "longest": 1})
    told = []
    callbacks = {"on_episode_step": lambda env_index, episode, **_: told.append((env_index, episode.id_))}
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=3, seed=0, callbacks=[callbacks])
    for env in runner.envs:
        env.longest = 10**6
    samples = [chunk for _ in range(2) for chunk in runner.sample(num_timesteps=60)]

    assert len(joint) > 15
    assert len(told) == 120
    assert_recorded_as_by_a_plain_loop(samples, envs)


@given(first=st.integers(1, 30), look=st.sampled_from([len, lambda episode: episode.agent_steps(), repr]))
def test_callbacks_find_each_step_in_the_episode_from_whenever_they_look(first, look):
    make, envs = makers(**BULK)
    found, calls = [], []

    def on_step(episode, **_):
        calls.append(None)
        if len(calls) >= first:
            look(episode)
            found.append((episode.id_, episode.env_t))

    runner = MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=0, callbacks=[{"on_episode_step": on_step}])
    samples = [chunk for _ in range(2) for chunk in runner.sample(num_timesteps=30)]

    ids = dict.fromkeys(id_ for id_, _ in found)
    for id_ in ids:
        times = [env_t for other, env_t in found if other == id_]
        assert times == list(range(times[0], times[0] + len(times)))
    assert_recorded_as_by_a_plain_loop(samples, envs)


def test_a_callback_that_fails_loses_no_step_that_is_stored_together(joint):
    make, envs = makers(**{**BULK, "longest": 1})
    told = []

    def on_step(env_index, **_):
        told.append(env_index)
        if len(told) == 30:
            raise ValueError("no more")

    runner = MultiAgentEnvRunner(make, Echo(), num_envs=3, seed=0, callbacks=[{"on_episode_step": on_step}])
    for env in runner.envs:
        env.longest = 10**6
    with pytest.raises(ValueError, match="no more"):
        runner.sample(num_timesteps=60)
    samples = runner.sample(num_timesteps=60)

    assert len(joint) > 15
    assert told[27:30] == [0, 1, 2]
    assert_recorded_as_by_a_plain_loop(samples, envs)


def test_an_agent_that_leaves_does_not_keep_the_others_from_being_stored_together(joint):
    make, envs = makers(**{**BULK, "kind": "mixed", "longest": 60})
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=4, seed=3)
    samples = runner.sample(num_timesteps=400)
    steps = sum(episode.agent_steps() for episode in samples)

    assert sum(joint) > steps / 2
    assert_recorded_as_by_a_plain_loop(samples, envs)


def test_what_a_callback_changes_is_kept_where_steps_are_stored_together():
    make, _ = makers(**{**BULK, "longest": 1})
    seen = []

    class Notes(Echo):
        def forward_exploration(self, batch):
            seen.append(batch["obs"][0, 3].item())
            return super().forward_exploration(batch)

    def on_step(episode, **_):
        single = episode.agent_episodes["agent 0"]
        single.set_observations(new_data=single.get_observations(-1) * [1, 1, 1, 100], at_indices=-1)

    runner = MultiAgentEnvRunner(make, Notes(), seed=0, callbacks=[{"on_episode_step": on_step}])
    runner.envs[0].longest = 10**6
    chunk = runner.sample(num_timesteps=5)[0]

    assert seen == [0, 100, 200, 300, 400]
    assert chunk.agent_episodes["agent 0"].get_observations()[:, 3].tolist() == [*seen, 500]


def test_the_horizon_is_kept_also_where_steps_are_stored_together(joint):
    make, _ = makers(**{**BULK, "longest": 1})
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=0, horizon=9)
    for env in runner.envs:
        env.longest = 10**6
    episodes = runner.sample(num_timesteps=90)

    assert len(joint) > 20
    assert {(len(episode), episode.is_truncated, episode.is_terminated) for episode in episodes} == {(9, True, False)}
