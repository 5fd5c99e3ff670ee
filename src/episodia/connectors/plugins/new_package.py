"""Template of a plugin package: a connector, tests that run all checks, and the entry point."""

from __future__ import annotations

import keyword
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from episodia import connectors
from episodia.connectors.plugins.connector_registry import CONNECTORS
from episodia.errors import PluginError

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"
description = "{name}: a connector for episodia."
requires-python = ">=3.11"
dependencies = ["episodia"]

[project.optional-dependencies]
test = ["episodia[testing]", "safetensors>=0.4"]

# The name to load it by, also out of saved policies: `episodia.connectors.load_connector("{name}")`. Never change it.
[project.entry-points."{group}"]
{name} = "{module}:{name}"

[tool.setuptools.packages.find]
where = ["src"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
"""

_CODE = '''\
"""{name}: a connector for episodia."""

from episodia.connectors import ConnectorV2, add_column

__all__ = ["{name}"]


class {name}(ConnectorV2):
    """Adds the difference between the last two rewards. Replace this with your own column."""

    # The columns that it reads and writes, and how many steps it looks back: pipelines rely on these.
    reads = frozenset()
    writes = frozenset({{"{column}"}})
    lookback = 2

    def __call__(self, *, batch, episodes, **kwargs):
        """Return the batch with one more column."""
        add_column(batch, "{column}", episodes, self.change)
        return batch

    def change(self, rows):
        """Return the change for each row: one row per step for a learner, the current step for a runner."""
        windows = rows.windows("rewards", shifts=[-2, -1], fill=0.0)
        return windows.map(lambda rewards: rewards[:, 1] - rewards[:, 0])
'''

_TESTS = '''\
"""Tests of {name}: the laws of connectors, one example, and a policy with it in a fresh process."""

import subprocess
import sys

from episodia import EpisodeList, Policy, SingleAgentEpisode
from episodia.connectors import defaults
from episodia.modules import MLPActorCritic
from episodia.testing import parametrize_with_checks
from gymnasium.spaces import Box, Discrete
from {module} import {name}

# Loads the saved policy. The package has to be installed, and needs no import.
LOAD = """
import sys
from episodia import Policy
print(Policy.load(sys.argv[1]).parts().env_to_module["{name}"])
"""


@parametrize_with_checks([{name}()])
def test_it_keeps_the_laws(check):
    check()


def test_it_adds_the_change_of_the_reward():
    walk = SingleAgentEpisode(
        observations=[0, 1, 2, 3], actions=[0, 0, 0], rewards=[1.0, 4.0, 2.0], len_lookback_buffer=0
    )

    batch = {name}()(rl_module=None, batch={{}}, episodes=EpisodeList([walk]))

    assert batch["{column}"].values.tolist() == [0.0, 1.0, 3.0]


def test_a_policy_with_it_is_loaded_in_a_fresh_process(tmp_path):
    spaces = Box(-1.0, 1.0, (2,)), Discrete(3)
    policy = Policy(MLPActorCritic(*spaces), defaults.env_to_module(*spaces, custom=[{name}()]))
    policy.save(tmp_path / "policy")

    shown = subprocess.check_output([sys.executable, "-c", LOAD, tmp_path / "policy"], text=True)

    assert shown.strip() == "{name}()"
'''

_README = """\
# {package}

`{name}` is a connector for episodia.

```bash
python -m pip install -e ".[test]"
python -m pytest              # one test for each law of connectors
python -m episodia connectors # lists it
```
"""


def write_package(name: str, folder: Path) -> list[Path]:
    """Write a package with a connector class `name` into a new folder in `folder`; return the paths of its files.

    Args:
        name: The name of the class, such as `AddWind`; package, module and column are named after it.
        folder: The parent of the new folder.

    Raises:
        PluginError: If the name is not valid for a class, the folder already exists, or it cannot be written. Nothing is
            written then.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_package("AddWind", Path(folder))]
    ['pyproject.toml', 'README.md', '__init__.py', 'test_add_wind.py']
    """
    module = _module_name(name)
    words = {
        "name": name,
        "module": module,
        "column": module,
        "group": CONNECTORS.group,
        "package": module.replace("_", "-"),
    }
    root = folder / words["package"]
    if root.exists():
        raise PluginError(
            f"new connector: found an existing {root}, expected no such folder. Choose another name or folder."
        )
    files = {
        root / "pyproject.toml": _PYPROJECT,
        root / "README.md": _README,
        root / "src" / module / "__init__.py": _CODE,
        root / "tests" / f"test_{module}.py": _TESTS,
    }
    try:
        for path, template in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(template.format(**words), encoding="utf-8")
    except OSError as error:
        shutil.rmtree(root, ignore_errors=True)
        raise PluginError(
            f"new connector: found that {root} cannot be written ({error}), expected a writable folder. Choose another."
        ) from error
    return list(files)


def _module_name(name: str) -> str:
    """Return the name of the module for the class `name`.

    Raises:
        PluginError: If the name is not valid for a class, or already taken.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) or keyword.iskeyword(name):
        raise PluginError(
            f"new connector: found the name {name!r}, expected a class name: letters and digits, the first a capital. "
            "Choose one such as 'AddWind'."
        )
    if hasattr(connectors, name):
        raise PluginError(
            f"new connector: found the name {name!r}, which `episodia.connectors` already has, expected a new name. Choose "
            "one such as 'AddWind'."
        )
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    if keyword.iskeyword(module) or find_spec(module) is not None:
        raise PluginError(
            f"new connector: found the name {name!r}, whose module {module!r} would hide a keyword or an installed module, "
            "expected an unused name. Choose one such as 'AddWind'."
        )
    return module
