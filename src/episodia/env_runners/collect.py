"""Episodes in one line, for notebooks."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import proposal
from episodia.columns import Columns
from episodia.connectors import GetActions, ModuleToEnvPipeline, TensorToNumpy
from episodia.env_runners.callbacks import Callbacks, listed
from episodia.env_runners.envs.env_sources import AnyEnv
from episodia.env_runners.single_agent_env_runner import SingleAgentEnvRunner
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import EnvRunnerError
from episodia.modules.rules import Rule, each_row
from episodia.policies import MultiAgentPolicy, Policy
from episodia.spaces import ARRAY_SPACES
from episodia.trees import shown

# Runners take these as they are.
_WITH_PIPELINES = (Policy, MultiAgentPolicy)

# Progress is shown only if collecting takes longer.
_PATIENCE_S = 1.0
_BAR = 20  # characters

_SETTINGS = frozenset(inspect.signature(SingleAgentEnvRunner).parameters) - {"env", "module", "seed"}
_OWN = ("episodes", "timesteps", "seed", "progress")


def collect(
    env: AnyEnv,
    policy: Any = None,
    *,
    episodes: int | None = None,
    timesteps: int | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> EpisodeList[SingleAgentEpisode]:
    """Play in `env`, and return the episodes.

    Args:
        env: A gymnasium id, an `EnvSpec`, a function that makes an environment, or a vector environment.
        policy: What acts: a `Policy`, a module, or a function that takes one observation and returns one action, both as the
            environment has them; None acts at random. A `Policy` keeps a memory for each environment, which is empty
            when an episode begins; a function has to work without one.
        episodes: The number of whole episodes; 10 by default.
        timesteps: The number of steps instead, at least; the last episodes may be cut then.
        seed: The same seed gives the same episodes, ids included.
        progress: Whether to show how far it is; by default where there is a terminal or a notebook.
        **settings: Those of `SingleAgentEnvRunner`, such as `num_envs=` and `explore=`.

    >>> collect("CartPole-v1", episodes=3, seed=0)
    EpisodeList(3 SingleAgentEpisodes, ... steps, 3 done)
    >>> upright = collect("CartPole-v1", lambda observation: int(observation[2] > 0), episodes=1, seed=0)
    >>> upright[0].get_return() > 20
    True

    Raises:
        EnvRunnerError: If there is no such policy or setting.
    """
    _check(policy, settings)
    if episodes is None and timesteps is None:
        episodes = 10
    module = policy
    if callable(policy) and not isinstance(policy, _WITH_PIPELINES) and not hasattr(policy, "forward_inference"):
        module = _Function(policy)
        settings.setdefault("module_to_env", ModuleToEnvPipeline(connectors=[GetActions(), TensorToNumpy()]))
    if _is_watched() if progress is None else progress:
        settings["callbacks"] = [*listed(settings.get("callbacks", ())), _Progress(episodes, timesteps)]
    with SingleAgentEnvRunner(env, module, seed=seed, **settings) as runner:
        if isinstance(module, _Function):
            module.action_space = runner.env.single_action_space
        return runner.sample(num_timesteps=timesteps, num_episodes=episodes)


def _check(policy: Any, settings: dict[str, Any]) -> None:
    if policy is not None and not callable(policy) and not hasattr(policy, "forward_inference"):
        raise EnvRunnerError(
            f"collect: found {shown(policy)} as the policy, expected a module, a function of one observation, a `Policy`, or "
            "None. The number of episodes is `episodes=`."
        )
    unknown = sorted(settings.keys() - _SETTINGS)
    if unknown:
        raise EnvRunnerError(
            f"collect: found the settings {unknown}, expected `episodes=`, `timesteps=`, `seed=`, `progress=`, or some of "
            f"{sorted(_SETTINGS)}. {proposal(unknown, {*_OWN, *_SETTINGS}) or 'Correct their names.'}"
        )


@final
class _Function(Rule):
    """A function of one observation, whose actions are those of the environment."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._of_batch = each_row(function)

    def act(self, batch: dict[str, Any]) -> Any:
        """Return what the function says, in the dtypes of the action space."""
        return _as_declared(self.action_space, self._of_batch(batch[Columns.OBS]))


def _as_declared(space: Space[Any] | None, actions: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _as_declared(child, actions[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_as_declared(child, actions[position]) for position, child in enumerate(space.spaces))
    if not isinstance(space, ARRAY_SPACES) or not isinstance(actions, np.ndarray):
        return actions
    # Python has one kind of float; other kinds of values are checked later.
    dtype = np.dtype(space.dtype)
    return actions.astype(dtype) if np.can_cast(actions.dtype, dtype, "same_kind") else actions


def _is_watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@final
class _Progress(Callbacks):
    """A bar on stderr, with how many episodes have ended and how many steps they had."""

    def __init__(self, episodes: int | None, timesteps: int | None) -> None:
        self._episodes, self._timesteps = episodes, timesteps
        self._ended = self._steps = 0
        self._next_s = time.monotonic() + _PATIENCE_S
        self._width = 0

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """Count, and show the count from time to time."""
        self._ended += 1
        self._steps += len(episode)
        now = time.monotonic()
        if now >= self._next_s:
            self._write(self._line())
            self._next_s = now + _PATIENCE_S / 5

    def _line(self) -> str:
        counts = [_count(self._ended, self._episodes, "episodes"), _count(self._steps, self._timesteps, "steps")]
        part = self._ended / self._episodes if self._episodes else self._steps / (self._timesteps or 1)
        return f"[{'#' * int(_BAR * min(part, 1.0)):.<{_BAR}}] {', '.join(counts)}"

    def on_sample_end(self, **kwargs: Any) -> None:
        """Take the line away."""
        if self._width:
            self._write("")
            sys.stderr.write("\r")

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r{line.ljust(self._width)}")
        sys.stderr.flush()
        self._width = max(self._width, len(line))


def _count(number: int, wanted: int | None, what: str) -> str:
    # More are played than wanted where environments end at different times.
    return f"{number} {what}" if wanted is None else f"{min(number, wanted)} of {wanted} {what}"
