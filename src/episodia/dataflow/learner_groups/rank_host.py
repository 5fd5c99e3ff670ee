"""The host of one rank of a group of learners: it lives where the engine has put it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, final

from episodia.dataflow.deliveries import Statistics
from episodia.dataflow.engines.engine import Handle
from episodia.dataflow.learner_groups.joint_ranks import JointRanks
from episodia.dataflow.learner_groups.peers import Meeting, Peers, ProcessMeeting, opened_store
from episodia.dataflow.statistics import set_statistics
from episodia.episodes import EpisodeList
from episodia.learners import Learner, UpdateMetrics
from episodia.types import State


@final
class RankHost:
    """Answers the calls of a group with one learner.

    Args:
        make_learner: Makes the learner.
    """

    def __init__(self, make_learner: Callable[[], Learner]) -> None:
        self._learner = make_learner()
        self._peers: Peers | None = None
        self._store: Any = None
        self._before: tuple[int, State] | None = None  # the last update, and the state before it

    def open_meeting(self, timeout_s: float) -> ProcessMeeting:
        """Return where all ranks can meet."""
        self._store, host, port = opened_store(timeout_s)
        return ProcessMeeting(host, port, timeout_s)

    def join(self, rank: int, num_ranks: int, meeting: Meeting) -> None:
        """Learn together with other ranks from now on."""
        self._peers = meeting.enter(rank, num_ranks, self._learner.device)
        self._learner.join(JointRanks(self._peers))

    def leave(self) -> None:
        """Leave the others."""
        peers, self._peers = self._peers, None
        if peers is not None:
            peers.close()

    def update(
        self, number: int, episodes: EpisodeList[Any], statistics: Statistics, how: Mapping[str, Any]
    ) -> tuple[UpdateMetrics, State | None]:
        """Update together with the other ranks; rank 0 also returns the new weights, and counters.

        Args:
            number: Counts updates.
            episodes: The part of this rank.
            statistics: The statistics of filters.
            how: Arguments of `Learner.update`.
        """
        self._before = number, self._learner.get_state()
        set_statistics(self._learner.pipeline, statistics)
        metrics = self._learner.update(episodes, **how)
        is_first = self._peers is None or self._peers.rank == 0
        return metrics, self._learner.get_state(["weights", "progress"]) if is_first else None

    def roll_back(self, number: int) -> None:
        """Go back to the state before an update, if it has begun here."""
        if self._before is not None and self._before[0] == number:
            self._learner.set_state(self._before[1])

    def get_state(self, components: Collection[str] | None = None) -> State:
        """Return the state of the learner."""
        return self._learner.get_state(components)

    def set_shared_state(self, state: Handle) -> None:
        """Go on from a state that was shared with all ranks."""
        self._learner.set_state(state.fetch())

    def close(self) -> None:
        """Leave the others."""
        self.leave()
