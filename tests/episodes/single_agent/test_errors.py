"""A step, a read or a write that cannot be right raises, says where and what to do, and changes nothing."""

import numpy as np
import pytest

from episodia import EpisodiaError, SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodeKeyError, IndexTypeError, ShapeError, SpaceError
from refusals import BOX, NESTED, assert_refused, both_forms, nested, plain, running, same, step


def test_each_error_is_also_the_builtin_that_python_users_catch():
    builtins = {
        EpisodeError: ValueError,
        SpaceError: ValueError,
        ShapeError: ValueError,
        EpisodeIndexError: IndexError,
        IndexTypeError: TypeError,
        EpisodeKeyError: KeyError,
    }

    assert all(
        issubclass(error, (EpisodiaError,)) and issubclass(error, builtin) for error, builtin in builtins.items()
    )
    assert issubclass(IndexTypeError, IndexError)
    assert str(EpisodeKeyError("found 'a', expected 'b'")) == "found 'a', expected 'b'"


# --- Stepping --------------------------------------------------------------------------------------------

SHAPE = (SpaceError, "t=3", "observation", "the shape [2]", "Reshape it")
DTYPE = (SpaceError, "t=3", "observation", "the dtype float32", "astype(np.float32)")
ARRAY = (SpaceError, "t=3", "observation", "an array for Box")
REWARD = (EpisodeError, "t=3", "reward", "a number", "float(reward)")
FLAG = (EpisodeError, "t=3", "terminated and truncated", "True or False", "bool(flag)")
ACTION = (SpaceError, "t=3", "action", "an integer for Discrete(3)", "int(value)")
EXTRAS = (EpisodeError, "t=3", "extra_model_outputs", "['logp'] as in the steps before", "cut()")

REFUSED_STEPS = {
    "another shape": ({"observation": np.zeros(3, np.float32)}, *SHAPE, "float32[3]"),
    "another rank": ({"observation": np.zeros((1, 2), np.float32)}, *SHAPE, "float32[1, 2]"),
    "a scalar": ({"observation": 0.5}, *SHAPE),
    "an array without axes": ({"observation": np.array(0.5, np.float32)}, *SHAPE, "float32[]"),
    "a list of another length": ({"observation": [0.1, 0.2, 0.3]}, *SHAPE),
    "float64 too large for float32": (
        {"observation": np.array([2.5e300, 0.0])},
        *(SpaceError, "t=3", "observation", "the dtype float32", "become infinite", "Scale them"),
    ),
    "a list too large for float32": ({"observation": [2.5e300, 0.0]}, *DTYPE),
    "int64 in a float32 space": ({"observation": np.zeros(2, np.int64)}, *DTYPE, "int64[2]"),
    "complex numbers": ({"observation": np.zeros(2, np.complex64)}, *DTYPE, "complex64[2]"),
    "an object array": ({"observation": np.array([0.1, None], object)}, *DTYPE, "object[2]"),
    "an array of strings": ({"observation": np.array(["a", "b"])}, *DTYPE),
    "None": ({"observation": None}, *ARRAY, "None", "Pass a NumPy array"),
    "a string": ({"observation": "ab"}, *ARRAY, "'ab'", "Pass a NumPy array"),
    "a dict for an array": ({"observation": {"x": 1}}, *ARRAY, "{'x': 1}", "Pass a NumPy array"),
    "a ragged list": ({"observation": [0.1, [1, 2]]}, *ARRAY, "[0.1, [1, 2]]", "Make the list rectangular"),
    "a float action": ({"action": 0.7}, *ACTION, "0.7"),
    "a NumPy float action": ({"action": np.float32(1)}, *ACTION),
    "a string action": ({"action": "left"}, *ACTION, "'left'"),
    "no action": ({"action": None}, *ACTION, "None"),
    "an action with an axis": ({"action": np.array([1])}, *ACTION, "int64[1]"),
    "a reward with an axis": ({"reward": np.array([1.0])}, *REWARD, "float64[1]"),
    "no reward": ({"reward": None}, *REWARD, "None"),
    "a string reward": ({"reward": "1"}, *REWARD, "'1'"),
    "a complex reward": ({"reward": 1j}, *REWARD, "1j"),
    "a reward in a list": ({"reward": [1.0]}, *REWARD, "[1.0]"),
    "a reward of more than 64 bits": ({"reward": 2**70}, *REWARD, "1180591620717411303424"),
    "a flag for each environment": ({"terminated": np.array([True, False])}, *FLAG, "bool[2]"),
    "a flag that is a word": ({"truncated": "False"}, *FLAG, "'False'"),
    "a flag that is None": ({"terminated": None}, *FLAG, "None"),
    "a flag that is empty": ({"terminated": []}, *FLAG, "[]"),
    "a flag that is a zero with a point": ({"truncated": np.array(0.0)}, *FLAG, "float64[]"),
    "a flag that is 2": ({"truncated": 2}, *FLAG, "2"),
    "an info that is no dict": (
        {"infos": [1]},
        EpisodeError,
        "t=3",
        "infos",
        "[1]",
        "a dict or None",
        "Put it under a key",
    ),
    "a missing extra output": ({"extra_model_outputs": None}, *EXTRAS, "outputs []"),
    "one extra output too many": (
        {"extra_model_outputs": {"logp": 0.0, "value": 1.0}},
        *EXTRAS,
        "['logp', 'value']",
    ),
    "another extra output": ({"extra_model_outputs": {"value": 1.0}}, *EXTRAS, "['value']"),
    "extra outputs without names": (
        {"extra_model_outputs": [0.5]},
        EpisodeError,
        "t=3",
        "[0.5]",
        "a dict or None",
    ),
}


