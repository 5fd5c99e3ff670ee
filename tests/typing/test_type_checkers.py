"""Type checkers of users see real types: `mypy --strict` and pyright read a client package without a complaint."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import episodia

HERE = Path(__file__).parent
SOURCES = Path(episodia.__file__).parent.parent
CACHE = HERE.parent.parent / ".mypy_cache" / "typing"


def mypy(path):
    """Return the errors and the revealed types that mypy finds, each by line."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={CACHE}", path.name]
    # A folder of installed packages is searched anyway, and mypy takes no other mention of it.
    env = os.environ if SOURCES.name == "site-packages" else {**os.environ, "MYPYPATH": str(SOURCES)}
    run = subprocess.run(command, cwd=path.parent, env=env, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = [re.match(r"(.+?):(\d+): (error|note): (.*)", line) for line in run.stdout.splitlines()]
    errors = {int(one[2]): f"{one[1]}: {one[4]}" for one in found if one and one[3] == "error"}
    return errors, {int(one[2]): one[4] for one in found if one and one[4].startswith("Revealed type")}


def pyright(path):
    """Return the errors and the revealed types that pyright finds, each by line."""
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(SOURCES)], "reportUnusedExpression": "none"}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, path.name]
    run = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = [
        (one["range"]["start"]["line"] + 1, one["severity"], one["message"])
        for one in json.loads(run.stdout)["generalDiagnostics"]
    ]
    errors = {line: message for line, severity, message in found if severity != "information"}
    return errors, {line: message for line, severity, message in found if severity == "information"}


@pytest.fixture(params=[mypy, pyright], ids=lambda checker: checker.__name__)
def checked(request, tmp_path):
    def check(name):
        # Elsewhere, as in a project of its own: without our settings.
        return request.param(Path(shutil.copy(HERE / name, tmp_path)))

    return check


def marked(name, mark):
    """Return the lines of a file that have a comment, with what it says."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return {number: line.split("  # ")[1] for number, line in enumerate(lines, 1) if mark in line and "  # " in line}


def type_in(message):
    """Return the revealed type, without the modules that mypy puts before names."""
    return re.sub(r"\b[a-z_]\w*\.", "", re.search(r'is "([^"]*)"$', message)[1])


def test_a_client_package_passes_and_its_types_are_known(checked):
    errors, revealed = checked("client.py")

    assert errors == {}
    assert {line: type_in(message) for line, message in revealed.items()} == marked("client.py", "reveal_type(")


def test_mistakes_of_a_client_are_found(checked):
    errors, _ = checked("mistakes.py")

    assert set(errors) == set(marked("mistakes.py", "# wrong"))
