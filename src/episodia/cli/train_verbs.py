"""The verbs `demo`, `train` and `eval`."""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from episodia.arguments import checked_each, checked_path
from episodia.cli.collect_verb import SPARK_WIDTH, sparkline
from episodia.cli.config_file import read_config
from episodia.cli.verbs import INTERRUPTED, OK, Verbs, add_verb, natural, positive
from episodia.errors import EnvError, EpisodiaError, TrainingError

if TYPE_CHECKING:
    from episodia.connectors import ConnectorV2
    from episodia.policies import Policy
    from episodia.training import Training


# Arguments of the function `train` that have their own options, which `--set` must not set.
OPTIONS = {
    "algorithm": "train ALGORITHM ENV",
    "env": "train ALGORITHM ENV",
    "steps": "--steps",
    "target": "--target",
    "seed": "--seed",
    "out": "--out",
    "checkpoint_every": "--checkpoint-every",
    "tensorboard": "--tensorboard",
    "device": "--device",
    "connectors": "--connector",
}
# Arguments that say where runners and learners live; a resumed run may change them.
WORKERS = ("num_runners", "num_learners", "engine", "address")
NUM_STEPS = 100_000
NUM_EPISODES = 100  # of an evaluation
_LONGEST_NAME = 100
SOLVED = 475.0  # the return at which gymnasium counts CartPole-v1 as solved


def add_verbs_to(verbs: Verbs) -> None:
    """Add `demo`, `train` and `eval`."""
    demo = add_verb(verbs, "demo", "train a policy for CartPole until it is solved, and show the result")
    demo.add_argument("--steps", type=positive, default=NUM_STEPS, metavar="N", help="stop after N environment steps")
    demo.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of all randomness")
    demo.add_argument("--out", default="runs", metavar="DIR", help="folder in which the folder of the run is created")
    demo.set_defaults(run=_demo)

    train = add_verb(verbs, "train", "train a policy; Ctrl-C stops and saves")
    train.add_argument("algorithm", nargs="?", help="such as ppo, a2c, dqn or sac; an unknown name shows all")
    train.add_argument("env", nargs="?", help="id of a gymnasium environment, such as CartPole-v1")
    # None is not given: a resumed run keeps its own value.
    train.add_argument(
        "--steps", type=positive, metavar="N", help=f"stop after N steps in total; {NUM_STEPS} by default"
    )
    train.add_argument("--target", type=float, metavar="R", help="stop when the mean return reaches R")
    train.add_argument("--seed", type=natural, metavar="N", help="seed of all randomness; 0 by default")
    train.add_argument("--out", metavar="DIR", help="new folder for the run; by default one in runs/")
    train.add_argument("--resume", metavar="DIR", help="continue the run in this folder")
    help_on_every = "also save a checkpoint every N steps; 20,000 by default"
    train.add_argument("--checkpoint-every", type=positive, metavar="N", help=help_on_every)
    train.add_argument("--tensorboard", action="store_true", default=None, help="also write metrics for TensorBoard")
    train.add_argument("--device", metavar="NAME", help="device of the learner, such as cuda; cpu by default")
    train.add_argument("--runners", dest="num_runners", type=positive, metavar="N", help="play with N runners")
    train.add_argument(
        "--learners", dest="num_learners", type=positive, metavar="N", help="learn with N learners together"
    )
    help_on_engine = "where runners and learners live: local, threads or ray"
    train.add_argument("--engine", choices=("local", "threads", "ray"), help=help_on_engine)
    train.add_argument("--address", metavar="HOST:PORT", help="address of a Ray cluster; by default Ray starts here")
    help_on_set = "change a setting, such as learning_rate=0.001, num_envs=4 or recurrent=lstm; may be repeated"
    train.add_argument("--set", action="append", default=[], type=_setting, metavar="NAME=VALUE", help=help_on_set)
    help_on_config = (
        "JSON or TOML file with settings, also algorithm, env, steps and others; what the command line says comes first"
    )
    train.add_argument("--config", metavar="FILE", help=help_on_config)
    help_on_connector = "add a connector in front of the network by its name, see `connectors`; may be repeated"
    _add_plugins_to(train, help_on_connector)
    train.set_defaults(run=_train)

    evaluation = add_verb(verbs, "eval", "play episodes with a trained policy")
    evaluation.add_argument("checkpoint", help="folder of a run or of its checkpoint")
    evaluation.add_argument("--episodes", type=positive, default=NUM_EPISODES, metavar="N", help="number of episodes")
    evaluation.add_argument("--env", metavar="ENV", help="another environment than the one of the training")
    _add_plugins_to(evaluation, "load a connector by its name first, if the policy needs it; may be repeated")
    evaluation.set_defaults(run=_evaluate)


