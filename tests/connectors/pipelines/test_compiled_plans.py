"""The law of compiled pipelines: a plan does exactly what calling the pieces one after another does."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import Columns, EpisodeList, SingleAgentEpisode
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    BatchIndividualItems,
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    EpsilonGreedy,
    FlattenObservations,
    GeneralAdvantageEstimation,
    GetActions,
    MeanStdFilter,
    NormalizeAndClipActions,
    Standardize,
    TensorToNumpy,
    defaults,
)
from episodia.env_runners import SingleAgentEnvRunner
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.lists.ragged import Ragged
from episodia.modules import LSTMActorCritic, MLPActorCritic, MultiModule
from episodia.testing import assert_same_items, pipelines, sample_episodes, sample_multi_agent_episodes
from episodia.trees import map_batch

OBSERVATIONS = spaces.Box(-1.0, 1.0, (2,), np.float32)
ACTION_SPACES = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-2.0, 4.0, (2,), np.float32),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "nested": spaces.Dict({"kind": spaces.Discrete(2), "amount": spaces.Box(0.0, 5.0, (1,), np.float32)}),
}


class Nothing(ConnectorV2):
    """A plugin that returns the batch as it is."""

    def __call__(self, *, batch, **kwargs):
        return batch


def plain(batch):
    """Return a batch as arrays in plain dicts."""
    if isinstance(batch, dict):
        return {key: plain(column) for key, column in batch.items()}
    batch = batch.body().values if isinstance(batch, Ragged) else batch
    return map_batch(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, batch)


def one_after_another(pipeline, *, batch=None, episodes, shared_data, **arguments):
    """Call the pieces of a copy of `pipeline` by themselves."""
    batch, prepared = dict(batch or {}), pipeline.prepared(episodes)
    for piece in pieces_of(copy.deepcopy(pipeline)):
        batch = piece(batch=batch, episodes=prepared, shared_data=shared_data, **arguments)
    return batch


def pieces_of(pipeline):
    for piece in pipeline:
        yield from pieces_of(piece) if isinstance(piece, ConnectorPipelineV2) else [piece]


def with_plugins(pipeline, places):
    """Return a copy of `pipeline` with plugins at some places."""
    pipeline = copy.deepcopy(pipeline)
    for place in sorted(places, reverse=True):
        if place < len(pipeline):
            pipeline.insert_before(place, Nothing())
        else:
            pipeline.append(Nothing())
    return pipeline


def generator():
    return torch.Generator().manual_seed(5)


@given(pipeline=pipelines(), places=st.sets(st.integers(0, 9), max_size=3))
def test_h4_random_pipelines_do_what_their_pieces_do(pipeline, places):
    expected = one_after_another(pipeline, rl_module=None, episodes=sample_episodes(), shared_data={})

    for plan in (pipeline, with_plugins(pipeline, places)):
        found = plan(rl_module=None, episodes=sample_episodes(), shared_data={})
        assert_same_items(plain(found), plain(expected))


@given(pipeline=pipelines(multi_agent=True), places=st.sets(st.integers(0, 9), max_size=3))
def test_h4_random_multi_agent_pipelines_do_what_their_pieces_do(pipeline, places):
    expected = one_after_another(pipeline, rl_module=None, episodes=sample_multi_agent_episodes(), shared_data={})

    for plan in (pipeline, with_plugins(pipeline, places)):
        found = plan(rl_module=None, episodes=sample_multi_agent_episodes(), shared_data={})
        assert_same_items(plain(found), plain(expected))


@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_actions_are_those_of_the_pieces_one_after_another(name, explore, kind):
    module = kind(OBSERVATIONS, ACTION_SPACES[name], generator=generator())
    is_stateful, shared = module.is_stateful(), {}
    with SingleAgentEnvRunner(Walk(ACTION_SPACES[name]), module, num_envs=3, seed=1) as runner:
        runner.sample(num_timesteps=9)
        live = runner._loop._live
        batch = defaults.env_to_module(OBSERVATIONS, stateful=is_stateful)(
            rl_module=module, episodes=list(live), shared_data=shared
        )
        with torch.no_grad():
            outputs = module.forward_exploration(batch)
        to_env = defaults.module_to_env(OBSERVATIONS, ACTION_SPACES[name], stateful=is_stateful)
        given_ = {"rl_module": module, "batch": outputs, "explore": explore}
        expected = one_after_another(to_env, **given_, episodes=live, shared_data=dict(shared), generator=generator())
        for places in ((), (0,), (1, 2), (0, 1, 2, 3)):
            for episodes in (live, list(live)):
                found = with_plugins(to_env, places)(
                    **given_, episodes=episodes, shared_data=dict(shared), generator=generator()
                )
                assert_same_items(plain(found), plain(expected))


def running_agents(module):
    """Return two environments of two agents; in the first, one agent acts and the other one waits."""
    episodes = sample_multi_agent_episodes(OBSERVATIONS, module.action_space, state=module.get_initial_state())
    # Both agents of the second one observe at the cut.
    return [episodes[0], episodes[1][:1]]


@st.composite
def masks(draw, num_rows, space):
    """Draw masks that allow at least one action of each row (and of each part of it); None: there are no masks."""
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()
    parts = [st.lists(st.integers(0, 1), min_size=size, max_size=size).filter(any) for size in sizes]
    rows = draw(st.none() | st.lists(st.tuples(*parts), min_size=num_rows, max_size=num_rows))
    return None if rows is None else np.array([[entry for part in row for entry in part] for row in rows], np.int8)


@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
@pytest.mark.parametrize("name", ["discrete", "multi-discrete"])
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), explore=st.booleans(), places=st.sets(st.integers(0, 5), max_size=3))
def test_masked_actions_of_agents_are_those_of_the_pieces_one_after_another(name, kind, data, explore, places):
    module, shared = kind(OBSERVATIONS, ACTION_SPACES[name], generator=generator()), {}
    is_stateful, episodes = module.is_stateful(), running_agents(module)
    modules = MultiModule({"default_policy": module})
    batch = defaults.env_to_module(multi_agent=True, stateful=is_stateful)(
        rl_module=modules, episodes=episodes, shared_data=shared
    )
    with torch.no_grad():
        outputs = module.forward_exploration(batch["default_policy"])
    mask = data.draw(masks(sum(map(len, (episode.get_agents_to_act() for episode in episodes))), module.action_space))
    if mask is not None:
        outputs["action_mask"] = mask[:, None] if is_stateful else mask
    to_env = defaults.module_to_env(multi_agent=True, stateful=is_stateful)
    given_ = {"rl_module": modules, "batch": {"default_policy": outputs}, "explore": explore}
    expected = one_after_another(
        to_env, **given_, episodes=LiveAgents(episodes), shared_data=dict(shared), generator=generator()
    )

    for listed in (LiveAgents(episodes), episodes):
        for plan in (to_env, with_plugins(to_env, places)):
            found = plan(**given_, episodes=listed, shared_data=dict(shared), generator=generator())
            assert_same_items(found, expected)


class Walk:
    """Makes environments that ignore actions of a given space."""

    def __init__(self, action_space):
        self.action_space = action_space

    def __call__(self):
        import gymnasium as gym  # noqa: PLC0415

        class Env(gym.Env):
            observation_space, action_space, steps = OBSERVATIONS, self.action_space, 0

            def reset(self, *, seed=None, options=None):
                self.steps = 0
                return np.zeros(2, np.float32), {}

            def step(self, action):
                self.steps += 1
                return np.full(2, self.steps / 10, np.float32), 1.0, self.steps == 5, False, {}

        return Env()


@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
def test_what_a_learner_gets_is_what_its_pieces_make_one_after_another(kind):
    module = kind(OBSERVATIONS, spaces.Discrete(3), generator=generator())
    with SingleAgentEnvRunner(Walk(spaces.Discrete(3)), module, num_envs=3, seed=1) as runner:
        episodes = runner.sample(num_timesteps=40)
    targets = [GeneralAdvantageEstimation(), Standardize()]
    pipeline = defaults.learner(OBSERVATIONS, targets=targets, stateful=module.is_stateful(), module=module)
    expected = one_after_another(pipeline, rl_module=module, episodes=episodes, shared_data={})

    for places in ((), (0,), (2, 4), range(len(pipeline) + 1)):
        found = with_plugins(pipeline, places)(rl_module=module, episodes=episodes)
        assert_same_items(plain(found), plain(expected))


def test_a_subclass_that_overrides_the_call_is_called():
    called = []

    class Watched(NormalizeAndClipActions):
        def __call__(self, **kwargs):
            called.append(sorted(kwargs["batch"]))
            return super().__call__(**kwargs)

    pipeline = defaults.module_to_env(OBSERVATIONS, spaces.Box(0.0, 4.0, (1,)))
    pipeline.replace(NormalizeAndClipActions, Watched())
    made = pipeline(rl_module=None, batch={"actions": np.zeros((1, 1), np.float32)}, episodes=[SingleAgentEpisode()])

    assert called == [["actions"]]
    assert made[Columns.ACTIONS_FOR_ENV].tolist() == [[2.0]]


def test_a_subclass_that_overrides_the_work_does_its_own_work():
    class Doubled(FlattenObservations):
        def work(self, run):
            super().work(run)
            run.batch["obs"] = run.batch["obs"].map(lambda leaf: leaf * 2)

    pipeline = EnvToModulePipeline(OBSERVATIONS, connectors=[Doubled()])
    episode = SingleAgentEpisode(observations=[np.ones(2, np.float32)])

    assert pipeline(rl_module=None, episodes=[episode])["obs"].tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("kind", [GetActions, TensorToNumpy, AddObservationsFromEpisodesToBatch, BatchIndividualItems])
def test_a_subclass_that_overrides_the_work_does_its_own_work_in_runners(kind):
    class Watched(kind):
        def work(self, run):
            seen.append({type(column) for column in run.batch.values()})
            super().work(run)

    seen, pipelines = [], {}
    for name in ("env_to_module", "module_to_env"):
        pipelines[name] = getattr(defaults, name)(OBSERVATIONS, ACTION_SPACES["discrete"])
        if any(type(piece) is kind for piece in pipelines[name]):
            pipelines[name].replace(kind, Watched())
    module = MLPActorCritic(OBSERVATIONS, ACTION_SPACES["discrete"], generator=generator())
    with SingleAgentEnvRunner(Walk(ACTION_SPACES["discrete"]), module, num_envs=2, **pipelines) as runner:
        runner.sample(num_timesteps=4)

    assert len(seen) >= 2
    assert seen[0] == {GetActions: {torch.Tensor}, TensorToNumpy: {torch.Tensor}, BatchIndividualItems: {Ragged}}.get(
        kind, set()
    )


def test_a_subclass_that_overrides_a_step_of_the_work_takes_it_in_runners():
    class Halved(MeanStdFilter):
        def changed(self, observations, rows, part):
            return super().changed(observations, rows, part).map(lambda leaf: leaf * 0 + 0.5)

    seen = []

    class Looking(Nothing):
        def __call__(self, *, batch, **kwargs):
            seen.append(batch["obs"].values.tolist())
            return batch

    module = MLPActorCritic(OBSERVATIONS, ACTION_SPACES["discrete"], generator=generator())
    pieces = [Halved(), Looking()]
    with SingleAgentEnvRunner(Walk(ACTION_SPACES["discrete"]), module, num_envs=1, env_to_module=pieces) as runner:
        runner.sample(num_timesteps=1)

    assert seen[0] == [[0.5, 0.5]]


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_pipeline_that_is_edited_is_compiled_again(is_nested):
    inner = ConnectorPipelineV2(connectors=[FlattenObservations()])
    outer = EnvToModulePipeline(OBSERVATIONS, connectors=[inner] if is_nested else [FlattenObservations()])
    episode = SingleAgentEpisode(observations=[np.full(2, 30.0, np.float32)])
    before = outer(rl_module=None, episodes=[episode])["obs"]
    (inner if is_nested else outer).append(MeanStdFilter(clip_by_value=10.0))

    assert before.tolist() == [[30.0, 30.0]]
    assert outer(rl_module=None, episodes=[episode])["obs"].tolist() == [[10.0, 10.0]]


def test_another_module_is_another_plan():
    modules = [
        MLPActorCritic(OBSERVATIONS, space, generator=generator())
        for space in (spaces.Discrete(2, start=5), spaces.Discrete(2))
    ]
    pipeline = ConnectorPipelineV2(connectors=[GetActions()])
    episodes, inputs = EpisodeList([SingleAgentEpisode()]), {"action_dist_inputs": torch.tensor([[0.0, 9.0]])}
    made = [pipeline(rl_module=module, batch=inputs, episodes=episodes, explore=False) for module in modules]

    assert [int(batch["actions"]) for batch in made] == [6, 1]


def test_a_piece_with_a_form_for_columns_works_on_its_own():
    piece = EpsilonGreedy(input_action_space=spaces.Discrete(3), epsilon=0.0, seed=0)
    batch = piece(rl_module=None, batch={"actions": np.array([1, 2])}, episodes=[], explore=True)

    assert batch["actions"].tolist() == [1, 2]
