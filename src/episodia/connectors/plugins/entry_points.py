"""Connectors that other packages bring along, found by entry point and imported when someone asks for them by name.

A package announces a connector in its `pyproject.toml`:

```toml
[project.entry-points."episodia.connectors"]
AddSpeed = "my_package.speed:AddSpeed"
```

The name is what it is asked for by; it need not be the name of the class.
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

#: The group of entry points that connectors are announced in.
GROUP = "episodia.connectors"


@final
@dataclass(frozen=True)
class Plugin:
    """A connector that a package announces. It is imported when it is loaded, not before.

    Attributes:
        entry_point: What the package says.
    """

    entry_point: EntryPoint

    @property
    def name(self) -> str:
        """By which it is asked for."""
        return self.entry_point.name

    @property
    def package(self) -> str:
        """The name and version of the package that it comes from."""
        distribution = self.entry_point.dist
        return "an unknown package" if distribution is None else f"{distribution.name} {distribution.version}"

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} ({self.entry_point.value})"

    def load(self) -> type[ConnectorV2]:
        """Import it and return the class.

        Raises:
            PluginError: If it cannot be imported, or is no class of connectors; `__cause__` is what was raised.
        """
        try:
            found = self.entry_point.load()
        except (Exception, SystemExit) as error:  # an import runs code of others, which can raise anything, or exit
            raise PluginError(
                f"plugin {self}: found {type(error).__name__} while it was imported ({error}), expected a connector class. "
                "Correct or uninstall the package; all other connectors work without it."
            ) from error
        if not isinstance(found, type) or not issubclass(found, ConnectorV2):
            raise PluginError(
                f"plugin {self}: found {found!r}, expected a class derived from `ConnectorV2`. Correct its entry point."
            )
        return found


@final
class Registry:
    """All connectors by name: those of this library, and those that plugins announce.

    Nothing is imported, and no clash is complained about, until a name is asked for.

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
        """All plugins, in the order of their names."""
        # A package that can be found in two places of the path announces its connectors twice.
        unique = {(point.name, point.value, Plugin(point).package): Plugin(point) for point in self._announced}
        return tuple(unique[key] for key in sorted(unique))

    def clash_of(self, name: str) -> str:
        """Return a sentence that names all who claim `name`, if there are several of them, else nothing."""
        claims = [str(plugin) for plugin in self.plugins if plugin.name == name]
        if name in self.shipped:
            claims.insert(0, f"{name!r} of episodia itself")
        return f"found {len(claims)} connectors of that name: {' and '.join(claims)}" if len(claims) > 1 else ""

    def load(self, name: str) -> type[ConnectorV2]:
        """Return the connector class of that name; a plugin is imported now.

        Raises:
            PluginError: If several claim the name, or the plugin is broken.
            PieceLookupError: If there is none.
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
            f"connector {name!r}: found none of that name, expected one of {known}. Install the package that has it; "
            f"connectors are announced in the entry point group {GROUP!r}."
        )


def _is_piece(found: Any) -> bool:
    """Tell whether something can be made into a piece of a pipeline; bases of pieces cannot."""
    if not isinstance(found, type) or not issubclass(found, ConnectorV2):
        return False
    return not isabstract(found) and not issubclass(found, ConnectorPipelineV2)


def registry() -> Registry:
    """Return the connectors that are installed now.

    >>> registry().load("FrameStacking").__module__
    'episodia.connectors.env_to_module.frame_stacking'
    """
    return Registry(entry_points(group=GROUP))


def load_connector(name: str) -> type[ConnectorV2]:
    """Return the installed connector class of that name, of this library or of a plugin.

    Raises:
        PluginError: If several packages claim the name, or its plugin is broken.
        PieceLookupError: If there is none.

    >>> load_connector("FrameStacking")(num_frames=3).lookback
    2
    """
    return registry().load(name)
