"""Data from which no episode can be made is rejected: which column, what was found, what was expected."""

import copy

import numpy as np
import pytest
from gymnasium import spaces

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodeKeyError, IndexTypeError, ShapeError, SpaceError
from refusals import message_of, missing_in, running, same

DATA = {"observations": [0, 1, 2], "actions": [5, 6], "rewards": [0.5, 1.0], "len_lookback_buffer": 0}
LENGTHS = (EpisodeError, "columns of different lengths", "T + 1 observations and infos")

REFUSED_DATA = {
    "too few observations": ({"observations": [0, 1]}, *LENGTHS, "'observations': 2", "next to 2 rewards"),
    "too many observations": ({"observations": [0, 1, 2, 3]}, *LENGTHS, "'observations': 4"),
    "no observations": ({"observations": None}, *LENGTHS, "'observations': 0"),
    "too few actions": ({"actions": [5]}, *LENGTHS, "'actions': 1"),
    "no rewards": ({"rewards": None}, *LENGTHS, "'actions': 2", "next to 0 rewards"),
    "too few infos": ({"infos": [{}]}, *LENGTHS, "'infos': 1"),
    "too few extra outputs": ({"extra_model_outputs": {"logp": [0.0]}}, *LENGTHS, "'logp': 1"),
    "infos that are no dicts": ({"infos": [1, 2, 3]}, EpisodeError, "infos", "found 1", "a dict or None"),
    "one dict for all infos": (
        {"infos": {"a": 1}},
        EpisodeError,
        "infos",
        "{'a': 1}",
        "a list of T + 1 dicts",
    ),
    "a number for observations": ({"observations": np.array(5)}, EpisodeError, "observations", "first axis"),
    "a number for rewards": ({"rewards": 5}, EpisodeError, "rewards", "found 5", "a list or an array"),
    "leaves of different lengths": (
        {"observations": {"x": np.zeros(3), "y": np.zeros(2)}},
        *(EpisodeError, "observations", "'x': float64[3]", "'y': float64[2]", "one common first axis"),
    ),
    "a ragged list in an episode of arrays": (
        {"observations": [np.zeros(2), np.zeros(3), np.zeros(2)], "actions": np.zeros(2)},
        *(ShapeError, "observations", "item 1 is float64[3]", "Pad or flatten"),
    ),
    "a negative lookback": ({"len_lookback_buffer": -1}, EpisodeError, "len_lookback_buffer=-1", "from 0 up"),
    "half a step of lookback": ({"len_lookback_buffer": 1.5}, EpisodeError, "len_lookback_buffer=1.5"),
    "no lookback": ({"len_lookback_buffer": None}, EpisodeError, "len_lookback_buffer=None"),
    "a word for the lookback": ({"len_lookback_buffer": "all"}, EpisodeError, "len_lookback_buffer='all'"),
    "a start before 0": ({"t_started": -1}, EpisodeError, "t_started=-1", "from 0 up"),
    "a start that is no number": ({"t_started": "now"}, EpisodeError, "t_started='now'"),
}


@pytest.mark.parametrize(
    ("changes", "error", "words"), [(c, e, w) for c, e, *w in REFUSED_DATA.values()], ids=REFUSED_DATA
)
def test_the_constructor_rejects_data_that_is_not_episode(changes, error, words):
    message = message_of(error, lambda: SingleAgentEpisode("walk", **{**DATA, **changes}))

    assert missing_in(message, ("'walk'", "found", "expected", *words)) == []


def test_a_rejected_constructor_leaves_the_given_data_alone():
    data = copy.deepcopy({**DATA, "infos": [{"a": [1]}, {}, {}], "actions": [5]})
    before = copy.deepcopy(data)

    message_of(EpisodeError, lambda: SingleAgentEpisode("walk", **data))

    assert same(data, before)


@pytest.mark.parametrize(
    ("column", "changes"),
    [
        ("actions", {"actions": [5, 6], "action_space": spaces.Discrete(3)}),
        ("actions", {"actions": [0.5, 1.0], "action_space": spaces.Discrete(3)}),
        ("actions", {"actions": np.array([0.5, 1.0]), "action_space": spaces.Discrete(3)}),
        ("observations", {"observation_space": spaces.Box(0, 1, (), np.float32)}),
    ],
    ids=["class 5 of 3", "class 0.5", "class 0.5 in an array", "outside of the bounds"],
)
def test_data_outside_of_a_space_may_be_given_but_is_not_valid(column, changes):
    episode = SingleAgentEpisode("walk", **{**DATA, **changes})

    message = message_of(SpaceError, episode.validate)

    assert missing_in(message, ("'walk'", column, "found", "expected", "Correct the data")) == []


@pytest.mark.parametrize(
    "rewards",
    [[np.zeros(2), np.zeros(2)], ["a", "b"], np.ones((2, 2)), np.array(["a", "b"]), [None, 1.0]],
    ids=["vectors", "strings", "a matrix", "an array of strings", "None"],
)
def test_rewards_must_be_numbers_from_the_start(rewards):
    message = message_of(EpisodeError, lambda: SingleAgentEpisode("walk", **{**DATA, "rewards": rewards}))

    assert missing_in(message, ("'walk'", "rewards", "found", "expected", "Pass")) == []


# --- Logged data ------------------------------------------------------------------------------------------

ROWS = {"obs": np.arange(4.0), "actions": np.arange(3), "rewards": np.ones(3)}

