"""Our side of the replay rows, and the same in bare NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
from _replay_settings import (
    ADD_CAPACITY,
    ALPHA,
    BATCH,
    BETA,
    EPISODE,
    FRAMES,
    GAMMA,
    LENGTH,
    N_STEP,
    RING_CAPACITY,
    SEQUENCES,
    SIDE,
    STACK,
    Steps,
    frames,
    goals,
    reward_of,
    steps,
)
from gymnasium import spaces

from episodia import Columns, EpisodeList, LearnerConnectorPipeline, SingleAgentEpisode, connectors, replay
from episodia.connectors import defaults
from episodia.episodes import Recorder
from episodia.replay import ReplayBuffer, Transitions

_CART = (spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2))
_FLAT = (Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS)


def _episodes(
    found: Steps, observations: Iterable[Any], space: spaces.Space[Any], num_actions: int
) -> EpisodeList[Any]:
    return EpisodeList(
        SingleAgentEpisode(
            observations=track,
            observation_space=space,
            action_space=spaces.Discrete(num_actions),
            actions=found.actions[episode],
            rewards=found.rewards[episode],
            terminated=bool(found.is_terminated[episode]),
            truncated=not found.is_terminated[episode],
            len_lookback_buffer=0,
        ).finalize()
        for episode, track in enumerate(observations)
    )


def _filled(buffer: ReplayBuffer, episodes: EpisodeList[Any]) -> ReplayBuffer:
    for start in range(0, len(episodes), 100):
        buffer.add(episodes[start : start + 100])
    return buffer


@cache
def _buffer(num: int, selector: Any = None) -> ReplayBuffer:
    found = steps(num)
    buffer = ReplayBuffer(num + num // EPISODE + 64, selector=selector, seed=0)
    return _filled(buffer, _episodes(found, found.observations, _CART[0], 2))


def _gathered(sampled: Any) -> list[Any]:
    return [sampled.flat(Columns.OBS, tail=True), *(sampled.flat(column) for column in _FLAT)]


def uniform(num: int) -> Callable[[], Any]:
    """Return what samples transitions, and gathers all columns."""
    buffer = _buffer(num)
    return lambda: _gathered(buffer.sample(BATCH))


def _pipeline(space: spaces.Space[Any], *added: Any) -> LearnerConnectorPipeline:
    targets = [*added, connectors.AddNextObservationsFromEpisodesToTrainBatch()]
    return defaults.learner(space, spaces.Discrete(2), targets=targets)


def _to_tensors(buffer: ReplayBuffer, pipeline: LearnerConnectorPipeline, **options: Any) -> Callable[[], Any]:
    def run() -> Any:
        return pipeline(rl_module=None, batch={}, episodes=buffer.sample(BATCH, **options), shared_data={})

    return run


def tensors(num: int) -> Callable[[], Any]:
    """Return what samples transitions, and makes tensors of them in the learner pipeline."""
    return _to_tensors(_buffer(num), _pipeline(_CART[0]))


def n_step(num: int) -> Callable[[], Any]:
    """Return what samples n-step transitions, and gathers all columns."""
    buffer, draw = _buffer(num), Transitions(n_step=N_STEP, gamma=GAMMA)

    def run() -> Any:
        sampled = buffer.sample(BATCH, draw)
        return *_gathered(sampled), sampled.flat(Columns.DISCOUNTS)

    return run


def n_step_tensors(num: int) -> Callable[[], Any]:
    """Return what samples n-step transitions, and makes tensors of them."""
    return _to_tensors(_buffer(num), _pipeline(_CART[0]), draw=Transitions(n_step=N_STEP, gamma=GAMMA))


def prioritized(num: int) -> Callable[[], Any]:
    """Return what samples by priority, gathers all columns, and tells new priorities."""
    buffer, errors = _buffer(num, replay.Proportional(alpha=ALPHA, beta=BETA)), np.random.default_rng(3).random(BATCH)

    def run() -> Any:
        sampled = buffer.sample(BATCH)
        gathered = _gathered(sampled), sampled.flat(Columns.WEIGHTS)
        buffer.update_priorities(sampled.keys, errors)
        return gathered

    return run


def sequences(num: int) -> Callable[[], Any]:
    """Return what samples sequences, and gathers all columns."""
    buffer, draw = _buffer(num), replay.Sequences(LENGTH, end="full")
    return lambda: _gathered(buffer.sample(SEQUENCES, draw))


def stacked() -> Callable[[], Any]:
    """Return what samples frames, stacks them, and makes tensors of them; each frame is stored once."""
    found, space = frames(FRAMES), spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    buffer = ReplayBuffer(FRAMES + FRAMES // EPISODE + 64, seed=0)
    _filled(buffer, _episodes(found, found.observations, space, 4))
    pipeline = defaults.learner(
        space,
        spaces.Discrete(4),
        custom=[connectors.FrameStacking(num_frames=STACK, axis=0)],
        targets=[connectors.AddNextObservationsFromEpisodesToTrainBatch()],
    )
    return _to_tensors(buffer, pipeline, lookback=STACK - 1)


def hindsight(num: int) -> Callable[[], Any]:
    """Return what samples transitions, gives four of five another goal and its reward, and makes tensors of them."""
    found, achieved, desired = goals(num)
    goal = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    space = spaces.Dict({"observation": _CART[0], "achieved_goal": goal, "desired_goal": goal})
    observations = (
        {"observation": track, "achieved_goal": reached, "desired_goal": np.tile(wanted, (EPISODE + 1, 1))}
        for track, reached, wanted in zip(found.observations, achieved, desired, strict=True)
    )
    buffer = _filled(ReplayBuffer(num + num // EPISODE + 64, seed=0), _episodes(found, observations, space, 2))
    return _to_tensors(buffer, _pipeline(space, connectors.HindsightGoals(compute_reward=reward_of, seed=0)))


class _Chunks:
    """Vector steps as a recorder returns them: a chunk of one step for each environment; they end at different steps."""

    def __init__(self, num_envs: int) -> None:
        self._recorder = Recorder(*_CART, num_lanes=num_envs, seed=0)
        self._recorder.reset(np.zeros((num_envs, 4), np.float32))
        self._left = EPISODE - np.arange(num_envs) % EPISODE
        self._zeros = np.zeros(num_envs, np.int64)
        self._rewards = np.ones(num_envs)

    def __call__(self) -> EpisodeList[Any]:
        self._left -= 1
        done = self._left == 0
        observations = np.random.default_rng(0).standard_normal((len(done), 4), np.float32)
        self._recorder.step(observations, self._zeros, self._rewards, done, np.zeros_like(done))
        chunks = self._recorder.take()
        if done.any():
            lanes = np.flatnonzero(done)
            self._recorder.reset(observations[lanes], lanes=lanes.tolist())
            self._left[lanes] = EPISODE
        return chunks


def add(num_envs: int, capacity: int = ADD_CAPACITY) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what makes a vector step, and what adds it."""
    return _Chunks(num_envs), ReplayBuffer(capacity, seed=0).add


