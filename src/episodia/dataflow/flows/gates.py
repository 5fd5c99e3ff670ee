"""Gates: they tell whether a flow may be pulled, or why not. Backpressure, the start of learning and ratios are one idea."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

from episodia.arguments import checked_number, names_nearest_argument
from episodia.dataflow.flows.stages import Memory
from episodia.errors import FlowError

# True if the flow may be pulled; else why not.
Gate: TypeAlias = Callable[[], bool | str]


def why_shut(gate: Gate) -> str:
    """Return why `gate` is shut, or an empty text if it is open."""
    found = gate()
    if found is True:
        return ""
    return found if isinstance(found, str) else f"the gate {getattr(gate, '__name__', type(gate).__name__)} is shut"


def at_least(count: Callable[[], float], least: float, what: str = "items") -> Gate:
    """Return a gate that is open when `count()` is at least `least`, such as the steps in a replay buffer.

    >>> at_least(lambda: 3, 100, "steps")()
    'waits for 100 steps, there are 3'
    """

    def is_enough() -> bool | str:
        found = count()
        return found >= least or f"waits for {least:g} {what}, there are {found:g}"

    return is_enough


@names_nearest_argument
@final
class RatioGates(Memory):
    """Two gates that keep a ratio between what is learned from and what is inserted, within a tolerance.

    The flow that stores is `flow.gated(ratio.inserts).tap(ratio.inserted)`, the one that samples
    `flow.gated(ratio.learns).tap(ratio.learned)`.

    Args:
        learned_per_insert: How much to learn from for each insert.
        tolerance: How far the learned amount may be from the ratio, either way.
        amount: How much an item counts.

    >>> ratio = RatioGates(2.0, tolerance=2.0)
    >>> ratio.learns(), ratio.inserts()
    (True, True)
    >>> ratio.learned("a batch"), ratio.learned("a batch")
    (None, None)
    >>> ratio.learns()
    'has learned from 2 for 0 inserted'
    """

    def __init__(
        self, learned_per_insert: float, *, tolerance: float, amount: Callable[[Any], float] | None = None
    ) -> None:
        self._ratio = checked_number(FlowError, "RatioGates", "learned_per_insert", learned_per_insert, 0.0)
        self._tolerance = checked_number(FlowError, "RatioGates", "tolerance", tolerance, 0.0)
        self._amount = amount
        self.num_inserted = self.num_learned = 0.0

    def __repr__(self) -> str:
        return f"RatioGates({self._ratio:g}, tolerance={self._tolerance:g})"

    def _of(self, item: Any) -> float:
        return 1.0 if self._amount is None else self._amount(item)

    def inserted(self, item: Any) -> None:
        """Count an item that was inserted."""
        self.num_inserted += self._of(item)

    def learned(self, item: Any) -> None:
        """Count an item that was learned from."""
        self.num_learned += self._of(item)

    def inserts(self) -> bool | str:
        """Tell whether more may be inserted."""
        is_open = self._ratio * self.num_inserted - self.num_learned < self._tolerance or not self.num_inserted
        return is_open or f"has inserted {self.num_inserted:g}, and learned from {self.num_learned:g}"

    def learns(self) -> bool | str:
        """Tell whether more may be learned from."""
        is_open = self.num_learned - self._ratio * self.num_inserted < self._tolerance
        return is_open or f"has learned from {self.num_learned:g} for {self.num_inserted:g} inserted"

    def get_state(self) -> dict[str, float]:
        """Return what was counted."""
        return {"num_inserted": self.num_inserted, "num_learned": self.num_learned}

    def set_state(self, state: Mapping[str, float]) -> None:
        """Go on from these counts."""
        self.num_inserted, self.num_learned = state["num_inserted"], state["num_learned"]
