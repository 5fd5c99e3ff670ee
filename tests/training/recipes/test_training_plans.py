"""Plans are options of a training: flows that equal the loop where they have to, go on from checkpoints, and can be swapped."""

import numpy as np
import pytest
import torch

from episodia.connectors import MeanStdFilter
from episodia.dataflow import Flow, concurrently, episodes_of, replayed_lists, rollouts, store, train_one_step
from episodia.dataflow.plans import in_rounds
from episodia.errors import FlowError, TrainingError
from episodia.learners import ReplayUpdates
from episodia.replay import ReplayBuffer, WholeEpisodes
from episodia.training import (
    EvalEvery,
    Recipe,
    ReplayRecipe,
    Setup,
    Training,
    TrainingCallback,
    load_training,
    resume,
    save_training,
)
from episodia.training import train as train_
from episodia.training.recipes import training_plans
from episodia.training.recipes.training_plans import PLANS

SMALL = {"num_envs": 2, "hidden": (8,)}
STEPS = {**SMALL, "num_timesteps": 64}
REPLAY = {**SMALL, "num_timesteps": 16, "warm_up": 40, "batch_size": 8, "updates_per_step": 0.25, "capacity": 400}

# Name, algorithm, options.
EVERY_PLAN = {
    "a2c": ("a2c", {**STEPS, "plan": "rounds"}),
    "ppo": ("ppo", {**STEPS, "plan": "rounds", "num_epochs": 2, "minibatch_size": 32}),
    "ppo in a loop": ("ppo", {**STEPS, "num_runners": 2, "num_epochs": 2, "minibatch_size": 32}),
    "ppo with a3c's plan": ("ppo", {**STEPS, "plan": "a3c", "standardize_advantages": False}),
    "reinforce": ("reinforce", {**SMALL, "num_episodes": 4, "plan": "rounds"}),
    "reinforce while playing": ("reinforce", {**SMALL, "num_episodes": 4, "plan": "impala"}),
    "a3c": ("a3c", STEPS),
    "appo": ("appo", {**STEPS, "max_lag": 3}),
    "impala": ("impala", STEPS),
    "dqn": ("dqn", {**REPLAY, "plan": "replay"}),
    "apex": ("apex", {**REPLAY, "num_shards": 2}),
    "sac": ("discrete_sac", {**REPLAY, "plan": "replay"}),
    "r2d2": ("r2d2", {**REPLAY, "plan": "replay", "max_seq_len": 4}),
}


def training_of(name, **more):
    algorithm, options = EVERY_PLAN[name]
    return Training.of(Setup.of(algorithm, "CartPole-v1", **{**options, **more}))


def steady(record):
    """Return a record without what takes time."""
    return {name: value for name, value in record.items() if not name.endswith("_s")}


def same_weights(first, second):
    return all(
        torch.equal(tensor, second.learner.get_weights()["default_policy"][name])
        for name, tensor in first.learner.get_weights()["default_policy"].items()
    )