def add_to_full_ring(num_envs: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what adds to a buffer that overwrites its oldest rows."""
    prepare, run = add(num_envs, RING_CAPACITY)
    for _ in range(RING_CAPACITY // num_envs + 10):
        run(prepare())
    return prepare, run


# --- Bare NumPy -----------------------------------------------------------------------------------------------------


def uniform_by_hand(num: int) -> Callable[[], Any]:
    """Return what draws rows, and takes them of all arrays."""
    columns, rng = list(steps(num).flat().values()), np.random.default_rng(0)

    def run() -> Any:
        rows = rng.integers(0, num, BATCH)
        return [column.take(rows, 0) for column in columns]

    return run


def sequences_by_hand(num: int) -> Callable[[], Any]:
    """Return what draws starts of full sequences, and takes their rows of all arrays."""
    columns, rng, shifts = list(steps(num).flat().values()), np.random.default_rng(0), np.arange(LENGTH)

    def run() -> Any:
        starts = rng.integers(0, num // EPISODE, SEQUENCES) * EPISODE + rng.integers(0, EPISODE - LENGTH + 1, SEQUENCES)
        rows = starts[:, None] + shifts
        return [column.take(rows, 0) for column in columns]

    return run


# --- What is not a time ---------------------------------------------------------------------------------------------


class _Counted:
    """A storage that counts its bytes."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def check(self, name: str, values: Any) -> None:
        """Reject nothing."""

    def array(self, _name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array of zeros."""
        made = np.zeros(shape, dtype)
        self.num_bytes += made.nbytes
        return made


def measured() -> dict[str, float]:
    """Return rows used for each row needed with 256 environments, and the bytes of a frame transition in frames."""
    prepare, buffer = _Chunks(256), ReplayBuffer(RING_CAPACITY, seed=0)
    for _ in range(3 * RING_CAPACITY // 256):
        buffer.add(prepare())
    stored = buffer.episodes()
    used = RING_CAPACITY / (int(stored.lengths.sum()) + len(stored))
    few = frames(10 * EPISODE)
    storage = _Counted()
    small = ReplayBuffer(10 * (EPISODE + 1), storage=storage, seed=0)
    _filled(small, _episodes(few, few.observations, spaces.Box(0, 255, (SIDE, SIDE), np.uint8), 4))
    return {"rows used": used, "frames": storage.num_bytes / len(small) / SIDE**2}
