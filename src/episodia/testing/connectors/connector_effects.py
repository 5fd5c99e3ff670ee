"""Laws about what a connector leaves behind: tails of observations, its declared columns, and global random generators."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from episodia.columns import Columns
from episodia.connectors import ConnectorV2, as_ragged
from episodia.connectors.batches.batch_columns import has_column, rows_of_modules
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.testing.connectors.connector_running import LEARNER, open_places, pipeline_of, rows_of, run
from episodia.testing.connectors.connector_subject import Subject

Episodes = Sequence[SingleAgentEpisode]


class _TailWitness(ConnectorV2):
    """Records whether observations have the one after the last step; it reads no columns and changes nothing."""

    reads = writes = frozenset[str]()
    lookback = 0
    writes_to_episodes = changes_episodes = False

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.has_tail: bool | None = None

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch unchanged."""
        if has_column(batch, Columns.OBS):
            parts = rows_of_modules(Run(dict(batch), EpisodeList.of(episodes), None, None, None, None, {}))
            found = [as_ragged(columns[Columns.OBS], rows) for _, columns, rows in parts if Columns.OBS in columns]
            self.has_tail = all(column.tail for column in found)
        return batch


def observations_keep_their_tail(subject: Subject, episodes: Episodes) -> None:
    """A piece that writes observations for a learner also writes the one after the last step of each episode."""
    open_places(subject, LEARNER)
    with_steps = [episode for episode in episodes if len(episode)]
    *before, piece = subject.make()
    if not with_steps or (piece.writes is not None and Columns.OBS not in _changed(piece)):
        return
    first, second = _TailWitness("in front of the piece"), _TailWitness("behind the piece")
    run(subject, LEARNER, pipeline_of(subject, LEARNER, [*before, first, piece, second]), with_steps)
    if first.has_tail is not False and second.has_tail is False:
        raise AssertionError(
            "observations keep their tail: found observations without the one after the last step of each episode, expected "
            "one more than there are steps, because values are bootstrapped from it. Pass `tail=True` to `windows` and "
            "`flat`; item by item, add `len(episode) + 1` observations."
        )


def _changed(piece: ConnectorV2) -> set[str]:
    """Return the columns of which a piece declares to write values."""
    writes = set(piece.writes or ())
    return writes if piece.alters is None else set(piece.alters) | set(piece.fills)


def declared_columns_arrive(subject: Subject, episodes: Episodes) -> list[str]:
    """The columns that a piece declares to write are in the batch at the end of the pipeline."""
    piece = subject.connector
    declared = {*(piece.writes or ())} - {*piece.fills}
    missing = {place: declared - rows_of(subject, place, episodes).keys() for place in open_places(subject)}
    lost = set.intersection(*missing.values()) if missing else set()
    if lost:
        raise AssertionError(
            f"declared columns arrive: found no column {sorted(lost)} at the end of any pipeline, expected what `writes` "
            "declares. Write the columns into the batch that `__call__` returns, or correct the declaration; if that depends "
            "on the module, pass `rl_module=`."
        )
    return [f"it writes no {sorted(names)} in {place} pipelines" for place, names in missing.items() if names]


def global_random_generators_stay_as_they_are(subject: Subject, episodes: Episodes) -> None:
    """A piece draws from generators of its own: neither `random` nor `np.random` nor `torch` is in another state after it."""
    kept = _random_states()
    try:
        for place in open_places(subject):
            for explore in (False, True):
                _check_generators(subject, place, episodes, explore)
    finally:
        random.setstate(kept["random"])
        np.random.set_state(kept["np.random"])  # noqa: NPY002  # the global generator is what is watched
        torch.set_rng_state(torch.from_numpy(kept["torch"]))


def _check_generators(subject: Subject, place: str, episodes: Episodes, explore: bool) -> None:
    pipeline = pipeline_of(subject, place)
    # Other states than an earlier run left, because a piece may always set the same seed.
    random.random()
    np.random.random()  # noqa: NPY002  # as above
    torch.rand(1)
    before = _random_states()
    run(subject, place, pipeline, episodes, explore=explore)
    touched = [name for name, state in _random_states().items() if pickle.dumps(state) != pickle.dumps(before[name])]
    if touched:
        raise AssertionError(
            f"global random generators stay as they are ({place}): found that the piece drew from {touched}, expected a "
            "generator of its own. Use `self._rng = np.random.default_rng(seed)`, and keep its state in `get_state`."
        )


def _random_states() -> dict[str, Any]:
    return {
        "random": random.getstate(),
        "np.random": np.random.get_state(),  # noqa: NPY002  # as above
        "torch": torch.get_rng_state().numpy(),
    }
