"""Connectors of other packages: found by entry point, imported when asked for, and no danger for each other."""

import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Policy, cli
from episodia.connectors import (
    ConnectorV2,
    FlattenObservations,
    FrameStacking,
    HindsightGoals,
    View,
    defaults,
    load_connector,
)
from episodia.connectors.plugins.connector_registry import CONNECTORS
from episodia.connectors.plugins.piece_codec import decoded_piece, encoded_piece
from episodia.errors import CheckpointError, EpisodiaError, ModuleError, PieceLookupError, PipelineError, PluginError
from episodia.modules import MLPActorCritic
from episodia.modules.module_registry import make_module
from episodia.training import Setup, train

GOOD = """
from episodia.connectors import ConnectorV2

class AddWind(ConnectorV2):
    reads, writes, lookback = frozenset({"obs"}), frozenset({"wind"}), 2

    def __call__(self, *, batch, **kwargs):
        return batch
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package: a module, and the connectors that it announces."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = []

    def install(package, source, *, group="episodia.connectors", **announced):
        module = package.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
        info = tmp_path / f"{module}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n", encoding="utf-8")
        lines = [f"{name} = {module}:{target}" for name, target in announced.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]), encoding="utf-8")

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def test_a_plugin_is_found_by_its_name(install):
    install("windy", GOOD, Wind="AddWind")

    assert load_connector("Wind").__name__ == "AddWind"


def test_a_shipped_connector_is_found_by_its_name():
    assert load_connector("FrameStacking") is FrameStacking


def test_nothing_is_imported_before_it_is_asked_for(install):
    install("windy", GOOD, Wind="AddWind")

    assert [plugin.name for plugin in CONNECTORS.plugins] == ["Wind"]
    assert "windy" not in sys.modules


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import a_module_that_does_not_exist", "ModuleNotFoundError"),
        ("raise SystemError('no')", "SystemError"),
        ("x = ", "SyntaxError"),
        ("y = 1", "AttributeError"),
        ("AddWind = 3", "found 3"),
        ("class AddWind: pass", "AddWind"),
    ],
)
def test_s9_a_broken_plugin_is_reported_by_name_and_package(install, source, found):
    install("windy", source, Wind="AddWind")

    with pytest.raises(PluginError, match=rf"(?s)plugin 'Wind' of windy 1\.5 \(windy:AddWind\).*{found}"):
        load_connector("Wind")


def test_a_broken_plugin_breaks_no_other(install):
    install("broken", "1 / 0", Storm="Storm")
    install("windy", GOOD, Wind="AddWind")

    assert load_connector("Wind").__name__ == "AddWind"


def test_a_plugin_that_exits_when_it_is_imported_hides_no_other(install, capsys):
    install("quitter", "raise SystemExit(3)", Quits="AddWind")
    install("windy", GOOD, Wind="AddWind")

    assert cli.main(["connectors"]) == 1
    shown = capsys.readouterr().out
    assert "plugin 'Quits' of quitter 1.5" in shown
    assert "windy 1.5" in shown


def test_a_plugin_with_odd_column_names_hides_no_other(install, capsys):
    install("odd", GOOD.replace('frozenset({"wind"})', 'frozenset({"wind", 3})'), Odd="AddWind")

    assert cli.main(["connectors"]) == 0
    assert "3, wind" in capsys.readouterr().out


def test_a_name_that_two_packages_claim_is_an_error_that_names_both(install):
    install("windy", GOOD, Wind="AddWind")
    install("gusty", GOOD, Wind="AddWind")

    with pytest.raises(PluginError, match=r"'Wind' of gusty 1\.5 .* and 'Wind' of windy 1\.5"):
        load_connector("Wind")


def test_s9_a_plugin_cannot_take_the_place_of_a_shipped_connector(install):
    install("windy", GOOD, FrameStacking="AddWind")

    with pytest.raises(PluginError, match=r"of episodia itself and 'FrameStacking' of windy 1\.5"):
        load_connector("FrameStacking")


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(install):
    install("windy", GOOD, Wind="AddWind")

    with pytest.raises(PieceLookupError, match=r"'Gust': found no connector .*'FrameStacking'.*'Wind'") as error:
        load_connector("Gust")
    assert isinstance(error.value, EpisodiaError)
    assert isinstance(error.value, KeyError)


def test_a_misspelt_name_is_an_error_that_names_the_nearest_one():
    with pytest.raises(PieceLookupError, match=r"Did you mean `FrameStacking`\?"):
        load_connector("FrameStackign")


# --- Saving and loading ------------------------------------------------------------------------------------------------

SPACES = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
OBSERVATION = np.array([0.5, -0.5], np.float32)

WITH_SETTING = """
from episodia.connectors import ConnectorV2, change_observations

