"""Laws about what an env runner does beside sampling: seeds, evaluation, state, errors, and its end."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Sequence

from episodia.testing.env_runners.env_runner_laws import check_every_step
from episodia.testing.env_runners.env_runner_subject import (
    SEED,
    EnvRunnerSubject,
    Episode,
    assert_same_episodes,
    sampled,
    stage,
)
from episodia.testing.laws_and_checks import NotApplicableError
from episodia.testing.pickled_copies import pickled_copy

Calls = Sequence[int]


def environments_are_used_as_they_should_be(subject: EnvRunnerSubject, calls: Calls) -> None:
    """They are reset first, with a seed each that no other has, not stepped after the end, and given actions of theirs."""
    law = "environments are used as they should be"
    with stage(subject) as at:
        sampled(at.runner, calls)
        at.runner.sample(num_episodes=3)
        if at.envs.problems:
            raise AssertionError(f"{law}: {at.envs.problems[0]}")
        seeds = [env.usage.seed for env in at.envs.made if env.usage.was_reset]
        if len(set(seeds)) < len(seeds):
            raise AssertionError(f"{law}: found the seeds {seeds}, expected another one for each environment.")


def same_seed_gives_same_episodes(subject: EnvRunnerSubject, calls: Calls) -> None:
    """Runners with the same seed play the same, also when they act at random; with another one they do not."""
    law = "the same seed gives the same episodes"
    for options in ({}, {"random_actions": True}):
        played: list[list[Episode]] = []
        for seed in (SEED, SEED, SEED + 1):
            with stage(subject, seed=seed) as at:
                chunks = [chunk for steps in calls for chunk in at.runner.sample(num_timesteps=steps, **options)]
                played.append(chunks)
                seeds = {env.usage.seed for env in at.envs.made}
            if seed == SEED:
                first_seeds = seeds
        assert_same_episodes(law, played[0], played[1])
        if seeds & first_seeds:
            raise AssertionError(
                f"{law}: found the seeds {sorted(map(str, seeds & first_seeds))} of environments with two seeds of the runner, "
                "expected others."
            )


def what_was_handed_out_stays(subject: EnvRunnerSubject, calls: Calls) -> None:
    """Episodes do not change after they were handed out, whatever is played later."""
    with stage(subject) as at:
        episodes = sampled(at.runner, calls[:1])
        before = [copy.deepcopy(episode) for episode in episodes]
        sampled(at.runner, [*calls[1:], 4])
        at.runner.sample(num_episodes=2)
        assert_same_episodes("what was handed out stays", before, episodes)


def evaluation_leaves_sampling_alone(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`evaluate(num_episodes=n)` returns n whole episodes, and afterwards `sample` plays what it would have played."""
    law = "evaluation leaves sampling alone"
    with stage(subject) as undisturbed, stage(subject) as at:
        if not hasattr(at.runner, "evaluate"):
            raise NotApplicableError("it has no `evaluate`")
        for steps in calls:
            episodes = at.runner.evaluate(num_episodes=2)
            if len(episodes) != 2 or not all(episode.is_done for episode in episodes):
                raise AssertionError(
                    f"{law}: found {episodes!r} from `evaluate(num_episodes=2)`, expected two whole episodes."
                )
            expected = undisturbed.runner.sample(num_timesteps=steps)
            assert_same_episodes(law, expected, at.runner.sample(num_timesteps=steps))


def restored_runners_go_on_alike(subject: EnvRunnerSubject, calls: Calls) -> None:
    """A runner that was given the state plays what the first one plays after a reset; the state can be pickled."""
    with stage(subject) as first, stage(subject) as second:
        if not hasattr(first.runner, "get_state"):
            raise NotApplicableError("it has no `get_state`")
        sampled(first.runner, calls)
        second.runner.set_state(pickled_copy(first.runner.get_state(), "restored runners go on alike"))
        for options in ({}, {"random_actions": True}):
            expected = first.runner.sample(num_timesteps=9, force_reset=True, **options)
            found = second.runner.sample(num_timesteps=9, force_reset=True, **options)
            _compare_outlines(f"restored runners go on alike ({options or 'the module acts'})", expected, found)


def _compare_outlines(law: str, expected: Sequence[Episode], found: Sequence[Episode]) -> None:
    """Compare what does not depend on how many episodes an environment has seen before."""
    for what, outline in (("episodes", _ids), ("lengths", _lengths)):
        if outline(expected) != outline(found):
            raise AssertionError(f"{law}: found the {what} {outline(found)}, expected {outline(expected)}.")


def _ids(episodes: Sequence[Episode]) -> list[str]:
    return [episode.id_ for episode in episodes]


def _lengths(episodes: Sequence[Episode]) -> list[int]:
    return [episode.env_steps() for episode in episodes]


def an_error_loses_nothing(subject: EnvRunnerSubject, calls: Calls) -> None:
    """If the module raises, the caller is told, and what was played before comes with later calls, once."""
    with stage(subject, fails_at=2) as at:
        chunks: list[Episode] = []
        raised = False
        for steps in [*calls, 9]:
            try:
                chunks += at.runner.sample(num_timesteps=steps)
            except RuntimeError as error:
                raised = raised or "FakeModule" in str(error) or "FakeModule" in str(error.__cause__)
        if not raised:
            raise AssertionError(
                "an error loses nothing: found that `sample` hides what the module raises, expected it."
            )
        check_every_step(at, chunks)


def it_closes_what_it_has_opened(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`close` closes all environments and ends all processes; a second time nothing happens; `sample` is refused then."""
    law = "it closes what it has opened"
    before = {process.pid for process in multiprocessing.active_children()}
    with stage(subject) as at:
        sampled(at.runner, calls)
        at.runner.close()
        at.runner.close()
        left = [env.usage.number for env in at.envs.made if not env.usage.is_closed]
        if left:
            raise AssertionError(f"{law}: found the environments {left} open after `close`, expected none.")
        processes = {process.pid for process in multiprocessing.active_children()} - before
        if processes:
            raise AssertionError(
                f"{law}: found the processes {sorted(map(str, processes))} after `close`, expected none."
            )
        try:
            at.runner.sample(num_timesteps=1)
        except Exception:  # noqa: BLE001  # whatever it says, it refuses
            return
    raise AssertionError(f"{law}: found that `sample` goes on after `close`, expected an error.")
