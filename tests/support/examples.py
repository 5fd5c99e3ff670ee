"""The examples, as modules that tests can call."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples"
PATHS = sorted(FOLDER.glob("*.py"))


def example(name):
    """Return the example of this name, loaded again."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
