"""The mean / std filter: frozen while a runner acts, mergeable, and what it does to each leaf."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import check_state
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.env_to_module.mean_std_filter import MeanStdFilter
from episodia.errors import BatchError, ConnectorStateError, PipelineError
from episodia.testing import SPACES
from piece_calls import acted, called, trained


def at(*values):
    """Return an episode for each value, with it as the only observation."""
    return [SingleAgentEpisode(observations=[np.asarray(value)]) for value in values]


def see(piece, rows):
    """Let `piece` see the rows as newest observations of as many episodes."""
    if len(rows):
        acted(piece, *at(*rows))


def normalised(piece, rows):
    """Return what a learner gets for the rows."""
    column = called(piece, EpisodeList(at(*rows)))["obs"]
    return column.tails()


def by_hand(rows, seen, clip=10.0):
    seen = np.asarray(seen, np.float64)
    values = (np.asarray(rows, np.float64) - seen.mean(0)) / (seen.std(0, ddof=1) + 1e-8)
    return np.clip(values, -clip, clip).astype(np.float32)


ROWS = np.random.default_rng(0).normal(4.0, 2.0, (30, 3)).astype(np.float32)

# --- What is frozen ---------------------------------------------------------------------------------------------------


def test_before_the_first_commit_observations_are_only_clipped():
    piece = MeanStdFilter(clip_by_value=3.0)
    see(piece, ROWS)

    rows = acted(piece, *at([1.0, -2.0, -9.0], [50.0, 0.5, 0.0]))

    assert [row.tolist() for row in rows] == [[1.0, -2.0, -3.0], [3.0, 0.5, 0.0]]


def test_a_commit_normalises_by_what_was_seen():
    piece = MeanStdFilter()
    see(piece, ROWS[:10])
    see(piece, ROWS[10:])
    piece.commit()

    np.testing.assert_allclose(normalised(piece, ROWS), by_hand(ROWS, ROWS), rtol=1e-6)


def test_statistics_stay_the_same_from_commit_to_commit():
    piece = MeanStdFilter()
    see(piece, ROWS[:10])
    piece.commit()
    before = normalised(piece, ROWS)
    see(piece, ROWS[10:])

    assert normalised(piece, ROWS).tobytes() == before.tobytes()
    piece.commit()
    np.testing.assert_allclose(normalised(piece, ROWS), by_hand(ROWS, ROWS), rtol=1e-6)


def test_versions_count_commits():
    piece = MeanStdFilter()
    versions = [piece.version]
    for _ in range(2):
        see(piece, ROWS)
        piece.commit()
        versions.append(piece.version)

    assert versions == [0, 1, 2]
    assert piece.get_state()["version"] == 2


def test_a_learner_never_updates():
    piece = MeanStdFilter()
    normalised(piece, ROWS)
    piece.commit()

    assert piece.get_state() == {"version": 1, "synced": [], "delta": [], "pending": []}


def test_a_finished_filter_does_not_update():
    piece = MeanStdFilter(update_stats=False)
    see(piece, ROWS)
    piece.commit()

    assert piece.get_state()["delta"] == []


def test_a_rejected_observation_is_not_noted():
    piece = MeanStdFilter()
    see(piece, ROWS)
    piece.commit()

    with pytest.raises(BatchError, match=r"the shape \[2\], expected \[3\]"):
        see(piece, np.zeros((2, 2)))
    assert piece.get_state()["pending"] == []


# --- What is filtered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "std"), [(True, True), (True, False), (False, True), (False, False)])
def test_mean_and_deviation_can_be_left_alone(mean, std):
    piece = MeanStdFilter(de_mean_to_zero=mean, de_std_to_one=std, clip_by_value=None)
    see(piece, ROWS)
    piece.commit()

    expected = ROWS.astype(np.float64) - (ROWS.mean(0) if mean else 0.0)
    expected = expected / (ROWS.std(0, ddof=1) if std else 1.0)
    np.testing.assert_allclose(normalised(piece, ROWS), expected, rtol=1e-4, atol=1e-5)


def test_a_constant_stays_finite():
    piece = MeanStdFilter()
    see(piece, np.full((5, 1), 7.0))
    piece.commit()

    assert normalised(piece, [[7.0], [8.0], [-8.0]]).tolist() == [[0.0], [10.0], [-10.0]]


def test_boxes_are_filtered_and_classes_stay():
    space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (2,), np.uint8),
            "kind": spaces.Discrete(9),
            "rest": spaces.Tuple([spaces.Box(0, 9, ())]),
        }
    )
    items = [{"camera": np.array([i, 2 * i], np.uint8), "kind": i, "rest": (np.float32(i),)} for i in range(4)]
    piece = MeanStdFilter(space)
    episodes = [SingleAgentEpisode(observations=[item]) for item in items]
    acted(piece, *episodes)
    piece.commit()

    rows = acted(piece, *episodes)
    np.testing.assert_allclose([row["camera"] for row in rows], by_hand(*[[i["camera"] for i in items]] * 2), rtol=1e-6)
    np.testing.assert_allclose(
        [row["rest"][0] for row in rows], by_hand(*[[i["rest"][0] for i in items]] * 2), rtol=1e-6
    )
    assert [row["kind"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["camera"].dtype == np.float32


@pytest.mark.parametrize("name", ["deep", "dict", "box image uint8", "multi-discrete", "box unbounded"])
def test_what_comes_out_lies_in_the_output_space(name):
    space = SPACES[name]
    space.seed(0)
    piece = MeanStdFilter(space, clip_by_value=2.0)
    episodes = [SingleAgentEpisode(observations=[space.sample()]) for _ in range(5)]
    acted(piece, *episodes)
    piece.commit()

    rows = acted(piece, *episodes)
    if name == "dict":  # its scalar comes out as a number, of which gymnasium warns
        rows = [{**row, "speed": np.asarray(row["speed"])} for row in rows]
    assert all(piece.observation_space.contains(row) for row in rows)


def test_without_a_limit_the_output_space_is_unbounded():
    assert MeanStdFilter(spaces.Box(0, 1, (2,)), clip_by_value=None).observation_space == spaces.Box(
        -np.inf, np.inf, (2,)
    )


def test_without_any_space_floats_are_filtered():
    piece = MeanStdFilter()
    episodes = [SingleAgentEpisode(observations=[{"x": float(i), "kind": i}]) for i in range(3)]
    acted(piece, *episodes)
    piece.commit()

    rows = acted(piece, *episodes)
    assert [row["kind"] for row in rows] == [0, 1, 2]
    np.testing.assert_allclose([row["x"] for row in rows], [-1.0, 0.0, 1.0], atol=1e-7)


def test_an_invalid_limit_is_rejected():
    with pytest.raises(PipelineError, match="clip_by_value=0"):
        MeanStdFilter(clip_by_value=0)


def test_raw_observations_stay_in_the_episode():
    piece = MeanStdFilter()
    see(piece, ROWS)
    piece.commit()
    (walk,) = at([1.0, 2.0, 3.0])
    acted(piece, walk)

    assert walk.get_observations(-1).tolist() == [1.0, 2.0, 3.0]


# --- States -----------------------------------------------------------------------------------------------------------


def through_json(state):
    """Return a state that was written as JSON, with arrays as lists, and read again."""
    check_state(state)
    return json.loads(json.dumps(state, default=lambda array: array.tolist()))


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=0, max_size=3), min_size=1, max_size=5),
    st.integers(0, 2**16),
    st.sampled_from([0.0, 1e8]),
    st.booleans(),
)
def test_merged_filters_equal_one_that_has_seen_everything(shards, seed, offset, later):
    """Each filter sees its shards one after another, from a common beginning; some have not committed the last."""
    rng = np.random.default_rng(seed)
    draw = lambda count: offset + rng.normal(size=(count, 2))  # noqa: E731  # twice in one line
    common, one = MeanStdFilter(), MeanStdFilter()
    parts = [draw(6), *(draw(count) for shard in shards for count in shard)]
    see(common, parts[0])
    common.commit()
    common.set_state(common.merge_states([common.get_state()]))
    states, rest = [], iter(parts[1:])
    for shard in shards:
        worker = MeanStdFilter()
        worker.set_state(through_json(common.get_state()))
        for position, _ in enumerate(shard):
            see(worker, next(rest))
            if not later or position:
                worker.commit()
        states.append(worker.get_state())

    merged = MeanStdFilter()
    merged.set_state(merged.merge_states(states))
    for part in parts:
        see(one, part)
    one.commit()

    probe = np.concatenate(parts)
    np.testing.assert_allclose(normalised(merged, probe), normalised(one, probe), rtol=1e-6, atol=1e-6)
    assert merged.version > max(state["version"] for state in states)


def test_filters_that_are_never_told_the_result_are_still_counted_once():
    workers = [MeanStdFilter(), MeanStdFilter()]
    merged = MeanStdFilter()
    for part in (ROWS[:10], ROWS[10:20]):
        for worker, rows in zip(workers, (part[:3], part[3:]), strict=True):
            see(worker, rows)
            worker.commit()
        merged.set_state(merged.merge_states([worker.get_state() for worker in workers]))

    np.testing.assert_allclose(normalised(merged, ROWS), by_hand(ROWS, ROWS[:20]), rtol=1e-5)


def test_filters_that_began_from_different_states_are_rejected():
    behind, ahead = MeanStdFilter(), MeanStdFilter()
    see(ahead, ROWS)
    ahead.set_state(ahead.merge_states([ahead.get_state()]))

    with pytest.raises(ConnectorStateError, match="state 1 of 2 does not begin from the same statistics"):
        behind.merge_states([behind.get_state(), ahead.get_state()])


def test_merging_changes_no_filter():
    piece = MeanStdFilter()
    see(piece, ROWS)
    before = json.dumps(through_json(piece.get_state()))
    piece.merge_states([piece.get_state()])

    assert json.dumps(through_json(piece.get_state())) == before
    assert piece.merge_states([])["version"] == 0


def test_a_state_is_a_copy_and_restores_everything_that_was_noted():
    piece, other = MeanStdFilter(), MeanStdFilter()
    see(piece, ROWS[:10])
    piece.commit()
    see(piece, ROWS[10:])
    state = piece.get_state()
    other.set_state(state)
    state["delta"][0]["mean"][:] = 99.0
    piece.commit()
    other.commit()

    assert normalised(other, ROWS).tobytes() == normalised(piece, ROWS).tobytes()
    assert other.version == piece.version == 2


def test_resetting_forgets_everything():
    piece = MeanStdFilter()
    see(piece, ROWS)
    piece.commit()
    piece.reset_state()

    assert piece.get_state() == MeanStdFilter().get_state()
    assert normalised(piece, [[1.0]]).tolist() == [[1.0]]


@pytest.mark.parametrize("state", [{}, {"version": 1}, {"version": "x", "synced": [], "delta": [], "pending": []}])
def test_what_is_no_state_is_rejected_and_changes_nothing(state):
    piece = MeanStdFilter()
    see(piece, ROWS)
    piece.commit()
    before = normalised(piece, ROWS)

    with pytest.raises(ConnectorStateError, match="found a state that cannot be read"):
        piece.set_state(state)
    assert normalised(piece, ROWS).tobytes() == before.tobytes()


# --- Many agents ------------------------------------------------------------------------------------------------------


def pair(left, right, **kwargs):
    """Return a multi-agent episode that has been reset, with two agents of one module."""
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda *_: "shared", **kwargs)
    episode.add_env_reset(observations={("team", 1): np.array([left]), "b": np.array([right])})
    return episode


def test_each_agent_has_its_own_statistics():
    found = EpisodeList([pair(0.0, 100.0), pair(2.0, 300.0)]).current()
    piece = MeanStdFilter(multi_agent=True)
    called(piece, found)
    piece.commit()

    rows = called(piece, found)["obs"]["shared"].values

    half = 0.5**0.5
    np.testing.assert_allclose(rows, [[-half], [-half], [half], [half]], rtol=1e-6)
    restored = MeanStdFilter(multi_agent=True)
    restored.set_state(through_json(piece.get_state()))
    assert called(restored, found)["obs"]["shared"].values.tobytes() == rows.tobytes()


def test_agents_share_statistics_otherwise():
    found = EpisodeList([pair(0.0, 1.0), pair(2.0, 3.0)]).current()
    piece = MeanStdFilter()
    called(piece, found)
    piece.commit()

    rows = called(piece, found)["obs"]["shared"].values
    np.testing.assert_allclose(rows[:, 0], by_hand([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]), rtol=1e-6)


def test_observations_that_are_in_the_batch_already_are_filtered_too():
    piece = MeanStdFilter()
    see(piece, ROWS)
    piece.commit()
    found = EpisodeList(at(*ROWS))

    rows = called(piece, found, called(AddObservationsFromEpisodesToBatch(), found))["obs"].tails()

    assert rows.tobytes() == normalised(piece, ROWS).tobytes()
    assert trained(piece, *found)[0].tobytes() == rows[0].tobytes()


def test_the_state_of_observations_without_axes_can_be_stored():
    piece = MeanStdFilter()
    see(piece, [3.0, 5.0])
    piece.commit()
    see(piece, [4.0])

    check_state(piece.get_state())
