"""`JointRanks`: one of several learners that take each gradient step together; what they learn is what one learner would.

Each rank has consecutive episodes of the whole list, so the rows of all ranks, one rank after another, are the rows of one
learner in its order. All ranks draw one plan of minibatches over these with equal generators, and take their own rows of each.
Gradients are summed, weighted by steps; a rank without rows adds zeros. So the number and the order of exchanges never
depends on the rows of one rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from episodia.connectors.batches.joint_batches import JOINT_BATCH, Said
from episodia.dataflow.learner_groups.peers import Peers
from episodia.errors import LearnerError, LostRankError
from episodia.learners.gradients.backward_pass import BackwardPass
from episodia.learners.minibatches import Minibatch, taken
from episodia.learners.ranks import Draw, Minibatches, Ranks
from episodia.learners.row_results import Collected
from episodia.learners.update_metrics import Log
from episodia.types import Batch

_DONE, _FAILED = "done", "failed"
_ROW = "row"
_NONE = BackwardPass({}, {}, {}, {})


class _Place(NamedTuple):
    """The own rows of a module among those of all ranks."""

    first: int
    stop: int


@final
class JointRanks(Ranks):
    """One rank of several.

    Args:
        peers: All ranks.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._counts: list[dict[str, np.ndarray]] = []
        self._everywhere: dict[str, np.ndarray] = {}
        self._places: dict[str, _Place] = {}

    # --- The batch --------------------------------------------------------------------------------------------------

    def batch_of(self, make: Callable[[], dict[str, Batch]]) -> dict[str, Batch]:
        """Return the own batch; pieces may ask for what the batches of other ranks say."""
        token = JOINT_BATCH.set(_Batch(self._peers))
        try:
            batch = make()
        except BaseException as error:
            # A pipeline wraps errors of its pieces, also of those that have asked other ranks.
            if (lost := _lost_in(error)) is not None:
                raise lost from None
            self._peers.said_by_all((_FAILED, None))
            raise
        finally:
            JOINT_BATCH.reset(token)
        # Others may have pieces to ask for: a rank without episodes runs none.
        while any(what != _DONE for what, _ in _checked(self._peers.said_by_all((_DONE, None)))):
            pass
        return batch

    def rows(self, counts: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the numbers of steps of the rows of all ranks."""
        self._counts = self._peers.said_by_all(dict(counts))
        names = dict.fromkeys(name for own in self._counts for name in own)
        nothing = np.zeros(0, np.int64)
        self._places = {}
        found = {name: [own.get(name, nothing) for own in self._counts] for name in names}
        for name, parts in found.items():
            ends = [0, *accumulate(map(len, parts))]
            self._places[name] = _Place(ends[self._peers.rank], ends[self._peers.rank + 1])
        self._everywhere = {name: np.concatenate(parts) for name, parts in found.items()}
        return self._everywhere

    def minibatches(self, draw: Draw, own: Mapping[str, Batch], counts: Mapping[str, np.ndarray]) -> Minibatches:
        """Yield the own rows of each minibatch of all rows."""
        places = {name: {_ROW: torch.arange(len(found))} for name, found in self._everywhere.items()}
        for parts in draw(places, self._everywhere):
            yield {name: self._own(name, part, own.get(name, {}), counts.get(name)) for name, part in parts.items()}

    def _own(self, name: str, part: Minibatch, columns: Batch, counts: np.ndarray | None) -> Minibatch:
        rows: np.ndarray = part.columns[_ROW].numpy()
        first, stop = self._places[name]
        here = rows[(rows >= first) & (rows < stop)] - first
        if counts is None or not len(here):
            return Minibatch({}, 0, part.epoch, here)
        is_all = part.rows is None
        return Minibatch(columns if is_all else taken(columns, here), int(counts[here].sum()), part.epoch, here)

    # --- Gradients --------------------------------------------------------------------------------------------------

    def summed(
        self,
        compute: Callable[[], BackwardPass],
        parts: Mapping[str, Minibatch],
        trained: Mapping[str, Mapping[str, Parameter]],
        buffers: Mapping[str, Sequence[Tensor]],
    ) -> BackwardPass:
        """Return the average of the gradients and losses of all ranks, in one sum of float64 numbers."""
        has_rows = any(part.num_steps for part in parts.values())
        failure: BaseException | None = None
        own = _NONE
        try:
            own = compute() if has_rows else _NONE
        except BaseException as error:  # noqa: BLE001  # raised when the others know
            failure = error
        flat = _Flat(parts, trained, buffers)
        total = self._peers.summed(flat.packed(own, is_failed=failure is not None))
        if failure is not None:
            raise failure
        return flat.unpacked(total, own)

    def merged(self, log: Log, collected: Collected) -> tuple[Log, Collected]:
        """Return the metrics and the results of rows of all ranks."""
        log.read()
        said = self._peers.said_by_all((log, collected))
        num_rows = [{name: len(found) for name, found in part.items()} for part in self._counts]
        logs, results = [own for own, _ in said], [own for _, own in said]
        return Log.joined(logs), Collected.joined(results, num_rows)


@final
class _Batch:
    """The batches of all ranks, as a piece sees them."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def said_by_all(self, piece: str, own: Said) -> list[Said]:
        said = _checked(self._peers.said_by_all((piece, own)))
        odd = sorted({what for what, _ in said} - {piece, _DONE})
        if odd:
            raise LearnerError(
                f"learner pipeline: found the pieces {odd} at other ranks while {piece!r} ran here, expected the same ones in "
                "the same order. Make all learners of a group in the same way."
            )
        return [found for what, found in said if what == piece]


def _checked(said: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    if any(what == _FAILED for what, _ in said):
        raise LostRankError(
            "learner pipeline: found that it failed at another rank, expected batches. See its own error."
        )
    return said


def _lost_in(error: BaseException | None) -> LostRankError | None:
    while error is not None and not isinstance(error, LostRankError):
        error = error.__cause__
    return error


@final
class _Flat:
    """The layout of all that is summed for a gradient step: one flat tensor of float64 numbers."""

    def __init__(
        self,
        parts: Mapping[str, Minibatch],
        trained: Mapping[str, Mapping[str, Parameter]],
        buffers: Mapping[str, Sequence[Tensor]],
    ) -> None:
        self._parts, self._trained, self._buffers = parts, trained, buffers

    def packed(self, own: BackwardPass, *, is_failed: bool) -> Tensor:
        """Return the numbers of this rank, weighted by its steps."""
        device = next((each.device for named in self._trained.values() for each in named.values()), None)
        pieces = [torch.tensor([float(is_failed)], dtype=torch.float64, device=device)]
        for name, part in self._parts.items():
            weight, gradients = part.num_steps, own.gradients.get(name, {})
            loss = float(own.losses[name]) if name in own.losses else 0.0
            given = [float(key in gradients) for key in self._trained[name]]
            pieces.append(torch.tensor([weight, weight * loss, *given], dtype=torch.float64, device=device))
            for key, parameter in self._trained[name].items():
                if key in gradients:
                    pieces.append(gradients[key].detach().double().flatten() * weight)
                else:
                    pieces.append(torch.zeros(parameter.numel(), dtype=torch.float64, device=device))
            pieces += [buffer.double().flatten() * weight for buffer in self._buffers.get(name, ())]
        return torch.cat(pieces)

    def unpacked(self, total: Tensor, own: BackwardPass) -> BackwardPass:
        """Return the averages over all ranks.

        Raises:
            LostRankError: If another rank has failed.
        """
        numbers = _Reader(total)
        if float(numbers.next(1)):
            raise LostRankError(
                "learner: found that the loss failed at another rank, expected gradients. See its own error."
            )
        gradients: dict[str, dict[str, Tensor]] = {}
        losses: dict[str, Tensor] = {}
        for name in self._parts:
            weight, loss, *given = numbers.next(2 + len(self._trained[name])).tolist()
            losses[name] = torch.tensor(loss / weight)
            gradients[name] = {}
            for count, (key, parameter) in zip(given, self._trained[name].items(), strict=True):
                mean = numbers.next(parameter.numel()) / weight
                if count:
                    gradients[name][key] = mean.view(parameter.shape).to(parameter.dtype)
            for buffer in self._buffers.get(name, ()):
                mean = numbers.next(buffer.numel()) / weight
                rounded = mean if buffer.is_floating_point() else mean.round()
                buffer.copy_(rounded.view(buffer.shape))
        return BackwardPass(gradients, losses, own.metrics, own.rows)


class _Reader:
    def __init__(self, numbers: Tensor) -> None:
        self._numbers, self._at = numbers, 0

    def next(self, count: int) -> Tensor:
        begin, self._at = self._at, self._at + count
        return self._numbers[begin : self._at]