@both_forms
@pytest.mark.parametrize(
    ("changes", "error", "words"), [(c, e, w) for c, e, *w in REFUSED_STEPS.values()], ids=REFUSED_STEPS
)
def test_a_rejected_step_leaves_the_episode_as_it_was(form, changes, error, words):
    episode = form(running())

    assert_refused(episode, lambda episode: step(episode, **changes), error, *words)


@both_forms
@pytest.mark.parametrize("changes", [c for c, *_ in REFUSED_STEPS.values()], ids=REFUSED_STEPS)
def test_an_episode_goes_on_after_a_rejected_step(form, changes):
    episode, untouched = form(running()), form(running())
    with pytest.raises(EpisodiaError):
        step(episode, **changes)

    step(episode, terminated=True)
    step(untouched, terminated=True)
    assert same(episode.finalize().to_arrays(), untouched.finalize().to_arrays())


REFUSED_PARTS = {
    "a missing key": (
        {"camera": nested(0)["camera"]},
        "{'camera': uint8[2, 2]}",
        "the keys ['camera', 'arm']",
        "every key",
    ),
    "one key too many": ({**nested(0), "zoom": 1}, "'zoom': 1", "the keys ['camera', 'arm']", "no other"),
    "no dict": (np.zeros(2), "float64[2]", "a dict with the keys ['camera', 'arm']"),
    "a tuple that is too short": ({**nested(0), "arm": (1,)}, "at ['arm']", "(1,)", "a tuple of 2"),
    "no tuple": ({**nested(0), "arm": 5}, "at ['arm']", "found 5", "a tuple of 2"),
    "a leaf of another shape": (
        {**nested(0), "camera": np.zeros((2, 3), np.uint8)},
        "at ['camera']",
        "the shape [2, 2]",
    ),
    "a leaf of another dtype": (
        {**nested(0), "camera": np.zeros((2, 2), int)},
        "at ['camera']",
        "the dtype uint8",
    ),
    "300 in uint8": ({**nested(0), "camera": [[300, 0], [0, 0]]}, "at ['camera']", "the dtype uint8"),
    "a float class": (
        {**nested(0), "arm": (0.5, np.zeros(1, np.float32))},
        "at ['arm'][0]",
        "found 0.5",
        "an integer",
    ),
}


@both_forms
@pytest.mark.parametrize(("observation", "words"), [(o, w) for o, *w in REFUSED_PARTS.values()], ids=REFUSED_PARTS)
def test_an_error_in_a_nested_observation_names_the_path(form, observation, words):
    episode = form(running(nested, NESTED))

    assert_refused(episode, lambda episode: step(episode, observation=observation), SpaceError, "observation", *words)


