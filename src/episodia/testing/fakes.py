"""A module and a connector that verify what they are given, and take note of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors import ConnectorV2
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.modules import Rule
from episodia.testing.env_runners.fake_envs import FAKE_ACTIONS, FAKE_OBSERVATIONS, fake_action
from episodia.trees import describe

#: An extra output of `FakeModule`: from which observation each row came.
TAG = "tag"


def fake_tag(observation: Any) -> np.ndarray:
    """Return what `FakeModule` puts out as `tag` for an observation."""
    return np.asarray(observation, np.float32)[:4] + np.float32(0.5)


class FakeModule(Rule):
    """Acts in fake environments: its actions and its extra output `tag` follow from the observation, see `fake_action`.

    It verifies each batch: observations of a fake environment, as a runner makes them, and each environment (and agent) only
    once. Its attribute `calls` has for each forward pass its name and the rows that it was given.

    Args:
        fails_at: The number of the call, from 0 on, in which it raises a RuntimeError; None for never.

    >>> module = FakeModule()
    >>> module.forward_exploration({"obs": np.array([[0, 0, 1, 2, -1], [1, 0, 0, 0, -1]], np.float32)})["actions"]
    array([4, 1])
    >>> module.calls
    [('forward_exploration', [(0, 0, 1, 2), (1, 0, 0, 0)])]
    >>> module.forward_inference({"obs": np.zeros((2, 5), np.float32)})
    Traceback (most recent call last):
    ...
    AssertionError: FakeModule: found rows of the same environment and agent, [(0, 0), (0, 0)], expected one of each.
    """

    def __init__(self, *, fails_at: int | None = None) -> None:
        super().__init__(FAKE_OBSERVATIONS, FAKE_ACTIONS)
        self.fails_at = fails_at
        self.calls: list[tuple[str, list[tuple[int, ...]]]] = []

    def act(self, batch: dict[str, Any]) -> Any:
        """Return an action for each row."""
        return np.array([fake_action(row) for row in self._checked(batch)], np.int64)

    def forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return actions and tags."""
        return self._answer("forward_inference", batch)

    def forward_exploration(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return actions and tags."""
        return self._answer("forward_exploration", batch)

    def forward_train(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return actions and tags."""
        return self._answer("forward_train", batch)

    def _answer(self, which: str, batch: dict[str, Any]) -> dict[str, Any]:
        if self.fails_at == len(self.calls):
            self.fails_at = None
            raise RuntimeError("the failure that FakeModule was asked for")
        rows = self._checked(batch, alone=which != "forward_train")
        self.calls.append((which, [tuple(int(part) for part in row[:4]) for row in rows]))
        tags = np.stack([fake_tag(row) for row in rows]) if len(rows) else np.zeros((0, 4), np.float32)
        return {Columns.ACTIONS: np.array([fake_action(row) for row in rows], np.int64), TAG: tags}

    def _checked(self, batch: dict[str, Any], alone: bool = True) -> np.ndarray:
        if Columns.OBS not in batch:
            raise AssertionError(f"FakeModule: found the columns {list(batch)}, expected `obs` among them.")
        rows = np.asarray(as_array(batch[Columns.OBS]))
        if rows.ndim != 2 or rows.shape[1:] != FAKE_OBSERVATIONS.shape or (rows % 1).any() or (rows[:, :4] < 0).any():
            raise AssertionError(
                f"FakeModule: found {describe(rows)} as observations, expected rows of whole numbers as fake environments have "
                f"them, float32[B, 5]: {rows.tolist()[:3]}"
            )
        owners = [(int(row[0]), int(row[1])) for row in rows]
        if alone and len(set(owners)) < len(owners):
            raise AssertionError(
                f"FakeModule: found rows of the same environment and agent, {owners}, expected one of each."
            )
        return rows


class FakeConnector(ConnectorV2):
    """Passes the batch on as it is, and takes note of each call; it verifies that it is called as pipelines call pieces.

    Attributes:
        calls: For each call a dict: the `columns` of the batch, the `lengths` of the episodes, `explore`, and the `names` of
            further arguments.

    >>> from episodia.connectors import defaults
    >>> from episodia.testing import sample_episodes
    >>> spy = FakeConnector()
    >>> batch = defaults.learner(custom=[spy])(rl_module=None, episodes=sample_episodes())
    >>> spy.calls[0]["lengths"], spy.calls[0]["columns"]
    ([3, 1, 5, 2], [])
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[dict[str, Any]] = []

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: Any,
        explore: bool | None = None,
        shared_data: dict[Any, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the batch as it is."""
        if not isinstance(batch, dict):
            raise AssertionError(f"FakeConnector: found {type(batch).__name__} as `batch`, expected a dict.")
        if not isinstance(episodes, Sequence):
            raise AssertionError(f"FakeConnector: found {type(episodes).__name__} as `episodes`, expected a sequence.")
        odd = [one for one in episodes if not isinstance(one, (SingleAgentEpisode, MultiAgentEpisode))]
        if odd:
            raise AssertionError(f"FakeConnector: found {odd[0]!r} among `episodes`, expected episodes only.")
        if shared_data is not None and not isinstance(shared_data, dict):
            raise AssertionError(f"FakeConnector: found {shared_data!r} as `shared_data`, expected a dict or None.")
        self.calls.append(
            {
                "columns": list(batch),
                "lengths": [len(episode) for episode in episodes],
                "explore": explore,
                "names": sorted(kwargs),
            }
        )
        return batch
