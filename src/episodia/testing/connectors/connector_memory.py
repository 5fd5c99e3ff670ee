"""Laws about the memory of a connector: state, copies, random numbers, and references to episodes."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any
from weakref import ref

from episodia.connectors import ConnectorV2, check_state
from episodia.connectors.batches.tracked_batch import fingerprint
from episodia.episodes import SingleAgentEpisode
from episodia.errors import ConnectorStateError
from episodia.testing.comparing import compare_batches
from episodia.testing.connectors.connector_running import LEARNER, open_places, pipeline_of, rows_of, run
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.law_checking import NotApplicableError
from episodia.testing.pickled_copies import pickled_copy, require_importable

Episodes = Sequence[SingleAgentEpisode]


def restored_pieces_go_on_alike(subject: Subject, episodes: Episodes) -> None:
    """A state consists of JSON values and arrays; a new piece with this state makes the same rows."""
    law = "restored pieces go on alike"
    if not subject.connector.is_stateful:
        _check_has_no_state(law, subject, episodes)
        raise NotApplicableError("it declares no state, and has none")
    for place in _acting_first(subject):
        original, twin = pipeline_of(subject, place), pipeline_of(subject, place)
        run(subject, place, original, episodes, explore=True)
        state = original.get_state()
        _check_storable(law, state)
        twin.set_state(deepcopy(state))
        if fingerprint(twin.get_state()) != fingerprint(state):
            raise AssertionError(f"{law}: found the state {twin.get_state()}, expected {state}, which was set before.")
        expected = run(subject, place, original, episodes, explore=True)
        found = run(subject, place, twin, episodes, explore=True)
        compare_batches(law, expected, found, "after `set_state`")
        if fingerprint(twin.get_state()) != fingerprint(original.get_state()):
            raise AssertionError(
                f"{law}: found the state {twin.get_state()}, expected {original.get_state()} one run later."
            )


def _acting_first(subject: Subject) -> list[str]:
    """Return the places where the piece works, learners last, because most pieces change their state only while acting."""
    return sorted(open_places(subject), key=lambda place: place == LEARNER)


def _check_has_no_state(law: str, subject: Subject, episodes: Episodes) -> None:
    for place in open_places(subject):
        pieces = subject.make()
        rows_of(subject, place, episodes, pieces, explore=True)
        state = pieces[-1].get_state()
        if state:
            raise AssertionError(f"{law}: found the state {state}, expected none, because `is_stateful` is False.")


def _check_storable(law: str, state: dict[str, Any]) -> None:
    if not state:
        raise AssertionError(f"{law}: found an empty state after a run, expected one, because `is_stateful` is True.")
    try:
        check_state(state)
    except ConnectorStateError as error:
        raise AssertionError(f"{law}: {error}") from error


def it_pickles(subject: Subject, episodes: Episodes) -> None:
    """A pickled copy, as in another process, makes the same rows."""
    require_importable(type(subject.connector))
    for place in open_places(subject):
        piece = subject.make()[-1]
        twin = pickled_copy(piece, "it pickles")
        expected = rows_of(subject, place, episodes, [*subject.make()[:-1], piece])
        found = rows_of(subject, place, episodes, [*subject.make()[:-1], twin])
        compare_batches("it pickles", expected, found, f"{place}, the copy")


def same_state_gives_same_rows(subject: Subject, episodes: Episodes) -> None:
    """Copies in the same state make the same rows: random numbers come from the generator of the piece or of the caller."""
    for place in open_places(subject):
        for explore in (False, True):
            expected = rows_of(subject, place, episodes, explore=explore)
            for _ in range(2):
                found = rows_of(subject, place, episodes, explore=explore)
                where = f"{place}, explore={explore}, another copy of the same piece"
                compare_batches("the same state gives the same rows", expected, found, where)


class _Witness(ConnectorV2):
    """Records weak references to episodes."""

    reads = writes = frozenset[str]()
    lookback = 0

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[ref[Any]] = []

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch unchanged."""
        self.seen += [ref(episode) for episode in episodes]
        return batch

    def alive(self) -> list[Any]:
        """Return the ids of the episodes that are still referenced."""
        return [episode.id_ for seen in self.seen if (episode := seen()) is not None]


def no_episode_is_kept(subject: Subject, episodes: Episodes) -> None:
    """After a run, the piece holds no references to episodes, which would never be freed."""
    for place in open_places(subject):
        witness, pieces = _Witness(), subject.make()
        # Forks, which have no other references.
        rows_of(subject, place, [copy(episode) for episode in episodes], [witness, *pieces])
        if witness.alive():
            # Reference cycles keep them for a while. Garbage collection is slow, so it runs only if needed.
            gc.collect()
        kept = witness.alive()
        if kept:
            raise AssertionError(
                f"no episode is kept ({place}): found the episodes {kept} alive after the run, expected none. Keep "
                "what you need of them, not the episodes."
            )
