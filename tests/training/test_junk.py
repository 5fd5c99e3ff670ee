"""Whatever is passed to a training: it works, or an EpisodiaError says what is wrong and nothing has changed."""

import inspect
from dataclasses import fields

import gymnasium as gym
import numpy as np
import pytest

from episodia.connectors import MeanStdFilter
from episodia.learners import PPOConfig
from episodia.training import Recipe, Setup, Training, load_training, resume, save_training, train
from episodia.training.learning_curve import learning_curve
from junk import JUNK, arrays, problem_with, problems, problems_of_making

SMALL = {"num_envs": 2, "num_timesteps": 8, "num_epochs": 1, "hidden": (4,)}
SETUP = Setup.of("ppo", "CartPole-v1", **SMALL)
DATA = SETUP.to_dict()
# Those are no mistakes, and take their time.
PATIENT = {"num_envs", "num_timesteps", "num_episodes", "num_epochs", "steps", "evaluate"}


def training():
    made = Training.of(SETUP)
    made.step()
    return made


def snapshot(it):
    return {**arrays(it.get_state()), "history": list(it.history), "stopped": it.stopped_by}


def made_and_run(setup):
    """Let a training of `setup` take a step: what a setup accepts has to work."""
    with Training.of(setup) as it:
        it.step()


TRAINING = training()
STATE = TRAINING.get_state()


def state_with(*path, junk):
    """Return a state in which what is found under `path` is junk."""
    if not path:
        return junk
    state = STATE
    for key in path[:-1]:
        state = state[key]
    changed = {**state, path[-1]: junk}
    for place in range(len(path) - 2, -1, -1):
        outer = STATE
        for key in path[:place]:
            outer = outer[key]
        changed = {**outer, path[place]: changed}
    return changed


PATHS = [
    (),
    ("runner",),
    ("learner",),
    ("progress",),
    *(("runner", key) for key in STATE["runner"]),
    *(("learner", key) for key in STATE["learner"]),
    *(("progress", key) for key in STATE["progress"]),
]

CALLS = {
    "run(steps)": lambda it, junk: it.run(steps=1 if junk is JUNK["a large number"] else junk),
    "run(target)": lambda it, junk: it.run(steps=24, target=junk),
    "run(callbacks)": lambda it, junk: it.run(steps=24, callbacks=junk),
    # What a function of someone else raises is not ours to change.
    "run(callback)": lambda it, junk: it.run(steps=24, callbacks=[print if callable(junk) else junk]),
    "evaluate": lambda it, junk: it.evaluate(2 if junk is JUNK["a large number"] else junk),
    "policy(explore)": lambda it, junk: it.policy(explore=junk),
    **{
        f"set_state{list(path)}": lambda it, junk, path=path: it.set_state(state_with(*path, junk=junk))
        for path in PATHS
    },
}


def options_of(function):
    return [name for name, each in inspect.signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]


def usable(name, junk):
    """Return junk, but no number that would keep a training busy for ever."""
    return 1 if name in PATIENT and junk is JUNK["a large number"] else junk


def trained(**arguments):
    given = {"algorithm": "ppo", "env": "CartPole-v1", "steps": 8, "progress": False, **SMALL}
    train(**{**given, **arguments}).close()


