"""The examples in docstrings give what they say they give."""

import doctest
import importlib
import pkgutil

import pytest

import episodia


def _fail(name):
    raise ImportError(f"{name}: cannot be imported, so its examples cannot run.")


MODULES = [
    "episodia",
    *(module.name for module in pkgutil.walk_packages(episodia.__path__, "episodia.", onerror=_fail)),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)

    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)

    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} fail, see above."


def test_the_walk_reaches_modules_inside_packages():
    assert any(name.startswith("episodia.episodes.") for name in MODULES)
