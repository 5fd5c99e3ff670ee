"""The verb `collect`: collects episodes with random actions, shows them, and saves them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from episodia.cli.verbs import INTERRUPTED, OK, Verbs, add_verb, natural, positive
from episodia.episodes import SingleAgentEpisode
from episodia.errors import TrainingError
from episodia.types import Item

PROGRESS_EVERY_S = 2.0


def add_verb_to(verbs: Verbs) -> None:
    """Add `collect`."""
    verb = add_verb(verbs, "collect", "collect episodes with random actions, show them, and save them")
    verb.add_argument("env", nargs="?", default="CartPole-v1", help="id of a gymnasium environment")
    verb.add_argument("--episodes", type=positive, default=5, metavar="N", help="number of episodes")
    verb.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the environment and the actions")
    verb.add_argument("--out", metavar="DIR", help="new folder for the episodes; without it, they are not saved")
    verb.set_defaults(run=_collect)


def _collect(options: argparse.Namespace) -> int:
    out = None if options.out is None else Path(options.out)
    if out is not None and out.exists():
        raise TrainingError(
            f"collect: found {str(out)!r} as --out, expected the name of a new folder. Choose another name."
        )
    try:
        env: gym.Env[Any, Any] = gym.make(options.env)
    except (gym.error.Error, ImportError) as error:
        reason = " ".join(str(error).split())
        raise TrainingError(f"cannot make the environment {options.env!r}: {reason}") from error
    episodes: list[SingleAgentEpisode] = []
    try:
        _collect_randomly(env, episodes, num_episodes=options.episodes, seed=options.seed)
    except KeyboardInterrupt:
        print(f"\nInterrupted; {len(episodes)} of {options.episodes} episodes were begun.", file=sys.stderr)
        code = INTERRUPTED
    else:
        code = OK
    finally:
        env.close()
    _show(episodes, title=f"{options.env}, random actions, seed {options.seed}")
    if out is not None:
        _save(episodes, out)
    return code


def _save(episodes: Sequence[SingleAgentEpisode], out: Path) -> None:
    from episodia.checkpoints import save_state  # noqa: PLC0415  # imports torch, which is not needed otherwise

    save_state(out, {"episodes": [episode.get_state() for episode in episodes if len(episode) > 0]})
    print(
        f"\nSaved in {out}. Read them with:\n"
        f"  [SingleAgentEpisode.from_state(state) for state in load_state({str(out)!r})['episodes']]"
    )


def _collect_randomly(
    env: gym.Env[Any, Any], episodes: list[SingleAgentEpisode], *, num_episodes: int, seed: int
) -> None:
    """Play `num_episodes` episodes with random actions, and append them to `episodes`.

    After an interrupt, `episodes` also holds the running episode, up to its last complete step.

    Args:
        env: The environment; its first reset uses `seed`.
        episodes: The list to append to.
        num_episodes: The number of episodes.
        seed: The same seed gives the same episodes with the same ids.
    """
    env.action_space.seed(seed)
    progress = _Progress(num_episodes)
    for number in range(num_episodes):
        episode = SingleAgentEpisode(
            f"{seed}-{number}", observation_space=env.observation_space, action_space=env.action_space
        )
        obs, info = env.reset(seed=seed if number == 0 else None)
        episode.add_env_reset(obs, info)
        episodes.append(episode)
        while not episode.is_done:
            _step_randomly(env, episode)
            progress.show(episodes)
    progress.clear()


def _step_randomly(env: gym.Env[Any, Any], episode: SingleAgentEpisode) -> None:
    action = env.action_space.sample()
    obs, reward, terminated, truncated, info = env.step(action)
    episode.add_env_step(obs, action, float(reward), info, terminated=terminated, truncated=truncated)


class _Progress:
    """A line on stderr, shown every few seconds."""

    def __init__(self, num_episodes: int) -> None:
        self._num_episodes = num_episodes
        self._next_s = time.monotonic() + PROGRESS_EVERY_S
        self._end = "\r" if sys.stderr.isatty() else "\n"
        self._width = 0

    def show(self, episodes: Sequence[SingleAgentEpisode]) -> None:
        if time.monotonic() < self._next_s:
            return
        num_steps = sum(len(episode) for episode in episodes)
        line = f"episode {len(episodes)} of {self._num_episodes}, {num_steps} steps so far"
        print(line.ljust(self._width), end=self._end, file=sys.stderr, flush=True)
        self._width = len(line)
        self._next_s = time.monotonic() + PROGRESS_EVERY_S

    def clear(self) -> None:
        if self._end == "\r" and self._width:
            print(" " * self._width, end="\r", file=sys.stderr, flush=True)


def _show(episodes: Sequence[SingleAgentEpisode], *, title: str) -> None:
    episodes = [episode for episode in episodes if len(episode) > 0]
    print(title)
    if not episodes:
        print("No step was taken.")
        return
    print(f"\n{'id':<8} {'steps':>6} {'return':>10}  {'ended':<10}  first number of the observation, over time")
    for episode in episodes:
        numbers = f"{len(episode):>6} {episode.get_return():>10.5g}"
        line = sparkline([first_number(obs) for obs in episode.get_observations()])
        print(f"{episode.id_:<8} {numbers}  {_ending(episode):<10}  {line}")
    num_steps = sum(len(episode) for episode in episodes)
    mean_return = sum(episode.get_return() for episode in episodes) / len(episodes)
    print(f"\nepisodes: {len(episodes)}, steps: {num_steps}, mean return: {mean_return:.5g}")
    longest = max(episodes, key=len)
    if len(longest) > 1:
        _show_closer(longest)


def _ending(episode: SingleAgentEpisode) -> str:
    if episode.is_terminated:
        return "terminated"
    return "truncated" if episode.is_truncated else "running"


def _show_closer(episode: SingleAgentEpisode) -> None:
    half = len(episode) // 2
    print(f"\nA closer look at the longest: episode = {episode!r}")
    _answer("episode.get_observations(-1)", describe(episode.get_observations(-1)))
    _answer("episode.get_actions(slice(-4, None))", describe(episode.get_actions(slice(-4, None))))

    print("\nIts first steps, seen from a window that begins three steps earlier:")
    window = episode.get_rewards(slice(-3, 2), neg_index_as_lookback=True, fill=0.0)
    _answer("episode.get_rewards(slice(-3, 2), neg_index_as_lookback=True, fill=0.0)", describe(window))

    print("\nCut in the middle, as a runner does at the end of a fragment; the rest remembers two steps:")
    first = episode[:half]
    rest = first.cut(len_lookback_buffer=2)
    _answer(f"first = episode[:{half}]", repr(first))
    _answer("rest = first.cut(len_lookback_buffer=2)", f"{rest!r}, goes on at t={rest.t_started}")
    remembered = rest.get_actions(slice(-2, 0), neg_index_as_lookback=True)
    _answer("rest.get_actions(slice(-2, 0), neg_index_as_lookback=True)", describe(remembered))

    print("\nFinalized, columns are arrays (one observation more than actions: the reset's):")
    episode.finalize()
    _answer("episode.finalize().get_observations()", describe(episode.get_observations()))
    _answer("episode.get_actions()", describe(episode.get_actions()))
    _answer("episode.get_rewards()", describe(episode.get_rewards()))


def _answer(question: str, answer: str) -> None:
    print(f"  {question}\n      {answer}")


SPARK_WIDTH = 32
SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_ASCII = "_.-=+*#@"


def first_number(item: Item) -> float:
    """Return the first number in a nested item, or NaN if it has no number.

    >>> first_number({"position": np.array([0.5, 2.0]), "speed": 3})
    0.5
    >>> first_number("text")
    nan
    """
    while isinstance(item, dict | tuple | list) and item:
        item = next(iter(item.values())) if isinstance(item, dict) else item[0]
    if not isinstance(item, np.ndarray | np.generic | int | float):
        return float("nan")
    array = np.asarray(item)
    return float(array.flat[0]) if array.size and array.dtype.kind in "biuf" else float("nan")


def sparkline(values: Sequence[float], *, width: int = SPARK_WIDTH) -> str:
    """Draw `values` as one line of at most `width` characters, scaled from the lowest to the highest value.

    >>> sparkline([0, 1, 2, 3, 2, 1, 0]).translate(str.maketrans(SPARKS_ASCII, SPARKS))
    '▁▃▆█▆▃▁'
    >>> sparkline([float("nan")])
    ''
    """
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return ""
    if numbers.size > width:
        numbers = numbers[np.linspace(0, numbers.size - 1, width).round().astype(int)]
    low, high = float(numbers.min()), float(numbers.max())
    sparks = _printable_sparks()
    if low == high:
        return sparks[0] * len(numbers)
    heights = ((numbers - low) / (high - low) * (len(sparks) - 1)).round().astype(int)
    return "".join(sparks[height] for height in heights)


def _printable_sparks() -> str:
    try:
        SPARKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return SPARKS_ASCII
    return SPARKS


def describe(item: Item) -> str:
    """Describe an item in one short line: up to six numbers, or dtype and shape.

    >>> describe(np.array([0.25, -1.0]))
    '[0.25, -1]'
    >>> describe({"image": np.zeros((84, 84), np.uint8), "speed": [1.0, 2.0]})
    '{image: uint8 array of shape (84, 84), speed: [1, 2]}'
    """
    if isinstance(item, dict):
        return "{" + ", ".join(f"{key}: {describe(value)}" for key, value in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ", ".join(describe(value) for value in item) + "]"
    if isinstance(item, tuple):
        return "(" + ", ".join(describe(value) for value in item) + ")"
    if isinstance(item, np.ndarray):
        return describe(item.tolist()) if item.size <= 6 else f"{item.dtype} array of shape {item.shape}"
    if isinstance(item, float | np.floating):
        return f"{item:.4g}"
    return str(item)
