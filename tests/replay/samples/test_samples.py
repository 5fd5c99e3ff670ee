"""A sample is a list of episodes: its columns are those of its episodes, and learner pipelines run on it."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors import defaults
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from episodia.episodes.columns.filling import Fills
from episodia.errors import EpisodeIndexError, EpisodeKeyError, ReplayError, StaleSampleError
from episodia.modules import MLPActorCritic
from episodia.replay import MemoryMapped, Proportional, ReplayBuffer, Selection, Sequences, Transitions, WholeEpisodes
from plain_buffer import HISTORIES, PlainBuffer, located, played

DRAWS = st.sampled_from([Transitions(), Transitions(3), Sequences(5), Sequences(4, burn_in=2), WholeEpisodes()])
NAMES = ("obs", "actions", "rewards", "terminateds", "truncateds", "t")


def batch_of(episodes, names=NAMES):
    return {name: episodes.flat(name, tail=name == "obs").values.tolist() for name in names}


def filled(**settings):
    buffer = ReplayBuffer(200, seed=0, **settings)
    buffer.add([PlainBuffer().chunk(0, 30, "truncated")])
    return buffer


class _Reusing:
    """A uniform selector that returns the same array each time."""

    def __init__(self, num):
        self.chosen = np.zeros(num, np.int64)

    def on_add(self, rows, added):
        pass

    def on_evict(self, rows):
        pass

    def select(self, num, steps, rng):
        self.chosen[:] = steps.uniform(num, rng)
        return Selection(self.chosen)

    def update(self, rows, values):
        pass


@settings(max_examples=20)
@given(history=HISTORIES, draw=DRAWS, lookback=st.integers(0, 2))
def test_columns_are_those_of_the_episodes(history, draw, lookback):
    buffer = ReplayBuffer(4096, selector=Proportional(), seed=0)
    played(buffer, history)
    if not len(buffer) or (lookback and isinstance(draw, Transitions) and draw.n_step > 1):
        return
    sampled = buffer.sample(8, draw, lookback=lookback)

    made = EpisodeList(list(sampled.forked()))

    names = (*NAMES, *sampled.extra_columns())
    assert batch_of(made, names) == batch_of(sampled, names)
    assert sorted(made.extra_columns()) == sorted(sampled.extra_columns())
    assert made.t_started.tolist() == sampled.t_started.tolist()
    assert made.lookbacks.tolist() == sampled.lookbacks.tolist()
    assert made.origins == sampled.origins


@settings(max_examples=20)
@given(history=HISTORIES, draw=DRAWS, lookback=st.integers(0, 2))
def test_a_loaded_sample_stays_as_it_was(history, draw, lookback):
    buffer = ReplayBuffer(4096, selector=Proportional(), seed=0)
    played(buffer, history)
    if not len(buffer):
        return
    sampled = buffer.sample(8, draw, lookback=lookback)
    before = batch_of(sampled, (*NAMES, *sampled.extra_columns()))

    loaded = sampled.load()
    buffer.clear()

    assert batch_of(loaded, before) == before
    if lookback:
        assert len(loaded.windows("obs", shifts=[-1, 0], fill=0).values) == len(before["actions"])


@pytest.mark.parametrize(
    "read", [lambda s: s.flat("obs"), list, lambda s: s.load(), lambda s: s.windows("obs", shifts=[0], fill=0)]
)
def test_rows_that_were_overwritten_are_not_read(read):
    buffer = filled()
    sampled = buffer.sample(100)
    for number in range(1, 10):
        buffer.add([PlainBuffer().chunk(number, 30, "truncated")])

    with pytest.raises(StaleSampleError, match=r"call `sampled.load\(\)` at once"):
        read(sampled)


def test_a_sample_is_read_as_long_as_its_rows_are_there():
    buffer = filled()
    sampled = buffer.sample(100)
    before = batch_of(sampled)
    buffer.add([PlainBuffer().chunk(1, 30, "truncated")])

    assert batch_of(sampled) == before


def test_a_sample_stays_as_it_was_if_the_selector_uses_its_array_again():
    buffer = filled(selector=_Reusing(4))
    sampled = buffer.sample(4)
    actions, keys = sampled.flat("actions").values.copy(), sampled.keys
    buffer.sample(4)

    assert (sampled.flat("actions").values == actions).all()
    assert (sampled.keys == keys).all()


@settings(max_examples=30)
@given(draw=DRAWS, lookback=st.integers(0, 2), infos=st.booleans())
@example(draw=Transitions(3), lookback=0, infos=False)
def test_a_sample_travels_with_all_its_columns(draw, lookback, infos):
    sampled = filled(selector=Proportional(), infos=infos).sample(
        5, draw, lookback=0 if draw == Transitions(3) else lookback
    )
    arrived = pickle.loads(pickle.dumps(sampled))
    names = (*NAMES, *sampled.extra_columns())

    assert {"keys", "weights"} <= {*names}
    assert ("discounts" in names) == (draw == Transitions(3))
    assert arrived.extra_columns() == [name for name in sampled.extra_columns() if name != "infos"]
    assert batch_of(arrived, names) == batch_of(sampled, names)
    assert [arrived.flat(name).values.dtype for name in names] == [sampled.flat(name).values.dtype for name in names]
    assert arrived.lookbacks.tolist() == sampled.lookbacks.tolist()
    assert arrived.origins == sampled.origins
    assert [repr(own.get_state()) for own in arrived] == [repr(own.get_state()) for own in sampled]


def test_a_sample_travels_without_making_episodes(monkeypatch):
    sampled = filled(selector=Proportional()).sample(5, Transitions(3)).load()
    monkeypatch.setattr(SingleAgentEpisode, "_begin", None)

    assert batch_of(pickle.loads(pickle.dumps(sampled))) == batch_of(sampled)


def test_columns_that_are_not_stored_are_named():
    with pytest.raises(EpisodeKeyError, match="found no column 'mood' in the sample"):
        filled().sample(5).flat("mood")


def test_infos_are_read_only_from_buffers_that_store_them():
    with pytest.raises(ReplayError, match="Make the buffer with `infos=True`"):
        filled().sample(5).flat("infos")


def test_infos_are_stored_if_asked_for():
    buffer = ReplayBuffer(100, infos=True, seed=0)
    buffer.add([PlainBuffer().chunk(0, 4, infos=[{"number": i} for i in range(5)])])

    sampled = buffer.sample(20)

    assert [info["number"] for info in sampled.flat("infos").values] == [
        t for _, t in located(sampled.flat("obs").values)
    ]
    assert [episode.get_infos(0)["number"] for episode in sampled] == [
        t for _, t in located(sampled.flat("obs").values)
    ]


BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


def box_episode(length, seed, end="terminated"):
    rng = np.random.default_rng(seed)
    return SingleAgentEpisode(
        observations=rng.random((length + 1, 3)).astype(np.float32),
        actions=rng.integers(0, 2, length),
        rewards=rng.random(length),
        terminated=end == "terminated",
        truncated=end == "truncated",
        observation_space=BOX,
        action_space=spaces.Discrete(2),
        extra_model_outputs={"action_logp": rng.random(length).astype(np.float32)},
        len_lookback_buffer=0,
    )


@pytest.mark.parametrize("storage", ["memory", "mapped"])
@pytest.mark.parametrize("draw", [Transitions(), Transitions(3), Sequences(5, burn_in=2), WholeEpisodes()])
def test_the_learner_pipeline_gives_the_same_for_a_sample_and_its_episodes(draw, storage, tmp_path):
    where = {"storage": MemoryMapped(tmp_path)} if storage == "mapped" else {}
    buffer = ReplayBuffer(500, selector=Proportional(), seed=0, **where)
    buffer.add([box_episode(20, seed, "truncated") for seed in range(5)])
    module = MLPActorCritic(BOX, spaces.Discrete(2))
    pipeline = defaults.learner(
        BOX, spaces.Discrete(2), targets=[AddNextObservationsFromEpisodesToTrainBatch()], module=module
    )
    sampled = buffer.sample(16, draw)

    found = pipeline(rl_module=module, episodes=sampled)["default_policy"]
    expected = pipeline(rl_module=module, episodes=list(sampled.forked()))["default_policy"]

    assert {"keys", "weights", "new_obs", "action_logp"} <= found.keys()
    assert found.keys() == expected.keys()
    assert all((found[name] == expected[name]).all() for name in found)


@pytest.mark.parametrize("as_read", [lambda sampled: sampled, lambda sampled: EpisodeList(list(sampled))])
@pytest.mark.parametrize("t", [0, 99])
def test_items_at_time_steps_that_are_not_stored_are_rejected(as_read, t):
    buffer, plain = ReplayBuffer(64, seed=0), PlainBuffer()
    for _ in range(4):
        buffer.add([plain.chunk(0, 20)])  # evicts the first time steps
    sampled = as_read(buffer.sample(4))

    with pytest.raises(EpisodeIndexError, match=f"found the time step {t} asked for"):
        sampled.items_at("obs", lambda *_: np.full(4, t))


@pytest.mark.parametrize("display", [repr, lambda sampled: sampled._repr_html_()])
def test_displaying_a_sample_does_not_read_its_episodes(display):
    buffer = filled()
    sampled = buffer.sample(5)
    known = [times.tolist() for times in sampled.known_times()]

    assert "5 SingleAgentEpisodes, 5 steps" in display(sampled)
    assert [times.tolist() for times in sampled.known_times()] == known  # those of whole stored episodes


@pytest.mark.parametrize("display", [repr, lambda sampled: sampled._repr_html_()])
def test_samples_are_displayed_that_cannot_be_read_as_episodes(display):
    buffer = filled()
    n_steps, overwritten = buffer.sample(5, Transitions(3), lookback=2), buffer.sample(4)
    for number in range(1, 10):
        buffer.add([PlainBuffer().chunk(number, 30, "truncated")])

    assert "5 SingleAgentEpisodes, 5 steps" in display(n_steps)
    assert "4 SingleAgentEpisodes, 4 steps" in display(overwritten)


def test_time_steps_after_several_steps_are_not_guessed():
    sampled = filled().sample(5, Transitions(3), lookback=1)

    with pytest.raises(ReplayError, match=r"time steps of observations after n-step transitions.*Draw `Sequences`"):
        sampled.computed_windows("t", shifts=[-1, 0], fills=Fills((-1, -1)), tail=True)