@pytest.mark.parametrize("name", EVERY_PLAN)
def test_every_plan_learns_and_counts(name):
    with training_of(name) as training:
        before = {name: tensor.clone() for name, tensor in training.runner.module.state_dict().items()}
        records = [training.step() for _ in range(3)]

        assert [record["iteration"] for record in records] == [1, 2, 3]
        assert records[-1]["steps"] == training.steps > 0
        assert training.runner.counts["requested"] == training.runner.counts["delivered"] + training.runner.in_flight
        after = training.runner.module.state_dict()
        assert any(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("num_runners", [1, 3])
def test_ppo_as_a_flow_is_the_loop_bit_for_bit(num_runners):
    options = {**SMALL, "num_timesteps": 60, "num_epochs": 3, "minibatch_size": 16, "num_runners": num_runners}
    setups = [
        Setup.of("ppo", "CartPole-v1", connectors=[MeanStdFilter()], plan=plan, **options)
        for plan in ("loop", "rounds")
    ]
    with Training.of(setups[0]) as loop, Training.of(setups[1]) as flow:
        for _ in range(4):
            assert steady(flow.step()) == pytest.approx(steady(loop.step()), rel=0, abs=0, nan_ok=True)
        assert same_weights(loop, flow)


def test_ppo_as_a_flow_is_the_loop_that_is_written_by_hand():
    how = {"num_epochs": 2, "minibatch_size": 16}
    setup = Setup.of("ppo", "CartPole-v1", plan="rounds", num_runners=2, **STEPS, **how)
    group, learner = setup.build()
    with Training.of(setup) as flow, group:
        for _ in range(3):
            flow.step()
            learner.update(group.sample(num_timesteps=64), **how)
            group.set_weights(learner.get_weights()["default_policy"])

        for name, tensor in learner.get_weights()["default_policy"].items():
            assert torch.equal(tensor, flow.learner.get_weights()["default_policy"][name])


@pytest.mark.parametrize("name", EVERY_PLAN)
def test_every_plan_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(name, tmp_path):
    with training_of(name) as first:
        for _ in range(2):
            first.step()
        save_training(tmp_path / "saved", first)
        with load_training(tmp_path / "saved") as second:
            for _ in range(3):
                assert steady(second.step()) == pytest.approx(steady(first.step()), rel=0, abs=0, nan_ok=True)
            first.get_state(), second.get_state()  # learners come back from their workers
            assert same_weights(first, second)


@pytest.mark.parametrize("name", ["a2c", "a3c", "appo", "impala", "apex"])
def test_plans_run_in_threads_too(name):
    with training_of(name, engine="threads", num_runners=3) as training:
        for _ in range(3):
            training.step()

        counts = training.runner.counts
        assert counts["requested"] == counts["delivered"] + counts["lost"] + training.runner.in_flight
        assert training.history[-1]["runners/lag_max"] < 50


@pytest.mark.parametrize(("n_step", "expected"), [(1, 1), (3, 0)])
def test_runners_of_apex_compute_priorities_only_if_these_are_errors_of_single_steps(n_step, expected, monkeypatch):
    made = []
    monkeypatch.setattr(training_plans, "PrioritiesThere", made.append)
    with training_of("apex", n_step=n_step) as training:
        training.step()

    assert len(made) == expected


def test_rounds_of_trainings_need_not_wait_for_all_runners():
    with training_of("a2c", engine="threads", num_runners=3, min_ready=1) as training:
        training.step()

        assert training.runner.counts["delivered"] >= 1


def test_actions_are_random_until_the_warm_up_is_over():
    class Diary(TrainingCallback):
        def __init__(self):
            self.logp = []

        def on_collected(self, training, episodes):
            self.logp.append(len(episodes))

    diary = Diary()
    with training_of("sac") as training:
        training.run(steps=60, callbacks=[diary])
        wanted = [seat.number for seat in training.runner._seats]

    assert len(diary.logp) == sum(wanted)


def test_a_run_of_a_plan_has_files_and_is_resumed(tmp_path):
    options = {**STEPS, "plan": "impala", "num_epochs": 1}
    with train_(
        "ppo", "CartPole-v1", steps=200, out=tmp_path, progress=False, callbacks=[EvalEvery(100, 2)], **options
    ) as one:
        assert one.setup.recipe.plan == "impala"
        steps = one.steps
    with resume(tmp_path, steps=400, progress=False) as two:
        assert two.steps >= 400 > steps
        assert two.setup.recipe.plan == "impala"
        assert "runners/lag_mean" in two.history[-1]


# --- Plans of users -------------------------------------------------------------------------------------------------


def a2c_with_replay(training):
    """A2C that also learns from a buffer: two replayed lists for each new one."""
    buffer, group = ReplayBuffer(2000, seed=0), training.runner
    fresh = rollouts(group, num_timesteps=20).tap(lambda round_: list(map(store(buffer), round_))).for_each(episodes_of)
    old = replayed_lists(buffer, 4, WholeEpisodes(), warm_up=50)
    learn = train_one_step(training.learner, group)
    return concurrently([fresh, old], weights=[1, 2]).for_each(learn)


def test_a_plan_is_a_function_and_a_replay_buffer_is_put_into_a2c():
    with train_(
        "a2c", "CartPole-v1", steps=300, plan=a2c_with_replay, num_runners=1, progress=False, **SMALL
    ) as training:
        assert training.iteration > 300 / 20
        assert all(np.isfinite(record["loss"]) for record in training.history)


def test_a_flow_over_two_learners_is_saved_with_both():
    def new_training():
        setups = [Setup.of(name, "CartPole-v1", num_runners=1, **SMALL) for name in ("a2c", "dqn")]
        group, first = setups[0].build()
        second = setups[1].new_learner()
        buffer = ReplayBuffer(500, seed=1)
        updates = ReplayUpdates(second, buffer, num=8)
        flow = in_rounds(group, first, num_timesteps=20).tap(lambda _: buffer.num_steps and updates.update())
        others = {"second": second, "buffer": buffer}
        made = Training(group, first, Recipe(), flow=flow, others=others)
        note = group.on_delivery

        def both(delivery):
            note(delivery)
            store(buffer)(delivery)

        group.on_delivery = both
        return made, second

    (one, its), (two, other) = new_training(), new_training()
    with one, two:
        one.step()
        two.set_state(one.get_state())
        for training in (one, two):
            training.step()

    found, expected = (learner.get_weights()["default_policy"] for learner in (its, other))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Recipe(plan="apex"),
        lambda: ReplayRecipe(plan="impala"),
        lambda: ReplayRecipe(num_shards=2),
        lambda: Recipe(max_lag=-1),
        lambda: Setup.of("ppo", "CartPole-v1", num_runners=-1),
        lambda: Setup.of("ppo", "CartPole-v1", engine="steam"),
        lambda: Training.of(Setup.of("ppo", "CartPole-v1", plan=lambda _: None, **SMALL)),
    ],
)
def test_wrong_plans_are_rejected(make):
    with pytest.raises(TrainingError):
        make()


