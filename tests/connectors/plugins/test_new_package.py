"""The package that `python -m episodia new-connector` writes works untouched."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from episodia import cli
from episodia.connectors.plugins.new_package import write_package
from episodia.errors import PluginError


def _run(*command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a virtual environment that sees what is installed here, and the new package, installed in it."""
    folder = tmp_path_factory.mktemp("plugin")
    write_package("AddWind", folder)
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    (purelib,) = (folder / "env" / "lib").glob("python*/site-packages")
    # `addsitedir` also follows the links of editable installs.
    (purelib / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, "."]
    run = _run(*command, cwd=folder / "add-wind")
    assert run.returncode == 0, run.stderr
    return python, folder / "add-wind"


def test_its_tests_pass_untouched(installed):
    python, package = installed

    run = _run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)

    assert run.returncode == 0, run.stdout
    assert " failed" not in run.stdout
    assert "passed" in run.stdout


def test_it_is_found_by_its_name(installed):
    python, package = installed

    run = _run(python, "-m", "episodia", "connectors", cwd=package)

    assert run.returncode == 0, run.stderr
    assert ["AddWind", "add-wind", "0.1.0", "-", "add_wind", "2"] in [line.split() for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("name", "module"),
    [("AddWind", "add_wind"), ("HTTPLog", "http_log"), ("Log2Norm", "log2_norm"), ("X", "x")],
)
def test_everything_is_named_after_the_class(name, module, tmp_path):
    files = write_package(name, tmp_path)

    assert files[2] == tmp_path / module.replace("_", "-") / "src" / module / "__init__.py"
    assert f"class {name}(ConnectorV2)" in files[2].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["", "add_wind", "Add-Wind", "../AddWind", "Add Wind", "True", "3D", "Ünder"])
def test_what_is_no_name_for_a_class_is_rejected(name, tmp_path):
    with pytest.raises(PluginError, match="expected a class name"):
        write_package(name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("FrameStacking", "already has"),
        ("ConnectorV2", "already has"),
        ("Class", "would hide"),
        ("Random", "would hide"),
        ("Numpy", "would hide"),
    ],
)
def test_what_would_hide_something_else_is_rejected(name, reason, tmp_path):
    with pytest.raises(PluginError, match=reason):
        write_package(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(tmp_path, capsys):
    (tmp_path / "add-wind").mkdir()

    code = cli.main(["new-connector", "AddWind", "--out", str(tmp_path)])

    assert code == 2
    assert "add-wind, expected no such folder" in capsys.readouterr().err
    assert not list((tmp_path / "add-wind").iterdir())


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path, capsys):
    (tmp_path / "file").touch()

    code = cli.main(["new-connector", "AddWind", "--out", str(tmp_path / "file")])

    assert code == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_package_that_could_not_be_finished_leaves_nothing(tmp_path, monkeypatch):
    write = Path.write_text

    def write_two(path, *arguments, **options):
        if path.name == "__init__.py":
            raise OSError("no space left")
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", write_two)

    with pytest.raises(PluginError, match="no space left"):
        write_package("AddWind", tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_line_says_what_to_do_next(tmp_path, capsys):
    code = cli.main(["new-connector", "AddWind", "--out", str(tmp_path)])
    shown = capsys.readouterr().out

    assert code == 0
    assert "python -m pytest" in shown
    assert (tmp_path / "add-wind" / "tests" / "test_add_wind.py").is_file()


def test_the_guide_shows_what_is_written(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "first_connector.md").read_text(encoding="utf-8")
    _, _, code, tests = write_package("AddWind", tmp_path)

    assert f"```python\n{code.read_text(encoding='utf-8')}```" in page
    assert f"```python\n{tests.read_text(encoding='utf-8')}```" in page
