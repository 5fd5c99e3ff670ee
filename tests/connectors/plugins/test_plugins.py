"""Connectors of other packages: found by entry point, imported when asked for, and no danger for each other."""

import sys

import pytest

from episodia import cli
from episodia.connectors import FrameStacking, load_connector
from episodia.connectors.plugins.entry_points import registry
from episodia.errors import EpisodiaError, PieceLookupError, PluginError

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

    def install(package, source, **announced):
        module = package.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
        info = tmp_path / f"{module}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n", encoding="utf-8")
        lines = [f"{name} = {module}:{target}" for name, target in announced.items()]
        (info / "entry_points.txt").write_text("\n".join(["[episodia.connectors]", *lines, ""]), encoding="utf-8")

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

    assert [plugin.name for plugin in registry().plugins] == ["Wind"]
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
def test_a_broken_plugin_is_reported_by_name_and_package(install, source, found):
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


def test_a_plugin_cannot_take_the_place_of_a_shipped_connector(install):
    install("windy", GOOD, FrameStacking="AddWind")

    with pytest.raises(PluginError, match=r"of episodia itself and 'FrameStacking' of windy 1\.5"):
        load_connector("FrameStacking")


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(install):
    install("windy", GOOD, Wind="AddWind")

    with pytest.raises(PieceLookupError, match=r"'Gust': found no connector .*'FrameStacking'.*'Wind'") as error:
        load_connector("Gust")
    assert isinstance(error.value, EpisodiaError)
    assert isinstance(error.value, KeyError)


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
