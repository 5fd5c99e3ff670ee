"""Draws: what a sample is made of. All of them take steps that the selector of the buffer chooses.

Pictures of one episode in the buffer, with `x` for the chosen step, brackets around the steps that are in the sample, and
`o` for the observation after them:

    Transitions()                          . . . [x] o . . .
    Transitions(n_step=3)                  . . . [x  .  .] o .      one row: rewards summed, `discounts` is gamma ** 3
    Sequences(length=3)                    . . . [x  .  .] o .      three rows
    Sequences(length=3, burn_in=2)         . [.  .  x  .  .] o .    five rows; `loss_mask` is false for the first two
    WholeEpisodes()                        [.  .  .  x  .  .  .] o

`JointSteps()` draws the steps of all agents at an environment step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from episodia.replay.draws.drawn import Drawn
from episodia.replay.table import Table
from episodia.types import ModuleID


class Draw(ABC):
    """Decides what a sample is made of."""

    @abstractmethod
    def draw(
        self, tables: Mapping[ModuleID, Table], num: int, lookback: int, rng: np.random.Generator
    ) -> dict[ModuleID, Drawn]:
        """Return by module the rows of `num` stretches, each with up to `lookback` rows of the past.

        Raises:
            ReplayError: If there is no step that can be drawn.
        """


class DrawByModule(Draw):
    """Draws for each module apart."""

    def draw(
        self, tables: Mapping[ModuleID, Table], num: int, lookback: int, rng: np.random.Generator
    ) -> dict[ModuleID, Drawn]:
        """Return by module the rows of `num` stretches, each with up to `lookback` rows of the past."""
        return {module_id: self.draw_from(table, num, lookback, rng) for module_id, table in tables.items()}

    @abstractmethod
    def draw_from(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` stretches of one module.

        Raises:
            ReplayError: If there is no step that can be drawn.
        """
