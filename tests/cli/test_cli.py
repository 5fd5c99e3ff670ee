"""The command line: what it shows, that it is reproducible, and how it fails."""

import json
import os
import signal
import string
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from episodia import SingleAgentEpisode, cli
from episodia.checkpoints import load_state
from episodia.cli import collect_verb as collecting
from episodia.cli import collect_verb as drawing
from episodia.cli import train_verbs as training
from episodia.learners import ClipByNorm
from episodia.training import load_training, train


def _run(*arguments, env=None):
    command = [sys.executable, "-m", "episodia", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=env, check=False)


class _Endless(gym.Env):
    """Never ends; raises what Ctrl-C raises after a few steps."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)
    patience = 7

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if self.steps == self.patience:
            raise KeyboardInterrupt
        self.steps += 1
        return np.full(2, self.steps / 10, np.float32), 1.0, False, False, {}


@pytest.fixture
def registered():
    """Registers an environment under an id of its own, for one test."""
    ids = []

    def register(name, **kwargs):
        gym.register(name, **kwargs)
        ids.append(name)
        return name

    yield register
    for name in ids:
        del gym.registry[name]


def test_the_first_look_shows_one_row_per_episode():
    run = _run("collect", "--episodes", "3")
    rows = [line for line in run.stdout.splitlines() if line.startswith(("0-0 ", "0-1 ", "0-2 "))]

    assert (run.returncode, run.stderr) == (0, "")
    assert len(rows) == 3
    assert all("terminated" in row and set(row) & set(drawing.SPARKS) for row in rows)


def test_the_first_look_shows_fill_cut_and_finalize(capsys):
    assert cli.main(["collect"]) == 0

    shown = capsys.readouterr().out

    assert "[0, 0, 0, 1, 1]" in shown
    assert "cut(len_lookback_buffer=2)" in shown
    assert "float32 array of shape" in shown


def test_the_same_seed_shows_the_same(capsys):
    shown = []
    for seed in ["7", "7", "8"]:
        cli.main(["collect", "--seed", seed])
        shown.append(capsys.readouterr().out)

    assert shown[0] == shown[1]
    assert shown[0] != shown[2]


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1", "Pendulum-v1", "MountainCar-v0"])
def test_the_first_look_plays_other_environments(env, capsys):
    assert cli.main(["collect", env, "--episodes", "2"]) == 0
    assert "episodes: 2, steps: " in capsys.readouterr().out


@pytest.mark.parametrize("env", ["NoSuchEnv-v0", "no_such_module:Env-v0", "CartPole-v99", "not an id", ""])
def test_an_unknown_environment_is_one_line_and_exit_code_2(env, capsys):
    code = cli.main(["collect", env])
    shown = capsys.readouterr()

    assert code == 2
    assert shown.out == ""
    assert shown.err.startswith(f"error: cannot make the environment {env!r}: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--episodes", "0"], ["--episodes", "x"], ["--seed", "-1"]])
def test_bad_numbers_are_rejected_with_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["collect", *arguments])

    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize("patience", [7, 1, 0])
def test_an_interrupt_shows_what_was_collected(patience, registered, capsys):
    name = registered("Endless-v0", entry_point=_Endless)
    _Endless.patience = patience

    code = cli.main(["collect", name])
    shown = capsys.readouterr()

    assert code == 130
    assert "1 of 5 episodes" in shown.err
    assert (f"{patience} " in shown.out and "running" in shown.out) or patience == 0


def test_progress_appears_when_collecting_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(collecting, "PROGRESS_EVERY_S", 0.0)

    cli.main(["collect", "--episodes", "2"])

    assert "episode 2 of 2" in capsys.readouterr().err


def test_what_was_collected_can_be_saved_and_read_back(tmp_path, capsys):
    out = tmp_path / "walks"

    assert cli.main(["collect", "CartPole-v1", "--episodes", "3", "--out", str(out)]) == 0
    episodes = [SingleAgentEpisode.from_state(state) for state in load_state(out)["episodes"]]
    assert [episode.id_ for episode in episodes] == ["0-0", "0-1", "0-2"]
    assert all(episode.is_terminated and episode.get_return() == len(episode) for episode in episodes)
    assert f"Saved in {out}" in capsys.readouterr().out


def test_nothing_that_is_there_is_overwritten(tmp_path, capsys):
    assert cli.main(["collect", "--out", str(tmp_path)]) == 2
    assert "expected the name of a new folder" in capsys.readouterr().err


def test_without_a_verb_the_help_is_shown(capsys):
    assert cli.main([]) == 0
    assert "collect" in capsys.readouterr().out


def test_the_version_is_shown():
    assert _run("--version").stdout.strip() == "0.1.0"


def test_a_terminal_without_unicode_gets_ascii():
    run = _run("collect", env={**os.environ, "PYTHONIOENCODING": "ascii"})

    assert run.returncode == 0
    assert run.stdout.isascii()


def test_a_terminal_without_unicode_gets_ascii_for_names_of_files_too(tmp_path):
    run = _run(
        "collect", "--episodes", "1", "--out", str(tmp_path / "größe"), env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )

    assert run.returncode == 0, run.stderr
    assert r"gr\xf6\xdfe" in run.stdout


def test_a_reader_that_goes_away_is_no_traceback():
    command = [sys.executable, "-m", "episodia", "collect"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        complaints = process.stderr.read()

    assert process.returncode == 141
    assert complaints == b""


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], ""), ([3.0], "▁"), ([1.0, 1.0], "▁▁"), ([0.0, 7.0], "▁█"), ([float("inf"), 0.0, 1.0], "▁█")],
)
def test_a_sparkline_spans_lowest_to_highest(values, expected, monkeypatch):
    monkeypatch.setattr(drawing, "_printable_sparks", lambda: drawing.SPARKS)

    assert drawing.sparkline(values) == expected


def test_a_long_sparkline_is_thinned_to_the_width():
    assert len(drawing.sparkline(range(1000), width=20)) == 20


# --- Training -------------------------------------------------------------------------------------------------------

SMALL = ["--set", "num_envs=2", "--set", "num_timesteps=40", "--set", "hidden=[8]"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Runs land in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_shows_a_curve_and_says_where_the_run_is(folder, capsys):
    assert cli.main(["train", "ppo", "CartPole-v1", "--steps", "80", *SMALL]) == 0

    shown = capsys.readouterr()

    assert "mean return over" in shown.out
    assert "100 evaluation episodes" in shown.out
    assert "runs/ppo-CartPole-v1-0" in shown.out
    assert "return" in shown.err
    assert (folder / "runs" / "ppo-CartPole-v1-0" / "metrics.jsonl").is_file()


def test_without_an_episode_that_has_ended_no_mean_return_is_shown(tmp_path, capsys):
    cli.main(
        [
            "train",
            "ppo",
            "CartPole-v1",
            "--steps",
            "4",
            "--out",
            str(tmp_path / "run"),
            *SMALL,
            "--set",
            "num_timesteps=4",
        ]
    )

    shown = capsys.readouterr()

    assert "Mean return of the last episodes: -." in shown.out
    assert "nan" not in shown.out + shown.err


def test_a_second_run_gets_a_folder_of_its_own(folder):
    for _ in range(2):
        cli.main(["train", "a2c", "CartPole-v1", "--steps", "20", *SMALL])

    names = sorted(path.name for path in (folder / "runs").iterdir())

    assert names == ["a2c-CartPole-v1-0", "a2c-CartPole-v1-0-2"]


def test_resume_goes_on_where_a_run_stopped_and_eval_plays(folder, capsys):
    cli.main(["train", "ppo", "CartPole-v1", "--steps", "80", "--out", "run", *SMALL])
    assert cli.main(["train", "--resume", "run", "--steps", "160"]) == 0
    assert cli.main(["eval", "run", "--episodes", "7"]) == 0

    assert "7 evaluation episodes: mean return" in capsys.readouterr().out
    assert len((folder / "run" / "metrics.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_saves_the_run_and_is_exit_code_130(folder, registered, capsys):
    name = registered("Impatient-v0", entry_point=_Impatient)
    code = cli.main(["train", "ppo", name, "--steps", "9000", "--target", "5000", "--out", "run", *SMALL])
    shown = capsys.readouterr().out

    assert code == 130
    assert "train --resume run\n" in shown
    assert (folder / "run" / "checkpoint" / "manifest.json").is_file()
    limits = json.loads((folder / "run" / "run.json").read_text())
    assert (limits["steps"], limits["target"]) == (9000, 5000.0)


def test_without_a_checkpoint_the_message_does_not_advise_to_resume(folder, registered, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    monkeypatch.setattr(_Impatient, "was_pressed", False)
    name = registered("Impatient-v1", entry_point=_Impatient)

    code = cli.main(["train", "ppo", name, "--steps", "9000", "--out", "run", *SMALL])
    shown = capsys.readouterr()

    assert code == 130
    assert "--resume" not in shown.out
    assert shown.err.count("No checkpoint is written") == 1
    assert not (folder / "run" / "checkpoint").exists()


@pytest.mark.usefixtures("folder")
def test_an_environment_whose_episodes_never_end_is_not_evaluated(registered, capsys):
    name = registered("Forever-v0", entry_point=_Forever)

    assert cli.main(["train", "ppo", name, "--steps", "40", "--out", "run", *SMALL]) == 0

    shown = capsys.readouterr().out
    assert "evaluation episodes" not in shown
    assert "In run: checkpoint" in shown


class _Forever(_Endless):
    def step(self, action):
        return np.full(2, 0.5, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize("env", ["my:games/Maze-v0", "x" * 300, "a b*c?-v0"])
def test_the_folder_of_a_run_has_a_name_that_all_systems_allow(env):
    name = training._file_name(f"ppo-{env}-0")

    assert len(name) <= 100
    assert set(name) <= set(string.ascii_letters + string.digits + "._-")


def test_a_long_unknown_environment_name_is_reported_in_one_line(folder, capsys):
    (folder / "runs").mkdir()

    assert cli.main(["train", "ppo", "x" * 300]) == 2

    assert capsys.readouterr().err.startswith("error: environment")


def test_eval_plays_the_policy_alone_where_it_is_told_to(folder, capsys):
    function = {"num_envs": 2, "num_timesteps": 40, "hidden": (8,), "progress": False}
    train("ppo", lambda: gym.make("CartPole-v1"), steps=40, out=folder / "run", **function).close()

    assert cli.main(["eval", "run"]) == 2
    assert cli.main(["eval", "run", "--env", "CartPole-v1", "--episodes", "3"]) == 0
    assert cli.main(["eval", "run", "--env", "NoSuchEnv-v0"]) == 2

    assert "3 evaluation episodes: mean return" in capsys.readouterr().out


class _Three(_Endless):
    """Has other spaces."""

    action_space = gym.spaces.Discrete(3)


class _Broken(gym.Wrapper):
    def step(self, action):
        raise ValueError("out of order")


def test_eval_rejects_an_environment_with_other_spaces_and_names_one_that_fails(folder, registered, capsys):
    cli.main(["train", "ppo", "CartPole-v1", "--steps", "40", "--out", "run", *SMALL])
    other = registered("Three-v0", entry_point=_Three)
    broken = registered("Broken-v0", entry_point=lambda: _Broken(gym.make("CartPole-v1").unwrapped))
    capsys.readouterr()

    for env, complaint in ((other, "which the policy was trained with"), (broken, "ValueError: out of order")):
        assert cli.main(["eval", "run", "--env", env]) == 2
        assert complaint in capsys.readouterr().err
    assert (folder / "run").is_dir()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        (".5", 0.5),
        ("True", True),
        ("true", True),
        ("None", None),
        ("lstm", "lstm"),
        ("[8]", [8]),
        ("(8, 9)", (8, 9)),
        ("1_000", 1000),
        ("[" * 10**5, "[" * 10**5),
    ],
    ids=range(10),
)
def test_settings_are_read_as_json_or_as_python_writes_them(text, value):
    assert training._setting(f"name={text}") == ("name", value)


class _Impatient(_Endless):
    """Presses Ctrl-C once, after a few steps."""

    was_pressed = False

    def step(self, action):
        self.steps += 1
        if self.steps == 5 and not _Impatient.was_pressed:
            _Impatient.was_pressed = True
            signal.raise_signal(signal.SIGINT)
        return np.full(2, 0.5, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "dpn", "CartPole-v1"], "'dpn'"),
        (["train", "ppo", "NoSuchEnv-v0"], "NoSuchEnv"),
        (["train", "ppo"], "no environment"),
        (["train", "ppo", "CartPole-v1", "--set", "gama=1"], "gama"),
        (["train", "ppo", "CartPole-v1", "--set", "gamma=2"], "gamma"),
        (["train", "ppo", "--resume", "run"], "--resume"),
        (["train", "--resume", "run", "--seed", "0"], "--seed beside --resume"),
        (["train", "--resume", "run", "--config", "other.json"], "--config beside --resume"),
        (["train"], "no algorithm"),
        (["train", "--resume", "run", "--set", "gamma=0.9", "--out", "other"], "--out, --set beside --resume"),
        (["train", "ppo", "CartPole-v1", "--set", "seed=1", "--set", "steps=2"], "--steps, --seed instead"),
        (["train", "ppo", "CartPole-v1", "--set", "algorithm=a2c"], "train ALGORITHM ENV instead"),
        (["train", "ppo", "CartPole-v1", "--set", "env=x", "--set", "steps=2"], "train ALGORITHM ENV, --steps instead"),
        (["train", "ppo", "CartPole-v1", "--set", 'learning_rate={"schedule": "x"}'], "PiecewiseLinearSchedule"),
        (["train", "ppo", "CartPole-v1", "--set", 'learning_rate={"part": "x"}'], "ClipByNorm"),
        (["train", "ppo", "CartPole-v1", "--set", "squashed=no"], "True or False"),
        (["train", "ppo", "CartPole-v1", "--set", "standardize_advantages=no"], "True or False"),
        (["train", "ppo", "CartPole-v1", "--target", "nan"], "target"),
        (["train", "--resume", "nowhere"], "nowhere"),
        (["eval", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_trained_is_one_line_and_exit_code_2(arguments, complaint, folder, capsys):
    code = cli.main(arguments)
    shown = capsys.readouterr()

    assert code == 2
    assert shown.err.startswith("error: ")
    assert complaint in shown.err
    assert shown.err.count("\n") == 1
    assert not list(folder.iterdir())


def test_settings_may_be_schedules_and_other_parts_and_are_resumed(tmp_path, capsys):
    schedule = 'learning_rate={"schedule": "PiecewiseLinearSchedule", "points": [[0, 0.001], [1000, 0.0]]}'
    clip = 'gradient_processors=[{"part": "ClipByNorm", "limit": 1.0}]'
    out = str(tmp_path / "run")

    first = cli.main(
        ["train", "ppo", "CartPole-v1", "--steps", "40", "--out", out, "--set", schedule, "--set", clip, *SMALL]
    )
    second = cli.main(["train", "--resume", out, "--steps", "80"])

    assert (first, second) == (0, 0), capsys.readouterr().err
    with load_training(out) as loaded:
        assert loaded.learner.config.gradient_processors == (ClipByNorm(1.0),)
        assert loaded.learner.config.learning_rate.at(500) == 0.0005


def test_a_file_of_settings_says_what_the_command_line_leaves_open(folder):
    written = {"algorithm": "a2c", "env": "CartPole-v1", "steps": 40, "out": "mine", "gamma": 0.9, "seed": 3}
    clip = [{"part": "ClipByNorm", "limit": 1.0}]
    small = {"num_envs": 2, "num_timesteps": 40, "hidden": [8]}
    (folder / "a2c.json").write_text(json.dumps({**written, **small, "gradient_processors": clip}))

    assert cli.main(["train", "--config", "a2c.json", "--seed", "4", "--set", "gamma=0.8"]) == 0

    with load_training(folder / "mine") as loaded:
        assert 40 <= loaded.steps < 80
        assert (loaded.setup.seed, loaded.setup.recipe.num_envs) == (4, 2)
        assert loaded.learner.config.gamma == 0.8
        assert loaded.learner.config.gradient_processors == (ClipByNorm(1.0),)


SAME_IN_TOML = """
algorithm = "a2c"
env = "CartPole-v1"
steps = 40
out = "mine"
gamma = 0.9
num_envs = 2
hidden = [8]

