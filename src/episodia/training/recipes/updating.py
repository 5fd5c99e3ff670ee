"""Updates of a training: learn from the collected episodes at once, or store them and learn from replay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, final

from episodia.arguments import checked_whole
from episodia.episodes import EpisodeList
from episodia.errors import TrainingError
from episodia.learners import ALL_MODULES, Learner, Metrics, ReplayUpdates
from episodia.learners.update_metrics import mean_of_updates
from episodia.replay import ReplayBuffer
from episodia.trees import describe

# Products such as 0.1 * 30 may be a little too small.
_ROUNDING = 1e-6

# The key of the states of several buffers.
_SHARDS = "shards"

# How many rows the samples of several updates have together: more would take memory, and save little time.
_ROWS_AT_ONCE = 1024


class Updating(ABC):
    """The part of a training that differs between algorithms that learn on-policy and from replay."""

    @property
    def acts_at_random(self) -> bool:
        """Whether the next actions are random, because learning has not begun."""
        return False

    @property
    def note(self) -> str:
        """A sentence about the state that was set; usually empty."""
        return ""

    @abstractmethod
    def learn(self, episodes: EpisodeList[Any], *, steps: int, num_new: int) -> Metrics:
        """Learn, and return metrics.

        Args:
            episodes: The episodes that were collected.
            steps: The number of steps of the training so far, those of the episodes included.
            num_new: The number of steps of the episodes.
        """

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return what has to be saved beside runner and learner."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`.

        Raises:
            TrainingError: If it is not the state of such a part; nothing is changed then.
            ReplayError: If it has the state of another buffer; nothing is changed then.
        """


@final
class UpdateWithEpisodes(Updating):
    """One update with the episodes that were just collected, see `Learner.update`."""

    def __init__(self, learner: Learner, *, num_epochs: int, minibatch_size: int | None) -> None:
        self._learner = learner
        self._amounts: dict[str, Any] = {"num_epochs": num_epochs, "minibatch_size": minibatch_size}

    def learn(self, episodes: EpisodeList[Any], *, steps: int, num_new: int) -> Metrics:
        """Update once."""
        return self._learner.update(episodes, **self._amounts)

    def get_state(self) -> dict[str, Any]:
        """Return an empty dict."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Check that `state` is empty."""
        _check_names(state, ())


@final
class UpdateFromReplay(Updating):
    """Stores the episodes, and takes gradient steps with samples of all that is stored.

    Args:
        learner: The learner.
        buffers: The buffer, or several shards, which only flows fill.
        num: The number of rows of a sample.
        warm_up: The number of steps before the first update.
        random_warm_up: Whether actions are random until then.
        updates_per_step: The number of updates for each later step.
        saves_buffer: Whether the state includes the buffer.
    """

    def __init__(  # each is an independent choice
        self,
        learner: Learner,
        buffers: Sequence[ReplayBuffer],
        *,
        num: int,
        warm_up: int,
        random_warm_up: bool,
        updates_per_step: float,
        saves_buffer: bool,
    ) -> None:
        self.buffer = buffers[0]
        self.shards = [ReplayUpdates(learner, own, num=num) for own in buffers]
        self._warm_up, self._random_warm_up = warm_up, random_warm_up
        self._updates_per_step = updates_per_step
        self._saves_buffer = saves_buffer
        # Since the buffer was empty.
        self._num_seen = self._num_updates = 0
        self._note = ""

    @property
    def acts_at_random(self) -> bool:
        """Whether there are too few steps for an update, and actions are random until then."""
        return self._random_warm_up and self._num_seen < self._warm_up

    @property
    def note(self) -> str:
        """A sentence if the state that was set had no buffer."""
        return self._note

    @property
    def num_due(self) -> int:
        """The number of updates that are due for the steps so far and were not taken yet."""
        # All steps are multiplied together: fractions of single steps would add up to rounding errors.
        due = self._updates_per_step * max(0, self._num_seen - self._warm_up)
        return int(due + _ROUNDING) - self._num_updates

    def learn(self, episodes: EpisodeList[Any], *, steps: int, num_new: int) -> Metrics:
        """Store the episodes, and take the gradient steps that are due."""
        self.buffer.add(episodes)
        self._num_seen += num_new
        found, num_due = [], self.num_due
        # Priorities that a step writes count in the next one.
        most = 1 if self.buffer.has_priorities else max(1, _ROWS_AT_ONCE // self.shards[0].num)
        while left := self.num_due:
            num = min(left, most)
            found.append(self.shards[0].update(num_gradient_steps=num, env_steps=steps))
            self._num_updates += num
        metrics = mean_of_updates(found)
        metrics.setdefault(ALL_MODULES, {}).update(num_stored_steps=len(self.buffer), num_gradient_updates=num_due)
        return metrics

    def get_state(self) -> dict[str, Any]:
        """Return the buffer with counters, or an empty dict if the buffer is not saved."""
        if not self._saves_buffer:
            return {}
        states = [shard.buffer.get_state() for shard in self.shards]
        saved = states[0] if len(states) == 1 else {_SHARDS: states}
        return {"num_seen": self._num_seen, "num_updates": self._num_updates, "buffer": saved}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`; if it has no buffer, begin with an empty one and another warm-up."""
        if state:
            _check_names(state, ("num_seen", "num_updates", "buffer"))
            counts = [
                checked_whole(TrainingError, "state", name, state[name], 0) for name in ("num_seen", "num_updates")
            ]
            saved = state["buffer"]
            states = saved[_SHARDS] if isinstance(saved, Mapping) and _SHARDS in saved else [saved]
            if len(states) != len(self.shards):
                raise TrainingError(
                    f"state of a training: found {len(states)} buffers, expected {len(self.shards)}. Use the same `num_shards`."
                )
            for shard, own in zip(self.shards, states, strict=True):
                shard.buffer.set_state(own)
            self._num_seen, self._num_updates = counts
            self._note = ""
            return
        for shard in self.shards:
            shard.buffer.clear()
        self._num_seen = self._num_updates = 0
        after = f"learning goes on after {self._warm_up:,} new steps"
        self._note = f"The replay buffer was not saved (`saves_buffer=False`): {after}."


def _check_names(state: object, names: tuple[str, ...]) -> None:
    found = sorted(map(str, state)) if isinstance(state, Mapping) else describe(state)
    if found != sorted(names):
        raise TrainingError(
            f"state of a training: found {found} as the state of its updates, expected {sorted(names)}. Load the state of a "
            "training with the same recipe."
        )
