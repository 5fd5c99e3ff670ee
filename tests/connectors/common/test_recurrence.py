"""States and time axes for recurrent modules."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from drives import drive, run
from episodia import Columns, EpisodeList, SingleAgentEpisode
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch, states_of
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS, AddTimeDimToBatchAndZeroPad
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import BatchError, DroppedHistoryError, ModuleError
from episodia.trees import map_batch
from valued_modules import MemoryModule, SumModule

module = MemoryModule()
initial = module.get_initial_state()["h"]


def states_one_by_one(episode):
    """Return the state before each step, and after the last: of the whole episode."""
    outs = episode.get_extra_model_outputs("state_out") if len(episode) else {"h": []}
    return [initial, *(outs["h"] if isinstance(outs, dict) else [out["h"] for out in outs])]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=4))
def test_the_state_of_a_step_is_what_came_out_of_the_step_before(lengths):
    episodes = [drive(n, i, stateful=True, finalized=finalized) for i, (n, finalized) in enumerate(lengths)]

    found = states_of(EpisodeList(episodes), module.get_initial_state())

    expected = [state for episode in episodes for state in states_one_by_one(episode)]
    np.testing.assert_array_equal(found.values["h"], expected)
    assert found.tail == 1


@given(st.integers(1, 6), st.data())
def test_a_chunk_begins_in_the_state_in_which_the_one_before_ended(length, data):
    whole = drive(length, stateful=True)
    point = data.draw(st.integers(0, length))
    first, second = whole[:point], whole.slice(slice(point, None), len_lookback_buffer=1)

    found = states_of(EpisodeList([first, second]), module.get_initial_state())

    states = states_one_by_one(whole)
    np.testing.assert_array_equal(found.values["h"], [*states[: point + 1], *states[point:]])


def test_a_chunk_without_lookback_does_not_start_from_scratch():
    chunk = drive(4, stateful=True).slice(slice(2, None), len_lookback_buffer=0)

    with pytest.raises(DroppedHistoryError, match="expected at least 1"):
        states_of(EpisodeList([chunk]), module.get_initial_state())


def test_at_the_present_moment_new_episodes_start_from_the_initial_state():
    old, new = drive(2, stateful=True), drive(0, stateful=True, finalized=False)

    found = states_of(EpisodeList([old, new]).current(), module.get_initial_state())

    np.testing.assert_array_equal(found.values["h"], [states_one_by_one(old)[-1], initial])


def test_steps_without_states_are_rejected():
    with pytest.raises(BatchError, match="steps without the column 'state_out'"):
        states_of(EpisodeList([drive(2)]), module.get_initial_state())


class Wrong(MemoryModule):
    """Has another initial state."""

    def __init__(self, state):
        super().__init__()
        self.state = state

    def get_initial_state(self):
        return self.state


@pytest.mark.parametrize("state", [None, 0.0, [0.0], np.zeros(4), (np.zeros(4),), {"h": 0.0}, {"h": [0.0]}])
@pytest.mark.parametrize("length", [0, 2])
def test_an_initial_state_that_is_not_dict_of_arrays_is_rejected(state, length):
    with pytest.raises(ModuleError, match=r"^Wrong.get_initial_state: found .*, expected a dict of arrays.* Return"):
        run([AddStatesFromEpisodesToBatch()], [drive(length, stateful=True)], Wrong(state))


@pytest.mark.parametrize("state", [np.zeros(4), (np.zeros(4), np.zeros(4)), {"other": np.zeros(4)}])
@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize("current", [False, True])
def test_stored_states_of_another_structure_than_the_initial_state_are_rejected(state, finalized, current):
    episode = SingleAgentEpisode("mine", observations=[0.0])
    episode.add_env_step(1.0, 0, 1.0, extra_model_outputs={"state_out": state})
    rows = EpisodeList([episode.finalize() if finalized else episode])

    with pytest.raises(
        BatchError, match=r"^episode 'mine', column 'state_out': found .*, expected dicts with the keys \['h', 'c'\]"
    ):
        states_of(rows.current() if current else rows, module.get_initial_state())


def recorded(states):
    """Return the list that a recorder returns after steps with these states."""
    recorder = Recorder(spaces.Box(-9.0, 9.0, (1,), np.float32), spaces.Discrete(2), 1, seed=0)
    recorder.reset(np.zeros((1, 1), np.float32))
    for state in states:
        outputs = {"state_out": map_batch(lambda leaf: leaf[None], state)}
        no_end = np.zeros(1, bool)
        recorder.step(np.zeros((1, 1), np.float32), np.zeros(1, int), np.zeros(1), no_end, no_end, extras=outputs)
    return recorder.take()


def test_states_are_read_from_recorded_columns_without_building_episodes():
    states = [{"h": np.full(4, t, np.float32), "c": np.full(4, -t, np.float32)} for t in (1, 2, 3)]
    rows = recorded(states).forked()

    found = states_of(rows, module.get_initial_state())

    assert rows.is_untouched
    np.testing.assert_array_equal(found.values["h"], [initial, *(state["h"] for state in states)])


def test_recorded_states_may_have_more_parts_than_the_initial_state():
    states = [{"h": np.ones(4, np.float32), "c": np.ones(4, np.float32), "count": np.array(t)} for t in (1, 2)]
    rows = recorded(states)

    found = states_of(rows, module.get_initial_state())

    assert found.values.keys() == {"h", "c"}
    assert states_of(EpisodeList(list(rows)), module.get_initial_state()).values.keys() == {"h", "c"}


@pytest.mark.parametrize("state", [np.zeros(4), (np.zeros(4), np.zeros(4)), {"h": np.zeros(4)}])
def test_recorded_states_of_another_structure_than_the_initial_state_are_rejected(state):
    with pytest.raises(BatchError, match=r"column 'state_out': found .*, expected dicts with the keys \['h', 'c'\]"):
        states_of(recorded([state, state]), module.get_initial_state())


LEARNER = [
    AddObservationsFromEpisodesToBatch(),
    AddColumnsFromEpisodesToTrainBatch(),
    AddStatesFromEpisodesToBatch(),
    AddTimeDimToBatchAndZeroPad(),
    BatchIndividualItems(),
]


def test_episodes_become_padded_sequences_with_the_states_at_their_beginnings():
    episodes = [drive(4, 0, stateful=True), drive(2, 1, stateful=True)]

    batch = run(LEARNER, episodes, module)

    observations = [episode.get_observations() for episode in episodes]
    zeros = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(
        batch[Columns.OBS],
        [observations[0][:3], np.concatenate([observations[0][3:4], zeros, zeros]), [*observations[1][:2], zeros[0]]],
    )
    assert batch[Columns.SEQ_LENS].tolist() == [3, 1, 2]
    assert batch[Columns.LOSS_MASK].tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    states = states_one_by_one(episodes[0])
    np.testing.assert_array_equal(batch[Columns.STATE_IN]["h"], [states[0], states[3], initial])
    assert batch[Columns.REWARDS].shape == (3, 3)


def test_burn_in_repeats_steps_that_do_not_count():
    pieces = [*LEARNER[:3], AddTimeDimToBatchAndZeroPad(max_seq_len=2, burn_in=1), BatchIndividualItems()]
    episode = drive(4, stateful=True)

    batch = run(pieces, [episode], module)

    rewards = episode.get_rewards()
    np.testing.assert_array_equal(batch[Columns.REWARDS], [[*rewards[:2], 0.0], [*rewards[1:4]]])
    assert batch[Columns.LOSS_MASK].tolist() == [[True, True, False], [False, True, True]]
    np.testing.assert_array_equal(batch[Columns.STATE_IN]["h"][1], states_one_by_one(episode)[1])


def test_at_the_present_moment_the_time_axis_has_length_one():
    shared = {}
    episodes = EpisodeList([drive(2, stateful=True), drive(1, 5, stateful=True)]).current()

    batch = run([LEARNER[0], *LEARNER[2:]], episodes, module, shared_data=shared)

    assert batch[Columns.OBS].shape == (2, 1, 2)
    assert batch[Columns.STATE_IN]["h"].shape == (2, 4)
    assert shared[ADDED_TIME_AXIS]


def test_modules_without_state_are_left_alone():
    batch = run(LEARNER, [drive(3)], SumModule())

    assert batch[Columns.OBS].shape == (3, 2)
    assert Columns.STATE_IN not in batch
    assert Columns.LOSS_MASK not in batch
