"""Replay buffers under RLlib's names and with its signatures; each is a `ReplayBuffer` that evicts whole episodes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Literal, final

import numpy as np

from episodia.arguments import (
    check_known,
    checked_choice,
    checked_each,
    checked_flag,
    checked_seed,
    checked_whole,
    is_whole,
)
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay import (
    AddedSteps,
    Draw,
    JointSteps,
    Proportional,
    ReplayBuffer,
    Selection,
    Selector,
    Sequences,
    StoredSteps,
    Transitions,
    Uniform,
)
from episodia.trees import describe
from episodia.types import ModuleID, State

# What RLlib takes, and what has no meaning here: metrics are counted by loops and learners.
_UNUSED = ("metrics_num_episodes_for_smoothing",)


class EpisodeReplayBuffer:
    """Keeps episodes up to a number of time steps; `ReplayBuffer` has more ways to sample, and this one's state.

    Differences from RLlib: an item of several steps never reaches beyond the end of its episode, chunks continue their
    episodes in any interleaving, and a sample is an `EpisodeList`, whose columns are gathered when they are read. It must be
    read before more episodes are added, or loaded with `sampled.load()`. Batches without episodes (`sample_episodes=False`)
    are not made.

    Args:
        capacity: The number of time steps; each episode takes one more.
        batch_size_B: How many items `sample` returns by default.
        batch_length_T: Not used: sequences are sampled if `sample` is told their length.
        seed: The seed of all draws.
        **kwargs: Other arguments of RLlib without a meaning here.

    >>> buffer = EpisodeReplayBuffer(capacity=1000, seed=0)
    >>> buffer.add(SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], len_lookback_buffer=0))
    >>> buffer.sample(num_items=3, n_step=1, sample_episodes=True).flat("actions").values.tolist()
    [6, 5, 6]
    """

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        batch_size_B: int = 16,  # noqa: N803  # RLlib's name
        batch_length_T: int = 64,  # noqa: N803  # RLlib's name
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        where = type(self).__name__
        check_known(where, kwargs, _UNUSED)
        self.batch_size_B = checked_whole(ReplayError, where, "batch_size_B", batch_size_B, 1)
        self.batch_length_T = checked_whole(ReplayError, where, "batch_length_T", batch_length_T, 1)
        self._rng = np.random.default_rng(checked_seed(ReplayError, where, seed))
        self._buffer = ReplayBuffer(capacity, evict="episodes", selector=self._selector(), infos=True, seed=seed)
        self._keys: Any = None
        self._added: Counter[ModuleID] = Counter()
        self._sampled: Counter[ModuleID] = Counter()
        self._num_evicted = 0

    def _selector(self) -> Selector:
        return Uniform()

    @property
    def capacity(self) -> int:
        """The number of time steps that fit."""
        return self._buffer.capacity

    def add(self, episodes: Iterable[Any] | SingleAgentEpisode | MultiAgentEpisode) -> None:
        """Store an episode or several, or chunks of them."""
        given = [episodes] if isinstance(episodes, (SingleAgentEpisode, MultiAgentEpisode)) else episodes
        listed = EpisodeList.of(given)
        self._num_evicted += self._buffer.add(listed).num_evicted_episodes
        self._added += _steps_by_module(listed)

    def sample(  # noqa: PLR0913  # the arguments that RLlib has
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,  # noqa: N803  # RLlib's name
        batch_length_T: int | None = None,  # noqa: N803  # RLlib's name
        n_step: int | tuple[int, int] | None = 1,
        beta: float = 0.0,
        gamma: float = 0.99,
        sample_episodes: bool = True,
        lookback: int = 0,
        replay_mode: Literal["independent", "synchronized"] = "independent",
        modules_to_sample: Collection[ModuleID] | None = None,
        **kwargs: Any,
    ) -> EpisodeList[SingleAgentEpisode]:
        """Return items as episodes: n-step transitions, or sequences if there is a length.

        Args:
            num_items: How many items.
            batch_size_B: The same under another name.
            batch_length_T: The length of sequences, which have about `num_items` steps together; None for transitions.
            n_step: The steps of an item; of a range `(low, high)`, all items of a call have one number that is drawn from it.
            beta: How much of the bias of priorities the weights take away.
            gamma: The discount of one step.
            sample_episodes: Must be True.
            lookback: How many steps before each item are there, too.
            replay_mode: `"independent"` samples each module on its own, `"synchronized"` the steps of all agents at the same
                environment steps: see `JointSteps`.
            modules_to_sample: The modules to sample for; None for all.
            **kwargs: Arguments of RLlib for what is always there: infos, extra model outputs, arrays.

        Raises:
            ReplayError: If there is no step that can be drawn, or if an argument is wrong.
        """
        where = f"{type(self).__name__}.sample"
        check_known(where, kwargs, _ALWAYS)
        if not checked_flag(ReplayError, where, "sample_episodes", sample_episodes):
            raise ReplayError(
                f"{where}: found `sample_episodes=False`, expected True: a learner pipeline makes batches of episodes. "
                "Pass the sample to it."
            )
        num = checked_whole(ReplayError, where, "num_items", _first(num_items, batch_size_B, self.batch_size_B), 1)
        checked_choice(ReplayError, where, "replay_mode", replay_mode, ("independent", "synchronized"))
        self._set_beta(beta)
        draw, count = self._draw(num, batch_length_T, n_step, gamma)
        if replay_mode == "synchronized":
            draw = self._joint(draw)
        sampled = self._buffer.sample(count, draw, lookback=lookback, modules=modules_to_sample)
        self._sampled += _steps_by_module(sampled)
        self._keys = sampled.keys
        return sampled

    def _draw(
        self, num: int, length: int | None, n_step: int | tuple[int, int] | None, gamma: float
    ) -> tuple[Draw, int]:
        """Return a draw, and how many stretches to draw."""
        where = f"{type(self).__name__}.sample"
        if steps := checked_whole(ReplayError, where, "batch_length_T", _first(length, 0), 0):
            return Sequences(steps), max(1, round(num / steps))
        if isinstance(n_step, tuple) and len(n_step) == 2:
            low, high = checked_each(ReplayError, where, "n_step", n_step, is_whole, "two numbers of steps")
            checked_whole(ReplayError, where, "n_step", high, checked_whole(ReplayError, where, "n_step", low, 1))
            Transitions(high, gamma)  # checks the longest one, whichever is drawn
            return Transitions(int(self._rng.integers(low, high + 1)), gamma), num
        return Transitions(_first(n_step, 1), gamma), num

    def _joint(self, draw: Draw) -> Draw:
        """Return what draws the steps of all agents together, in place of a draw of single steps."""
        if not isinstance(draw, Transitions) or draw.n_step > 1:
            raise ReplayError(
                f"{type(self).__name__}.sample: found `replay_mode='synchronized'` and {draw!r}, expected single steps. Leave "
                "out `batch_length_T` and `n_step`, or sample with `replay_mode='independent'`."
            )
        return JointSteps()

    def _set_beta(self, beta: float) -> None:
        """Do nothing: without priorities there are no weights."""

    def __len__(self) -> int:
        return self.get_num_timesteps()

    def get_num_episodes(self, module_id: ModuleID | None = None) -> int:
        """Return how many episodes are stored, or agent episodes of a module."""
        stored = self._episodes_of(module_id)
        if module_id is not None:
            return len(stored)
        return len({origin[0] if isinstance(origin, tuple) else origin for origin in stored.origins})

    def get_num_episodes_evicted(self) -> int:
        """Return how many episodes were evicted; of multi-agent episodes, those of each agent and module."""
        return self._num_evicted

    def get_num_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Return how many time steps are stored."""
        if module_id is None:
            return self._buffer.num_steps
        return int(sum(part.lengths.sum() for part in [self._episodes_of(module_id)]))

    def _episodes_of(self, module_id: ModuleID | None) -> EpisodeList[SingleAgentEpisode]:
        stored = self._buffer.episodes()
        if module_id is None:
            return stored
        return stored.groups().get(module_id, EpisodeList()) if len(stored) else stored

    def get_sampled_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Return how many time steps were sampled."""
        return self._sampled.total() if module_id is None else self._sampled[module_id]

    def get_added_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Return how many time steps were added."""
        return self._added.total() if module_id is None else self._added[module_id]

    def get_state(self) -> State:
        """Return all that is stored, and the counts."""
        counts = [list(self._added.items()), list(self._sampled.items()), self._num_evicted]
        return {"buffer": self._buffer.get_state(), "counts": counts, "generator": dict(self._rng.bit_generator.state)}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        given: object = state
        if not isinstance(given, dict) or given.keys() != {"buffer", "counts", "generator"}:
            raise ReplayError(
                f"{type(self).__name__}.set_state: found {describe(state)}, expected what `get_state()` returned."
            )
        self._buffer.set_state(state["buffer"])
        added, sampled, self._num_evicted = state["counts"]
        self._added, self._sampled = Counter(dict(added)), Counter(dict(sampled))
        self._rng.bit_generator.state = state["generator"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._buffer!r})"