@pytest.mark.parametrize(
    ("observation", "word"),
    [
        (np.zeros(3), "float64[3]"),
        (None, "None"),
        ((0.1, 0.2), "(0.1, 0.2)"),
        ({"x": 0}, "{'x': 0}"),
        (0.5, "0.5"),
    ],
    ids=str,
)
def test_rows_of_a_finalized_column_keep_their_shape_without_a_space_too(observation, word):
    episode = running(space=None).finalize()

    assert_refused(
        episode,
        lambda episode: step(episode, observation=observation),
        ShapeError,
        word,
        "one like float32[2]",
    )


@both_forms
def test_stepping_before_the_reset_is_rejected(form):
    episode = form(SingleAgentEpisode("walk"))

    assert_refused(episode, step, EpisodeError, "before the reset", "add_env_reset")


@both_forms
@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_stepping_after_the_end_is_rejected(form, flag):
    episode = running()
    step(episode, **{flag: True})

    assert_refused(
        form(episode),
        step,
        EpisodeError,
        "after the end",
        f"it was {flag} at t=4",
        "new `SingleAgentEpisode`",
    )


@both_forms
def test_resetting_twice_is_rejected(form):
    def reset(episode):
        episode.add_env_reset(plain(0))

    assert_refused(form(running()), reset, EpisodeError, "second reset", "at t=3", "new `SingleAgentEpisode`")
    assert_refused(form(running().cut()), reset, EpisodeError, "second reset", "started at t=3", "add_env_step")


@both_forms
def test_a_rejected_reset_leaves_a_new_episode(form):
    episode = form(SingleAgentEpisode("walk", observation_space=BOX))

    assert_refused(episode, lambda episode: episode.add_env_reset(None), SpaceError, "observation of the reset", "None")
    assert_refused(
        episode,
        lambda episode: episode.add_env_reset(plain(0), 5),
        EpisodeError,
        "infos of the reset",
        "found 5",
    )
    episode.add_env_reset(plain(0))
    assert len(episode.get_observations()) == 1


# --- Reading and writing ---------------------------------------------------------------------------------

NO_INDICES = {
    "float": 1.5,
    "string": "a",
    "bool": True,
    "NumPy bool": np.bool_(True),
    "mask": np.array([True, False, True]),
    "float array": np.array([0.0, 1.0]),
    "array with two axes": np.zeros((1, 2), int),
    "float in a list": [0, 1.5],
    "bools in a list": [True, False],
    "None in a list": [None],
    "list in a list": [[0, 1]],
    "float in a slice": slice(0.5, 2),
    "dict": {},
    "set": {1, 2},
    "ellipsis": ...,
}

GETTERS = {
    "observations": lambda episode, index: episode.get_observations(index),
    "infos": lambda episode, index: episode.get_infos(index),
    "actions": lambda episode, index: episode.get_actions(index),
    "rewards": lambda episode, index: episode.get_rewards(index),
    "logp": lambda episode, index: episode.get_extra_model_outputs("logp", index),
}


@both_forms
@pytest.mark.parametrize("index", NO_INDICES.values(), ids=NO_INDICES)
def test_what_is_no_index_is_neither_read_nor_set(form, index):
    words = (
        "rewards",
        "an int, a list or one-dimensional array of ints, a slice or None",
        "np.flatnonzero(mask)",
    )

    assert_refused(form(running()), lambda episode: episode.get_rewards(index), IndexTypeError, *words)
    assert_refused(
        form(running()),
        lambda episode: episode.set_rewards(new_data=[0.0], at_indices=index),
        IndexTypeError,
        *words,
    )


@both_forms
@pytest.mark.parametrize("column", GETTERS)
@pytest.mark.parametrize("index", [4, -5, [0, 9], np.array([9]), np.int64(9)], ids=str)
def test_reading_over_the_ends_is_rejected_without_fill(form, column, index):
    words = (column, "0 items of lookback", "Pass `fill=`")

    assert_refused(form(running()), lambda episode: GETTERS[column](episode, index), EpisodeIndexError, *words)


@both_forms
def test_a_slice_with_step_0_is_rejected(form):
    for read in (lambda episode: episode.get_actions(slice(None, None, 0)), lambda episode: episode[::0]):
        assert_refused(form(running()), read, EpisodeError, "step 0")


SET = {
    "observations": lambda episode, **kwargs: episode.set_observations(**kwargs),
    "actions": lambda episode, **kwargs: episode.set_actions(**kwargs),
    "rewards": lambda episode, **kwargs: episode.set_rewards(**kwargs),
    "logp": lambda episode, **kwargs: episode.set_extra_model_outputs(key="logp", **kwargs),
}