MAKING_CALLS = {
    **{f"Recipe({each.name})": lambda junk, name=each.name: Recipe(**{name: junk}) for each in fields(Recipe)},
    "Setup.of(algorithm)": lambda junk: made_and_run(Setup.of(junk, "CartPole-v1", **SMALL)),
    "Setup.of(env)": lambda junk: made_and_run(Setup.of("ppo", junk, **SMALL)),
    **{
        f"Setup.of({name})": lambda junk, name=name: made_and_run(
            Setup.of("ppo", "CartPole-v1", **{**SMALL, name: usable(name, junk)})
        )
        for name in (
            *("connectors", "seed", "device", "hidden", "recurrent", "shared", "squashed", "num_envs", "num_timesteps"),
            *("num_epochs", "minibatch_size", "gamma", "nonsense"),
        )
    },
    "Setup.of(connectors=[])": lambda junk: made_and_run(Setup.of("ppo", "CartPole-v1", connectors=[junk], **SMALL)),
    **{
        f"Setup({each.name})": lambda junk, name=each.name: made_and_run(
            Setup(**{**{other.name: getattr(SETUP, other.name) for other in fields(Setup)}, name: junk})
        )
        for each in fields(Setup)
    },
    "Setup.from_dict": Setup.from_dict,
    **{f"Setup.from_dict({key})": lambda junk, key=key: Setup.from_dict({**DATA, key: junk}) for key in DATA},
    **{
        f"Training({name})": lambda junk, name=name: Training(
            **{"runner": TRAINING.runner, "learner": TRAINING.learner, "recipe": TRAINING.recipe, name: junk}
        ).step()
        for name in ("runner", "learner", "recipe", "setup", "torch_threads", "flow")
    },
    "Training.of": Training.of,
    "Training.of(torch_threads)": lambda junk: Training.of(SETUP, torch_threads=junk).close(),
    "learning_curve": learning_curve,
    "learning_curve([])": lambda junk: learning_curve([junk]),
    "learning_curve(title)": lambda junk: learning_curve(TRAINING.history, title=junk),
    "learning_curve(target)": lambda junk: learning_curve(TRAINING.history, target=junk),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_training_takes_it_or_rejects_it_and_stays_as_it_was(call):
    assert problems(training, call, snapshot) == {}


@pytest.mark.parametrize("call", MAKING_CALLS.values(), ids=MAKING_CALLS)
def test_nothing_is_made_of_it_or_it_is_rejected(call):
    assert problems_of_making(call) == {}


@pytest.mark.parametrize("name", ["algorithm", "env", *options_of(train)])
def test_train_takes_it_or_rejects_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert problems_of_making(lambda junk: trained(**{name: usable(name, junk)})) == {}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    trained(out=folder)
    return folder


@pytest.mark.parametrize("name", options_of(resume))
def test_resume_takes_it_or_rejects_it(name, run):
    given = {"steps": 8, "progress": False}

    assert problems_of_making(lambda junk: resume(run, **{**given, name: usable(name, junk)}).close()) == {}


PATH_CALLS = {
    "resume": resume,
    "load_training": load_training,
    "save_training": lambda junk: save_training(junk, TRAINING),
}


@pytest.mark.parametrize("call", PATH_CALLS.values(), ids=PATH_CALLS)
def test_what_is_no_path_is_rejected(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert problems_of_making(call) == {}


@pytest.mark.parametrize("name", options_of(load_training))
def test_load_training_takes_it_or_rejects_it(name, run):
    assert problems_of_making(lambda junk: load_training(run, **{name: junk}).close()) == {}


def test_save_training_takes_only_trainings(tmp_path):
    assert problems_of_making(lambda junk: save_training(tmp_path / "saved", junk)) == {}
    assert list(tmp_path.iterdir()) == []


LIKELY = {
    "a number as the folder": lambda: trained(out=3),
    "a number as connectors": lambda: trained(connectors=3),
    "a connector without a list": lambda: trained(connectors=MeanStdFilter()),
    "a class of connectors": lambda: trained(connectors=[MeanStdFilter]),
    "the class of a config": lambda: trained(algorithm=PPOConfig),
    "an environment": lambda: trained(env=gym.make("CartPole-v1")),
    "a word as a flag": lambda: trained(progress="no"),
    "a number as layers": lambda: trained(hidden=64),
    "a config as the recipe": lambda: Training(TRAINING.runner, TRAINING.learner, PPOConfig()),
    "a module as the learner": lambda: Training(TRAINING.runner, TRAINING.runner.module, Recipe()),
    "a path as the training": lambda: save_training(TRAINING, "path"),
    "no folder": lambda: load_training(""),
}


@pytest.mark.parametrize("call", LIKELY.values(), ids=LIKELY)
def test_the_junk_that_is_most_likely_is_rejected(call):
    """So that the tests above, which allow what works, cannot pass by refusing nothing."""
    assert problem_with(call) == (None, True)


def test_numbers_of_numpy_are_saved_as_those_of_python(tmp_path):
    trained(out=tmp_path / "run", num_envs=np.int64(2), seed=np.int64(3))

    with load_training(tmp_path / "run") as loaded:
        assert (loaded.recipe.num_envs, loaded.setup.seed) == (2, 3)