def _add_plugins_to(verb: argparse.ArgumentParser, help_on_connector: str) -> None:
    help_on_import = "import a module first, such as one that registers environments or connectors; may be repeated"
    verb.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=help_on_import)
    verb.add_argument("--connector", dest="connectors", action="append", metavar="NAME", help=help_on_connector)


def _pieces(names: Any) -> list[ConnectorV2]:
    """Return a connector for each of `names`.

    Raises:
        TrainingError: If `names` is not a list of names, or if a class has arguments without default values.
        PluginError: If a connector is broken.
        PieceLookupError: If a connector does not exist.
    """
    from episodia.connectors import load_connector  # noqa: PLC0415  # see `_demo`

    pieces: list[ConnectorV2] = []
    for name in checked_each(TrainingError, "train", "connectors", names, lambda name: isinstance(name, str), "names"):
        made = load_connector(name)
        try:
            pieces.append(made())
        except TypeError as error:
            raise TrainingError(
                f"connector {name!r}: found that it cannot be made without arguments ({error}), expected default values. Train "
                "with it from Python: `train(..., connectors=[...])`."
            ) from error
    return pieces


def _import_modules(names: Sequence[str]) -> None:
    """Import the modules that the user has named.

    Raises:
        TrainingError: If one of them cannot be imported.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # foreign code may raise anything
            raise TrainingError(
                f"--import: found that {name!r} cannot be imported ({type(error).__name__}: {error}), expected the name of a "
                "module. Correct the name, or install the module."
            ) from error


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    # JSON, a Python literal, or plain text.
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return name, value


def _demo(options: argparse.Namespace) -> int:
    from episodia.training import train  # noqa: PLC0415  # imports torch, which takes a second

    print("PPO learns CartPole-v1: balance a pole for 500 steps. 475 on average counts as solved.")
    out, limits = _free_folder(Path(options.out) / "demo"), {"steps": options.steps, "target": SOLVED}
    with train("ppo", "CartPole-v1", seed=options.seed, out=out, **limits) as training:
        return _show_training(training, out)


def _train(options: argparse.Namespace) -> int:
    from episodia.training import resume, train  # noqa: PLC0415  # see `_demo`

    _import_modules(options.modules)
    given = {name: getattr(options, name) for name in (*OPTIONS, *WORKERS) if getattr(options, name) is not None}
    if options.resume is not None:
        _check_resumed(options)
        out = Path(options.resume)
        training = resume(out, **given)
    else:
        defaults = {"steps": NUM_STEPS, "seed": 0}
        settings = {**defaults, **_settings(options.config, options.set), **given}
        out = _out_of(settings)
        training = train(**{**settings, "connectors": _pieces(settings.get("connectors", [])), "out": out})
    with training:
        return _show_training(training, out)


def _check_resumed(options: argparse.Namespace) -> None:
    others = {
        "an algorithm": options.algorithm,
        "--seed": options.seed,
        "--out": options.out,
        "--config": options.config,
        "--set": options.set,
        "--connector": options.connectors,
    }
    found = [name for name, value in others.items() if value not in (None, [])]
    if found:
        raise TrainingError(
            f"train: found {', '.join(found)} beside --resume, expected only limits: a resumed run keeps its other settings. "
            "Remove these arguments."
        )


def _settings(config: str | None, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the settings in the file `config`, and those after `--set`, which come first."""
    from episodia.learners.config_codec import decoded  # noqa: PLC0415  # see `_demo`

    taken = [name for name in OPTIONS if name in dict(pairs)]
    if taken:
        raise TrainingError(
            f"train: found {taken} after --set, expected settings of the algorithm, the recipe and the network. Use "
            f"{', '.join(dict.fromkeys(OPTIONS[name] for name in taken))} instead."
        )
    settings = {**(read_config(config) if config else {}), **dict(pairs)}
    return {name: decoded(value) for name, value in settings.items()}


def _out_of(settings: Mapping[str, Any]) -> Path:
    """Return the folder of a new run.

    Raises:
        TrainingError: If the algorithm or the environment is missing, or if the folder is not a path.
    """
    missing = [name for name in ("algorithm", "env") if settings.get(name) is None]
    if missing:
        found = {"algorithm": "no algorithm", "env": "no environment"}[missing[0]]
        raise TrainingError(
            f"train: found {found}, expected both, as in `train ppo CartPole-v1`. Pass the algorithm and the environment."
        )
    if settings.get("out") is not None:
        return checked_path(TrainingError, "train", "out", settings["out"])
    return _free_folder(Path("runs") / _file_name("{algorithm}-{env}-{seed}".format(**settings)))


