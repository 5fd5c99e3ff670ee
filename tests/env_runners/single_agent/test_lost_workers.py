"""F1, F2, F3, F6: a worker that dies or hangs at any moment costs its own running episode, and nothing else."""

import time
from functools import partial

import pytest

from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.env_runners.envs import async_lanes
from episodia.errors import EnvError
from episodia.testing import assert_same_episode
from mortal_envs import LONGEST, NUM_DEATHS, Mortal, Silent, SleepsAtTheEnd, cut_answers, die, die_after_answers, hang
from scripted_agents import Echo
from scripted_agents import ScriptedEnv as ScriptedAgents
from scripted_envs import ScriptedEnv, assert_every_step_once, places

MOMENTS = {
    "before the answer": ("step", die, 0),
    "in the middle of the answer": ("step", partial(cut_answers, die), 50_000_000),
    "in the middle of a short answer": ("step", partial(cut_answers, die), 0),
    "after the answer": ("step", die_after_answers, 0),
    "during the reset": ("reset", die, 0),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_f2_a_worker_that_is_killed_costs_its_own_episode(moment, tmp_path):
    place, do, size = MOMENTS[moment]
    with SingleAgentEnvRunner(
        partial(Mortal, tmp_path, place, do, size=size), num_envs=3, seed=0, vectorization="async"
    ) as runner:
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=20)]
        metrics = runner.get_metrics()

    assert_others_have_no_gaps(chunks, (tmp_path / "seeds").read_text().split())
    assert metrics.num_env_restarts == NUM_DEATHS
    assert metrics.num_episodes_dropped <= NUM_DEATHS


def assert_others_have_no_gaps(chunks, seeds):
    chosen = set(map(float, seeds))
    assert len(chosen) == NUM_DEATHS + 1
    others = [chunk for chunk in chunks if float(places(chunk)[0, 0]) not in chosen]
    assert len({float(places(chunk)[0, 0]) for chunk in others}) == 2
    assert_every_step_once(others, longest=LONGEST)
    assert_every_step_once(chunks, longest=LONGEST, gaps=True)


@pytest.mark.parametrize("do", [hang, partial(cut_answers, hang)])
def test_f3_a_worker_that_hangs_is_replaced_in_time(do, tmp_path):
    with SingleAgentEnvRunner(
        partial(Mortal, tmp_path, "step", do), num_envs=3, seed=0, vectorization="async", step_timeout_s=0.5
    ) as runner:
        started = time.monotonic()
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=20)]

        assert time.monotonic() - started < NUM_DEATHS * 2.5
        assert runner.get_metrics().num_env_restarts == NUM_DEATHS
    assert_others_have_no_gaps(chunks, (tmp_path / "seeds").read_text().split())


def test_f2_the_episode_of_a_lost_worker_can_be_kept_as_truncated(tmp_path):
    make = partial(Mortal, tmp_path, "step", die)
    with SingleAgentEnvRunner(make, num_envs=2, seed=0, vectorization="async", on_env_error="truncate") as runner:
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=20)]

        assert runner.get_metrics().num_env_steps_dropped == 0
    reasons = [chunk.custom_data["env_error"] for chunk in chunks if "env_error" in chunk.custom_data]
    assert all("process gone" in reason for reason in reasons)


def test_f2_the_same_losses_give_the_same_episodes(tmp_path):
    played = []
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "claim1").touch()
        make = partial(Mortal, tmp_path / name, "step", die)
        with SingleAgentEnvRunner(make, num_envs=1, seed=0, vectorization="async") as runner:
            played.append(runner.sample(num_episodes=6))

    for one, other in zip(*played, strict=True):
        assert_same_episode(one, other, ignore=["times"])


class AgentsSleepAtTheEnd(ScriptedAgents):
    def close(self):
        time.sleep(3600)


@pytest.mark.parametrize("kind", ["single", "agents"])
def test_f6_environments_that_hang_when_they_are_closed_block_neither_constructor_nor_close(kind):
    started = time.monotonic()
    if kind == "single":
        runner = SingleAgentEnvRunner(partial(SleepsAtTheEnd, LONGEST), num_envs=2, seed=0, vectorization="async")
    else:
        runner = MultiAgentEnvRunner(
            AgentsSleepAtTheEnd,
            Echo(),
            num_envs=2,
            agent_to_module_mapping_fn=lambda *_: "default_policy",
            vectorization="async",
        )
    runner.sample(num_timesteps=4)
    made = time.monotonic()
    runner.close()

    assert time.monotonic() - made < 60  # they hang for an hour
    assert made - started < 60


def test_f6_an_environment_that_hangs_when_it_is_made_does_not_block_the_constructor(monkeypatch):
    monkeypatch.setattr(async_lanes, "_START_S", 0.2)

    with pytest.raises(EnvError, match=r"environment 0: found no environment after 0\.3 seconds"):
        SingleAgentEnvRunner(lambda: time.sleep(3600), vectorization="async", step_timeout_s=0.3)


class MadeOnce(ScriptedEnv):
    """Is made at once the first time, and never after that."""

    def __init__(self, folder):
        super().__init__(LONGEST)
        try:
            folder.mkdir()
        except FileExistsError:
            hang()


def test_f6_an_environment_that_hangs_when_its_worker_makes_it_is_an_error_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(async_lanes, "_START_S", 0.2)

    with pytest.raises(EnvError, match=r"environment 0: found no environment after 3\.0 seconds"):
        SingleAgentEnvRunner(
            partial(MadeOnce, tmp_path / "made"), num_envs=2, vectorization="async", step_timeout_s=3.0
        )


def test_f6_a_worker_that_never_answers_is_an_error_that_names_its_environment():
    with (
        SingleAgentEnvRunner(
            partial(Silent, 3), num_envs=1, seed=0, vectorization="async", step_timeout_s=0.3, max_restarts=1
        ) as runner,
        pytest.raises(EnvError, match=r"environment 0: found no answer for 0\.3 seconds, after .* 1 times in a row"),
    ):
        runner.sample(num_timesteps=1)


def test_f13_a_fork_is_warned_of():
    with pytest.warns(UserWarning, match="async_context='fork'"):
        SingleAgentEnvRunner("CartPole-v1", seed=0, vectorization="async", async_context="fork").close()
