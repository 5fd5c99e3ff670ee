"""Updates from replay: sample, compute a batch, learn, and give the errors of rows back to the buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np

from episodia.arguments import checked_whole, names_nearest_argument
from episodia.columns import Columns
from episodia.errors import LearnerError
from episodia.learners.algorithms.off_policy import OffPolicyConfig
from episodia.learners.learner import Learner
from episodia.learners.update_metrics import UpdateMetrics
from episodia.replay import Draw, Replay
from episodia.types import Batch

# The results of rows that become priorities.
PRIORITY = "td_error"


@names_nearest_argument
@final
class ReplayUpdates:
    """Updates a learner with samples of a buffer.

    Each update is one gradient step with one sample. The sizes of the errors of its rows become the priorities of the stored
    steps; errors that are not finite are counted (`num_bad_rows` of the metrics) and not written.

    Args:
        learner: The learner.
        buffer: The buffer: a `ReplayBuffer`, or what takes its place, such as a `ReplayShard`.
        num: The number of rows of a sample.
        draw: What a sample is made of; None takes the draw of the learner's algorithm.

    Raises:
        LearnerError: If the algorithm has no draw and none is passed.

    >>> from gymnasium import spaces
    >>> from episodia import SingleAgentEpisode
    >>> from episodia.learners import DQNConfig
    >>> from episodia.modules import QNetwork
    >>> from episodia.replay import ReplayBuffer
    >>> buffer = ReplayBuffer(100, seed=0)
    >>> _ = buffer.add([SingleAgentEpisode(observations=[np.zeros(1, np.float32)] * 3, actions=[0, 1], rewards=[0.0, 1.0],
    ...     terminated=True, len_lookback_buffer=0)])
    >>> learner = Learner(QNetwork(spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)), DQNConfig(), seed=0)
    >>> ReplayUpdates(learner, buffer, num=4).update().rows["default_policy"]["td_error"].shape
    (4,)
    """

    def __init__(self, learner: Learner, buffer: Replay, *, num: int = 256, draw: Draw | None = None) -> None:
        self.learner = learner
        self.buffer = buffer
        self.num = checked_whole(LearnerError, "ReplayUpdates", "num", num, 1)
        self.draw = _draw_of(learner) if draw is None else draw

    def __repr__(self) -> str:
        return f"ReplayUpdates({type(self.learner).__name__}, {self.buffer!r}, num={self.num}, draw={self.draw!r})"

    def update(self, *, num_gradient_steps: int = 1, env_steps: int | None = None) -> UpdateMetrics:
        """Draw a sample for each gradient step, take the steps, and write the priorities of all samples.

        Several steps at once take less time than as many calls: all samples are drawn and become one batch, before the first
        step is taken. So priorities decide what is drawn next only after the last one.

        Args:
            num_gradient_steps: The number of gradient steps, and of samples.
            env_steps: See `Learner.update`.

        Raises:
            ReplayError: If there is no step that can be drawn.
            LearnerError: See `Learner.update`.
        """
        checked_whole(LearnerError, "ReplayUpdates.update", "num_gradient_steps", num_gradient_steps, 1)
        lookback = self.learner.pipeline.lookback
        sampled = self.buffer.sample(self.num * num_gradient_steps, self.draw, lookback=lookback)
        batch = self.learner.batch_of(sampled)
        metrics = self.learner.update_in_order(batch, num_gradient_steps=num_gradient_steps, env_steps=env_steps)
        if self.buffer.has_priorities:
            self._write_priorities(batch, metrics)
        return metrics

    def _write_priorities(self, batch: Mapping[str, Batch], metrics: UpdateMetrics) -> None:
        found = {
            module_id: _priorities(np.asarray(batch[module_id][Columns.KEYS]), rows[PRIORITY])
            for module_id, rows in metrics.rows.items()
            if PRIORITY in rows and Columns.KEYS in batch[module_id]
        }
        if found:
            keys, sizes = ({module_id: pair[part] for module_id, pair in found.items()} for part in (0, 1))
            self.buffer.update_priorities(keys, sizes)


def _priorities(keys: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the key and the size of the error of each row with a finite error; a sequence has the key of its first step."""
    firsts = keys if keys.ndim == 1 else keys[:, 0]
    finite = np.isfinite(errors)
    return firsts[finite], np.abs(errors[finite])


def _draw_of(learner: Learner) -> Draw:
    config = learner.config
    if isinstance(config, OffPolicyConfig):
        return config.draw()
    raise LearnerError(
        f"ReplayUpdates: found the algorithm {config!r} without `draw`, expected a config such as `DQNConfig()`, or a draw. "
        "Pass `draw=Transitions()`, for example."
    )
