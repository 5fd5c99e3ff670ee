"""A base for pieces that translate what a module decides into what the environment understands."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import rows_of
from episodia.connectors.batches.module_outputs import check_arrays, episodes_of_rows, needed_column, outputs_of_modules
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import SingleAgentEpisode
from episodia.errors import PipelineError
from episodia.stacking import object_array, stack
from episodia.types import Item

_STACKED = (int, float, list, tuple, dict)


class ActionDecoder(ColumnPiece):
    """Writes `actions_for_env`: what `decode` makes of each action of the module.

    `actions` stays as it is: that is what episodes record, and what learners learn from. So a module can choose one of five
    kinds of order while the environment wants amounts and addresses. In the default pipeline it stands in the place of
    `NormalizeAndClipActions`.

    Args:
        input_observation_space: The space of observations, which stays.
        input_action_space: The space of the actions that reach the piece.
        module_action_space: The space of the module's actions, by which they are recorded and drawn at random.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If `module_action_space` is no space.

    >>> from gymnasium import spaces
    >>> import numpy as np
    >>> class Force(ActionDecoder):
    ...     def decode(self, action, episode):
    ...         return np.array([-2.0, 0.0, 2.0], np.float32)[action : action + 1]
    >>> force = Force(module_action_space=spaces.Discrete(3))
    >>> force(rl_module=None, batch={"actions": np.array([2])}, episodes=[SingleAgentEpisode()])["actions_for_env"]
    array([[2.]], dtype=float32)
    """

    reads = frozenset({Columns.ACTIONS})
    writes = frozenset({Columns.ACTIONS_FOR_ENV})
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        module_action_space: Space[Any],
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        if not isinstance(module_action_space, Space):
            raise PipelineError(
                f"{self.name}: found `module_action_space={module_action_space!r}`, expected the space of the module's actions."
            )
        self.module_action_space = module_action_space

    @abstractmethod
    def decode(self, action: Item, episode: SingleAgentEpisode) -> Any:
        """Return what the environment receives: an item of its action space, or whatever else it takes.

        Args:
            action: What the module has chosen.
            episode: Of whom; it ends with the observation that the action answers, and knows its `agent_id`.
        """

    def work(self, run: Run) -> None:
        """Add `actions_for_env` for every module."""
        for outputs in outputs_of_modules(run):
            actions = needed_column(outputs, Columns.ACTIONS, "the module or `GetActions`")
            check_arrays(outputs, Columns.ACTIONS, actions)
            owners = episodes_of_rows(outputs.module_id, run.episodes, run.shared_data)
            decoded = [
                self.decode(action=action, episode=owner)
                for action, owner in zip(rows_of(actions), owners, strict=True)
            ]
            outputs.columns[Columns.ACTIONS_FOR_ENV] = _batched(decoded)


def _batched(items: list[Any]) -> Any:
    """Return one batch: arrays where items are made of numbers, else the items as they are."""
    if items and (isinstance(items[0], _STACKED) or hasattr(items[0], "dtype")):
        return stack(items)
    return object_array(items)
