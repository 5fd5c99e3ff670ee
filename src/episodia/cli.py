"""The command line, `python -m episodia`: training, evaluating, and a first look at episodes."""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from episodia.episodes import SingleAgentEpisode
from episodia.errors import EpisodiaError, TrainingError

if TYPE_CHECKING:
    from episodia.dataflow import Training

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

SPARK_WIDTH = 32
SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_ASCII = "_.-=+*#@"
PROGRESS_EVERY_S = 2.0
SOLVED = 475.0  # the return at which gymnasium counts CartPole-v1 as solved


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: What follows `python -m episodia`; `None` reads it from `sys.argv`.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.verb is None:
        parser.print_help()
        return EXIT_OK
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except EpisodiaError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader (`head`, a pager) has gone. Python's own flush at exit must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m episodia", description="Episode-centric data for reinforcement learning."
    )
    parser.add_argument("--version", action="version", version=importlib.metadata.version("episodia"))
    verbs = parser.add_subparsers(dest="verb", metavar="verb")
    _add_training_verbs(verbs)
    episodes = _verb(verbs, "episodes", "collect a few episodes with random actions and show what they can tell")
    episodes.add_argument("--env", default="CartPole-v1", metavar="ID", help="a gymnasium environment")
    episodes.add_argument("--episodes", type=_positive, default=5, metavar="N", help="how many to collect")
    episodes.add_argument("--seed", type=_natural, default=0, metavar="N", help="of environment and actions")
    episodes.set_defaults(run=_episodes)
    connectors = _verb(verbs, "connectors", "list the installed connectors, with what each reads and writes")
    connectors.set_defaults(run=_connectors)
    plugin = _verb(verbs, "new-connector", "write a small package with a connector of your own")
    plugin.add_argument("name", help="of its class, such as AddWind")
    plugin.add_argument("--out", default=".", metavar="DIR", help="where to put the folder of the package")
    plugin.set_defaults(run=_connectors)
    return parser


def _add_training_verbs(verbs: Any) -> None:
    demo = _verb(verbs, "demo", "train a policy for CartPole until it is solved, and show how it went")
    demo.add_argument("--steps", type=_positive, default=100_000, metavar="N", help="stop after so many")
    demo.add_argument("--seed", type=_natural, default=0, metavar="N", help="of everything")
    demo.add_argument("--out", default="runs", metavar="DIR", help="where to put the folder of the run")
    demo.set_defaults(run=_demo)

    train = _verb(verbs, "train", "train a policy; Ctrl-C stops and saves")
    train.add_argument("algorithm", nargs="?", help="ppo, a2c or reinforce")
    train.add_argument("env", nargs="?", help="a gymnasium environment, such as CartPole-v1")
    train.add_argument("--steps", type=_positive, default=100_000, metavar="N", help="stop after so many in all")
    train.add_argument("--target", type=float, metavar="R", help="stop when the mean return has reached this")
    train.add_argument("--seed", type=_natural, default=0, metavar="N", help="of everything")
    train.add_argument("--out", metavar="DIR", help="a new folder for the run; by default one in runs/")
    train.add_argument("--resume", metavar="DIR", help="go on with the run in this folder")
    train.add_argument("--checkpoint-every", type=_positive, metavar="N", help="save also after so many steps each")
    train.add_argument("--tensorboard", action="store_true", help="write metrics for TensorBoard too")
    help_on_set = "change a setting, such as learning_rate=0.001, num_envs=4 or recurrent=lstm; may be repeated"
    train.add_argument("--set", action="append", default=[], type=_setting, metavar="NAME=VALUE", help=help_on_set)
    train.set_defaults(run=_train)

    evaluation = _verb(verbs, "eval", "play episodes with a policy that was trained")
    evaluation.add_argument("checkpoint", help="the folder of a run, or of its checkpoint")
    evaluation.add_argument("--episodes", type=_positive, default=100, metavar="N", help="how many to play")
    evaluation.set_defaults(run=_evaluate)