def _steps_by_module(episodes: EpisodeList[Any]) -> Counter[ModuleID]:
    groups = episodes.groups() if len(episodes) else {}
    return Counter({module_id: int(group.lengths.sum()) for module_id, group in groups.items()})


def _first(*values: Any) -> Any:
    """Return the first value that is not None, None if there is no such value."""
    return next((value for value in values if value is not None), None)


# Arguments of `sample` that have no effect, because what they ask for is always there.
_ALWAYS = (
    "include_infos",
    "include_extra_model_outputs",
    "to_numpy",
)


class PrioritizedEpisodeReplayBuffer(EpisodeReplayBuffer):
    """An `EpisodeReplayBuffer` that samples in proportion to priorities.

    Priorities go to the items of the last sample; items that were evicted since then are left alone.

    Args:
        capacity: The number of time steps; each episode takes one more.
        alpha: How strongly priorities count; 0 is uniform.
        **kwargs: See `EpisodeReplayBuffer`.

    >>> PrioritizedEpisodeReplayBuffer(capacity=1000, alpha=0.6).capacity
    1000
    """

    def __init__(self, capacity: int = 10_000, *, alpha: float = 1.0, **kwargs: Any) -> None:
        self._prioritized = _WithBeta(Proportional(alpha=alpha), [0.0])
        super().__init__(capacity, **kwargs)

    def _selector(self) -> Selector:
        return self._prioritized

    def _set_beta(self, beta: float) -> None:
        self._prioritized.set_beta(beta)

    def add(
        self, episodes: Iterable[Any] | SingleAgentEpisode | MultiAgentEpisode, weight: float | None = None
    ) -> None:
        """Store an episode or several, or chunks of them; their steps get the priority `weight`, None for the largest one."""
        super().add(episodes)
        if weight is not None:
            self._buffer.update_newest(weight)

    def update_priorities(self, priorities: Any, module_id: ModuleID | None = None) -> None:
        """Set the priorities of the items of the last sample, those of one module if there are several.

        Raises:
            ReplayError: If nothing was sampled, or if there are more or fewer priorities than items.
        """
        keys = self._keys
        if keys is None:
            raise ReplayError(
                f"{type(self).__name__}.update_priorities: found no sample, expected one. Call `sample` first."
            )
        if module_id is not None and isinstance(keys, dict):
            keys, priorities = {module_id: keys[module_id]}, {module_id: priorities}
        self._buffer.update_priorities(keys, priorities)


