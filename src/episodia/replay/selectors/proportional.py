"""Selection in proportion to priorities, and weights against its bias (prioritized experience replay)."""

from __future__ import annotations

from typing import Literal, final

import numpy as np

from episodia.arguments import checked_choice, checked_number, names_nearest_argument
from episodia.episodes.lists.ragged import counted
from episodia.errors import ReplayError
from episodia.replay.selectors.selector import NUM_ROUNDS, AddedSteps, Selection, StoredSteps
from episodia.replay.selectors.sum_tree import SumTree
from episodia.types import State

# Sums of priorities stay finite.
_LARGEST = float(np.finfo(np.float64).max)


@names_nearest_argument
@final
class Proportional:
    """A step is drawn in proportion to its priority: `(|value| + epsilon) ** alpha`, with the last value from `update`.

    New steps have the largest priority that any stored step has, so that each is soon seen once. Draws are stratified: each of
    `num` equal shares of all priorities is drawn from once.

    The weight of a step is `(N * probability) ** -beta` for N stored steps, divided by the largest weight of the batch or of
    the whole buffer. `beta` may be set at any time.

    Args:
        alpha: How strongly priorities count; 0 is uniform.
        beta: How much of the bias the weights take away; 1 is all of it.
        epsilon: Added to each absolute value, so that no step is never drawn.
        normalize: Which largest weight is 1.

    Raises:
        ReplayError: If an argument is out of range.

    >>> Proportional(alpha=0.5)
    Proportional(alpha=0.5, beta=0.4, epsilon=1e-06, normalize='batch')
    """

    __slots__ = ("_alpha", "_beta", "_epsilon", "_largest", "_normalize", "_num_largest", "_tree")

    def __init__(
        self,
        alpha: float = 0.6,
        beta: float = 0.4,
        epsilon: float = 1e-6,
        normalize: Literal["batch", "buffer"] = "batch",
    ) -> None:
        self._alpha = checked_number(ReplayError, "Proportional", "alpha", alpha, 0.0)
        self.beta = beta
        self._epsilon = checked_number(ReplayError, "Proportional", "epsilon", epsilon, 0.0)
        self._normalize = checked_choice(ReplayError, "Proportional", "normalize", normalize, ("batch", "buffer"))
        self._tree: SumTree | None = None
        # The largest priority, and how many steps have it; 0 if it has to be looked for.
        self._largest, self._num_largest = 1.0, 0

    @property
    def beta(self) -> float:
        """The share of the bias that the weights take away."""
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta = checked_number(ReplayError, "Proportional", "beta", beta, 0.0)

    @property
    def priorities(self) -> np.ndarray:
        """The priority of each row, 0 for rows without a step: float64 [capacity]; a copy."""
        return np.empty(0) if self._tree is None else self._tree.values.copy()

    # --- What the buffer tells --------------------------------------------------------------------------------------

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """Give new steps the largest priority that there is."""
        if self._tree is None:
            self._tree = SumTree(added.capacity)
        largest = self._find_largest(self._tree)
        self._tree.set(rows, largest)
        self._num_largest += len(rows)

    def on_evict(self, rows: np.ndarray) -> None:
        """Give rows without steps the priority 0."""
        if self._tree is not None:
            self._num_largest = max(0, self._num_largest - self._count_largest(self._tree, rows))
            self._tree.set(rows, 0.0)

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Set the priorities of steps by new values; of equal rows, the last one counts."""
        tree = self._tree
        if tree is None:
            return
        priorities = np.power(np.abs(values) + self._epsilon, self._alpha)
        highest = float(priorities.max())
        if not highest <= _LARGEST / tree.size:
            raise ReplayError(
                f"{self!r}: found the value {np.abs(values).max()}, expected values whose powers have a finite sum. Clip the "
                "values."
            )
        known = self._num_largest
        gone = self._count_largest(tree, rows) if known else 0
        self._num_largest = 0  # so it is looked for if Ctrl-C comes now
        tree.set(rows, priorities)
        if not known:
            return
        # Of equal rows another value may count than the highest.
        largest = float(tree.values.take(rows).max()) if highest > self._largest else self._largest
        if largest > self._largest:
            self._largest, known, gone = largest, 0, 0
        come = self._count_largest(tree, rows) if highest >= self._largest else 0
        self._num_largest = known - gone + come

    def _count_largest(self, tree: SumTree, rows: np.ndarray) -> int:
        """Return how many different `rows` have the largest priority."""
        found = rows[tree.values.take(rows) == self._largest]
        if not len(found):
            return 0
        found.sort()
        return 1 + int(np.count_nonzero(found[1:] != found[:-1]))

    def _find_largest(self, tree: SumTree) -> float:
        """Return the largest priority of all steps, 1 if there are no steps."""
        if not self._num_largest:
            values = tree.values
            self._largest = float(values.max()) or 1.0
            self._num_largest = int(np.count_nonzero(values == self._largest))
        return self._largest

    # --- Selecting --------------------------------------------------------------------------------------------------

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """Return steps in proportion to their priorities, and their weights."""
        tree = self._tree
        if tree is None or not tree.total > 0.0:
            return Selection(steps.uniform(num, rng), np.ones(num))
        rows = tree.find((counted(num) + rng.random(num)) * (tree.total / num))
        allowed = steps.allowed(rows)
        if np.count_nonzero(allowed) < num:
            rows = self._redrawn(tree, rows, allowed, steps, rng)
        priorities = tree.values.take(rows)
        if not priorities.min() > 0.0:  # epsilon is 0, and only steps with the priority 0 are allowed
            return Selection(rows, np.ones(num))
        return Selection(rows, self._weights(tree, priorities))

    def _redrawn(
        self, tree: SumTree, rows: np.ndarray, allowed: np.ndarray, steps: StoredSteps, rng: np.random.Generator
    ) -> np.ndarray:
        """Replace the rows that are not allowed by others, in proportion to the priorities of the allowed ones."""
        for _ in range(NUM_ROUNDS):
            missing = np.flatnonzero(~allowed)
            if not len(missing):
                return rows
            rows[missing] = tree.find(rng.random(len(missing)) * tree.total)
            allowed[missing] = steps.allowed(rows[missing])
        candidates = steps.rows()
        sums = np.cumsum(tree.values.take(candidates))
        missing = np.flatnonzero(~allowed)
        places = sums.searchsorted(rng.random(len(missing)) * sums[-1], side="right")
        rows[missing] = candidates.take(np.minimum(places, len(candidates) - 1))
        return rows

    def _weights(self, tree: SumTree, priorities: np.ndarray) -> np.ndarray:
        """Return the weights of steps with these priorities, which are not 0."""
        if self._normalize == "batch":
            smallest = priorities.min()
        else:
            values = tree.values
            smallest = values.min(where=values > 0.0, initial=np.inf)
        # The number of steps and the total cancel out: the largest weight belongs to the smallest priority.
        weights: np.ndarray = np.power(priorities / smallest, -self._beta)
        return weights

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return the priorities, and `beta`."""
        return {"beta": self._beta, "priorities": self.priorities}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self.beta = state["beta"]
        self._tree, self._num_largest = None, 0
        priorities = np.asarray(state["priorities"], np.float64)
        if len(priorities):
            self._tree = SumTree(len(priorities))
            self._tree.set(np.arange(len(priorities)), priorities)

    def __repr__(self) -> str:
        return f"Proportional(alpha={self._alpha}, beta={self._beta}, epsilon={self._epsilon}, normalize={self._normalize!r})"