@both_forms
@pytest.mark.parametrize("column", SET)
@pytest.mark.parametrize(
    ("indices", "places"), [([0, 1], 2), (slice(0, 2), 2), (np.array([2]), 1), (slice(5, 9), 0)], ids=str
)
def test_setting_needs_as_many_items_as_indices(form, column, indices, places):
    items = [plain(0)] * 3 if column == "observations" else [0, 1, 2]
    words = (column, f"3 items to set at {places} places", "Pass as many items", "nothing was changed")

    assert_refused(
        form(running()),
        lambda e: SET[column](e, new_data=items, at_indices=indices),
        EpisodeIndexError,
        *words,
    )


@both_forms
@pytest.mark.parametrize("column", SET)
@pytest.mark.parametrize("index", [7, -7], ids=str)
def test_setting_outside_is_rejected(form, column, index):
    words = (column, f"the index {index}", "nothing was changed")

    assert_refused(form(running()), lambda e: SET[column](e, new_data=0, at_indices=index), EpisodeIndexError, *words)


@both_forms
@pytest.mark.parametrize("index", [0, np.int64(0), np.array(0)], ids=repr)
@pytest.mark.parametrize("data", [[1.0], (1.0,), np.ones(1)], ids=repr)
def test_one_reward_is_no_list_whatever_kind_of_int_the_index_is(form, index, data):
    call = lambda e: e.set_rewards(new_data=data, at_indices=index)  # noqa: E731

    assert_refused(form(running()), call, EpisodeError, "rewards", "a number")


REFUSED_ROWS = {
    "another shape": ("observations", np.zeros(3, np.float32), 0, SpaceError, "the shape [2]"),
    "another dtype": ("observations", np.zeros(2), 0, SpaceError, "the dtype float32"),
    "None": ("observations", None, -1, SpaceError, "None"),
    "the second of two": (
        "observations",
        [plain(0), np.zeros(3, np.float32)],
        [0, 1],
        SpaceError,
        "float32[3]",
    ),
    "outside of the bounds": ("observations", np.full(2, 5, np.float32), 0, SpaceError, "inside of Box"),
    "0.7 into integers": ("actions", 0.7, 0, SpaceError, "an integer"),
    "class 9 of 3": ("actions", 9, 0, SpaceError, "inside of Discrete(3)"),
    "no number": ("rewards", "a", 0, EpisodeError, "'a'"),
    "an array for a number": ("logp", np.zeros(2), 0, ShapeError, "float64[2]"),
}


@pytest.mark.parametrize(("column", "data", "at", "error", "word"), REFUSED_ROWS.values(), ids=REFUSED_ROWS)
def test_a_finalized_column_rejects_rows_that_do_not_fit(column, data, at, error, word):
    episode = running().finalize()

    assert_refused(episode, lambda episode: SET[column](episode, new_data=data, at_indices=at), error, column, word)


@both_forms
def test_unknown_extra_outputs_are_named_together_with_the_known_ones(form):
    for call in (
        lambda episode: episode.get_extra_model_outputs("value"),
        lambda episode: episode.set_extra_model_outputs(key="value", new_data=[0.0]),
    ):
        assert_refused(form(running()), call, EpisodeKeyError, "'value'", "['logp']", "add_env_step")


@both_forms
def test_what_cannot_fill_a_column_is_rejected(form):
    for fill in (0.5, "a", np.nan, np.zeros(2), 1j, 10**30, [[1, 2], [3]]):
        call = lambda e, fill=fill: e.get_actions(slice(0, 9), fill=fill)  # noqa: E731
        assert_refused(form(running()), call, EpisodeError, "fill=")


def test_what_is_no_number_cannot_fill_finalized_rewards():
    for fill in (1j, "1.5", b"1", np.datetime64("2020-01-01"), [[1, 2], [3]]):
        call = lambda e, fill=fill: e.get_rewards([0, 9], fill=fill)  # noqa: E731
        assert_refused(running().finalize(), call, EpisodeError, "fill=")


@both_forms
def test_one_hot_vectors_need_a_space(form):
    episode = running()
    episode.action_space = None

    assert_refused(
        form(episode),
        lambda e: e.get_actions(one_hot_discrete=True),
        EpisodeError,
        "actions",
        "without a space",
        "action_space",
    )