def _verb(verbs: Any, name: str, description: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=description,
        description=f"{description[0].upper()}{description[1:]}.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    return verb


def _connectors(options: argparse.Namespace) -> int:
    from episodia.connectors import command_line  # noqa: PLC0415  # imports torch

    return command_line.list_connectors() if options.verb == "connectors" else command_line.new_connector(options)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _positive(text: str) -> int:
    return _whole_number(text, 1)


def _natural(text: str) -> int:
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if text.lstrip("-").isdecimal() and int(text) >= least:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got {text!r}")


def _demo(options: argparse.Namespace) -> int:
    from episodia.dataflow import train  # noqa: PLC0415  # torch takes a second, which other verbs need not wait for

    print("PPO learns CartPole-v1: balance a pole for 500 steps. 475 on average counts as solved.")
    out = _free_folder(Path(options.out) / "demo")
    with train("ppo", "CartPole-v1", steps=options.steps, target=SOLVED, seed=options.seed, out=out) as training:
        return _show_training(training, out)


def _train(options: argparse.Namespace) -> int:
    from episodia.dataflow import resume, train  # noqa: PLC0415  # see `_demo`

    limits = {name: getattr(options, name) for name in ("steps", "target", "checkpoint_every", "tensorboard")}
    if options.resume is not None:
        if options.algorithm or options.set or options.out:
            raise TrainingError(
                "train: found --resume beside other settings, expected it alone: the run has them. Leave them out."
            )
        out = Path(options.resume)
        training = resume(out, **limits)
    else:
        if options.env is None:
            raise TrainingError(
                "train: found no environment, expected `train ppo CartPole-v1`, for example. Name both."
            )
        name = f"{options.algorithm}-{options.env}-{options.seed}".replace("/", "-")
        out = Path(options.out) if options.out else _free_folder(Path("runs") / name)
        training = train(options.algorithm, options.env, seed=options.seed, out=out, **limits, **dict(options.set))
    with training:
        return _show_training(training, out)


def _show_training(training: Training, out: Path) -> int:
    line = sparkline([record["return_mean"] for record in training.history], width=2 * SPARK_WIDTH)
    print(f"\nmean return over {training.steps:,} steps, {training.time_s:.0f} s:\n  {line}")
    reason = training.stopped_by.value if training.stopped_by else "steps"
    print(f"Stopped by: {reason}. Mean return of the last episodes: {training.return_mean:.5g}.")
    if reason == "interrupt":
        print(f"Go on with:  python -m episodia train --resume {out}")
        return EXIT_INTERRUPTED
    _show_returns(training.evaluate(100))
    print(f"\nIn {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")
    return EXIT_OK


def _evaluate(options: argparse.Namespace) -> int:
    from episodia.dataflow import load_training  # noqa: PLC0415  # see `_demo`

    with load_training(options.checkpoint) as training:
        _show_returns(training.evaluate(options.episodes))
    return EXIT_OK


def _show_returns(returns: Sequence[float]) -> None:
    spread = f"standard deviation {np.std(returns):.4g}, from {min(returns):.5g} to {max(returns):.5g}"
    print(f"{len(returns)} evaluation episodes: mean return {np.mean(returns):.5g}, {spread}")


def _free_folder(wanted: Path) -> Path:
    name, numbers = wanted.name, itertools.count(2)
    while wanted.exists():
        wanted = wanted.with_name(f"{name}-{next(numbers)}")
    return wanted


def _episodes(options: argparse.Namespace) -> int:
    try:
        env: gym.Env[Any, Any] = gym.make(options.env)
    except (gym.error.Error, ImportError) as error:
        reason = " ".join(str(error).split())
        raise TrainingError(f"cannot make the environment {options.env!r}: {reason}") from error
    episodes: list[SingleAgentEpisode] = []
    try:
        collect_randomly(env, episodes, num_episodes=options.episodes, seed=options.seed)
    except KeyboardInterrupt:
        print(f"\nInterrupted; {len(episodes)} of {options.episodes} episodes were begun.", file=sys.stderr)
        code = EXIT_INTERRUPTED
    else:
        code = EXIT_OK
    finally:
        env.close()
    _show(episodes, title=f"{options.env}, random actions, seed {options.seed}")
    return code


def collect_randomly(
    env: gym.Env[Any, Any], episodes: list[SingleAgentEpisode], *, num_episodes: int, seed: int
) -> None:
    """Append `num_episodes` episodes played with random actions to `episodes`.

    An interrupt loses nothing: the episode running at that moment is kept up to its last complete step.

    Args:
        env: Played from a reset with `seed` on.
        episodes: Gets one more item per episode.
        num_episodes: How many to play to their end.
        seed: The same seed gives the same episodes, ids included.
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
    """A line on stderr, shown only when collecting takes long."""

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


def first_number(item: Any) -> float:
    """Return the first number inside a nested item, or NaN where there is none.

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
    """Draw `values` as one line of at most `width` characters, from the lowest to the highest of them.

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


def describe(item: Any) -> str:
    """Describe an item in one short line: the numbers if they are few, else type and shape.

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
