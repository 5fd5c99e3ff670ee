"""Modules that act by rules and have no weights. Nothing here needs torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import checked_seed
from episodia.columns import Columns
from episodia.errors import BatchError, EpisodeKeyError, ModuleError
from episodia.modules.masks_in_batches import action_mask
from episodia.modules.random_actions import Range, checked_range, random_actions
from episodia.stacking import stack, unstack
from episodia.trees import as_rows, describe, leaves, map_batch
from episodia.types import Batch, Item


class Rule(ABC):
    """A module that acts by a rule, and does not learn.

    Its batches are NumPy arrays; tensors of a pipeline are converted. Its actions go through the same pipeline as those of
    networks: with the default one, elements of a bounded `Box` are from -1 to 1, and are spread
    over the bounds afterwards (`NormalizeAndClipActions`).

    Args:
        observation_space: The space of observations, if known.
        action_space: The space of actions, if known.
    """

    def __init__(self, observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    @abstractmethod
    def act(self, batch: Batch) -> Item:
        """Return one action for each row of `batch`, whose columns are NumPy arrays `[B, ...]`."""

    def forward_inference(self, batch: Batch) -> Batch:
        """Return `actions`.

        Raises:
            ModuleError: If `batch` is not a batch.
        """
        given: object = batch
        if not isinstance(given, dict):
            raise ModuleError(
                f"rule: found {describe(given)}, expected a batch: a dict of columns. Pass `{{{Columns.OBS!r}: ...}}`."
            )
        return {Columns.ACTIONS: self.act({name: map_batch(_as_array, column) for name, column in batch.items()})}

    def forward_exploration(self, batch: Batch) -> Batch:
        """Return `actions`."""
        return self.forward_inference(batch)

    def forward_train(self, batch: Batch) -> Batch:
        """Return `actions`."""
        return self.forward_inference(batch)

    def get_initial_state(self) -> dict[str, Item]:
        """Return an empty dict."""
        return {}

    def is_stateful(self) -> bool:
        """Return False."""
        return False


@final
class RuleModule(Rule):
    """A function as a module.

    Args:
        function: Takes the observations of a batch, NumPy arrays `[B, ...]` in the nesting of the observation space, and
            returns actions, `[B, ...]` in that of the action space. `each_row` makes one of a function of one observation.
        observation_space: See `Rule`.
        action_space: See `Rule`.

    >>> lean = RuleModule(lambda observations: (observations[:, 2] > 0).astype(np.int64))
    >>> lean.forward_inference({"obs": np.array([[0.0, 0.0, 0.1, 0.0], [0.0, 0.0, -0.1, 0.0]])})
    {'actions': array([1, 0])}
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.function = _checked_function("RuleModule", function)

    def act(self, batch: Batch) -> Item:
        """Return the actions of the function."""
        if Columns.OBS not in batch:
            raise EpisodeKeyError(
                f"rule: found no column {Columns.OBS!r} in the batch, only {list(batch)}; expected it from "
                "`AddObservationsFromEpisodesToBatch`. Add that to the pipeline in front of the module."
            )
        rows = _num_rows(batch[Columns.OBS])
        actions = map_batch(as_rows, self.function(batch[Columns.OBS]))
        for path, leaf in leaves(actions):
            if leaf.ndim == 0 or len(leaf) != rows:
                raise ModuleError(
                    f"rule {self.function!r}: found actions{path} of the shape {list(leaf.shape)} for {rows} observations, "
                    "expected one action for each. Return an array with one row for each observation, or wrap the function "
                    "in `each_row`."
                )
        return actions