[[gradient_processors]]
part = "ClipByNorm"
limit = 1.0
"""


def test_a_file_of_settings_may_be_toml(folder, capsys):
    (folder / "a2c.toml").write_text(SAME_IN_TOML)
    (folder / "wrong.toml").write_text("gamma: 0.9")

    assert cli.main(["train", "--config", "a2c.toml"]) == 0
    assert cli.main(["train", "--config", "wrong.toml"]) == 2
    assert "cannot be read as TOML" in capsys.readouterr().err
    with load_training(folder / "mine") as loaded:
        assert (loaded.learner.config.gamma, loaded.setup.recipe.num_envs) == (0.9, 2)
        assert loaded.learner.config.gradient_processors == (ClipByNorm(1.0),)


def test_algorithm_and_environment_of_the_command_line_come_before_those_of_the_file(folder, capsys):
    (folder / "settings.json").write_text(json.dumps({"env": "NoSuchEnv-v0", "gamma": 0.9}))
    config = ["--config", "settings.json", "--steps", "40", *SMALL]

    assert cli.main(["train", "ppo", "CartPole-v1", *config]) == 0
    assert cli.main(["train", "ppo", *config]) == 2
    assert "NoSuchEnv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "No such file"),
        ("gamma: 0.9", "JSON"),
        ("[1, 2]", "[1, 2] in 'settings.json'"),
        ('{"gamma": 0.9, "gamma": 0.8}', "['gamma'] occur several times"),
        ('{"gama": 0.9}', "gama"),
        ('{"seed": "seven"}', "seed"),
        ('{"out": 3}', "out=3"),
        ('{"steps": null}', "steps=None"),
        ("[" * 10**5, "JSON"),
        ("\udcff", "JSON"),
    ],
    ids=range(10),
)
def test_a_file_without_valid_settings_is_one_line_and_exit_code_2(text, complaint, folder, capsys):
    if text is not None:
        (folder / "settings.json").write_bytes(text.encode(errors="surrogateescape"))

    code = cli.main(["train", "ppo", "CartPole-v1", "--config", "settings.json"])

    shown = capsys.readouterr().err
    assert code == 2
    assert complaint in shown
    assert shown.count("\n") == 1
    assert not (folder / "runs").exists()


def test_a_setting_is_a_name_and_a_value(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "ppo", "CartPole-v1", "--set", "gamma"])

    assert "NAME=VALUE" in capsys.readouterr().err


def test_the_demo_trains_and_leaves_a_picture(folder, capsys):
    assert cli.main(["demo", "--steps", "300"]) == 0

    assert "counts as solved" in capsys.readouterr().out
    assert (folder / "runs" / "demo" / "learning_curve.png").is_file()


@pytest.mark.parametrize("verb", ["train", "eval", "collect", "demo", "connectors", "new-connector"])
def test_help_shows_default_values_that_say_something(verb, capsys):
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])

    shown = capsys.readouterr().out
    assert "(default: None)" not in shown
    assert "(default: [])" not in shown
