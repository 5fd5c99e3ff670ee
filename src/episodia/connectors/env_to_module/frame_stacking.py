"""Stacking of the last few observations of each step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import checked_whole
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import add_to_run, has_column, rows_of_modules
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.env_to_module.observation_changer import ObservationChanger, ObservationPiece
from episodia.connectors.env_to_module.steps_before import steps_before
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.editing import outermost_of
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.connectors.spaces.row_spaces import Part
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError, PipelineError
from episodia.trees import map_batch
from episodia.types import AgentID

if TYPE_CHECKING:
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


class FrameStacking(ObservationPiece):
    """Stacks each observation on the previous ones, the newest last; zeros stand before an episode's first observation.

    Frames are Boxes and classes, also nested; stacked classes are a `MultiDiscrete`. They are stacked along a new axis at the
    place `axis` of the result. Only where a frame has an axis of size 1 at that place, such as the one channel of an image
    `[height, width, 1]`, the frames are joined along it, so the image becomes `[height, width, num_frames]`, as in RLlib.

    Frames are gathered from the episodes, one gather for all of them. Preprocessors that write into the episodes may come
    before this piece, and so may `FlattenObservations` and `OneHotObservations`, which then change each frame; all others come
    after it.

    Args:
        input_observation_space: The space of observations; with `multi_agent`, of each agent.
        input_action_space: The space of actions, which stays.
        num_frames: The number of frames that are stacked, the newest included.
        axis: The position of the frame axis in the result.
        multi_agent: Whether the space has an entry for each agent.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If `num_frames` is not a positive integer, or a space does not consist of Boxes with enough axes.

    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode(observations=[[1.0, 2.0], [3.0, 4.0]], actions=[0], rewards=[0.0], len_lookback_buffer=0)
    >>> piece = FrameStacking(num_frames=3, axis=0)
    >>> piece(rl_module=None, batch={}, episodes=EpisodeList([walk]).current())["obs"].values.tolist()
    [[[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]]
    """

    reads = frozenset[str]()
    writes = alters = frozenset({Columns.OBS})
    # The pieces in front that change each frame.
    _changers: tuple[ObservationChanger, ...] = ()

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        num_frames: int = 1,
        axis: int = -1,
        multi_agent: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, multi_agent=multi_agent, name=name)
        self.num_frames = checked_whole(PipelineError, self.name, "num_frames", num_frames, least=1)
        # Axes are counted from either end; whether the axis exists is checked once the space is known.
        self.axis = checked_whole(PipelineError, self.name, "axis", axis, least=-sys.maxsize)

    @property
    def lookback(self) -> int:
        """The frames before the newest one."""
        return self.num_frames - 1

    @property
    def fills(self) -> frozenset[str]:
        """Observations, behind pieces that change each of them alone; it cannot build on what other pieces have written."""
        return self.writes if self._changers else frozenset()

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Look for pieces in front that change observations; reject two pipelines with different ones."""
        roots = {id(root): root for owner in self._pipelines() for root in outermost_of(owner)}
        found = [_changers_before(self, root) for root in roots.values()]
        if any([*map(id, changers)] != [*map(id, found[0])] for changers in found):
            raise PipelineError(
                f"{type(pipeline).__name__}, piece {self.name!r}: found it in {len(found)} pipelines, expected the same "
                f"pieces that change observations in front of it in all of them. Make a second {type(self).__name__}."
            )
        self._changers = found[0] if found else ()

    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Space[Any]:
        """Return the space of stacked frames; the bounds of older frames include the zeros before the first one."""
        if isinstance(space, spaces.Dict):
            return spaces.Dict([(key, self.output_space(child, None, None)) for key, child in space.spaces.items()])
        if isinstance(space, spaces.Tuple):
            return spaces.Tuple([self.output_space(child, None, None) for child in space.spaces])
        if isinstance(space, spaces.MultiBinary):
            return spaces.MultiBinary(
                self._stacked(np.zeros((1, self.num_frames, *space.shape), space.dtype)).shape[1:]
            )
        low, high = map(self._with_zeros, _bounds(self.name, space), (np.minimum, np.maximum))
        if isinstance(space, spaces.Box):
            return spaces.Box(low, high, dtype=space.dtype)
        return spaces.MultiDiscrete(high - low + 1, dtype=low.dtype, start=low)

    def _with_zeros(self, bound: np.ndarray, chosen: np.ufunc) -> np.ndarray:
        """Return the stacked bounds of all frames; those of older frames include zero."""
        frames = np.stack([bound] * self.num_frames)[None]
        frames[:, :-1] = chosen(frames[:, :-1], frames.dtype.type(0))
        stacked: np.ndarray = self._stacked(frames)[0]
        return stacked

    def work(self, run: Run) -> None:
        """Add the stacked observations to the batch.

        Raises:
            BatchError: If the batch already has observations.
        """
        changers = self._changers if self._owners else ()
        if changers:
            for _, columns, _ in rows_of_modules(run):
                columns.pop(Columns.OBS, None)
        elif has_column(run.batch, Columns.OBS):
            raise BatchError(
                f"{self.name}: found observations in the batch, expected none: frames are gathered from the episodes, and what "
                "earlier pieces made of the observations would be lost. Place this piece before all others that write "
                f"{Columns.OBS!r}."
            )
        add_to_run(run, Columns.OBS, lambda rows: self._frames(rows, changers))

    def _frames(self, rows: EpisodeList, changers: Sequence[ObservationChanger]) -> Ragged:
        """Return the stacked frames of all rows, each changed by `changers`."""
        if not changers or not len(rows):
            return self._windows(rows).map(self._stacked)
        first, *others = changers

        def change(some: EpisodeList, part: Part, _: np.ndarray | None) -> Ragged:
            frames, is_there = self._windows(some), self._is_there(some)
            column = first.changed(_existing(frames, is_there), some, part)
            for changer in others:
                column = changer.by_part(column, some, is_mapped=False)
            return frames.with_values(map_batch(lambda leaf: _spread(leaf, is_there), column.values)).map(self._stacked)

        return first.in_parts(rows, change, is_mapped=False)

    def _windows(self, rows: EpisodeList) -> Ragged:
        return rows.windows(Columns.OBS, shifts=range(1 - self.num_frames, 1), fill=0, tail=True)

    def _is_there(self, rows: EpisodeList) -> np.ndarray:
        """Return for each row which of its frames the episode has: bool [N, num_frames]."""
        before = steps_before(rows, self.num_frames - 1, tail=True)
        return np.pad(before, ((0, 0), (0, 1)), constant_values=True)

    def _stacked(self, frames: np.ndarray) -> np.ndarray:
        """Return rows `[N, num_frames, ...]` with the frame axis moved to `axis`."""
        rank = frames.ndim - 2
        if frames.dtype.kind not in "biufc" or not -rank - 1 <= self.axis <= rank:
            raise PipelineError(
                f"{self.name}: found frames of {frames.dtype}{list(frames.shape[2:])}, expected arrays of numbers with at "
                f"least {self.axis if self.axis >= 0 else -1 - self.axis} axes, because of `axis={self.axis}`. Choose another "
                "axis, or stack vectors only."
            )
        # Without the axes of rows and frames; counted from the front.
        axis = self.axis if self.axis >= 0 else self.axis + rank
        has_axis = 0 <= axis < rank and frames.shape[2 + axis] == 1
        if has_axis:
            frames = frames.squeeze(2 + axis)
            return np.moveaxis(frames, 1, 1 + axis)
        return np.moveaxis(frames, 1, 1 + self.axis if self.axis >= 0 else self.axis)


def _changers_before(piece: ConnectorV2, pipeline: ConnectorPipelineV2) -> tuple[ObservationChanger, ...]:
    """Return the pieces that write observations in front of `piece`, if each of them changes observations one by one."""
    found: list[ObservationChanger] = []
    for place in leaves(pipeline):
        if place.piece is piece:
            return tuple(found)
        if Columns.OBS in (place.piece.writes or ()):
            if not isinstance(place.piece, ObservationChanger) or not place.piece.looks_at_one:
                return ()
            found.append(place.piece)
    return ()


def _existing(frames: Ragged, is_there: np.ndarray) -> Ragged:
    """Return the frames that exist, one after another, in the stretches of their rows."""
    before = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
    existing = map_batch(lambda leaf: leaf[is_there], frames.values)
    return Ragged(existing, before[frames.offsets])


def _spread(changed: np.ndarray, is_there: np.ndarray) -> np.ndarray:
    """Return rows of frames, with zeros where there is none."""
    frames = np.zeros((*is_there.shape, *changed.shape[1:]), changed.dtype)
    frames[is_there] = changed
    return frames


def _bounds(piece: str, space: Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest values of a space.

    Raises:
        PipelineError: If its items are neither arrays of numbers nor classes.
    """
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        low = np.asarray(space.start, space.dtype)
        return low, low + np.asarray(space.n - 1, space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    raise PipelineError(
        f"{piece}: found the space {space}, expected Box, Discrete, MultiDiscrete or MultiBinary, or these in Dicts and "
        "Tuples. Make vectors in the environment, or in a preprocessor before this piece."
    )
