"""How runners play: what both kinds of them can be told, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from episodia.env_runners.rollout.sampling import BatchMode, check_settings
from episodia.env_runners.setting_checks import check_context, check_flags, check_timeout, check_whole
from episodia.errors import EnvRunnerError

OnEnvError: TypeAlias = Literal["drop", "truncate"]
Vectorization: TypeAlias = Literal["sync", "async", "vector_entry_point"]


@final
@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """The settings that a single-agent and a multi-agent runner have in common.

    What each of them means is said where users set them: in the constructors of the runners.
    """

    vectorization: Vectorization
    explore: bool
    batch_mode: BatchMode
    rollout_fragment_length: int
    horizon: int | None
    soft_horizon: int | None
    ignore_terminations: bool
    reward_delay: int
    lookback: int
    on_env_error: OnEnvError
    max_restarts: int | None
    step_timeout_s: float | None
    async_context: str
    check_finite: bool

    def __post_init__(self) -> None:
        """Check all of them.

        Raises:
            EnvRunnerError: If one makes no sense, or two of them do not fit together.
        """
        check_settings(self.batch_mode, self.rollout_fragment_length)
        check_whole(0, reward_delay=self.reward_delay, lookback=self.lookback)
        check_whole(0, or_none=True, max_restarts=self.max_restarts)
        check_whole(1, or_none=True, horizon=self.horizon, soft_horizon=self.soft_horizon)
        check_flags(explore=self.explore, ignore_terminations=self.ignore_terminations, check_finite=self.check_finite)
        check_timeout(self.step_timeout_s)
        check_context(self.async_context)
        if self.on_env_error not in ("drop", "truncate"):
            raise EnvRunnerError(f"found `on_env_error={self.on_env_error!r}`, expected 'drop' or 'truncate'.")
        if self.step_timeout_s is not None and self.vectorization != "async":
            raise EnvRunnerError(
                f"found `step_timeout_s={self.step_timeout_s}` with `vectorization={self.vectorization!r}`, expected 'async': "
                "a step in this process cannot be interrupted. Run the environments asynchronously."
            )

    def gives_up(self, restarts_in_a_row: int) -> bool:
        """Tell whether environments must not be made anew so often, without an episode in between that ends."""
        return self.max_restarts is not None and restarts_in_a_row > self.max_restarts
