"""The protocol of recorders: what a runner asks of the object that turns its steps into episodes."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space

from episodia.episodes.columns.filling import Fills
from episodia.episodes.columns.indexing import as_count
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.recorder.vector_infos import InfoEntry, VectorInfos
from episodia.episodes.recorder.vector_step_writer import lanes_that_begin
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError
from episodia.types import Item

#: Called with the episodes that are returned, before the recorder forgets them.
Keep: TypeAlias = Callable[[EpisodeList[SingleAgentEpisode]], object]
#: Makes a recorder; called with the arguments of `EpisodeRecorder`.
RecorderFactory: TypeAlias = Callable[..., "EpisodeRecorder"]


class EpisodeRecorder(ABC):
    """Takes the steps of a vector environment, and returns them as episodes.

    A lane is one environment. A lane is idle before its first reset, and after its episode has ended, was truncated or was
    dropped; `_idle` has the idle lanes, and each recorder updates it. The abstract methods are what a recorder must have. The
    others answer with the episodes of `list_episodes`; a recorder that has the answer in another form overrides them.
    """

    def __init__(
        self,
        observation_space: Space[Any] | None,
        action_space: Space[Any] | None,
        num_lanes: int,
        *,
        lookback: int = 1,
        seed: int | None = None,
        episode_class: type[SingleAgentEpisode] = SingleAgentEpisode,
    ) -> None:
        """Prepare for `num_lanes` lanes, all idle.

        Args:
            observation_space: The space of one lane's observations; None takes the form of the first ones.
            action_space: The space of one lane's actions.
            num_lanes: The number of environments.
            lookback: How many steps of the past a chunk has in front that continues an episode.
            seed: What the ids of the episodes are derived from, together with lane and number; by default it is random.
            episode_class: The class of the episodes.

        Raises:
            EpisodeError: If a number is out of its range.
        """
        self._observation_space = observation_space
        self._action_space = action_space
        self._num_lanes = as_count("num_lanes", num_lanes, "recorder")
        if not self._num_lanes:
            raise EpisodeError("recorder: found 0 lanes, expected at least one.")
        self._lookback = as_count("lookback", lookback, "recorder")
        self._seed = uuid.uuid4().hex if seed is None else str(seed)
        self._episode_class = episode_class
        self._numbers = [0] * num_lanes  # of the next episode
        self._idle = set(range(num_lanes))
        self._is_changing = False  # outside of a call: that was interrupted, and its lanes do not fit together
        self._weights_version: int | None = None

    # --- Settings ---------------------------------------------------------------------------------------------------

    @property
    def observation_space(self) -> Space[Any] | None:
        """The space of one lane's observations, None if it is not known."""
        return self._observation_space

    @property
    def action_space(self) -> Space[Any] | None:
        """The space of one lane's actions, None if it is not known."""
        return self._action_space

    @property
    def episode_class(self) -> type[SingleAgentEpisode]:
        """The class of the episodes."""
        return self._episode_class

    @property
    def num_lanes(self) -> int:
        """The number of environments that are recorded."""
        return self._num_lanes

    @property
    def lookback(self) -> int:
        """The number of earlier steps in front of a chunk that continues an episode; can be set, for later chunks."""
        return self._lookback

    @lookback.setter
    def lookback(self, lookback: int) -> None:
        self._lookback = as_count("lookback", lookback, "recorder")

    @property
    def weights_version(self) -> int | None:
        """The version of the weights that choose the actions; setting it holds from the current step of each lane on."""
        return self._weights_version

    @weights_version.setter
    def weights_version(self, version: int) -> None:
        self._weights_version = version
        for lane in self.running_lanes():
            self.episode(lane).weights_version = version

    # --- Recording --------------------------------------------------------------------------------------------------

    @abstractmethod
    def reset(self, observations: Item, infos: VectorInfos = None, *, lanes: Sequence[int] | None = None) -> None:
        """Begin an episode in each of `lanes`; a running episode of theirs is left: returned later, not done.

        Args:
            observations: A batch with one row for each of `lanes`.
            infos: A dict in the vector form of gymnasium, or one dict for each of `lanes`; see `infos_by_row`.
            lanes: The numbers of the lanes; all by default.
        """

    @abstractmethod
    def step(  # noqa: PLR0913  # one argument for each thing that a vector step brings
        self,
        observations: Item,
        actions: Item,
        rewards: Item,
        terminateds: Any,
        truncateds: Any,
        infos: VectorInfos = None,
        extras: Mapping[str, Any] | None = None,
        *,
        resets: np.ndarray | None = None,
    ) -> None:
        """Record one step of each lane: in all lanes, or, if it raises, in none, unless `is_broken` is true then.

        Args:
            observations: The observations after the actions: a batch with one row for each lane.
            actions: A batch of actions.
            rewards: One number for each lane.
            terminateds: One flag for each lane: whether the episode ended by the rules of the environment.
            truncateds: One flag for each lane: whether the episode was stopped from outside.
            infos: A dict in the vector form of gymnasium, or one dict for each lane; see `infos_by_row`.
            extras: Batches of what else the module computed, by name.
            resets: A mask of the idle lanes, which do not step, but begin an episode with their observation; their action,
                reward and extras are ignored. None if no lane is idle.
        """

    @abstractmethod
    def truncate(self, lanes: Iterable[int]) -> list[str]:
        """End the running episodes of `lanes` with the last step that they have: truncated. The lanes are idle then.

        Return the ids of those with steps since the last `take`; the others leave nothing to return.
        """

    def drop(self, lanes: Iterable[int]) -> dict[str, int]:
        """Forget the running episodes of `lanes`, which are idle then; return for the id of each how many steps are lost."""
        running = [lane for lane in lanes if lane not in self._idle]
        self._idle.update(running)
        return {episode.id_: len(episode) for episode in map(self.episode, running)}

    def lanes_that_begin(self, resets: np.ndarray | None) -> list[int]:
        """Return the lanes that `resets` masks, which begin an episode with this step.

        Raises:
            EpisodeError: If these are not the idle lanes.
        """
        self.repair()
        return lanes_that_begin(resets, None, self._idle, self._num_lanes)

    # --- Interrupts -------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Enclose changes that belong together: if one of them raises or is interrupted, the recorder is broken."""
        self.repair()
        self._is_changing = True
        yield
        self._is_changing = False

    @property
    def is_broken(self) -> bool:
        """Whether a call was interrupted in the middle, so that running episodes cannot go on; see `repair`."""
        return self._is_changing

    def repair(self) -> dict[str, int]:
        """Drop the running episodes if a call was interrupted in the middle; else do nothing.

        All lanes are idle then. Episodes that have ended stay.

        Returns:
            For the id of each episode that was dropped how many steps are lost.
        """
        if not self._is_changing:
            return {}
        lost = self.drop(self.running_lanes())
        self._is_changing = False
        return lost

    # --- Reading ----------------------------------------------------------------------------------------------------

    @property
    def idle_lanes(self) -> list[int]:
        """The lanes whose episode has ended, or that were never reset: those that need a reset."""
        return sorted(self._idle)

    def running_lanes(self) -> list[int]:
        """Return the lanes whose episode goes on."""
        return [lane for lane in range(self._num_lanes) if lane not in self._idle]

    @abstractmethod
    def list_episodes(self) -> list[SingleAgentEpisode]:
        """Return the present chunks of all lanes, in order: growing while they run. Of an idle lane it is the last one."""

    @abstractmethod
    def episodes_here(self) -> dict[str, SingleAgentEpisode]:
        """Return, by id, the last chunk of each episode that is running, or has ended and was not returned yet."""

    def episode(self, lane: int) -> SingleAgentEpisode:
        """Return the present chunk of one lane."""
        return self.list_episodes()[lane]

    def episodes(self) -> EpisodeList[SingleAgentEpisode]:
        """Return what `list_episodes` does, as an `EpisodeList`."""
        return EpisodeList(self.list_episodes())

    def latest(self, column: str) -> Any:
        """Return the last item of `column` of each lane: a read-only batch, without a copy if lanes step together.

        Items that were written into an episode replace the recorded ones.

        Raises:
            EpisodeKeyError: If there is no such column.
            EpisodeIndexError: If a lane has no item yet.
        """
        rows = self.latest_rows(column)
        return self.episodes().latest(column) if rows is None else rows

    def episode_id(self, lane: int) -> str:
        """Return the id of the episode of `lane`, the last one if it is idle."""
        return self.episode(lane).id_

    def is_whole(self, lane: int) -> bool:
        """Tell whether `lane` has a running episode of which no chunk was returned yet."""
        return lane not in self._idle and self.episode(lane).t_started == 0

    def steps_waiting(self) -> int:
        """Return how many steps were recorded and not returned yet."""
        return sum(map(len, self.episodes_here().values()))

    def is_surely_finite(self) -> bool:
        """Tell whether there is surely no NaN or infinite number in what `take` returns; False has it looked through."""
        return False

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs of the running episodes."""
        return list(dict.fromkeys(name for episode in self.list_episodes() for name in episode.extra_model_outputs))

    def latest_rows(self, column: str) -> Any:
        """Return the last items of `column` as a read-only batch; None has them read from the episodes."""
        return None

    def recent_windows(self, column: str, shifts: Sequence[int], fill: Item | Fills) -> Any:
        """Return the items of `column` at `shifts` from each last observation; None has them read from the episodes."""
        return None

    # --- Taking -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def take(self, keep: Keep = bool) -> EpisodeList[SingleAgentEpisode]:
        """Return everything that was recorded since the last call, finalized: also the steps of running episodes.

        Those go on in chunks with the lookback in front. An episode without a step stays here.

        Args:
            keep: Called with the list before the recorder forgets it. After an interrupt it may be called with it again.
        """

    @abstractmethod
    def take_finished(self, keep: Keep = bool) -> EpisodeList[SingleAgentEpisode]:
        """Return the episodes that have ended, or were left, since the last call; running ones stay whole. See `take`."""

    # --- Ids --------------------------------------------------------------------------------------------------------

    def next_id(self, lane: int) -> str:
        """Return the id of the next episode of `lane`, and count it."""
        self._numbers[lane] += 1
        return f"{self._seed}-{lane}-{self._numbers[lane] - 1}"

    def episode_numbers(self) -> list[int]:
        """Return for each lane how many episodes it has begun: part of the id of the next one."""
        return list(self._numbers)

    def set_episode_numbers(self, seed: int, numbers: list[int]) -> None:
        """Derive the ids of the next episodes from `seed`, their lane, and the number of that lane.

        Raises:
            EpisodeError: If there is not one number for each lane.
        """
        if len(numbers) != self._num_lanes:
            raise EpisodeError(
                f"recorder: found {len(numbers)} numbers, expected one for each of {self._num_lanes} lanes."
            )
        self._seed = str(seed)
        self._numbers = [int(number) for number in numbers]


def infos_by_row(infos: VectorInfos, lanes: Sequence[int]) -> list[dict[Any, Any]]:
    """Return the infos of a step or a reset of `lanes`, one dict for each.

    >>> infos_by_row({"lives": np.array([3, 0]), "_lives": np.array([True, False])}, [0, 1])
    [{'lives': np.int64(3)}, {}]
    """
    entry = InfoEntry.of(infos, lanes)
    return [{} if entry is None else entry.info(lane) for lane in lanes]
