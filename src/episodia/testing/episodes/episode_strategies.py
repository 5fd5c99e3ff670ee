"""Hypothesis strategies for spaces, items, indices, trajectories and episodes."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium import spaces as gym_spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from hypothesis.strategies import DrawFn, SearchStrategy

from episodia.episodes import SingleAgentEpisode
from episodia.testing.episodes.trajectory import Trajectory

#: What `trajectories` and `episodes` draw beside the columns that every episode has.
OPTIONAL_FIELDS = ("custom_data", "extra_model_outputs", "ids", "infos", "weights_versions")

# Values of unbounded spaces stay below this, so that all dtypes hold them.
_FAR = 1_000.0

_SMALL = st.integers(1, 3)
_SHAPES = st.lists(_SMALL, max_size=3).map(tuple)
_LENGTHS = st.integers(0, 6)
_LOOKBACKS = st.integers(0, 3)

# --- Spaces -------------------------------------------------------------------------------------------------


def spaces(*, kinds: Collection[type[Space[Any]]] | None = None, max_leaves: int = 4) -> SearchStrategy[Space[Any]]:
    """Draw a space: a leaf, or leaves nested in `Dict` and `Tuple` spaces.

    Args:
        kinds: Which kinds of gymnasium spaces to use; by default all but `Graph`.
        max_leaves: About how many leaves a nested space has at most.

    >>> from hypothesis import find
    >>> find(spaces(kinds=[gym_spaces.Discrete]), lambda space: True)
    Discrete(1)
    """
    allowed = {*_LEAF_SPACES, *_NESTINGS} if kinds is None else set(kinds)
    leaves = st.one_of([_LEAF_SPACES[kind] for kind in _LEAF_SPACES if kind in allowed])
    nestings = [_NESTINGS[kind] for kind in _NESTINGS if kind in allowed]
    if not nestings:
        return leaves
    return st.recursive(leaves, lambda child: st.one_of([nest(child) for nest in nestings]), max_leaves=max_leaves)


_KEYS = st.sampled_from(["a", "b", "long name"])
_NESTINGS: dict[type[Space[Any]], Callable[[SearchStrategy[Any]], SearchStrategy[Any]]] = {
    gym_spaces.Dict: lambda child: st.dictionaries(_KEYS, child, min_size=1, max_size=3).map(gym_spaces.Dict),
    gym_spaces.Tuple: lambda child: st.lists(child, min_size=1, max_size=3).map(gym_spaces.Tuple),
}


@st.composite
def _boxes(draw: DrawFn) -> gym_spaces.Box:
    shape = draw(_SHAPES)
    dtype = np.dtype(draw(st.sampled_from(["float32", "float64", "uint8", "int64", "bool"])))
    if dtype.kind == "f":
        low = draw(st.sampled_from([-np.inf, -1.0, 0.0]))
        return gym_spaces.Box(low, draw(st.sampled_from([1.0, 2.5, np.inf])), shape, dtype.type)
    low, high = {"u": (0, 255), "i": (-5, 5), "b": (0, 1)}[dtype.kind]
    return gym_spaces.Box(low, high, shape, dtype.type)


def _multi_discretes() -> SearchStrategy[gym_spaces.MultiDiscrete]:
    sizes = st_numpy.arrays(np.int64, st.sampled_from([(1,), (3,), (2, 2)]), elements=_SMALL)
    starts = st.integers(-2, 2)
    return st.builds(lambda nvec, start: gym_spaces.MultiDiscrete(nvec, start=np.full_like(nvec, start)), sizes, starts)


def _fixed_boxes() -> SearchStrategy[gym_spaces.Box]:
    return st.sampled_from([(), (2,)]).map(lambda shape: gym_spaces.Box(-1.0, 1.0, shape))


_LEAF_SPACES: dict[type[Space[Any]], SearchStrategy[Any]] = {
    gym_spaces.Discrete: st.builds(gym_spaces.Discrete, st.integers(1, 5), start=st.integers(-2, 2)),
    gym_spaces.Box: _boxes(),
    gym_spaces.MultiDiscrete: _multi_discretes(),
    gym_spaces.MultiBinary: _SHAPES.filter(len).map(gym_spaces.MultiBinary),
    gym_spaces.Text: st.builds(gym_spaces.Text, st.integers(1, 6), charset=st.sampled_from(["ab", "xyzü"])),
    gym_spaces.Sequence: _fixed_boxes().map(gym_spaces.Sequence),
    gym_spaces.OneOf: st.lists(_fixed_boxes(), min_size=1, max_size=2).map(gym_spaces.OneOf),
}

# --- Items --------------------------------------------------------------------------------------------------


def items(space: Space[Any]) -> SearchStrategy[Any]:
    """Draw an item of `space`; one of a kind of space that is not known here is sampled with a drawn seed.

    >>> from hypothesis import find
    >>> find(items(gym_spaces.Discrete(3, start=5)), lambda item: True)
    5
    """
    make = _ITEMS.get(type(space))
    return make(space) if make else st.integers(0, 2**16).map(lambda seed: _sample(space, seed))


def _sample(space: Space[Any], seed: int) -> Any:
    space = copy.deepcopy(space)
    space.seed(seed)
    return space.sample()


def _unit_arrays(shape: tuple[int, ...]) -> SearchStrategy[np.ndarray]:
    """Draw numbers from 0 to 1; bytes are quick to draw and shrink to zeros."""
    size = math.prod(shape)
    levels = st.binary(min_size=size, max_size=size)
    return levels.map(lambda drawn: np.frombuffer(drawn, np.uint8).reshape(shape) / 255.0)


def _box_items(space: gym_spaces.Box) -> SearchStrategy[np.ndarray]:
    low = np.where(space.bounded_below, space.low, np.minimum(space.high, 0.0) - _FAR).astype(np.float64)
    high = np.where(space.bounded_above, space.high, np.maximum(low, 0.0) + _FAR).astype(np.float64)

    def scaled(share: np.ndarray) -> np.ndarray:
        values = low + share * (high - low)
        if space.dtype.kind != "f":
            values = np.round(values)
        # Rounding to the dtype may lead over a bound.
        return np.asarray(np.clip(values.astype(space.dtype), space.low, space.high), space.dtype)

    return _unit_arrays(space.shape).map(scaled)


def _multi_discrete_items(space: gym_spaces.MultiDiscrete) -> SearchStrategy[np.ndarray]:
    def scaled(share: np.ndarray) -> np.ndarray:
        classes = np.minimum((share * space.nvec).astype(np.int64), space.nvec - 1)
        return (classes + space.start).astype(space.dtype)

    return _unit_arrays(space.nvec.shape).map(scaled)


def _discrete_items(space: gym_spaces.Discrete) -> SearchStrategy[Any]:
    numbers = st.integers(int(space.start), int(space.start + space.n - 1))
    return numbers | numbers.map(np.int64)


def _sequence_items(space: gym_spaces.Sequence) -> SearchStrategy[Any]:
    if space.stack:
        return st.integers(0, 2**16).map(lambda seed: _sample(space, seed))
    return st.lists(items(space.feature_space), max_size=3).map(tuple)


_ITEMS: dict[type[Space[Any]], Callable[[Any], SearchStrategy[Any]]] = {
    gym_spaces.Box: _box_items,
    gym_spaces.Discrete: _discrete_items,
    gym_spaces.MultiDiscrete: _multi_discrete_items,
    gym_spaces.MultiBinary: lambda space: _unit_arrays(space.shape).map(lambda share: np.round(share).astype(np.int8)),
    gym_spaces.Text: lambda space: st.text(
        sorted(space.character_list), min_size=space.min_length, max_size=space.max_length
    ),
    gym_spaces.Dict: lambda space: st.fixed_dictionaries({key: items(child) for key, child in space.spaces.items()}),
    gym_spaces.Tuple: lambda space: st.tuples(*(items(child) for child in space.spaces)),
    gym_spaces.Sequence: _sequence_items,
    gym_spaces.OneOf: lambda space: st.one_of(
        [st.tuples(st.just(np.int64(choice)), items(child)) for choice, child in enumerate(space.spaces)]
    ),
}

# --- Indices ------------------------------------------------------------------------------------------------


def slices(length: int, lookback: int = 0, *, reach: int = 4) -> SearchStrategy[slice]:
    """Draw a slice for a column of `length` items after `lookback` items of the past.

    Bounds may be left out, negative, NumPy integers, and up to `reach` places outside; steps go both ways.

    >>> from hypothesis import find
    >>> find(slices(5), lambda key: key.step is not None and key.step < 0)
    slice(None, None, -1)
    """
    bounds = st.none() | _any_int(-length - lookback - reach, length + reach)
    steps = st.none() | _any_int(1, length + lookback + 1) | _any_int(-length - lookback - 1, -1)
    return st.builds(slice, bounds, bounds, steps)


def indices(length: int, lookback: int = 0, *, reach: int = 4) -> SearchStrategy[Any]:
    """Draw anything that `get` takes for a column of `length` items after `lookback` items of the past.

    That is an int, a NumPy integer, a list, a tuple, a range, an integer array, a slice, or None. Indices lie
    up to `reach` places outside; with `reach=0` all ints and lists point to items that are there.

    >>> from hypothesis import find
    >>> find(indices(5), lambda index: isinstance(index, slice))
    slice(None, None, None)
    """
    low, high = -length - lookback - reach, length - 1 + reach
    if low > high:  # no item to point to
        return st.none() | slices(length, lookback, reach=reach) | st.just([])
    one = _any_int(low, high)
    several = st.lists(one, max_size=6)
    arrays = st_numpy.arrays(np.int64, st.integers(0, 6), elements=st.integers(low, high))
    ranges = st.builds(range, st.integers(max(low, 0), high + 1), st.just(high + 1), st.integers(1, 3))
    return st.one_of(one, several, several.map(tuple), arrays, ranges, slices(length, lookback, reach=reach), st.none())


def _any_int(low: int, high: int) -> SearchStrategy[Any]:
    numbers = st.integers(low, high)
    if low >= -(2**31) and high < 2**31:
        return numbers | numbers.map(np.int64) | numbers.map(np.int32)
    return numbers


def cut_points(length: int, *, max_cuts: int = 3) -> SearchStrategy[list[int]]:
    """Draw the steps at which an episode of `length` steps is cut, in order; a chunk may have no steps.

    >>> from hypothesis import find
    >>> find(cut_points(5), lambda cuts: len(cuts) == 2)
    [0, 0]
    """
    return st.lists(st.integers(0, length), max_size=max_cuts).map(sorted)


# --- Episodes -----------------------------------------------------------------------------------------------


def trajectories(
    *,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    lengths: SearchStrategy[int] = _LENGTHS,
    lookbacks: SearchStrategy[int] = _LOOKBACKS,
    done: bool | None = None,
    fields: Collection[str] = OPTIONAL_FIELDS,
) -> SearchStrategy[Trajectory]:
    """Draw a `Trajectory`: the plain lists of an episode.

    Args:
        observation_space: Where observations come from; a drawn space by default.
        action_space: Where actions come from; a drawn space by default.
        lengths: The number of steps after the lookback.
        lookbacks: The number of steps of the past.
        done: Whether the episode has ended; by default either. An episode without steps is never done.
        fields: Which of `OPTIONAL_FIELDS` to draw; the others keep their defaults.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(trajectory=trajectories(lengths=st.just(2)))
    ... def an_episode_is_as_long_as_its_lists(trajectory):
    ...     assert len(trajectory.built()) == len(trajectory) == 2
    >>> an_episode_is_as_long_as_its_lists()
    """
    unknown = sorted(set(fields) - set(OPTIONAL_FIELDS))
    if unknown:
        raise ValueError(f"found the fields {unknown}, expected some of {list(OPTIONAL_FIELDS)}.")
    both = st.tuples(
        spaces() if observation_space is None else st.just(observation_space),
        spaces(max_leaves=2) if action_space is None else st.just(action_space),
    )
    return _trajectories(both, lengths, lookbacks, done, fields)


@st.composite
def _trajectories(
    draw: DrawFn,
    both_spaces: SearchStrategy[tuple[Space[Any], Space[Any]]],
    lengths: SearchStrategy[int],
    lookbacks: SearchStrategy[int],
    done: bool | None,
    fields: Collection[str],
) -> Trajectory:
    length, lookback = draw(lengths), draw(lookbacks)
    steps = length + lookback
    observation_space, action_space = draw(both_spaces)
    is_done = length > 0 and (draw(st.booleans()) if done is None else done)
    terminated, truncated = draw(_ENDINGS) if is_done else (False, False)
    first_t = draw(st.sampled_from([0, 4]))
    return Trajectory(
        observations=draw(_exactly(items(observation_space), steps + 1)),
        actions=draw(_exactly(items(action_space), steps)),
        rewards=draw(_exactly(draw(st.sampled_from(_REWARDS)), steps)),
        observation_space=observation_space,
        action_space=action_space,
        terminated=terminated,
        truncated=truncated,
        t_started=first_t + lookback,
        lookback=lookback,
        **draw(_optional(fields, steps, first_t)),
    )


def episodes(*, finalized: bool | None = None, **options: Any) -> SearchStrategy[SingleAgentEpisode]:
    """Draw an episode, growing or finalized.

    Args:
        finalized: Its form; by default either.
        **options: Those of `trajectories`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(episode=episodes(finalized=True, done=False))
    ... def a_cut_starts_where_its_episode_stops(episode):
    ...     assert episode.cut().t_started == episode.t
    >>> a_cut_starts_where_its_episode_stops()
    """
    return st.builds(_in_form, trajectories(**options), _either(finalized))


def chunked_episodes(
    *, finalized: bool | None = None, chunk_lookbacks: SearchStrategy[int] = _LOOKBACKS, **options: Any
) -> SearchStrategy[tuple[SingleAgentEpisode, list[SingleAgentEpisode]]]:
    """Draw an episode, and the same one as a list of chunks.

    Args:
        finalized: The form of the episode and its chunks; by default either.
        chunk_lookbacks: How many steps the chunks can look back, as far as there are so many.
        **options: Those of `trajectories`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(drawn=chunked_episodes())
    ... def chunks_hold_all_steps(drawn):
    ...     whole, chunks = drawn
    ...     assert len(whole) == sum(map(len, chunks))
    >>> chunks_hold_all_steps()
    """
    return _chunked_episodes(trajectories(**options), chunk_lookbacks, finalized)


@st.composite
def _chunked_episodes(
    draw: DrawFn, drawn: SearchStrategy[Trajectory], lookbacks: SearchStrategy[int], finalized: bool | None
) -> tuple[SingleAgentEpisode, list[SingleAgentEpisode]]:
    trajectory, lookback, form = draw(drawn), draw(lookbacks), draw(_either(finalized))
    edges = [0, *draw(cut_points(len(trajectory))), len(trajectory)]
    parts = [
        trajectory.chunk(start, stop, lookback=lookback if place else trajectory.lookback)
        for place, (start, stop) in enumerate(itertools.pairwise(edges))
    ]
    return _in_form(trajectory, form), [_in_form(part, form) for part in parts]


def _in_form(trajectory: Trajectory, finalized: bool) -> SingleAgentEpisode:
    return trajectory.built().finalize() if finalized else trajectory.built()


def _either(choice: bool | None) -> SearchStrategy[bool]:
    return st.booleans() if choice is None else st.just(choice)


def _exactly(elements: SearchStrategy[Any], count: int) -> SearchStrategy[list[Any]]:
    return st.lists(elements, min_size=count, max_size=count)


_ENDINGS = st.sampled_from([(True, False), (False, True), (True, True)])
_FLOATS = st.floats(-100.0, 100.0, width=32)
_VECTORS = _unit_arrays((2,)).map(lambda share: share.astype(np.float32))
# Of one kind in each episode, so that chunks have the dtype of the whole.
_REWARDS = (_FLOATS, _FLOATS.map(np.float32), _FLOATS.map(np.float64), st.integers(-3, 3))
_INFO_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | _FLOATS | st.text("ab", max_size=3) | _VECTORS,
    lambda child: st.lists(child, max_size=2) | st.dictionaries(_KEYS, child, max_size=2) | st.tuples(child),
    max_leaves=3,
)
_INFOS = st.dictionaries(_KEYS, _INFO_VALUES, max_size=2)
_EXTRA_ITEMS = {
    "action_logp": _FLOATS,
    "logits": _VECTORS,
    "state": st.fixed_dictionaries({"h": _VECTORS, "c": st.tuples(st.integers(-3, 3))}),
}
_IDS = {
    "id_": st.sampled_from(["trajectory", "other"]),
    "agent_id": st.sampled_from([None, "left", 3]),
    "module_id": st.sampled_from([None, "shared"]),
    "multi_agent_episode_id": st.sampled_from([None, "match"]),
}


def _optional(fields: Collection[str], steps: int, first_t: int) -> SearchStrategy[dict[str, Any]]:
    """Draw arguments of `Trajectory` for `fields`."""
    extras = {name: _exactly(item, steps) for name, item in _EXTRA_ITEMS.items()} if steps else {}
    starts = st.sets(st.integers(first_t, first_t + steps), max_size=3).map(sorted)
    known: Mapping[str, Mapping[str, SearchStrategy[Any]]] = {
        "custom_data": {"custom_data": _INFOS},
        "extra_model_outputs": {"extra_model_outputs": st.fixed_dictionaries({}, optional=extras)},
        "ids": _IDS,
        "infos": {"infos": st.none() | _exactly(_INFOS, steps + 1)},
        "weights_versions": {"weights_versions": starts.map(lambda ts: {t: 10 + t // 2 for t in ts})},
    }
    return st.fixed_dictionaries({name: draw for field in fields for name, draw in known[field].items()})