def _show_training(training: Training, out: Path) -> int:
    from episodia.checkpoints.save_and_load import CHECKPOINT_NAME  # noqa: PLC0415  # see `_demo`
    from episodia.training.progress import return_text  # noqa: PLC0415

    line = sparkline([record["return_mean"] for record in training.history], width=2 * SPARK_WIDTH)
    print(f"\nmean return over {training.steps:,} steps, {training.time_s:.0f} s:\n  {line}")
    reason = training.stopped_by.value if training.stopped_by else "steps"
    print(f"Stopped by: {reason}. Mean return of the last episodes: {return_text(training.return_mean, '.5g')}.")
    print(f"In {out}: {', '.join(sorted(path.name for path in out.iterdir()))}", flush=True)
    if reason == "interrupt":
        if (out / CHECKPOINT_NAME).is_dir():
            print(f"Continue with:  python -m episodia train --resume {shlex.quote(str(out))}")
        return INTERRUPTED
    if training.episodes:
        print(f"Playing {NUM_EPISODES} episodes to evaluate the policy (Ctrl-C skips this) ...", flush=True)
        _show_returns(training.evaluate(NUM_EPISODES))
    return OK


def _evaluate(options: argparse.Namespace) -> int:
    from episodia.connectors import load_connector  # noqa: PLC0415  # see `_demo`
    from episodia.training import load_training  # noqa: PLC0415

    _import_modules(options.modules)
    for name in options.connectors or ():
        load_connector(name)
    if options.env is not None:
        _show_returns(_returns_elsewhere(options))
        return OK
    # Acting needs no accelerator and no cluster, even if the policy was trained on one.
    with load_training(options.checkpoint, device="cpu", workers={"engine": "threads"}) as training:
        _show_returns(training.evaluate(options.episodes))
    return OK


def _returns_elsewhere(options: argparse.Namespace) -> list[float]:
    """Return the returns of the policy in another environment than the one of its training."""
    from episodia.policies import Policy  # noqa: PLC0415
    from episodia.training.training_setup import made_env  # noqa: PLC0415

    policy = Policy.load(options.checkpoint)
    env = made_env(options.env)
    try:
        return _returns_of(policy, env, options.episodes)
    finally:
        env.close()


def _returns_of(policy: Policy, env: gym.Env[Any, Any], num_episodes: int) -> list[float]:
    """Return the return of each of `num_episodes` episodes that `policy` plays in `env`, with the seeds 0, 1, 2, ...

    Raises:
        TrainingError: If the spaces of the environment are not those of the policy.
        EnvError: If the environment fails.
    """
    for name in ("observation_space", "action_space"):
        made_for, found = getattr(policy, name), getattr(env, name)
        if made_for is not None and made_for != found:
            raise TrainingError(
                f"environment: found {found} as its {name}, expected {made_for}, which the policy was trained with. Choose an "
                "environment with the same spaces."
            )
    try:
        return [_return_of(policy, env, seed) for seed in range(num_episodes)]
    except EpisodiaError:
        raise
    except Exception as error:  # foreign code may raise anything
        raise EnvError(
            f"environment: found that {env} raised {type(error).__name__}: {error}; expected a working environment. Correct it."
        ) from error


def _return_of(policy: Policy, env: gym.Env[Any, Any], seed: int) -> float:
    policy.reset()
    observation, _ = env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        policy.observe(float(reward))
        total, is_over = total + float(reward), terminated or truncated
    return total


def _show_returns(returns: Sequence[float]) -> None:
    spread = f"standard deviation {np.std(returns):.4g}, from {min(returns):.5g} to {max(returns):.5g}"
    print(f"{len(returns)} evaluation episodes: mean return {np.mean(returns):.5g}, {spread}")


def _file_name(text: str) -> str:
    """Return `text` as a folder name that is valid on all systems.

    >>> _file_name("ppo-ALE/Pong-v5-0"), _file_name("my_games:Maze-v0")
    ('ppo-ALE-Pong-v5-0', 'my_games-Maze-v0')
    """
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:_LONGEST_NAME]


def _free_folder(wanted: Path) -> Path:
    name, numbers = wanted.name, itertools.count(2)
    while wanted.exists():
        wanted = wanted.with_name(f"{name}-{next(numbers)}")
    return wanted
