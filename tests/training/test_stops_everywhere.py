"""S14: a run that stops after any update and is resumed equals one that saved there and went on, bit for bit."""

import pytest
import torch

from episodia.training import Setup, Training, load_training, save_training
from interrupts import interrupted_at

SETTINGS = {
    "ppo": {"num_envs": 2, "num_timesteps": 40, "num_epochs": 2, "minibatch_size": 20, "hidden": (8,)},
    "dqn": {"num_envs": 2, "num_timesteps": 10, "warm_up": 20, "batch_size": 8, "capacity": 100, "hidden": (8,)},
}


def state_of(training):
    """Return what a training has learned and seen; times differ from run to run."""
    weights = training.learner.get_weights()["default_policy"]
    history = [
        {name: value for name, value in record.items() if name not in ("time_s", "steps_per_s")}
        for record in training.history
    ]
    return torch.cat([value.flatten() for value in weights.values()]), repr(history)


@pytest.mark.parametrize("algorithm", SETTINGS)
@pytest.mark.parametrize("number", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_s14_a_training_that_stops_after_any_update_goes_on_as_if_it_had_not(algorithm, number, tmp_path):
    with Training.of(Setup.of(algorithm, "CartPole-v1", seed=5, **SETTINGS[algorithm])) as training:
        for _ in range(number):
            training.history.clear()
            training.step()
            save_training(tmp_path / "saved", training)
            with load_training(tmp_path / "saved") as resumed:
                resumed.step()
            training.history.clear()
            training.step()

            (expected, metrics), (found, resumed_metrics) = state_of(training), state_of(resumed)
            assert torch.equal(found, expected)
            assert resumed_metrics == metrics


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_f10_ctrl_c_in_a_step_waits_for_the_end_of_the_update(algorithm):
    with Training.of(Setup.of(algorithm, "CartPole-v1", seed=5, **SETTINGS[algorithm])) as training:
        for number in (0, 300, 1_000, 2_500, 5_000):
            before = training.iteration
            record, place = interrupted_at(number, training.step, by_signal=True)
            training.step()

            assert record is None
            assert place is not None
            assert training.iteration - before == (2 if number else 1)  # at the first line, nothing has begun
            assert training.iteration == len(training.history)
