"""Laws of env runners, and `check_env_runner`, which checks a runner against all of them."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.testing.env_runners.env_runner_subject import (
    CALLS,
    LOOKBACK,
    NUM_ENVS,
    SEED,
    EnvRunnerSubject,
    Episode,
    Stage,
    assert_same_episodes,
    described_calls,
    fewer_calls,
    joined,
    num_steps,
    sampled,
    stage,
)
from episodia.testing.fakes import TAG, fake_action, fake_tag
from episodia.testing.law_checking import CheckResult, Family, Law, NotApplicableError, results_in
from episodia.testing.pickled_copies import pickled_copy

Calls = Sequence[int]


def it_runs(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`sample` returns a sequence of finalized, valid episodes of the right kind."""
    kind = MultiAgentEpisode if subject.multi_agent else SingleAgentEpisode
    with stage(subject) as at:
        for steps in calls:
            episodes = at.runner.sample(num_timesteps=steps)
            if not isinstance(episodes, Sequence):
                raise AssertionError(
                    f"it runs: found {type(episodes).__name__} from `sample`, expected an `EpisodeList`."
                )
            for episode in episodes:
                if not isinstance(episode, kind):
                    raise AssertionError(f"it runs: found {type(episode).__name__}, expected a {kind.__name__}.")
                if not episode.is_finalized:
                    raise AssertionError(
                        f"it runs: found {episode!r}, which is not finalized, expected finalized episodes."
                    )
                episode.validate()


# --- Every step once --------------------------------------------------------------------------------------------------


def every_step_is_there_once(subject: EnvRunnerSubject, calls: Calls) -> None:
    """Joined chunks are the episodes of the environments: no step is missing, repeated, or in another episode."""
    with stage(subject) as at:
        _check_every_step(at, sampled(at.runner, calls))


def _check_every_step(at: Stage, chunks: Sequence[Episode]) -> None:
    """Check that `chunks` hold all steps of the environments of the stage.

    Raises:
        AssertionError: If they do not; it names the environment, the episode and the difference.
    """
    _check_order(chunks)
    found: dict[tuple[int, int], str] = {}
    for id_, whole in joined(chunks).items():
        number, episode = _place_of(whole)
        where = f"every step is there once, environment {number}, episode {episode} ({id_!r})"
        if (number, episode) in found:
            raise AssertionError(f"{where}: found it a second time, as {found[number, episode]!r}.")
        found[number, episode] = id_
        if isinstance(whole, MultiAgentEpisode):
            _check_agents(where, whole, at.envs.made[number].log[episode])
        else:
            _check_steps(where, whole, at.envs.made[number].log[episode])
    missing = _played(at) - found.keys()
    if missing:
        raise AssertionError(
            f"every step is there once: found nothing of {sorted(missing)} (environment, episode), expected all steps."
        )


def _check_order(chunks: Sequence[Any]) -> None:
    ends: dict[str, int] = {}
    for chunk in chunks:
        is_multi = isinstance(chunk, MultiAgentEpisode)
        started, ended = (chunk.env_t_started, chunk.env_t) if is_multi else (chunk.t_started, chunk.t)
        if started != ends.get(chunk.id_, 0):
            raise AssertionError(
                f"every step is there once, {chunk.id_!r}: found a chunk of the steps {started} to {ended}, expected one that "
                f"begins at {ends.get(chunk.id_, 0)}, where the one before has ended."
            )
        ends[chunk.id_] = ended


def _place_of(whole: Any) -> tuple[int, int]:
    if isinstance(whole, MultiAgentEpisode):
        agents = [episode for episode in whole.agent_episodes.values() if episode.is_reset]
        rows = np.concatenate([np.asarray(episode.get_observations()) for episode in agents])
    else:
        rows = np.asarray(whole.get_observations())
    places = {(int(row[0]), int(row[2])) for row in rows}
    if len(places) > 1:
        raise AssertionError(
            f"every step is there once, {whole.id_!r}: found observations of {sorted(places)} (environment, episode) in one "
            "episode, expected those of one."
        )
    return places.pop()


def _played(at: Stage) -> set[tuple[int, int]]:
    """Return the episodes with steps, as pairs of environment and number."""
    return {
        (env.usage.number, episode)
        for env in at.envs.made
        for episode, log in enumerate(env.log)
        if (any(paid for _, paid in log.values()) if isinstance(log, dict) else len(log) > 1)
    }


def _check_steps(where: str, whole: SingleAgentEpisode, log: list[Any]) -> None:
    expected = {
        "observations": [observation for observation, *_ in log],
        "actions": [action for _, action, *_ in log[1:]],
        "rewards": [reward for _, _, reward, *_ in log[1:]],
        "is_terminated": log[-1][3],
        "is_truncated": log[-1][4],
    }
    found = {
        "observations": np.asarray(whole.get_observations()).tolist(),
        "actions": np.asarray(whole.get_actions()).tolist(),
        "rewards": np.asarray(whole.get_rewards()).tolist(),
        "is_terminated": whole.is_terminated,
        "is_truncated": whole.is_truncated,
    }
    _compare(where, expected, found)


