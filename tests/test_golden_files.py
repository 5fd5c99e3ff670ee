"""S12: what each released version has written is read for ever."""

import importlib.util
import json
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from episodia.episodes import EpisodeStore
from episodia.policies import Policy
from episodia.testing import assert_same_episode
from episodia.training import load_training, resume

FOLDER = Path(__file__).parent / "golden"
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "facts.json").exists())


def facts_of(name):
    return json.loads((FOLDER / name / "facts.json").read_text())


def made():
    """Return the module that makes the files."""
    spec = importlib.util.spec_from_file_location("make_golden_files", FOLDER / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_s12_there_are_files_of_this_version():
    assert version("episodia") in VERSIONS


@pytest.mark.parametrize("name", VERSIONS)
def test_s12_the_checkpoint_of_a_training_is_read(name):
    facts = facts_of(name)
    with load_training(FOLDER / name / "run") as training:
        total = sum(np.abs(value).sum() for value in training.runner.get_weights().values())

        assert (training.steps, training.iteration) == (facts["steps"], facts["iteration"])
        assert training.return_mean == facts["return_mean"]
    assert total == pytest.approx(facts["weights_sum"], rel=1e-6)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("part", ["policy", "run"])
def test_s12_the_policy_acts_as_it_did(name, part):
    assert made().answers_of(Policy.load(FOLDER / name / part)) == facts_of(name)["actions"]


@pytest.mark.parametrize("name", VERSIONS)
def test_s12_a_run_goes_on(name, tmp_path):
    shutil.copytree(FOLDER / name / "run", tmp_path / "run")
    facts = facts_of(name)
    with resume(tmp_path / "run", steps=facts["steps"] + 1, progress=False) as training:
        assert training.iteration == facts["iteration"] + 1
        assert len(training.history) == training.iteration


@pytest.mark.parametrize("name", VERSIONS)
def test_s12_a_run_that_learns_from_replay_goes_on(name, tmp_path):
    shutil.copytree(FOLDER / name / "replay_run", tmp_path / "run")
    with resume(tmp_path / "run", steps=80, progress=False) as training:
        assert training.steps >= 80
        assert 50 < len(training.updating.buffer) <= 64


@pytest.mark.parametrize("name", VERSIONS)
def test_s12_a_buffer_is_read(name):
    buffer = made().new_buffer()
    buffer.load(FOLDER / name / "buffer")

    for found, expected in zip(buffer.episodes(), made().walks(), strict=True):
        assert np.array_equal(found.get_observations(), expected.get_observations())
        assert np.array_equal(found.get_rewards(), expected.get_rewards())
    assert len(buffer.sample(8)) == 8


@pytest.mark.parametrize("name", VERSIONS)
def test_s12_a_store_of_episodes_is_read(name):
    store = EpisodeStore(FOLDER / name / "store")

    for found, expected in zip(store.episodes(), made().walks(), strict=True):
        assert_same_episode(found, expected)
    assert store.check() == []
