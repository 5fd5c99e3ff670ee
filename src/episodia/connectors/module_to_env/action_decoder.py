"""Base class for pieces that translate actions of a module into actions of the environment."""

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
from episodia.trees import shown
from episodia.types import Item

_STACKED = (int, float, list, tuple, dict)


class ActionDecoder(ColumnPiece):
    """Writes `actions_for_env`: the result of `decode` for each action of the module.

    `actions` is kept: episodes record it, and learners learn from it. So a module can choose one of five
    kinds of order while the environment wants amounts and addresses. In the default pipeline it replaces
    `NormalizeAndClipActions`.

    Args:
        input_observation_space: The space of observations, which stays.
        input_action_space: The space of the actions that reach the piece.
        module_action_space: The space of the module's actions, used to record actions and to draw random ones.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If `module_action_space` is not a space.

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
                f"{self.name}: found `module_action_space={shown(module_action_space)}`, expected the space of the "
                "module's actions."
            )
        self.module_action_space = module_action_space

    @abstractmethod
    def decode(self, action: Item, episode: SingleAgentEpisode) -> Any:
        """Return the action for the environment: an item of its action space, or another value that it accepts.

        Args:
            action: The action of the module.
            episode: The episode of the agent, with its `agent_id`; it ends with the observation that the action answers.
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
    """Return one batch: arrays where items consist of numbers, else the items themselves."""
    if items and (isinstance(items[0], _STACKED) or hasattr(items[0], "dtype")):
        return stack(items)
    return object_array(items)