def _check_agents(where: str, whole: MultiAgentEpisode, log: dict[Any, Any]) -> None:
    for agent, (shown, paid) in log.items():
        episode = whole.agent_episodes.get(agent)
        rows = [] if episode is None or not episode.is_reset else np.asarray(episode.get_observations()).tolist()
        total = 0.0 if episode is None else float(episode.get_return()) + _pending(whole, agent)
        _compare(
            f"{where}, agent {agent!r}",
            {"observations": shown, "sum of rewards": sum(paid)},
            {"observations": rows, "sum of rewards": total},
        )


def _pending(whole: MultiAgentEpisode, agent: Any) -> float:
    """Return the rewards of an agent since its last action, if it has no observation after it."""
    return float(whole._hanging_rewards_end.get(agent, 0.0))


def _compare(where: str, expected: dict[str, Any], found: dict[str, Any]) -> None:
    for name, wanted in expected.items():
        if found[name] != wanted:
            raise AssertionError(f"{where}: found {name} {found[name]}, expected {wanted}.")


# --- As much as was asked for -----------------------------------------------------------------------------------------


def as_many_steps_as_were_asked_for(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`sample(num_timesteps=n)` returns at least n and fewer than n + `num_envs` environment steps."""
    with stage(subject) as at:
        for steps in calls:
            found = num_steps(at.runner.sample(num_timesteps=steps))
            if not steps <= found < steps + NUM_ENVS:
                raise AssertionError(
                    f"as many steps as were asked for: found {found}, expected {steps} to {steps + NUM_ENVS - 1}."
                )


def as_many_episodes_as_were_asked_for(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`sample(num_episodes=n)` returns exactly n whole episodes, also after calls that returned chunks."""
    law = "as many episodes as were asked for"
    with stage(subject) as at:
        sampled(at.runner, calls)
        for count in (1, 2 * NUM_ENVS + 1):
            episodes = at.runner.sample(num_episodes=count)
            if len(episodes) != count:
                raise AssertionError(f"{law}: found {len(episodes)}, expected {count}.")
            for episode in episodes:
                started = episode.env_t_started if isinstance(episode, MultiAgentEpisode) else episode.t_started
                if not episode.is_done or started != 0:
                    raise AssertionError(f"{law}: found {episode!r}, expected a whole one, from its reset to its end.")


# --- What acts --------------------------------------------------------------------------------------------------------


def actions_are_those_of_the_module(subject: EnvRunnerSubject, calls: Calls) -> None:
    """Each step has the action that the module chose for its observation, and the other outputs of the same row."""
    with stage(subject) as at:
        for chunk in sampled(at.runner, calls):
            agents = chunk.agent_episodes.values() if isinstance(chunk, MultiAgentEpisode) else [chunk]
            for episode in agents:
                _check_actions(f"actions are those of the module, episode {chunk.id_!r}", episode)


def _check_actions(where: str, episode: SingleAgentEpisode) -> None:
    if not len(episode):
        return
    rows = np.asarray(episode.get_observations(slice(0, len(episode))))
    expected = {"actions": [fake_action(row) for row in rows], TAG: [fake_tag(row).tolist() for row in rows]}
    if TAG not in episode.extra_model_outputs:
        raise AssertionError(f"{where}: found the extra outputs {list(episode.extra_model_outputs)}, expected {TAG!r}.")
    found = {
        "actions": np.asarray(episode.get_actions()).tolist(),
        TAG: np.asarray(episode.get_extra_model_outputs(TAG)).tolist(),
    }
    _compare(where, expected, found)


def exploring_decides_what_acts(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`forward_exploration` is called for exploration, `forward_inference` otherwise, and no pass for random actions."""
    wanted: dict[str, tuple[dict[str, bool], set[str]]] = {
        "explore=True": ({"explore": True}, {"forward_exploration"}),
        "explore=False": ({"explore": False}, {"forward_inference"}),
        "random_actions=True": ({"random_actions": True}, set()),
    }
    with stage(subject) as at:
        for shown, (options, expected) in wanted.items():
            at.module.calls.clear()
            for steps in calls:
                at.runner.sample(num_timesteps=steps, **options)
            found = {which for which, _ in at.module.calls}
            if found != expected:
                raise AssertionError(
                    f"exploring decides what acts (sample({shown})): found calls of {sorted(found)}, expected "
                    f"{sorted(expected) or 'none'}."
                )


def chunks_carry_their_lookback(subject: EnvRunnerSubject, calls: Calls) -> None:
    """A chunk has the requested number of earlier steps of its episode in its lookback, or all there are."""
    with stage(subject) as at:
        for chunk in sampled(at.runner, calls):
            agents = chunk.agent_episodes.values() if isinstance(chunk, MultiAgentEpisode) else [chunk]
            for episode in agents:
                _check_lookback(f"chunks carry their lookback, {chunk.id_!r}", episode)


def _check_lookback(where: str, episode: SingleAgentEpisode) -> None:
    if not episode.is_reset:
        return
    wanted, found = min(LOOKBACK, episode.t_started), episode.observations.lookback
    if found < wanted:
        raise AssertionError(
            f"{where}: found a lookback of {found} at the step {episode.t_started}, expected {LOOKBACK} or all there are."
        )
    rows = np.asarray([episode.get_observations(-back, neg_index_as_lookback=True) for back in range(found, 0, -1)])
    steps = rows[:, 3].tolist() if len(rows) else []
    first = float(episode.get_observations(0)[3])
    if steps != sorted(set(steps)) or (steps and steps[-1] >= first):
        raise AssertionError(f"{where}: found the steps {steps} before {first}, expected earlier ones in order.")


def environments_are_used_as_they_should_be(subject: EnvRunnerSubject, calls: Calls) -> None:
    """Environments are reset first, each with its own seed, not stepped after the end, and get actions of their space."""
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
    """Runners with the same seed return the same episodes, also with random actions; another seed gives other episodes."""
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


def returned_episodes_stay(subject: EnvRunnerSubject, calls: Calls) -> None:
    """Returned episodes never change, also during later calls."""
    with stage(subject) as at:
        episodes = sampled(at.runner, calls[:1])
        before = [copy.deepcopy(episode) for episode in episodes]
        sampled(at.runner, [*calls[1:], 4])
        at.runner.sample(num_episodes=2)
        assert_same_episodes("returned episodes stay", before, episodes)


def evaluation_leaves_sampling_alone(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`evaluate(num_episodes=n)` returns n whole episodes, and does not affect the next `sample`."""
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
    """A runner with the state of another plays as that one does after a reset; the state can be pickled."""
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
    """Compare ids and lengths, which do not depend on earlier episodes of the environments."""
    for what, outline in (("episodes", _ids), ("lengths", _lengths)):
        if outline(expected) != outline(found):
            raise AssertionError(f"{law}: found the {what} {outline(found)}, expected {outline(expected)}.")


def _ids(episodes: Sequence[Episode]) -> list[str]:
    return [episode.id_ for episode in episodes]


def _lengths(episodes: Sequence[Episode]) -> list[int]:
    return [episode.env_steps() for episode in episodes]


def an_error_loses_nothing(subject: EnvRunnerSubject, calls: Calls) -> None:
    """An error of the module reaches the caller, and later calls return all earlier steps once."""
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
        _check_every_step(at, chunks)


def it_closes_what_it_has_opened(subject: EnvRunnerSubject, calls: Calls) -> None:
    """`close` closes all environments and ends all processes; a second `close` does nothing, and `sample` raises."""
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
        except Exception:  # noqa: BLE001  # any error is correct
            return
    raise AssertionError(f"{law}: found that `sample` still works after `close`, expected an error.")


#: The laws of env runners, in the order of the checks.
ENV_RUNNER_LAWS: tuple[Law, ...] = (
    it_runs,
    environments_are_used_as_they_should_be,
    every_step_is_there_once,
    as_many_steps_as_were_asked_for,
    as_many_episodes_as_were_asked_for,
    actions_are_those_of_the_module,
    exploring_decides_what_acts,
    chunks_carry_their_lookback,
    same_seed_gives_same_episodes,
    returned_episodes_stay,
    an_error_loses_nothing,
    evaluation_leaves_sampling_alone,
    restored_runners_go_on_alike,
    it_closes_what_it_has_opened,
)

ENV_RUNNERS = Family(
    laws=ENV_RUNNER_LAWS,
    inputs=lambda _: list(CALLS),
    smaller=fewer_calls,
    described=described_calls,
)


def check_env_runner(make: Callable[..., Any], **options: Any) -> list[CheckResult]:
    """Check a kind of env runner against all laws, in fake environments, and return the results.

    Args:
        make: Makes a runner: a class or a function; see `EnvRunnerSubject`.
        **options: The other attributes of `EnvRunnerSubject`: `multi_agent`, `label` and `expected_failures`.

    Raises:
        AssertionError: If laws are broken; it names each law, the difference, and the fewest calls that show it.

    >>> from episodia.env_runners import SingleAgentEnvRunner
    >>> print(check_env_runner(SingleAgentEnvRunner)[2])
    passed   every_step_is_there_once
    """
    return results_in(ENV_RUNNERS, EnvRunnerSubject(make, **options))
