"""What a user installs: dependencies, public names, what an import costs, and the README's two commands."""

import ast
import importlib
import importlib.metadata
import importlib.resources
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import episodia

ROOT = Path(__file__).resolve().parent.parent
# The one file that may: its bytes are those of an object that it has just pickled itself.
PICKLED_COPIES = ROOT / "src" / "episodia" / "testing" / "pickled_copies.py"
SOURCES = sorted({*(ROOT / "src" / "episodia").rglob("*.py")} - {PICKLED_COPIES})
PACKAGES = [
    "checkpoints",
    "connectors",
    "dataflow",
    "env_runners",
    "episodes",
    "learners",
    "modules",
    "modules.distributions",
    "policies",
    "replay",
    "rllib",
    "store",
    "testing",
    "training",
]
HEAVY = {"hypothesis", "matplotlib", "pytest", "ray", "torch"}
# Reading a file with one of these can run code that is in the file.
UNSAFE = re.compile(
    r"\bpickle\.loads?\(|\bpickle\.Unpickler\b|(?<![\w.])eval\(|(?<![\w.])exec\(|allow_pickle\s*=\s*True"
)


def _modules_after(statement):
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def _name_of(requirement):
    return re.match(r"[\w.-]+", requirement).group().lower()


def _ruff_order(name):
    # Constants, then classes, then functions and modules: how ruff (RUF022) sorts `__all__`.
    if name.isupper():
        return (0, name)
    return (1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("module", ["episodia", "episodia.episodes", "episodia.cli"])
def test_importing_leaves_heavy_libraries_alone(module):
    assert not HEAVY & _modules_after(f"import {module}")


@pytest.mark.parametrize("statement", ["import episodia", "from episodia import *"])
def test_importing_prints_nothing(statement):
    run = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True)

    assert (run.stdout, run.stderr) == ("", "")


def test_run_time_dependencies_are_these_four():
    requirements = importlib.metadata.requires("episodia")
    run_time = {_name_of(requirement) for requirement in requirements if "extra ==" not in requirement}

    assert run_time == {"numpy", "gymnasium", "dm-tree", "torch"}


def test_constraints_pin_every_dependency_of_the_tests_exactly():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    wanted = {_name_of(r) for r in importlib.metadata.requires("episodia") if "extra ==" not in r}
    wanted |= {
        "pytest",
        "pytest-xdist",
        "hypothesis",
        "sybil",
        "matplotlib",
        "ipykernel",
        "nbclient",
        "ruff",
        "mypy",
        "basedpyright",
        "import-linter",
        "ray",
    }

    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert wanted <= {_name_of(pin) for pin in pins}
    assert "torch==2.13.0" in pins


def test_only_one_folder_names_ray():
    engines = ROOT / "src" / "episodia" / "dataflow" / "engines"
    named = re.compile(r"^\s*(?:import ray\b|from ray\b)|import_module\(\"ray", re.MULTILINE)
    found = {path.parent for path in SOURCES if named.search(path.read_text(encoding="utf-8"))}

    assert found == {engines}


def test_importing_takes_less_than_0_4_seconds():
    code = "import time; begin = time.perf_counter(); import episodia; print(time.perf_counter() - begin)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]

    assert min(float(run.stdout) for run in runs) < 0.4


def test_the_installed_package_is_typed():
    assert importlib.resources.files("episodia").joinpath("py.typed").is_file()


def test_public_names_are_sorted_and_importable():
    names = list(episodia.__all__)

    assert names == sorted(set(names), key=_ruff_order)
    assert all(getattr(episodia, name) is not None for name in names)


def test_completion_shows_public_names_only():
    shown = dir(episodia)

    assert set(episodia.__all__) <= set(shown)
    assert all(not name.startswith("_") or name == "__version__" for name in shown)
    assert all(getattr(episodia, name) is not None for name in shown)