@final
class each_row:  # noqa: N801  # used as a function; a class, so that it can be pickled
    """A function of batches that calls `function`, which takes one observation, for each row.

    >>> RuleModule(each_row(lambda observation: int(observation[0] > 0))).function(np.array([[0.5], [-0.5]]))
    array([1, 0])
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = _checked_function("each_row", function)

    def __call__(self, observations: Item) -> Item:
        """Return the action of the function for each row; without rows, an empty array of integers."""
        actions = [self.function(observation) for observation in unstack(observations)]
        return stack(actions) if actions else np.zeros(0, np.int64)


@final
class RandomModule(Rule):
    """Acts at random: uniformly within bounds, and among the allowed actions if there is a mask.

    Masks are looked for in the batch column `action_mask`, then under that name in the observations.

    Args:
        observation_space: See `Rule`.
        action_space: The space of actions: Discrete, MultiDiscrete, MultiBinary, Box, or a Dict or Tuple of these.
        real_range: The range of actions of a bounded Box, which the default pipelines scale to its bounds. None takes the
            bounds themselves.
        seed: The seed of the module's random generator.

    Raises:
        ModuleError: If the range or the seed is invalid.

    >>> module = RandomModule(None, spaces.Discrete(3), seed=0)
    >>> module.forward_exploration({"obs": np.zeros((4, 2))})
    {'actions': array([2, 1, 1, 0])}
    """

    def __init__(
        self,
        observation_space: Space[Any] | None,
        action_space: Space[Any],
        *,
        real_range: Range | None = (-1.0, 1.0),
        seed: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.real_range = checked_range(ModuleError, "RandomModule", real_range)
        self.seed = checked_seed(ModuleError, "RandomModule", seed)
        self._rng = np.random.default_rng(self.seed)

    def act(self, batch: Batch) -> Item:
        """Return an action drawn for each row."""
        return self._drawn(self.action_space, _num_rows(batch), action_mask(batch))

    def _drawn(self, space: Any, rows: int, mask: Any) -> Item:
        if isinstance(space, spaces.Dict):
            masks = {} if mask is None else mask
            if not isinstance(masks, dict) or not masks.keys() <= space.spaces.keys():
                raise _other_nesting(mask, f"a dict with some of {list(space.spaces)}")
            return {key: self._drawn(child, rows, masks.get(key)) for key, child in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            count = len(space.spaces)
            masks = (None,) * count if mask is None else mask
            if not isinstance(masks, tuple) or len(masks) != count:
                raise _other_nesting(mask, f"a tuple of {count} masks")
            return tuple(self._drawn(child, rows, part) for child, part in zip(space.spaces, masks, strict=True))
        return random_actions(space, (rows,), self._rng, self.real_range, mask).astype(space.dtype, copy=False)

    def get_config(self) -> dict[str, Any]:
        """Return what the module was made with beside its spaces."""
        return {"real_range": None if self.real_range is None else list(self.real_range), "seed": self.seed}

    def get_state(self) -> Batch:
        """Return the state of the random generator."""
        return {"generator": dict(self._rng.bit_generator.state)}

    def set_state(self, state: Batch) -> None:
        """Draw from now on what the module whose state this is would have drawn.

        Raises:
            ModuleError: If it is the state of something else; nothing is changed then.
        """
        rng = np.random.default_rng(0)
        try:
            rng.bit_generator.state = state["generator"]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModuleError(
                f"RandomModule: found a state that does not fit ({error!r}), expected that of a random generator under "
                "'generator'. Load what `get_state` returned."
            ) from error
        self._rng = rng


def _num_rows(columns: Any) -> int:
    first: Any = next((leaf for _, leaf in leaves(columns)), None)
    if not np.ndim(first):
        raise BatchError(
            f"rule: found {describe(columns)}, which has no rows, expected columns with a row for each action that is to be "
            "chosen. Pass arrays [B, ...]."
        )
    return len(first)


def _checked_function(where: str, function: Any) -> Item:
    if not callable(function):
        raise ModuleError(
            f"{where}: found {function!r}, expected a function. Pass one that takes observations and returns actions."
        )
    return function


def _other_nesting(mask: Any, wanted: str) -> BatchError:
    return BatchError(
        f"RandomModule: found the action mask {describe(mask)}, expected {wanted}. Nest masks as the action space is nested."
    )


def _as_array(leaf: Any) -> Item:
    # Tensors are known by what they can do, so that torch need not be there.
    return leaf.detach().cpu().numpy() if hasattr(leaf, "detach") else leaf
