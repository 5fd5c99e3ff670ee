"""Settings of runners, and their checks."""

from __future__ import annotations

import inspect
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from episodia.arguments import checked_choice, checked_flag, checked_whole, is_number
from episodia.episodes import EpisodeRecorder, SingleAgentEpisode
from episodia.errors import EnvRunnerError
from episodia.trees import shown

BatchMode: TypeAlias = Literal["truncate_episodes", "complete_episodes"]
OnEnvError: TypeAlias = Literal["drop", "truncate"]
FragmentLength: TypeAlias = int | Literal["auto"]
Vectorization: TypeAlias = Literal["sync", "async", "vector_entry_point"]
# Whether NaN and infinite numbers are rejected, warned of, or allowed.
CheckFinite: TypeAlias = bool | Literal["warn"]
# How long asynchronous environments may take for a step or a reset; None for any time.
StepTimeout: TypeAlias = float | Literal["auto"] | None

# Long enough for simulators that begin slowly: a limit that ends what hangs, and no measure of speed.
_STEP_TIMEOUT_S = 300.0
_FRAGMENT_LENGTH = 200


@final
@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """The settings that a single-agent and a multi-agent runner have in common.

    What each of them means is said where users set them: in the constructors of the runners.
    """

    vectorization: Vectorization
    explore: bool
    batch_mode: BatchMode
    rollout_fragment_length: FragmentLength | None = None
    train_batch_size: int | None = None
    episode_class: type[Any] = SingleAgentEpisode
    horizon: int | None
    soft_horizon: int | None
    ignore_terminations: bool
    reward_delay: int
    lookback: int
    on_env_error: OnEnvError
    max_restarts: int | None
    step_timeout_s: float | None
    async_context: str
    check_finite: CheckFinite

    def __post_init__(self) -> None:
        """Check all of them.

        Raises:
            EnvRunnerError: If one makes no sense, or two of them do not fit together.
        """
        checked_choice(
            EnvRunnerError, "runner", "batch_mode", self.batch_mode, ("truncate_episodes", "complete_episodes")
        )
        check_fragment_length(self.fragment_length, self.train_batch_size)
        for name in ("rollout_fragment_length", "train_batch_size"):
            if self.batch_mode == "complete_episodes" and getattr(self, name) is not None:
                raise EnvRunnerError(
                    f'found `{name}={shown(getattr(self, name))}` with `batch_mode="complete_episodes"`, which returns as '
                    "many episodes as there are environments; expected one of the two. Leave one out."
                )
        check_whole(0, reward_delay=self.reward_delay, lookback=self.lookback)
        check_whole(0, or_none=True, max_restarts=self.max_restarts)
        check_whole(1, or_none=True, horizon=self.horizon, soft_horizon=self.soft_horizon)
        check_flags(explore=self.explore, ignore_terminations=self.ignore_terminations)
        if not isinstance(self.check_finite, str) or self.check_finite != "warn":
            check_flags(check_finite=self.check_finite)
        _check_timeout(self.step_timeout_s)
        known = multiprocessing.get_all_start_methods()
        checked_choice(EnvRunnerError, "runner", "async_context", self.async_context, known)
        checked_choice(EnvRunnerError, "runner", "on_env_error", self.on_env_error, ("drop", "truncate"))
        if self.step_timeout_s is not None and self.vectorization != "async":
            raise EnvRunnerError(
                f"found `step_timeout_s={self.step_timeout_s}` with `vectorization={self.vectorization!r}`, expected 'async': "
                "a step in this process cannot be interrupted. Run the environments asynchronously."
            )

    @property
    def fragment_length(self) -> FragmentLength:
        """The length of chunks: by default 200 steps."""
        return _FRAGMENT_LENGTH if self.rollout_fragment_length is None else self.rollout_fragment_length

    def gives_up(self, restarts_in_a_row: int) -> bool:
        """Tell whether environments were rebuilt too often, without an episode in between that ends."""
        return self.max_restarts is not None and restarts_in_a_row > self.max_restarts


_TOO_MANY_ENVS = 2**20
_NEEDED = ("forward_inference", "forward_exploration", "is_stateful")


def check_whole(least: int, *, or_none: bool = False, **settings: Any) -> None:
    """Check settings that are whole numbers of `least` or more.

    Raises:
        EnvRunnerError: If one of them is not.

    >>> check_whole(1, or_none=True, horizon=None, num_envs=2)
    """
    for name, value in settings.items():
        if or_none and value is None:
            continue
        checked_whole(EnvRunnerError, "runner", name, value, least)


def check_num_envs(num_envs: object) -> None:
    """Check a number of environments, before any is made; None is what the source of the environments says.

    Raises:
        EnvRunnerError: If it is not a whole number of at least 1, or too large for any machine.
    """
    if num_envs is not None:
        checked_whole(EnvRunnerError, "runner", "num_envs", num_envs, 1, below=_TOO_MANY_ENVS)


def check_fragment_length(rollout_fragment_length: object, train_batch_size: object) -> None:
    """Check how long the chunks are that `sample` returns by default.

    Raises:
        EnvRunnerError: If neither or both of a length and a size of the batch are given, or one is not a whole number.

    >>> check_fragment_length("auto", 1024)
    """
    is_auto = isinstance(rollout_fragment_length, str) and rollout_fragment_length == "auto"
    if is_auto is not (train_batch_size is not None):
        raise EnvRunnerError(
            f"found `rollout_fragment_length={shown(rollout_fragment_length)}` and `train_batch_size={shown(train_batch_size)}"
            '`, expected "auto" and a number of steps, which the environments share, or a length and None. Pass one pair.'
        )
    if is_auto:
        check_whole(1, train_batch_size=train_batch_size)
    else:
        check_whole(1, rollout_fragment_length=rollout_fragment_length)