REFUSED_ARRAYS = {
    "no observations": (["obs"], {}, EpisodeKeyError, "['actions', 'rewards']", "'obs' among them"),
    "no actions": (["actions"], {}, EpisodeKeyError, "4 rows of 'obs'", "'actions' with 3 rows"),
    "no rewards": (["rewards"], {}, EpisodeKeyError, "'rewards' with 3 rows"),
    "keys of mixed types": (["obs"], {1: np.zeros(3)}, EpisodeKeyError, "'obs' among them"),
    "too few actions": ([], {"actions": np.arange(2)}, EpisodeError, "'actions': 2", "next to 3 rewards"),
    "no last observation": ([], {"obs": np.arange(3.0)}, EpisodeError, "'observations': 3"),
    "an end in the middle": (
        [],
        {"terminateds": np.array([True, False, False])},
        *(
            EpisodeError,
            "'terminateds' set at step 0 of 3",
            "at the last step only",
            "Split the data after step 0",
        ),
    ),
    "too few flags": (
        [],
        {"truncateds": [True]},
        EpisodeError,
        "'truncateds'",
        "[3]: one flag for each step",
    ),
    "one flag for all": (
        [],
        {"truncateds": True},
        EpisodeError,
        "'truncateds'",
        "one common first axis (time)",
    ),
    "a ragged column": (
        [],
        {"obs": [[0], [1, 2], [0], [0]]},
        ShapeError,
        "item 1 is [1, 2]",
        "Pad or flatten",
    ),
    "new_obs of another episode": (
        [],
        {"obs": np.arange(3.0), "new_obs": np.array([1.0, 9.0, 3.0])},
        *(EpisodeError, "'new_obs'", "one step later", "Split the data where episodes end"),
    ),
}


@pytest.mark.parametrize(
    ("left_out", "changes", "error", "words"),
    [(left_out, changes, error, words) for left_out, changes, error, *words in REFUSED_ARRAYS.values()],
    ids=REFUSED_ARRAYS,
)
def test_logged_arrays_that_are_not_episode_are_rejected(left_out, changes, error, words):
    arrays = {key: rows for key, rows in {**ROWS, **changes}.items() if key not in left_out}

    message = message_of(error, lambda: SingleAgentEpisode.from_arrays(arrays))

    assert missing_in(message, ("found", "expected", *words)) == []


def test_an_extra_output_that_hides_a_column_is_not_exported():
    episode = SingleAgentEpisode("walk")
    episode.add_env_reset(0)
    episode.add_env_step(1, 0, 0.0, extra_model_outputs={"rewards": 5})

    message = message_of(EpisodeError, episode.to_arrays)

    assert missing_in(message, ("'walk'", "['rewards']", "Rename them")) == []


# --- State ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", running().get_state())
def test_a_state_that_lacks_a_field_is_rejected(key):
    state = running().get_state()
    del state[key]

    message = message_of(EpisodeError, lambda: SingleAgentEpisode.from_state(state))

    assert missing_in(message, ("found", repr(key), "expected", "`get_state()`")) == []


def test_a_state_with_a_damaged_column_is_rejected():
    state = running().get_state()
    state["actions"]["data"].pop()
    message = message_of(EpisodeError, lambda: SingleAgentEpisode.from_state(state))
    assert missing_in(message, ("'walk'", "'actions': 2", "next to 3 rewards")) == []

    del state["actions"]["lookback"]
    message = message_of(EpisodeError, lambda: SingleAgentEpisode.from_state(state))
    assert missing_in(message, ("'actions'", "['lookback']", "`get_state()`")) == []


@pytest.mark.parametrize("space", [{"space": "subprocess.Popen"}, "Box(2,)", {}, 5], ids=str)
def test_a_state_names_only_spaces_that_are_known(space):
    state = {**running().get_state(), "_action_space": space}

    message = message_of(EpisodeError, lambda: SingleAgentEpisode.from_state(state))

    assert missing_in(message, (repr(space), "'Discrete'", "damaged, or another program wrote it")) == []


# --- Buffers ----------------------------------------------------------------------------------------------

REFUSED_BY_BUFFERS = {
    "a negative lookback": (
        lambda: LookbackBuffer([1], lookback=-1),
        EpisodeError,
        "`lookback=-1`",
        "from 0 up",
        "-1",
    ),
    "a number for data": (lambda: LookbackBuffer(np.array(5)), EpisodeError, "one common first axis (time)"),
    "reading outside": (lambda: LookbackBuffer([1])[3], EpisodeIndexError, "the index 3", "Pass `fill=`"),
    "popping from nothing": (lambda: LookbackBuffer().pop(), EpisodeIndexError, "the index -1", "0 items"),
    "no index": (lambda: LookbackBuffer([1])["a"], IndexTypeError, "'a' (str)", "an int, a list"),
    "a float class": (
        lambda: LookbackBuffer([0], space=spaces.Discrete(3)).append(0.5),
        SpaceError,
        "found 0.5",
    ),
    "a ragged column": (lambda: LookbackBuffer([[1, 2], [3]]).finalize(), ShapeError, "item 1 is int64[1]"),
    "another row": (
        lambda: LookbackBuffer(np.zeros((2, 2))).append(np.zeros(3)),
        ShapeError,
        "like float64[2]",
    ),
    "-1 as uint8": (
        lambda: LookbackBuffer(np.zeros(3, np.uint8)).get(9, fill=-1),
        EpisodeError,
        "fill=-1",
        "uint8",
    ),
    "300 as uint8": (
        lambda: LookbackBuffer(np.zeros(3, np.uint8)).get(9, fill=300),
        EpisodeError,
        "fill=300",
    ),
}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [(c, e, w) for c, e, *w in REFUSED_BY_BUFFERS.values()],
    ids=REFUSED_BY_BUFFERS,
)
def test_a_buffer_on_its_own_is_as_strict(call, error, words):
    message = message_of(error, call)

    assert missing_in(message, ("found", "expected", *words)) == []