@final
class _WithBeta:
    """Proportional selection whose copies, one for each module, share a `beta` that may change with each sample."""

    def __init__(self, inner: Proportional, beta: list[float]) -> None:
        self._inner = inner
        self._beta = beta

    def set_beta(self, beta: float) -> None:
        """Set how much of the bias the weights take away, for all copies."""
        self._inner.beta = beta  # checks it
        self._beta[0] = beta

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """See `Proportional`."""
        self._inner.on_add(rows, added)

    def on_evict(self, rows: np.ndarray) -> None:
        """See `Proportional`."""
        self._inner.on_evict(rows)

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """See `Proportional`."""
        self._inner.beta = self._beta[0]
        return self._inner.select(num, steps, rng)

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """See `Proportional`."""
        self._inner.update(rows, values)

    def get_state(self) -> State:
        """See `Proportional`."""
        return self._inner.get_state()

    def set_state(self, state: State) -> None:
        """See `Proportional`."""
        self._inner.set_state(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> _WithBeta:
        return _WithBeta(copy.deepcopy(self._inner, memo), self._beta)


class MultiAgentEpisodeReplayBuffer(EpisodeReplayBuffer):
    """An `EpisodeReplayBuffer` for multi-agent episodes: items of each module are sampled on their own.

    >>> MultiAgentEpisodeReplayBuffer(capacity=1000).get_module_ids()
    []
    """

    def get_module_ids(self) -> list[ModuleID]:
        """Return the modules that have steps."""
        stored = self._buffer.episodes()
        return list(stored.by_module()) if len(stored) else []

    def get_num_agent_timesteps(self) -> int:
        """Return how many steps of agents are stored."""
        return self._buffer.num_steps

    def get_added_agent_timesteps(self) -> int:
        """Return how many steps of agents were added."""
        return self._added.total()