def test_a_plan_for_groups_with_one_runner_is_rejected():
    runner, learner = Setup.of("ppo", "CartPole-v1", **SMALL).build()
    with runner, pytest.raises(TrainingError, match="num_runners"):
        Training(runner, learner, Recipe(plan="rounds"))


def test_shards_that_no_runner_would_fill_are_rejected():
    with pytest.raises(FlowError, match="3 shards and 2 runners"):
        Training.of(Setup.of("apex", "CartPole-v1", num_shards=3, num_runners=2))


def test_all_names_of_plans_are_known():
    assert {*Recipe.plan_names, *ReplayRecipe.plan_names} == set(PLANS)


def test_a_printed_training_flow_shows_its_stages():
    with training_of("impala") as training:
        training.step()

        assert "ConcatSteps" in repr(training.flow)
        assert isinstance(training.flow, Flow)


@pytest.mark.parametrize("item", [3, [], {"loss": 1.0}])
def test_a_flow_of_something_else_than_metrics_is_an_error(item):
    runner, learner = Setup.of("ppo", "CartPole-v1", **SMALL).build()
    with (
        Training(runner, learner, Recipe(), flow=Flow([item])) as training,
        pytest.raises(TrainingError, match="metrics"),
    ):
        training.step()


def test_a_flow_that_ends_ends_the_iteration_and_is_an_error_of_a_run():
    runner, learner = Setup.of("ppo", "CartPole-v1", **SMALL).build()
    metrics = [{"default_policy": {"loss": 1.0}, "__all_modules__": {}}] * 2
    with Training(runner, learner, Recipe(), flow=Flow(metrics)) as training:
        assert [record["loss"] for record in training] == [1.0, 1.0]
        with pytest.raises(TrainingError, match="has ended after 2 updates"):
            training.run(steps=10)
