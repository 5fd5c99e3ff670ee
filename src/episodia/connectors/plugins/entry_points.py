"""Registry of connectors from other packages, found by entry point and imported when they are loaded by name.

A package announces a connector in its `pyproject.toml`:

```toml
[project.entry-points."episodia.connectors"]
AddSpeed = "my_package.speed:AddSpeed"
```

The connector is loaded by this name, which may differ from the name of the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from typing import Any, final

from episodia import connectors
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.errors import PieceLookupError, PluginError

#: The entry point group in which packages announce connectors.
GROUP = "episodia.connectors"


@final
@dataclass(frozen=True)
class Plugin:
    """A connector that a package announces. `load` imports it.

    Attributes:
        entry_point: The entry point that the package declares.
    """

    entry_point: EntryPoint

    @property
    def name(self) -> str:
        """The name by which the connector is loaded."""
        return self.entry_point.name

    @property
    def package(self) -> str:
        """The name and version of the package that announces the connector."""
        distribution = self.entry_point.dist
        return "an unknown package" if distribution is None else f"{distribution.name} {distribution.version}"

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} ({self.entry_point.value})"

    def load(self) -> type[ConnectorV2]:
        """Import the connector and return its class.

        Raises:
            PluginError: If the import fails, with the original exception as `__cause__`, or if it is not a connector class.
        """
        try:
            found = self.entry_point.load()
        except (Exception, SystemExit) as error:  # an import runs foreign code, which may raise anything or exit
            raise PluginError(
                f"plugin {self}: found {type(error).__name__} during its import ({error}), expected a connector class. "
                "Correct or uninstall the package; all other connectors work without it."
            ) from error
        if not isinstance(found, type) or not issubclass(found, ConnectorV2):
            raise PluginError(
                f"plugin {self}: found {found!r}, expected a class derived from `ConnectorV2`. Correct its entry point."
            )
        return found


@final
class Registry:
    """All connectors by name: the connectors of this library and the announced plugins.

    Plugins are imported, and name clashes are reported, only when a name is loaded.

    Args:
        announced: The entry points of all plugins.
    """

    def __init__(self, announced: Iterable[EntryPoint]) -> None:
        self._announced = tuple(announced)

    @cached_property
    def shipped(self) -> Mapping[str, type[ConnectorV2]]:
        """The connectors of this library."""
        return {name: found for name, found in vars(connectors).items() if _is_piece(found)}

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """All plugins, sorted by name."""
        # A package that is on the path twice announces its connectors twice.
        unique = {(point.name, point.value, Plugin(point).package): Plugin(point) for point in self._announced}
        return tuple(unique[key] for key in sorted(unique))

    def clash_of(self, name: str) -> str:
        """Return a sentence that lists all connectors called `name` if there are several, otherwise an empty string."""
        claims = [str(plugin) for plugin in self.plugins if plugin.name == name]
        if name in self.shipped:
            claims.insert(0, f"{name!r} of episodia itself")
        return f"found {len(claims)} connectors of that name: {' and '.join(claims)}" if len(claims) > 1 else ""

    def load(self, name: str) -> type[ConnectorV2]:
        """Return the connector class called `name`; imports it if it is a plugin.

        Raises:
            PluginError: If several connectors have the name, or the plugin is broken.
            PieceLookupError: If no connector has the name.
        """
        clash = self.clash_of(name)
        if clash:
            raise PluginError(f"connector {name!r}: {clash}, expected one. Uninstall or rename all but one of them.")
        if name in self.shipped:
            return self.shipped[name]
        for plugin in self.plugins:
            if plugin.name == name:
                return plugin.load()
        known = sorted([*self.shipped, *(plugin.name for plugin in self.plugins)])
        raise PieceLookupError(
            f"connector {name!r}: found no connector of that name, expected one of {known}. Install its package; "
            f"packages announce connectors in the entry point group {GROUP!r}."
        )


def _is_piece(found: Any) -> bool:
    """Return whether `found` is a concrete piece class: neither a base class nor a pipeline."""
    if not isinstance(found, type) or not issubclass(found, ConnectorV2):
        return False
    return not isabstract(found) and not issubclass(found, ConnectorPipelineV2)


def registry() -> Registry:
    """Return a registry of the connectors that are installed now.

    >>> registry().load("FrameStacking").__module__
    'episodia.connectors.env_to_module.frame_stacking'
    """
    return Registry(entry_points(group=GROUP))


def load_connector(name: str) -> type[ConnectorV2]:
    """Return the connector class called `name`, from this library or an installed plugin.

    Raises:
        PluginError: If several connectors have the name, or the plugin is broken.
        PieceLookupError: If no connector has the name.

    >>> load_connector("FrameStacking")(num_frames=3).lookback
    2
    """
    return registry().load(name)
