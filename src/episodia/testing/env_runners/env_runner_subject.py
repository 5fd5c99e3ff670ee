"""`EnvRunnerSubject`, an env runner with all that its checks need: fake environments and a fake module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.testing.comparing import assert_same_episode, assert_same_multi_agent_episode
from episodia.testing.fakes import FakeEnv, FakeEnvs, FakeModule, FakeMultiAgentEnv

Episode = SingleAgentEpisode | MultiAgentEpisode

#: The `num_timesteps` of each call.
CALLS = (7, 1, 12, 5)
NUM_ENVS = 3
LOOKBACK = 2
SEED = 11


@dataclass(frozen=True, eq=False)
class EnvRunnerSubject:
    """A kind of env runner with all that its checks need.

    Attributes:
        make: Makes a runner, called as `make(env, module, num_envs=, seed=, lookback=)`: `env` makes environments, `module`
            acts in them, `seed` is the seed of all randomness, and chunks have `lookback` earlier steps. It may be a class.
        multi_agent: Whether the environments have several agents.
        label: The name of the subject in its checks; the name of `make` by default.
        expected_failures: The reasons why checks are expected to fail, by the names of the checks.

    >>> from episodia.env_runners import SingleAgentEnvRunner
    >>> EnvRunnerSubject(SingleAgentEnvRunner).name
    'SingleAgentEnvRunner'
    """

    make: Callable[..., Any]
    _: KW_ONLY
    multi_agent: bool = False
    label: str = ""
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject a `make` that is not callable."""
        if not callable(self.make):
            raise SubjectError(
                f"check of an env runner: found {self.make!r}, expected a class or a function that makes runners. Pass one, "
                "such as `SingleAgentEnvRunner`."
            )

    @property
    def name(self) -> str:
        """The name of the subject in its checks."""
        made_by = getattr(self.make, "func", self.make)
        return self.label or getattr(made_by, "__name__", type(made_by).__name__)


@dataclass
class Stage:
    """A runner, its environments and its module."""

    runner: Any
    envs: FakeEnvs[Any]
    module: FakeModule


@contextmanager
def stage(subject: EnvRunnerSubject, *, seed: int = SEED, fails_at: int | None = None) -> Iterator[Stage]:
    """Yield a new runner in new environments; it is closed afterwards."""
    envs: FakeEnvs[Any] = FakeEnvs(FakeMultiAgentEnv if subject.multi_agent else FakeEnv, raises=False)
    module = FakeModule(fails_at=fails_at)
    runner = subject.make(envs, module, num_envs=NUM_ENVS, seed=seed, lookback=LOOKBACK)
    try:
        yield Stage(runner, envs, module)
    finally:
        runner.close()


def sampled(runner: SingleAgentEnvRunner | MultiAgentEnvRunner, calls: Sequence[int]) -> list[Episode]:
    """Return all episodes and chunks of several calls."""
    return [episode for steps in calls for episode in runner.sample(num_timesteps=steps)]


def num_steps(episodes: Sequence[Episode]) -> int:
    """Return the number of environment steps."""
    return sum(episode.env_steps() for episode in episodes)


def joined(chunks: Sequence[Episode]) -> dict[str, Episode]:
    """Return whole episodes by id, joined from copies of their chunks."""
    whole: dict[str, Any] = {}
    for chunk in chunks:
        if chunk.id_ in whole:
            whole[chunk.id_].concat_episode(copy.deepcopy(chunk))
        else:
            whole[chunk.id_] = copy.deepcopy(chunk)
    return whole


def assert_same_episodes(law: str, expected: Sequence[Episode], found: Sequence[Episode]) -> None:
    """Check that two lists hold the same episodes in the same order.

    Raises:
        AssertionError: If they differ; it names the law, the first episode that differs, and the difference.
    """
    ids = [[episode.id_ for episode in episodes] for episodes in (expected, found)]
    if ids[0] != ids[1]:
        raise AssertionError(f"{law}: found the episodes {ids[1]}, expected {ids[0]}.")
    # Each runner has its own mapping function, which cannot be compared.
    ignore = ["times", "agent_to_module_mapping_fn"]
    for wanted, got in zip(expected, found, strict=True):
        try:
            if isinstance(got, MultiAgentEpisode):
                assert_same_multi_agent_episode(got, wanted, ignore=ignore)  # type: ignore[arg-type]  # both of one kind
            else:
                assert_same_episode(got, wanted, ignore=["times"])  # type: ignore[arg-type]  # both of one kind
        except AssertionError as error:
            raise AssertionError(f"{law}, episode {got.id_!r}: {error}") from error


def fewer_calls(calls: list[int]) -> Iterator[list[int]]:
    """Yield the calls with one of them removed, or with fewer steps; one call always remains."""
    if len(calls) > 1:
        yield from ([*calls[:place], *calls[place + 1 :]] for place in range(len(calls)))
    for place, steps in enumerate(calls):
        for fewer in sorted({steps // 2, steps - 1} - {steps, 0}):
            yield [*calls[:place], fewer, *calls[place + 1 :]]


def described_calls(calls: Sequence[int]) -> str:
    """Return the calls as text, for reproduction.

    >>> described_calls([3, 1])
    'The fewest calls that show it, with 3 fake environments: sample(num_timesteps=3), sample(num_timesteps=1)'
    """
    shown = ", ".join(f"sample(num_timesteps={steps})" for steps in calls)
    return f"The fewest calls that show it, with {NUM_ENVS} fake environments: {shown}"