def check_episode_class(episode_class: Any, base: type[Any]) -> None:
    """Check that a runner can make episodes of `episode_class`.

    Raises:
        EnvRunnerError: If it is not a subclass of `base`, or has a constructor of its own.
    """
    if not (isinstance(episode_class, type) and issubclass(episode_class, base)):
        raise EnvRunnerError(
            f"found `episode_class={shown(episode_class)}`, expected {base.__name__}, or a subclass. Pass the class."
        )
    if any("__init__" in vars(each) for each in episode_class.__mro__ if not issubclass(base, each)):
        raise EnvRunnerError(
            f"found `episode_class={episode_class.__name__}` with a constructor of its own, expected that of {base.__name__}: "
            "runners make episodes from what they have recorded. Give attributes defaults in the class, and set them in "
            "callbacks."
        )


def check_recorder_factory(recorder: object) -> None:
    """Check that `recorder` can make recorders.

    Raises:
        EnvRunnerError: If it is another class, cannot be called, or takes other arguments than a recorder.
    """
    is_other_class = isinstance(recorder, type) and not issubclass(recorder, EpisodeRecorder)
    if is_other_class or not callable(recorder) or not _takes_arguments_of_recorder(recorder):
        raise EnvRunnerError(
            f"found `recorder={shown(recorder)}`, expected a subclass of `EpisodeRecorder`, or a function that makes one and "
            "takes the same arguments. Pass the class."
        )


def _takes_arguments_of_recorder(recorder: Callable[..., Any]) -> bool:
    try:
        inspect.signature(recorder).bind(None, None, 1, lookback=1, seed=0, episode_class=SingleAgentEpisode)
    except TypeError:
        return False
    except ValueError:  # compiled code may have no signature
        return True
    return True


def check_recorder_made(recorder: object) -> None:
    """Check that a factory has made a recorder.

    Raises:
        EnvRunnerError: If it has made something else.
    """
    if not isinstance(recorder, EpisodeRecorder):
        raise EnvRunnerError(
            f"found {shown(recorder)} from `recorder=`, expected a subclass of `EpisodeRecorder`, or a function that makes "
            "one. Pass the class."
        )


def check_flags(**settings: Any) -> None:
    """Check settings that are True or False.

    Raises:
        EnvRunnerError: If one of them is not; "no" would count as true.
    """
    for name, value in settings.items():
        checked_flag(EnvRunnerError, "runner", name, value)


def _check_timeout(step_timeout_s: Any) -> None:
    """Check how long a step may take.

    Raises:
        EnvRunnerError: If that is not a positive number.
    """
    if step_timeout_s is not None and not (is_number(step_timeout_s) and step_timeout_s > 0):
        raise EnvRunnerError(
            f"found `step_timeout_s={shown(step_timeout_s)}`, expected a positive number of seconds, 'auto', or None. Correct "
            "it."
        )


def timeout_of(step_timeout_s: StepTimeout, vectorization: object) -> float | None:
    """Return the limit of a step: by default there is one where a step can be interrupted.

    >>> timeout_of("auto", "async"), timeout_of("auto", "sync"), timeout_of(None, "async")
    (300.0, None, None)
    """
    if isinstance(step_timeout_s, str) and step_timeout_s == "auto":
        return _STEP_TIMEOUT_S if isinstance(vectorization, str) and vectorization == "async" else None
    return step_timeout_s


def check_acts(module: Any) -> None:
    """Check that `module` can act.

    Raises:
        EnvRunnerError: If it lacks something for that.
    """
    missing = [name for name in _NEEDED if not callable(getattr(module, name, None))]
    if missing or isinstance(module, type):
        raise EnvRunnerError(
            f"found {shown(module)} as the module, without {missing or 'an instance'}; expected what `episodia.modules.Module` "
            "lists, or None to act at random. Pass such a module."
        )


def check_open(where: str, *, is_closed: bool) -> None:
    """Check that a runner is open: a closed runner would not close what it makes.

    Raises:
        EnvRunnerError: If it is closed.
    """
    if is_closed:
        raise EnvRunnerError(f"{where}: found a runner that is closed, expected an open one. Make another.")


def check_keys(state: Any, keys: Iterable[str]) -> None:
    """Check that a state has all its parts.

    Raises:
        EnvRunnerError: If it is not a dict, or some are missing.
    """
    if not isinstance(state, Mapping):
        raise EnvRunnerError(
            f"set_state: found {type(state).__name__}, expected the dict that `get_state` of a runner returned. Pass that."
        )
    missing = [key for key in keys if key not in state]
    if missing:
        raise EnvRunnerError(
            f"set_state: found a state without {missing}, expected what `get_state` of a runner returned. Pass that."
        )


def checked_numbers(numbers: Iterable[Any], num_envs: int) -> list[int]:
    """Return how many episodes each environment has begun, of a state.

    Raises:
        EnvRunnerError: If there is not one number for each environment.
    """
    found = [int(number) for number in numbers]
    if len(found) != num_envs:
        raise EnvRunnerError(f"found {len(found)} environments, expected {num_envs}; make the runner with as many")
    return found
