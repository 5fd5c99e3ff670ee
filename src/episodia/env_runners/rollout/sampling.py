"""When a sample is complete."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from episodia.arguments import checked_whole
from episodia.env_runners.setting_checks import check_whole
from episodia.errors import EnvRunnerError

BatchMode: TypeAlias = Literal["truncate_episodes", "complete_episodes"]


class Wanted(NamedTuple):
    """What is to be sampled: so many steps, or so many whole episodes; the other one is None."""

    steps: int | None
    episodes: int | None


def wanted(
    num_timesteps: int | None, num_episodes: int | None, batch_mode: BatchMode, fragment_steps: int, num_lanes: int
) -> Wanted:
    """Return what is to be sampled, by the arguments of `sample` or else by the settings of the runner.

    Raises:
        EnvRunnerError: If both are given, or one is not positive.

    >>> wanted(None, None, "truncate_episodes", 20, 4)
    Wanted(steps=80, episodes=None)
    """
    if num_timesteps is not None and num_episodes is not None:
        raise EnvRunnerError(
            f"sample: found `num_timesteps={num_timesteps}` and `num_episodes={num_episodes}`, expected one of them."
        )
    for name, number in (("num_timesteps", num_timesteps), ("num_episodes", num_episodes)):
        if number is not None:
            checked_whole(EnvRunnerError, "sample", name, number, 1)
    if num_timesteps is None and num_episodes is None:
        return (
            Wanted(fragment_steps * num_lanes, None) if batch_mode == "truncate_episodes" else Wanted(None, num_lanes)
        )
    return Wanted(num_timesteps, num_episodes)


def check_settings(batch_mode: BatchMode, fragment_steps: int) -> None:
    """Check how a runner samples if nobody says otherwise.

    Raises:
        EnvRunnerError: If there is no such way.
    """
    if batch_mode not in ("truncate_episodes", "complete_episodes"):
        raise EnvRunnerError(f"found `batch_mode={batch_mode!r}`, expected 'truncate_episodes' or 'complete_episodes'.")
    check_whole(1, rollout_fragment_length=fragment_steps)
