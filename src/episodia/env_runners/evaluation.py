"""Episodes that are played to see how good a module is, beside those that it learns from."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any, final

from gymnasium.vector import VectorEnv

from episodia.env_runners.envs.async_lanes import close, forgets_resets
from episodia.env_runners.envs.env_sources import VectorEnvSource
from episodia.errors import EnvRunnerError


@final
class Evaluator:
    """Has environments of its own, made when they are needed for the first time, and lends them to other runners.

    Args:
        source: How environments are made, and played.
        mask_key: Under which observations or infos tell which actions are allowed.
    """

    def __init__(self, source: VectorEnvSource, mask_key: str | None) -> None:
        self._source = source
        self._mask_key = mask_key
        self._env: VectorEnv[Any, Any, Any] | None = None

    @contextlib.contextmanager
    def runner(self, make_runner: Callable[..., Any], like: Any, seed: int) -> Iterator[Any]:
        """Lend the environments to a runner with the module of `like`, copies of its pipelines, and the seed `seed`.

        Raises:
            EnvRunnerError: If there is a ready vector environment only.
        """
        if not self._source.is_renewable:
            raise EnvRunnerError(
                f"evaluate: found a ready vector environment, {self._source.env}, which is busy with sampling and cannot be "
                "made a second time; expected a way to make one. Pass the runner a function that makes it."
            )
        # The environments that are lent have these settings already.
        settings = {**vars(self._source.settings), "vectorization": "sync", "step_timeout_s": None}
        if self._source.limits_itself(self._lent()):
            settings["horizon"] = None
        twin = make_runner(
            self._lent,
            like.module,
            env_to_module=copy.deepcopy(like.env_to_module),
            module_to_env=copy.deepcopy(like.module_to_env),
            seed=seed,
            action_mask_key=self._mask_key,
            **settings,
        )
        try:
            yield twin
        except BaseException:
            # Some may be in the middle of a step.
            self.close(by_force=True)
            raise
        if forgets_resets(self._lent()):
            self.close()

    def _lent(self) -> VectorEnv[Any, Any, Any]:
        if self._env is None or self._env.closed:
            self._env = self._source.build()
        return self._env

    def close(self, *, by_force: bool = False) -> None:
        """Close the environments, if there are any; they are made anew when they are needed."""
        if self._env is not None:
            close(self._env, by_force=by_force)
