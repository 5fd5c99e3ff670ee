"""The command line: what it shows, that it is reproducible, and how it fails."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from episodia import cli


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
    run = _run("episodes", "--episodes", "3")
    rows = [line for line in run.stdout.splitlines() if line.startswith(("0-0 ", "0-1 ", "0-2 "))]

    assert (run.returncode, run.stderr) == (0, "")
    assert len(rows) == 3
    assert all("terminated" in row and set(row) & set(cli.SPARKS) for row in rows)


def test_the_first_look_shows_fill_cut_and_finalize(capsys):
    assert cli.main(["episodes"]) == 0

    shown = capsys.readouterr().out

    assert "[0, 0, 0, 1, 1]" in shown
    assert "cut(len_lookback_buffer=2)" in shown
    assert "float32 array of shape" in shown


def test_the_same_seed_shows_the_same(capsys):
    shown = []
    for seed in ["7", "7", "8"]:
        cli.main(["episodes", "--seed", seed])
        shown.append(capsys.readouterr().out)

    assert shown[0] == shown[1]
    assert shown[0] != shown[2]


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1", "Pendulum-v1", "MountainCar-v0"])
def test_the_first_look_plays_other_environments(env, capsys):
    assert cli.main(["episodes", "--env", env, "--episodes", "2"]) == 0
    assert "episodes: 2, steps: " in capsys.readouterr().out


@pytest.mark.parametrize("env", ["NoSuchEnv-v0", "no_such_module:Env-v0", "CartPole-v99", "not an id", ""])
def test_an_unknown_environment_is_one_line_and_exit_code_2(env, capsys):
    code = cli.main(["episodes", "--env", env])
    shown = capsys.readouterr()

    assert code == 2
    assert shown.out == ""
    assert shown.err.startswith(f"error: cannot make the environment {env!r}: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--episodes", "0"], ["--episodes", "x"], ["--seed", "-1"]])
def test_bad_numbers_are_refused_with_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["episodes", *arguments])

    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize("patience", [7, 1, 0])
def test_an_interrupt_shows_what_was_collected(patience, registered, capsys):
    name = registered("Endless-v0", entry_point=_Endless)
    _Endless.patience = patience

    code = cli.main(["episodes", "--env", name])
    shown = capsys.readouterr()

    assert code == 130
    assert "1 of 5 episodes" in shown.err
    assert (f"{patience} " in shown.out and "running" in shown.out) or patience == 0


def test_progress_appears_when_collecting_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(cli, "PROGRESS_EVERY_S", 0.0)

    cli.main(["episodes", "--episodes", "2"])

    assert "episode 2 of 2" in capsys.readouterr().err


def test_without_a_verb_the_help_is_shown(capsys):
    assert cli.main([]) == 0
    assert "episodes" in capsys.readouterr().out


def test_the_version_is_shown():
    assert _run("--version").stdout.strip() == "0.1.0"


def test_a_terminal_without_unicode_gets_ascii():
    run = _run("episodes", env={"PYTHONIOENCODING": "ascii"})

    assert run.returncode == 0
    assert run.stdout.isascii()


def test_a_reader_that_goes_away_is_no_traceback():
    command = [sys.executable, "-m", "episodia", "episodes"]
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
    monkeypatch.setattr(cli, "_printable_sparks", lambda: cli.SPARKS)

    assert cli.sparkline(values) == expected


def test_a_long_sparkline_is_thinned_to_the_width():
    assert len(cli.sparkline(range(1000), width=20)) == 20
