"""Checkpoints of trainings with changed values, under valid checksums: typed errors, and no code runs."""

import contextlib
import random
import sys

import pytest

from episodia.checkpoints import load_state, save_state
from episodia.errors import EpisodiaError, ModuleError
from episodia.training import Setup, Training, load_training, save_training

SMALL = {"num_envs": 2, "num_timesteps": 10, "hidden": (4,)}
REPLAY = {"warm_up": 20, "batch_size": 8, "capacity": 200}
EVIL = ["forged_mod:CartPole-v1", "forged_mod.X", "os.system", "__class__", "../../etc/passwd", "x" * 100_000]
NUMBERS = [2**63 - 1, -1, 10**18, 10**30, 1e308, float("inf"), float("nan"), True, None, [], {}, [[]] * 100]
HIDDEN = ("setup", "options", "hidden", 0)


def saved(algorithm, path):
    options = SMALL if algorithm == "ppo" else SMALL | REPLAY
    with Training.of(Setup.of(algorithm, "CartPole-v1", **options)) as training:
        training.run(steps=30)
        save_training(path, training)
    return load_state(path)


def changed(state, path, value):
    """Return `state` with `value` at `path`; what is not on the way is shared."""
    if not path:
        return value
    key, *rest = path
    copied = dict(state) if isinstance(state, dict) else list(state)
    copied[key] = changed(state[key], rest, value)
    return copied if isinstance(state, (dict, list)) else tuple(copied)


def places(state, path=()):
    if path:
        yield path
    if isinstance(state, dict):
        for key, value in state.items():
            yield from places(value, (*path, key))
    elif isinstance(state, (list, tuple)):
        for number, value in enumerate(state[:3]):
            yield from places(value, (*path, number))


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_s5_forged_values_are_errors_of_the_library_and_run_nothing(algorithm, tmp_path, monkeypatch):
    (tmp_path / "forged_mod.py").write_text("raise SystemExit('the forged module was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    state = saved(algorithm, tmp_path / "saved")
    rng = random.Random(0)
    everywhere = sorted(places(state), key=str)
    for _ in range(60):
        forged = changed(state, rng.choice(everywhere), rng.choice(EVIL + NUMBERS))
        save_state(tmp_path / "forged", forged)
        with contextlib.suppress(EpisodiaError):
            load_training(tmp_path / "forged").close()

    assert "forged_mod" not in sys.modules


@pytest.mark.parametrize(
    ("algorithm", "path", "value"),
    [
        ("ppo", HIDDEN, 2**63 - 1),
        ("dqn", ("updating", "buffer", "tables", 0, "ids", 0, 0), float("inf")),
        ("dqn", ("updating", "buffer", "generator", "state", "state"), -(10**18)),
    ],
)
def test_s7_numbers_that_are_out_of_every_range_are_errors_of_the_library(algorithm, path, value, tmp_path):
    save_state(tmp_path / "forged", changed(saved(algorithm, tmp_path / "saved"), path, value))

    with pytest.raises(ModuleError if path is HIDDEN else EpisodiaError, match="found"):
        load_training(tmp_path / "forged")
