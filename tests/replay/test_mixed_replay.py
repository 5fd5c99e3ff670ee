"""Samples of several buffers have the shares that were asked for, and are what the buffers hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import AddNextObservationsFromEpisodesToTrainBatch, defaults
from episodia.errors import ReplayError
from episodia.replay import MixedReplay, ReplayBuffer, Selection, Transitions
from episodia.testing import assert_same_episode, assert_same_items


def filled(first, seed=0, **columns):
    """Return a buffer with one episode, whose observations, actions and rewards begin with `first`."""
    steps = 6
    walk = SingleAgentEpisode(
        f"walk-{first}",
        observations=np.arange(first, first + steps + 1),
        actions=np.arange(first, first + steps),
        rewards=np.arange(first, first + steps) * 1.0,
        terminated=True,
        extra_model_outputs={name: list(range(steps)) for name in columns.get("extras", ())},
        len_lookback_buffer=0,
    )
    buffer = ReplayBuffer(columns.get("capacity", 64), selector=columns.get("selector"), seed=seed)
    buffer.add([walk])
    return buffer


@given(
    shares=st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
)
def test_shares_are_exact_in_the_long_run_and_never_far_off(shares, sizes):
    buffers = [filled(100 * place) for place in range(len(shares))]
    mixed, totals, asked = MixedReplay(buffers, shares), np.zeros(len(shares)), 0
    for size in sizes:
        sampled = mixed.sample(size)
        counts = [len(keys) for keys in sampled.keys]
        totals, asked = totals + counts, asked + size

        assert len(sampled) == sum(counts) == size
        assert (np.abs(totals - asked * np.array(shares) / sum(shares)) < len(shares)).all()
        origin = sampled.flat(Columns.OBS).values // 100
        assert origin.tolist() == np.repeat(np.arange(len(shares)), counts).tolist()


def test_a_fixed_size_gives_fixed_shares():
    mixed = MixedReplay([filled(0), filled(100)], [0.25, 0.75])

    assert [[len(keys) for keys in mixed.sample(6).keys] for _ in range(4)] == [[2, 4], [1, 5], [2, 4], [1, 5]]


@pytest.mark.parametrize("draw", [Transitions(), Transitions(n_step=3)])
@pytest.mark.parametrize("lookback", [0, 2])
def test_columns_are_those_of_the_parts(draw, lookback):
    buffers = filled(0, seed=5), filled(100, seed=6)
    apart = [
        filled(0, seed=5).sample(4, draw, lookback=lookback),
        filled(100, seed=6).sample(4, draw, lookback=lookback),
    ]
    found = MixedReplay(buffers, [1, 1]).sample(8, draw, lookback=lookback)

    for column in (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.T):
        assert found.flat(column).values.tolist() == [x for part in apart for x in part.flat(column).values]
    tracks = [part.flat(Columns.OBS, tail=True).values for part in apart]
    assert found.flat(Columns.OBS, tail=True).values.tolist() == np.concatenate(tracks).tolist()
    if lookback and draw.n_step == 1:
        windows = [part.windows(Columns.OBS, shifts=[-2, 0], fill=-1).values for part in apart]
        assert found.windows(Columns.OBS, shifts=[-2, 0], fill=-1).values.tolist() == np.concatenate(windows).tolist()


def test_a_learner_pipeline_makes_the_same_batch_of_a_mixed_sample_and_of_its_episodes():
    mixed = MixedReplay([filled(0), filled(100)], [1, 1])
    pipeline = defaults.learner(targets=[AddNextObservationsFromEpisodesToTrainBatch()])
    sampled = mixed.sample(8)
    batch = pipeline(rl_module=None, batch={}, episodes=sampled, shared_data={})["default_policy"]
    listed = pipeline(rl_module=None, batch={}, episodes=EpisodeList(list(sampled)), shared_data={})["default_policy"]

    assert batch["new_obs"].tolist() == (batch["obs"] + 1).tolist()
    assert_same_items(
        {key: np.asarray(value) for key, value in batch.items()}, {k: np.asarray(v) for k, v in listed.items()}
    )


def test_episodes_of_a_mixed_sample_are_those_of_the_parts():
    sampled = MixedReplay([filled(0, seed=5), filled(100, seed=6)], [1, 1]).sample(4)
    apart = [*filled(0, seed=5).sample(2), *filled(100, seed=6).sample(2)]
    forked = sampled.forked()

    for mine, forks, theirs in zip(sampled, forked, apart, strict=True):
        assert_same_episode(mine, theirs, ignore=("times",))
        assert_same_episode(forks, theirs, ignore=("times",))
    assert sampled.flat(Columns.REWARDS).values.tolist() == [episode.get_return() for episode in apart]


def test_only_columns_of_all_parts_are_there():
    sampled = MixedReplay([filled(0, extras=["logp", "value"]), filled(100, extras=["value"])], [1, 1]).sample(4)

    assert sampled.extra_columns() == ["value", "keys"]
    assert not sampled.has("logp")
    assert len(sampled.flat("value").values) == 4


class Recording:
    """A selector that takes the newest step, with a weight, and keeps what it is told."""

    told = ()

    def on_add(self, rows, added):
        self.rows = rows

    def on_evict(self, rows):
        pass

    def select(self, num, steps, rng):
        return Selection(np.repeat(self.rows[-1:], num), np.full(num, 0.5))

    def update(self, rows, values):
        Recording.told += ((rows.tolist(), values.tolist()),)


def test_parts_without_weights_weigh_one():
    sampled = MixedReplay([filled(0), filled(100, selector=Recording())], [1, 1]).sample(4)

    assert sampled.has("weights")
    assert sampled.flat("weights").values.tolist() == [1.0, 1.0, 0.5, 0.5]


def test_each_buffer_is_told_the_priorities_of_its_own_steps():
    Recording.told = ()
    mixed = MixedReplay([filled(0, selector=Recording()), filled(100, selector=Recording())], [1, 1])
    sampled = mixed.sample(4)

    assert mixed.update_priorities(sampled.keys, [1.0, 2.0, 3.0, 4.0]) == 0
    assert [values for _, values in Recording.told] == [[1.0, 2.0], [3.0, 4.0]]
    mixed.buffers[0].clear()
    assert mixed.update_priorities(sampled.keys, [1.0, 2.0, 3.0, 4.0]) == 2
    with pytest.raises(ReplayError, match="expected one number for each key"):
        mixed.update_priorities(sampled.keys, [1.0])


def test_shares_continue_from_a_state():
    mixed, other = (MixedReplay([filled(0), filled(100)], [1, 2]) for _ in range(2))
    mixed.sample(4)
    other.set_state(mixed.get_state())

    assert [len(keys) for keys in other.sample(4).keys] == [len(keys) for keys in mixed.sample(4).keys] == [2, 2]
    assert repr(other) == "MixedReplay(2 buffers, shares 0.333, 0.667)"


def test_a_loaded_sample_outlives_its_buffers():
    buffers = [filled(0), filled(100)]
    sampled = MixedReplay(buffers, [1, 1]).sample(4).load()
    before = sampled.flat(Columns.OBS).values.tolist()
    for buffer in buffers:
        buffer.clear()

    assert sampled.flat(Columns.OBS).values.tolist() == before


def test_columns_of_other_dtypes_are_not_cast():
    other = ReplayBuffer(64, seed=0)
    walk = SingleAgentEpisode(observations=[0.0, 1.0], actions=[1], rewards=[1.0], len_lookback_buffer=0)
    other.add([walk])
    sampled = MixedReplay([filled(0), other], [1, 1]).sample(4)
    with pytest.raises(ReplayError, match=r"column 'obs'.*nothing is cast"):
        sampled.flat(Columns.OBS)


@pytest.mark.parametrize(
    ("buffers", "shares", "words"),
    [
        ([], [], "at least one"),
        ([filled(0)], [1, 2], "found 2 shares of 1 buffers"),
        ([filled(0)], [0], "expected one above 0"),
        ([filled(0)], [-1], "-1"),
        ([filled(0)], ["half"], "numbers"),
        ([3], [1], "replay buffers"),
    ],
)
def test_wrong_arguments_are_rejected(buffers, shares, words):
    with pytest.raises(ReplayError, match=words):
        MixedReplay(buffers, shares)


def test_buffers_of_several_modules_are_rejected():
    play = MultiAgentEpisode("play", agent_to_module_mapping_fn=lambda agent, _: f"module of {agent}")
    play.add_env_reset(observations={"a": 0, "b": 1})
    play.add_env_step(
        observations={"a": 1, "b": 2},
        actions={"a": 0, "b": 0},
        rewards={"a": 1.0, "b": 2.0},
        terminateds={"__all__": True},
    )
    buffer = ReplayBuffer(64, seed=0)
    buffer.add([play.finalize()])
    with pytest.raises(ReplayError, match=r"modules \['module of a', 'module of b'\], expected one module"):
        MixedReplay([buffer, buffer], [1, 1]).sample(4)


def test_a_mixed_sample_knows_the_whole_stored_episodes():
    sampled = MixedReplay([filled(0), filled(100)], [0.5, 0.5]).sample(8)
    first, last = sampled.known_times()

    assert first.tolist() == [0] * 8
    assert last.tolist() == [6] * 8
    assert sampled.items_at(Columns.OBS, lambda *times: times[2]).tolist() == [6] * 4 + [106] * 4
    assert sampled.items_at(Columns.OBS, lambda *times: times[1]).tolist() == [0] * 4 + [100] * 4
