"""Callbacks are told what happens, may stop a run, and lose nothing when they fail."""

from itertools import islice

import pytest

from episodia.errors import TrainingError
from episodia.training import (
    EarlyStopping,
    EvalEvery,
    Setup,
    StoppedBy,
    Training,
    TrainingCallback,
    load_training,
    resume,
    train,
)
from episodia.training.events.eval_every import EVALUATED

SMALL = {"num_envs": 2, "num_timesteps": 40, "num_epochs": 1, "hidden": (8,)}


def small(**options):
    return Training.of(Setup.of("ppo", "CartPole-v1", **SMALL, **options))


def started(out=None, **settings):
    return train("ppo", "CartPole-v1", out=out, progress=False, **SMALL, **settings)


class Diary(TrainingCallback):
    def __init__(self, stop_at=None):
        self.told, self.stop_at = [], stop_at

    def on_begin(self, training):
        self.told.append("begin")

    def on_collected(self, training, episodes):
        self.told.append(f"collected {episodes.lengths.sum()}")

    def on_evaluated(self, training, returns):
        self.told.append(f"evaluated {len(returns)}")

    def on_record(self, training, record):
        self.told.append(f"record {record['iteration']}")
        return record["iteration"] == self.stop_at

    def on_end(self, training):
        self.told.append(f"end by {training.stopped_by.value}")


def test_a_callback_is_told_all_events_in_order():
    diary = Diary()
    with small() as training:
        training.run(steps=80, callbacks=[EvalEvery(80, 3), diary])

    expected = ["begin", "collected 40", "record 1", "collected 40", "evaluated 3", "record 2", "end by steps"]
    assert diary.told == expected


@pytest.mark.parametrize("callback", [Diary(stop_at=2), lambda record: record["iteration"] == 2])
def test_a_callback_stops_a_run(callback):
    with small() as training:
        assert training.run(steps=4000, callbacks=[callback]) is StoppedBy.CALLBACK
        assert training.iteration == 2


def test_a_training_is_an_iterator_of_the_records_of_its_run():
    with small() as iterated, small() as run:
        run.run(steps=120)
        found = list(islice(iterated, 3))

        assert [record["return_mean"] for record in found] == pytest.approx(
            [record["return_mean"] for record in run.history], nan_ok=True
        )
        assert iterated.history == found


def failing(record):
    if record["iteration"] == 2:
        raise ValueError("no more disk")


def test_an_error_in_a_callback_names_it_and_loses_nothing(tmp_path):
    out, seen = tmp_path / "run", []
    with pytest.raises(ValueError, match="no more disk") as caught:
        started(out, steps=400, callbacks=[failing, seen.append])

    assert "callback failing" in caught.value.__notes__[0]
    assert "after update 2" in caught.value.__notes__[0]
    assert [record["iteration"] for record in seen] == [1, 2]
    with resume(out, progress=False) as resumed:
        assert [record["iteration"] for record in resumed.history] == list(range(1, resumed.iteration + 1))
        assert resumed.steps >= 400


class NeverCollects(TrainingCallback):
    def on_collected(self, training, episodes):
        raise KeyError("policy")


def test_what_was_collected_is_learned_from_before_an_error_is_raised():
    with small() as training:
        with pytest.raises(KeyError):
            training.run(steps=400, callbacks=[NeverCollects()])

        assert training.iteration == 1
        assert training.is_whole


def test_evaluations_are_in_the_metrics_and_the_best_checkpoint_is_kept(tmp_path):
    out = tmp_path / "run"
    evaluation = EvalEvery(80, 5)
    with started(out, steps=400, callbacks=[evaluation]) as training:
        found = {record["steps"]: record[EVALUATED] for record in training.history if EVALUATED in record}
    with load_training(out / "best") as best:
        assert len(found) == 5
        assert evaluation.best_return == max(found.values()) == found[best.steps]
    again = EvalEvery(80, 5)
    with resume(out, steps=training.steps + 1, progress=False, callbacks=[again]):
        assert again.best_return == evaluation.best_return


def test_a_run_with_evaluations_is_the_run_without():
    with small() as first, small() as second:
        first.run(steps=200, callbacks=[EvalEvery(80, 3)])
        second.run(steps=200)

        assert [record["policy_loss"] for record in first.history] == [
            record["policy_loss"] for record in second.history
        ]


def test_a_run_whose_metric_does_not_rise_is_stopped_early():
    with small(learning_rate=0.0) as training:
        stopped = training.run(steps=4000, callbacks=[EarlyStopping("learning_rate", patience=3)])

        assert stopped is StoppedBy.CALLBACK
        assert training.iteration == 4


@pytest.mark.parametrize(
    ("metric", "remedy"), [("return_men", "Did you mean `return_mean`"), (EVALUATED, "Pass `EvalEvery` before it")]
)
def test_a_metric_that_never_comes_is_warned_of_at_the_end(metric, remedy):
    with small() as training, pytest.warns(UserWarning, match=f"no record with the metric '{metric}'.*{remedy}"):
        training.run(steps=80, callbacks=[EarlyStopping(metric, patience=1)])


def test_a_metric_that_many_records_lack_is_warned_of_once():
    stopping = EarlyStopping("policy_los", patience=1)
    with small() as training:
        stopping.on_begin(training)
        for _ in range(99):
            stopping.on_record(training, {"policy_loss": 0.5})

        with pytest.warns(UserWarning, match="Did you mean `policy_loss`"):
            stopping.on_record(training, {"policy_loss": 0.5})
        stopping.on_record(training, {"policy_loss": 0.5})
        stopping.on_end(training)


@pytest.mark.parametrize("make", [lambda: EvalEvery(0), lambda: EvalEvery(5, 0), lambda: EarlyStopping(patience=0)])
def test_numbers_out_of_range_are_rejected(make):
    with pytest.raises(TrainingError):
        make()


@pytest.mark.parametrize("given", [Diary, TrainingCallback])
def test_a_class_is_no_callback(given):
    with pytest.raises(TrainingError, match="not classes"):
        started(steps=40, callbacks=[given])
