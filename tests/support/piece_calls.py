"""Calling single pieces on episodes, and what their rows must be by plain Python."""

from dataclasses import replace

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

from episodia import EpisodeList
from episodia.stacking import stack, unstack
from episodia.testing import spaces as drawn_spaces
from episodia.testing import trajectories
from episodia.trees import leaves, map_batch

VECTOR_KINDS = [spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple]
BOX_KINDS = [spaces.Box, spaces.Dict, spaces.Tuple]


def called(piece, episodes, batch=None):
    """Return what `piece` makes of `batch`."""
    return piece(rl_module=None, batch={} if batch is None else batch, episodes=episodes)


def trained(piece, *episodes, batch=None):
    """Return the observations of all steps as a learner gets them, tails included, as items."""
    return items_of(called(piece, EpisodeList(episodes), batch)["obs"])


def acted(piece, *episodes, batch=None):
    """Return the newest observations as a runner gets them, as items."""
    return items_of(called(piece, EpisodeList(episodes).current(), batch)["obs"])


def items_of(column):
    """Return all rows of a column, tails included, as items."""
    return unstack(column.values)


_LENGTHS = st.integers(0, 6)


@st.composite
def from_birth(draw, *, kinds=VECTOR_KINDS, lengths=_LENGTHS):
    """Draw a trajectory that begins with its episode: no lookback, and no history that was dropped."""
    trajectory = draw(
        trajectories(
            observation_space=draw(drawn_spaces(kinds=kinds, max_leaves=3)),
            action_space=draw(drawn_spaces(kinds=VECTOR_KINDS, max_leaves=2)),
            lengths=lengths,
            lookbacks=st.just(0),
            fields=(),
        )
    )
    return replace(trajectory, t_started=0)


def built(trajectory, finalized):
    """Return the episode of a trajectory in one of both forms."""
    return trajectory.built().finalize() if finalized else trajectory.built()


def same_bits(found, expected):
    """Tell whether items agree in nesting, dtypes, shapes and bits."""
    return describe_bits(found) == describe_bits(expected)


def describe_bits(items):
    """Return all that there is to say about a list of items."""
    if not items:
        return []
    # Sorted, because the order of keys in a dict says nothing.
    return sorted((path, str(leaf.dtype), leaf.shape, leaf.tobytes()) for path, leaf in leaves(stack(items)))


def without_spaces(trajectory):
    """Return the trajectory as it is, its spaces left out."""
    return replace(trajectory, observation_space=None, action_space=None)


def as_arrays(item):
    """Return the item with arrays for numbers; gymnasium warns of anything else in a Box."""
    return map_batch(lambda leaf: np.asarray(leaf) if isinstance(leaf, np.generic) else leaf, item)
