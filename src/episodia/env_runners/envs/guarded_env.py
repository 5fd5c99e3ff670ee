"""An environment that is made anew when it fails, so that the others beside it do not notice."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from typing import Any, final

import gymnasium as gym
import numpy as np

from episodia.env_runners.envs.step_failures import check_action
from episodia.errors import EnvError

# In the info of the first observation after an environment was made anew: what had happened.
RESTARTED = "env_restarted_after"
# Beside it, if that was no exception but a step that is none: the message of the error that is still to be raised.
REFUSED = "env_refused_because"


@final
class GuardedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Makes its environment anew when that raises.

    If a step fails, what is returned is no step but the first observation of the next episode, and its info has the key
    `env_restarted_after`. Only exceptions are caught: a KeyboardInterrupt or SystemExit passes. If the action was outside of
    its space, the environment is not to blame, and an error says so.

    A new environment is reset with a seed that is derived from the last seed of the old one and the number of restarts.

    Args:
        make: Makes the environment.
        lane: Its number, for messages.
        max_restarts: How often in a row it is made anew without an episode in between that ends by itself; None for any
            number.
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], lane: int, max_restarts: int | None) -> None:
        super().__init__(make())
        self._make = make
        self.lane = lane
        self._max_restarts = max_restarts
        self._in_a_row = 0
        self._restarts = 0
        self._seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, in a new environment if the old one cannot."""
        # Whoever asks for a reset has reached an end.
        self._in_a_row = 0
        if seed is not None:
            self._seed = seed
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:  # noqa: BLE001  # whatever an environment raises
            return self.begin_anew(error)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, or begin the next episode if that fails."""
        try:
            return self.env.step(action)
        except Exception as error:  # noqa: BLE001  # whatever an environment raises
            check_action(self.env.action_space, action, f"environment {self.lane}", error)
            observation, info = self.begin_anew(error)
            return observation, 0.0, False, False, info

    def begin_anew(self, error: Exception) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in a new environment, because of `error`.

        Raises:
            EnvError: If that was done too often.
        """
        noted = {RESTARTED: _text(error)}
        if isinstance(error, EnvError):
            noted[REFUSED] = str(error)
        while True:
            self._in_a_row += 1
            if self._max_restarts is not None and self._in_a_row > self._max_restarts:
                raise EnvError(self._given_up(error)) from error
            self._restarts += 1
            self.close()
            try:
                self.env = self._make()
                observation, info = self.env.reset(seed=self._next_seed())
            except Exception as again:  # noqa: BLE001  # whatever an environment raises
                error = again
                continue
            return observation, {**info, **noted}

    def close(self) -> None:
        """Close the environment; what it raises then is of no interest any more."""
        with contextlib.suppress(Exception):
            self.env.close()

    def _next_seed(self) -> int | None:
        if self._seed is None:
            return None
        return int(np.random.SeedSequence([self._seed, self._restarts]).generate_state(1)[0])

    def _given_up(self, error: Exception) -> str:
        return (
            f"environment {self.lane}: found {_text(error)}, after it was made anew {self._in_a_row - 1} times in a row; "
            f"expected steps. Correct the environment, or let the runner be more patient with `max_restarts=`. It raised:\n"
            f"{''.join(traceback.format_exception(error))}"
        )


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
