"""The rule by which a target network follows its module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from episodia.arguments import checked_choice, checked_whole, names_nearest_argument
from episodia.errors import LearnerError
from episodia.learners.losses.coefficients import check_positive, check_within
from episodia.learners.optimizers import are_names
from episodia.trees import shown

UNITS = ("gradient_steps", "env_steps")


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class Target:
    """A copy of a module whose weights follow those of the module: all at once now and then, or a little each time.

    Args:
        of: The beginning of parameter names, up to a dot, or several of them, that the copy has for itself; it shares all other
            weights with the module. None means everything.
        tau: The part of the way to the module's weights that the copy takes each time; 1 copies them.
        every: The number of `unit` between two times.
        unit: `"gradient_steps"`, or `"env_steps"`: the steps that schedules follow.

    Raises:
        LearnerError: If a number is out of range, or if `of` names nothing.

    >>> Target(of="critic", tau=0.005)
    Target(of='critic', tau=0.005, every=1, unit='gradient_steps')
    """

    of: str | tuple[str, ...] | None = None
    tau: float = 1.0
    every: int = 1
    unit: str = "gradient_steps"

    def __post_init__(self) -> None:
        if not (self.of is None or isinstance(self.of, str) or are_names(self.of)):
            raise LearnerError(
                f"Target: found `of={shown(self.of)}`, expected the name of a component, a tuple of names, or None for "
                "everything. Pass one of these."
            )
        check_positive("Target", "tau", self.tau)
        check_within("Target", "tau", self.tau, 0.0, 1.0)
        checked_whole(LearnerError, "Target", "every", self.every, 1)
        checked_choice(LearnerError, "Target", "unit", self.unit, UNITS)
