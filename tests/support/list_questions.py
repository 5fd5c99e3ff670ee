"""Questions that any list of episodes answers, and a comparison of what two lists answer."""

import pickle

import numpy as np

from episodia import Columns, EpisodiaError
from episodia.testing import assert_same_items
from episodia.trees import map_batch

COLUMNS = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.INFOS, Columns.TERMINATEDS, Columns.T)
QUESTIONS = {
    "lengths": lambda listed: listed.lengths,
    "t_started": lambda listed: listed.t_started,
    "lookbacks": lambda listed: listed.lookbacks,
    "is_terminated": lambda listed: listed.is_terminated,
    "is_truncated": lambda listed: listed.is_truncated,
    "origins": lambda listed: listed.origins,
    "weights_versions": lambda listed: listed.weights_versions,
    "extra_columns": lambda listed: listed.extra_columns(),
    "by_module": lambda listed: {name: rows.tolist() for name, rows in listed.by_module().items()},
    "observation_space": lambda listed: listed.space_of(Columns.OBS),
    "action_space": lambda listed: listed.space_of(Columns.ACTIONS),
    "has": lambda listed: [listed.has(name) for name in (*listed.extra_columns(), "logp", Columns.OBS)],
    "keys": lambda listed: [listed.has_in_observations(key) for key in ("a", "position", "image")],
}


def sent(listed):
    return pickle.loads(pickle.dumps(listed, protocol=5))


def answer(ask, listed):
    """Return what a list answers, or the type of its error."""
    try:
        return ask(listed)
    except (EpisodiaError, ValueError) as error:
        return type(error).__name__


def values_of(column):
    return column if isinstance(column, str) else [column.values, column.offsets.tolist(), column.tail]


def even_or_odd(agent, *_):
    return "odd" if str(agent)[-1] in "b1357" else "even"


def asked(column, flat):
    """Return questions about a column, whose rows are those of `flat`."""
    yield lambda listed: listed.flat(column)
    yield lambda listed: listed.flat(column, tail=True)
    if column in (Columns.TERMINATEDS, Columns.T, Columns.INFOS) or isinstance(flat, str):
        return
    first = map_batch(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), flat.values)
    yield lambda listed: listed.windows(column, shifts=[-2, 0], fill=0)
    yield lambda listed: listed.windows(column, shifts=[-1, 1], fill=0, every=2)
    yield lambda listed: listed.preceding(column, first)


def same(first, second):
    return np.array_equal(first, second) if isinstance(first, np.ndarray) else first == second


def assert_answers_alike(found, expected):
    """Compare all answers, each of a list that was not asked anything before."""
    assert len(found()) == len(expected)
    for name, ask in QUESTIONS.items():
        assert same(answer(ask, found()), answer(ask, expected)), name
    for column in (*COLUMNS, *expected.extra_columns()):
        arrived = found()
        for ask in asked(column, answer(lambda listed, column=column: listed.flat(column), expected)):
            assert_same_items(values_of(answer(ask, arrived)), values_of(answer(ask, expected)))
    groups = expected.groups()
    own_groups = found().groups()
    assert list(own_groups) == list(groups)
    for name, group in groups.items():
        for column in COLUMNS:
            mine = answer(lambda listed, column=column: listed.flat(column), own_groups[name])
            other = answer(lambda listed, column=column: listed.flat(column), group)
            assert_same_items(values_of(mine), values_of(other))