@pytest.mark.parametrize("package", PACKAGES)
def test_completion_in_a_package_shows_what_it_exports(package):
    module = importlib.import_module(f"episodia.{package}")

    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_type_checkers_and_users_find_each_name_of_the_root_in_the_same_place():
    tree = ast.parse(Path(episodia.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}

    assert set(seen) | {"Columns", "EpisodiaError"} == set(episodia.__all__)
    for name, module in seen.items():
        assert getattr(importlib.import_module(module), name) is getattr(episodia, name)


def test_all_errors_are_in_one_module():
    named = re.compile(r"^class ([A-Z]\w*)\(.*(?:Error|Exception)\b.*\):", re.MULTILINE)
    found = {path.name: named.findall(path.read_text(encoding="utf-8")) for path in SOURCES}

    assert {name for name, classes in found.items() if classes} <= {"errors.py"}


def test_the_readme_has_two_commands_for_the_quick_start():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Quick start\n(.*?)(?=^## )", readme, re.MULTILINE | re.DOTALL).group(1)
    commands = re.findall(r"^```bash\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)

    assert len(commands) == 2
    assert all(command.count("\n") == 1 for command in commands)
    assert all("install -c constraints.txt" in command for command in commands)
    assert commands[0].endswith("-m episodia demo\n")
    assert commands[1].endswith("-m pytest\n")


def test_the_sources_are_there_to_be_searched():
    assert SOURCES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_s6_sources_never_run_code_from_data(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{number}: {line.strip()}" for number, line in enumerate(lines, 1) if UNSAFE.search(line)]

    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(file)",
        "pickle.loads(data)",
        "x = eval(text)",
        "exec(code)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle = True)",
    ],
)
def test_the_search_finds_code_from_data(line):
    assert UNSAFE.search(line)


@pytest.mark.parametrize("line", ["model.eval()", "retrieval(x)", "np.load(path)", "pickle.dumps(x)"])
def test_the_search_lets_harmless_lines_pass(line):
    assert not UNSAFE.search(line)


def _run_without(modules, code):
    blocked = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); "
    return subprocess.run([sys.executable, "-c", blocked + code], capture_output=True, text=True, check=False)


def test_testing_needs_hypothesis_and_pytest_only():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    needed = {_name_of(requirement) for requirement in extras["testing"]}
    others = {_name_of(each) for name, extra in extras.items() if name != "testing" for each in extra} - {"episodia"}
    code = (
        "from episodia.testing import check_connector; from episodia.connectors import ClipRewards; "
        "print(len(check_connector(ClipRewards(low=-1.0, high=1.0))) > 3)"
    )
    run = _run_without(sorted(name.replace("-", "_") for name in others - needed), code)

    assert needed == {"pytest", "hypothesis"}
    assert (run.stdout.strip(), run.stderr) == ("True", "")


@pytest.mark.parametrize("name", ["hypothesis", "pytest"])
def test_testing_says_what_to_install(name):
    run = _run_without([name], "import episodia.testing")

    assert "MissingExtraError" in run.stderr
    assert f"{name} is not installed" in run.stderr
    assert "episodia[testing]" in run.stderr


def test_there_is_a_console_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, name = scripts["episodia"].partition(":")
    code = f"import sys; sys.argv = ['episodia', '--version']; from {module} import {name}; sys.exit({name}())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == episodia.__version__


def test_extras_are_those_that_code_uses():
    """Each optional package is imported by name somewhere, also by `importlib`."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for_users = {
        _name_of(each)
        for name in ("plot", "train", "tensorboard", "pettingzoo", "minari", "ray")
        for each in extras[name]
    }
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)

    assert set(extras) == {
        "dev",
        "lint",
        "minari",
        "notebook",
        "pettingzoo",
        "plot",
        "ray",
        "tensorboard",
        "test",
        "testing",
        "train",
    }
    assert all(re.search(rf"\b{name}\b", text) for name in for_users - {"episodia"})


def test_links_in_the_readme_are_absolute_if_the_project_has_an_address():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    relative = [link for link in links if not link.startswith("https://")]

    # PyPI shows the README without the files beside it.
    assert not (project.get("urls") and relative)
    assert all((ROOT / link.partition("#")[0]).exists() for link in relative)
