"""S5, S7: a setup in a file chooses neither code nor computers, and asks for no more than the file holds."""

import importlib
import shutil
import sys

import pytest

from episodia.checkpoints import load_state, save_state
from episodia.cli import main
from episodia.errors import CheckpointError, ModuleError, TrainingError
from episodia.policies import Policy
from episodia.training import Setup, load_training, resume, train

SMALL = {"num_timesteps": 32, "num_envs": 1, "progress": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("trained") / "run"
    with train("a2c", "CartPole-v1", steps=64, hidden=(4, 4), out=run, **SMALL):
        pass
    return run


def forge(run, env="CartPole-v1", **options):
    """Change the setup in the checkpoint of a run."""
    state = load_state(run / "checkpoint")
    state["setup"]["env"] = env
    state["setup"]["options"].update(options)
    save_state(run / "checkpoint", state)


# --- Code -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def planted(trained, tmp_path, monkeypatch):
    """A run whose checkpoint names an environment in a module that leaves a file behind when it is imported."""
    run, trace = tmp_path / "run", tmp_path / "code_ran"
    (tmp_path / "planted_module.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(trained, run)
    forge(run, env="planted_module:CartPole-v1")
    yield run, trace
    sys.modules.pop("planted_module", None)


@pytest.mark.parametrize("read", [load_training, resume])
def test_s5_an_environment_in_a_checkpoint_imports_no_module(read, planted):
    run, trace = planted

    with pytest.raises(TrainingError, match="import planted_module"):
        read(run)
    assert not trace.exists()


@pytest.mark.parametrize("words", [("eval",), ("train", "--resume")])
def test_s5_the_command_line_imports_no_module_that_a_file_names(words, planted, capsys):
    run, trace = planted

    assert main([*words, str(run)]) != 0
    assert "planted_module" in capsys.readouterr().err
    assert not trace.exists()


def test_s5_a_module_that_the_user_has_imported_may_be_named_in_a_file(planted):
    run, trace = planted
    importlib.import_module("planted_module")

    with load_training(run) as training:
        assert training.setup.env == "planted_module:CartPole-v1"
    assert trace.exists()


def test_s5_the_command_line_imports_a_module_that_the_user_names(planted, capsys):
    run, trace = planted

    assert main(["eval", str(run), "--episodes", "1", "--import", "planted_module"]) == 0
    assert trace.exists()
    assert "mean return" in capsys.readouterr().out


def test_a_module_that_cannot_be_imported_is_named(capsys):
    assert main(["train", "ppo", "CartPole-v1", "--import", "no_such_module"]) != 0
    assert "no_such_module" in capsys.readouterr().err


@pytest.mark.parametrize("env", [7, None, ["CartPole-v1"]])
def test_s5_an_environment_in_a_file_is_an_id(env):
    data = {**Setup.of("a2c", "CartPole-v1").to_dict(), "env": env}

    with pytest.raises(TrainingError, match="gymnasium id"):
        Setup.from_dict(data)


def test_s7_a_checkpoint_without_a_setup_is_an_error_of_the_library(planted):
    run, _ = planted
    state = load_state(run / "checkpoint")
    del state["setup"]
    save_state(run / "checkpoint", state)

    with pytest.raises(TrainingError, match="setup"):
        load_training(run)


# --- Other computers ------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(trained, tmp_path, monkeypatch):
    """A run whose checkpoint names the address of a cluster, and the addresses that were connected to."""
    run, reached = tmp_path / "run", []
    shutil.copytree(trained, run)
    forge(run, engine="ray", address="10.9.9.9:6379", num_runners=1)

    def reach(address, **_):
        reached.append(address)
        raise TrainingError("nobody is there")

    monkeypatch.setattr("episodia.dataflow.engines.ray_session.RaySession.joined", reach)
    return run, reached


@pytest.mark.parametrize("read", [load_training, resume])
def test_s5_a_file_does_not_choose_the_computer_that_is_connected_to(read, elsewhere):
    run, reached = elsewhere

    with pytest.raises(TrainingError, match=r"address='10\.9\.9\.9:6379'.*must not choose"):
        read(run)
    assert reached == []


def test_s5_an_address_that_the_user_passes_is_connected_to(elsewhere):
    run, reached = elsewhere

    with pytest.raises(TrainingError, match="nobody is there"):
        resume(run, address="10.1.1.1:6379")
    assert reached == ["10.1.1.1:6379"]


def test_a_run_on_a_cluster_goes_on_with_another_engine(elsewhere):
    run, reached = elsewhere
    forge(run, engine="ray", address="10.9.9.9:6379", num_runners=0)

    with load_training(run, workers={"engine": "local"}) as training:
        assert (training.setup.workers.engine, training.setup.workers.address) == ("local", None)
    assert reached == []


def test_s5_evaluating_a_run_on_a_cluster_connects_to_no_computer(elsewhere, capsys):
    run, reached = elsewhere
    forge(run, engine="ray", address="10.9.9.9:6379", num_runners=0)

    assert main(["eval", str(run), "--episodes", "1"]) == 0
    assert "mean return" in capsys.readouterr().out
    assert reached == []


# --- Bombs ----------------------------------------------------------------------------------------------------------


MANY = [
    {"num_envs": 100_000_000_000},
    {"num_envs": 100, "num_runners": 100, "plan": "rounds"},
    {"num_envs": 300, "vectorization": "async"},
    {"num_envs": 20, "num_runners": 20, "vectorization": "async", "plan": "rounds"},
    {"num_runners": 300, "engine": "threads"},
    {"num_learners": 300, "engine": "ray"},
]


@pytest.mark.parametrize("options", MANY, ids=repr)
def test_s7_a_file_cannot_ask_for_many_environments_or_processes(options):
    data = Setup.of("a2c", "CartPole-v1").to_dict()
    data["options"].update(options)

    with pytest.raises(
        TrainingError, match=r"setup: found \d+ (environments|threads and processes) in a file, expected at"
    ):
        Setup.from_dict(data)


LARGE = [
    ("a2c", {"hidden": [16_000, 16_000]}),
    ("a2c", {"hidden": [2**26]}),
    ("a2c", {"hidden": [1] * 100_000}),
    ("a2c", {"recurrent": "lstm", "cell_size": 8_000}),
    ("dqn", {"atoms": 2**24}),
    ("sac", {"num_critics": 100_000}),
]


@pytest.mark.parametrize(("algorithm", "options"), LARGE, ids=lambda value: repr(value)[:40])
def test_s7_a_file_cannot_ask_for_a_larger_network_than_the_one_in_it(algorithm, options, trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    state = load_state(run / "checkpoint")
    state["setup"] = Setup.of(algorithm, "CartPole-v1", num_envs=1).to_dict()
    state["setup"]["options"].update(options)
    save_state(run / "checkpoint", state)

    with pytest.raises(ModuleError, match=r"network: found one .* for the \d+ weights in the same file"):
        load_training(run)


@pytest.mark.parametrize("hidden", [[1] * 100_000, [16_000, 16_000]], ids=len)
def test_s7_a_policy_in_a_file_cannot_ask_for_a_larger_network_than_its_weights(hidden, trained, tmp_path):
    state = load_state(trained / "checkpoint")
    state["policy"]["module"]["config"]["hidden"] = hidden
    save_state(tmp_path / "forged", state)

    with pytest.raises(CheckpointError, match=r"network: found one .* for the \d+ weights in the same file"):
        Policy.load(tmp_path / "forged")


def test_s7_a_policy_in_a_file_cannot_ask_for_thousands_of_pieces(trained, tmp_path):
    state = load_state(trained / "checkpoint")
    state["policy"]["env_to_module"]["pieces"] *= 2000
    save_state(tmp_path / "forged", state)

    with pytest.raises(CheckpointError, match=r"found \d+ pieces, expected a list of at most 256"):
        Policy.load(tmp_path / "forged")