class Shift(ConnectorV2):
    def __init__(self, *args, by=0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.by = by

    def __call__(self, *, batch, episodes, **kwargs):
        change_observations(batch, episodes, lambda column, _: column.map(lambda leaf: leaf - leaf.dtype.type(self.by)))
        return batch
"""

RULE = """
from episodia.modules import Rule

class Same(Rule):
    def __init__(self, observation_space=None, action_space=None, *, action=0):
        super().__init__(observation_space, action_space)
        self.action = action

    def act(self, batch):
        return [self.action] * len(batch["obs"])

    def get_config(self):
        return {"action": self.action}
"""


def policy(*custom, module=None):
    module = MLPActorCritic(*SPACES) if module is None else module
    return Policy(module, defaults.env_to_module(*SPACES, custom=list(custom)), defaults.module_to_env(*SPACES))


def test_a_policy_with_a_plugin_is_loaded_by_the_name_of_its_entry_point(install, tmp_path):
    install("windy", WITH_SETTING, Wind="Shift")
    saved = policy(load_connector("Wind")(by=0.25))
    saved.save(tmp_path / "saved")
    sys.modules.pop("windy")

    loaded = Policy.load(tmp_path / "saved")

    piece = loaded.parts().env_to_module["Shift"]
    assert (type(piece).__module__, piece.by) == ("windy", 0.25)
    assert loaded(OBSERVATION) == saved(OBSERVATION)


def test_a_module_of_a_plugin_is_loaded_by_the_name_of_its_entry_point(install, tmp_path):
    install("ruled", RULE, group="episodia.modules", Always="Same")
    policy(module=import_module("ruled").Same(*SPACES, action=2)).save(tmp_path / "saved")
    sys.modules.pop("ruled")

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == 2


def test_a_plugin_that_registers_itself_has_one_name_in_files(install):
    source = WITH_SETTING.replace("class Shift", "@register_connector('tests.Wind')\nclass Shift")
    install("windy", f"from episodia.connectors import register_connector\n{source}", Wind="Shift")

    assert encoded_piece(load_connector("Wind")(by=2)) == {"class": "Wind", "arguments": {"by": 2}}


def test_a_plugin_that_broke_after_saving_is_named(install, tmp_path):
    install("windy", WITH_SETTING, Wind="Shift")
    policy(load_connector("Wind")()).save(tmp_path / "saved")
    sys.modules.pop("windy")
    (tmp_path / "windy.py").write_text("1 / 0", encoding="utf-8")

    with pytest.raises(CheckpointError, match=r"plugin 'Wind' of windy 1\.5 .*ZeroDivisionError"):
        Policy.load(tmp_path / "saved")


@pytest.mark.parametrize("name", ["windy:Shift", "windy.Shift", "Shift", "windy", "os:system", "Gust"])
def test_only_names_of_entry_points_are_loaded_from_files(install, name):
    install("windy", WITH_SETTING, Wind="Shift")

    with pytest.raises(PipelineError, match="found a piece of the class"):
        decoded_piece({"class": name, "arguments": {}}, torch.device("cpu"))
    with pytest.raises(ModuleError, match="found a module of the class"):
        make_module(name, *SPACES, {}, {})
    assert "windy" not in sys.modules


def test_a_name_that_another_package_claims_is_not_written_to_files(install):
    install("windy", WITH_SETTING, Wind="Shift")
    piece = load_connector("Wind")()
    install("gusty", GOOD, Wind="AddWind")

    with pytest.raises(PluginError, match=r"'Wind' of gusty 1\.5 .* and 'Wind' of windy 1\.5"):
        encoded_piece(piece)


ARGUMENTS = {
    "AddViews": {"views": {"before": View("rewards", shift=-1)}},
    "ClipRewards": {"low": -1.0, "high": 2.0},
    "EpsilonGreedy": {"epsilon": 0.1},
    "GaussianNoise": {"std": 0.1},
    "NStepReturns": {"n": 3},
    "ScaleRewards": {"factor": 0.5},
    "UniformNoise": {"amplitude": 0.1},
}


# A function of the user is not written to files.
WITH_FUNCTIONS = {"HindsightGoals"}


@pytest.mark.parametrize("name", sorted(CONNECTORS.shipped.keys() - WITH_FUNCTIONS))
def test_every_shipped_piece_can_be_saved(name):
    piece = CONNECTORS.shipped[name](**ARGUMENTS.get(name, {}))

    assert encoded_piece(decoded_piece(encoded_piece(piece), torch.device("cpu"))) == encoded_piece(piece)


def test_a_piece_with_a_function_of_the_user_is_not_saved():
    with pytest.raises(PipelineError, match="compute_reward"):
        encoded_piece(HindsightGoals(compute_reward=np.subtract))


def test_a_training_with_a_plugin_is_resumed_without_an_import(install):
    install("windy", WITH_SETTING, Wind="Shift")
    setup = Setup.of("ppo", "CartPole-v1", connectors=[load_connector("Wind")(by=0.5)], num_envs=1, hidden=(4,))
    data = setup.to_dict()
    sys.modules.pop("windy")

    assert [piece.by for piece in Setup.from_dict(data).connectors] == [0.5]


class Unnamed(ConnectorV2):
    """Is not registered."""

    def __call__(self, *, batch, **kwargs):
        return batch


@pytest.mark.parametrize("piece", [Unnamed(), FrameStacking(num_frames=2)])
def test_a_training_says_at_its_start_whether_its_policy_can_be_saved(capsys, piece):
    shown = []

    class Seen(Unnamed):
        def __call__(self, *, batch, **kwargs):
            shown.append(capsys.readouterr().err)
            return batch

    pieces = [piece, FlattenObservations(), *([Seen(name="Seen")] if isinstance(piece, Unnamed) else [])]
    train(
        "ppo", "CartPole-v1", steps=1, num_timesteps=8, num_envs=1, hidden=(4,), connectors=pieces, progress=False
    ).close()

    begun = "".join(shown) or capsys.readouterr().err
    assert ("cannot be saved: piece 'Unnamed': found the class Unnamed" in begun) is isinstance(piece, Unnamed)


# --- The command line -------------------------------------------------------------------------------------------------


def test_the_command_line_lists_what_each_reads_and_writes(install, capsys):
    install("windy", GOOD, Wind="AddWind")

    code = cli.main(["connectors"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert code == 0
    assert ["Wind", "windy", "1.5", "obs", "wind", "2"] in lines
    assert ["ClipRewards", "episodia", "rewards", "rewards", "0"] in lines


def test_the_command_line_lists_problems_beside_what_works(install, capsys):
    install("broken", "1 / 0", Storm="Storm")
    install("windy", GOOD, Wind="AddWind", ClipRewards="AddWind")

    code = cli.main(["connectors"])
    shown = capsys.readouterr().out

    assert code == 1
    assert "\nWind " in shown
    assert "plugin 'Storm' of broken 1.5" in shown
    assert "'ClipRewards' of episodia itself and 'ClipRewards' of windy 1.5" in shown


def test_the_command_line_trains_with_a_connector_by_its_name(install, tmp_path, capsys):
    install("windy", WITH_SETTING, Wind="Shift")
    run = str(tmp_path / "run")
    small = ["--steps", "8", "--set", "num_timesteps=8", "--set", "hidden=[4]", "--set", "num_envs=1", "--out", run]

    assert cli.main(["train", "ppo", "CartPole-v1", "--connector", "Wind", *small]) == 0
    sys.modules.pop("windy")
    assert cli.main(["eval", run, "--episodes", "1", "--connector", "Wind"]) == 0
    assert "Shift" in [piece.name for piece in Policy.load(run).parts().env_to_module]
    assert cli.main(["train", "--resume", run, "--connector", "Wind"]) == 2
    assert "found --connector beside --resume" in capsys.readouterr().err


def test_the_command_line_rejects_connectors_that_it_cannot_make(install, capsys):
    install("windy", WITH_SETTING.replace("by=0.0", "by"), Wind="Shift")

    assert cli.main(["train", "ppo", "CartPole-v1", "--connector", "Gust"]) == 2
    assert "'Gust': found no connector of that name" in capsys.readouterr().err
    assert cli.main(["train", "ppo", "CartPole-v1", "--connector", "Wind"]) == 2
    assert "connector 'Wind': found that it cannot be made without arguments" in capsys.readouterr().err
