"""Classes by name: shipped classes, registered classes, and classes that installed packages announce as entry points.

A package announces a class in its `pyproject.toml`:

```toml
[project.entry-points."episodia.connectors"]
AddSpeed = "my_package.speed:AddSpeed"
```

The class is loaded by this name, which may differ from the name of the class, and imported only then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast, final

from episodia.errors import EpisodiaError, PluginError

Kind = TypeVar("Kind", bound=type)


@final
@dataclass(frozen=True)
class Plugin:
    """A class that a package announces. `load` imports it.

    Attributes:
        entry_point: The entry point that the package declares.
    """

    entry_point: EntryPoint

    @property
    def name(self) -> str:
        """The name by which the class is loaded."""
        return self.entry_point.name

    @property
    def package(self) -> str:
        """The name and version of the package that announces the class."""
        distribution = self.entry_point.dist
        return "an unknown package" if distribution is None else f"{distribution.name} {distribution.version}"

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} ({self.entry_point.value})"

    def provides(self, made: type) -> bool:
        """Return whether `made` is the announced class; imports nothing."""
        module: object = sys.modules.get(self.entry_point.module)
        path = self.entry_point.attr.split(".") if self.entry_point.attr else []
        return reduce(lambda found, part: getattr(found, part, None), path, module) is made

    def load(self) -> object:
        """Import the announced object, and return it.

        Raises:
            PluginError: If the import fails, with the original exception as `__cause__`.
        """
        try:
            return self.entry_point.load()
        except (Exception, SystemExit) as error:  # an import runs foreign code, which may raise anything or exit
            raise PluginError(
                f"plugin {self}: found {type(error).__name__} during its import ({error}), expected a class. "
                "Correct or uninstall the package; everything else works without it."
            ) from error


@final
class ClassRegistry(Generic[Kind]):
    """Classes of one kind by name. Plugins are imported only when their names are looked up.

    Args:
        group: The entry point group in which packages announce such classes.
        noun: One such class, in messages.
        expected: A description of such a class, in messages.
        fits: Whether an object is such a class.
        shipped: Returns the classes of this library.
        error: The error for a name that belongs to another class.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        expected: str,
        *,
        fits: Callable[[object], bool],
        shipped: Callable[[], Mapping[str, Kind]],
        error: type[EpisodiaError],
    ) -> None:
        self.group = group
        self.noun = noun
        self._expected = expected
        self._fits = fits
        self._shipped = shipped
        self._error = error
        self._registered: dict[str, Kind] = {}

    @property
    def shipped(self) -> Mapping[str, Kind]:
        """The classes of this library."""
        return self._shipped()

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All plugins that are installed now, sorted by name."""
        # A package that is on the path twice announces its classes twice.
        unique = {
            (each.name, each.value, Plugin(each).package): Plugin(each) for each in entry_points(group=self.group)
        }
        return tuple(unique[key] for key in sorted(unique))

    @property
    def names(self) -> list[str]:
        """All known names, sorted."""
        return sorted({*self.shipped, *self._registered, *(plugin.name for plugin in self.plugins)})

    def register(self, where: str, name: str, made: Kind) -> None:
        """Let `name` stand for the class `made`.

        Raises:
            EpisodiaError: The error of this registry, if `name` belongs to another class; the message begins with `where`.
        """
        known = self._registered.get(name, self.shipped.get(name))
        # Running a notebook cell again redefines its class.
        if known is not None and (known.__module__, known.__qualname__) != (made.__module__, made.__qualname__):
            raise self._error(
                f"{where}: found {name!r}, the name of {known.__module__}.{known.__qualname__}, expected an unused name. Put "
                "the name of your package in front."
            )
        self._registered[name] = made

    def name_of(self, made: type) -> str | None:
        """Return the name by which `find` returns `made`, or None.

        Raises:
            PluginError: If other classes have the name, too.
        """
        shipped = [name for name, known in self.shipped.items() if known is made]
        if shipped:
            return shipped[0]
        # The name of a plugin comes before a registered one, because it is found in every process.
        plugins = [plugin.name for plugin in self.plugins if plugin.provides(made)]
        registered = [name for name, known in self._registered.items() if known is made]
        for name in [*plugins, *registered]:
            self.check_unique(name)
            return name
        return None

    def find(self, name: str) -> Kind | None:
        """Return the class called `name`, or None; imports it if it is a plugin.

        Raises:
            PluginError: If several classes have the name, or the plugin is broken.
        """
        shipped = self.shipped.get(name)
        if shipped is not None:
            return shipped
        plugins = [plugin for plugin in self.plugins if plugin.name == name]
        loaded = self.load(plugins[0]) if len(plugins) == 1 else None
        self.check_unique(name)
        return self._registered.get(name) if loaded is None else loaded

    def load(self, plugin: Plugin) -> Kind:
        """Import `plugin` and return its class.

        Raises:
            PluginError: If the import fails, or if it is not a class of this kind.
        """
        found = plugin.load()
        if not self._fits(found):
            raise PluginError(f"plugin {plugin}: found {found!r}, expected {self._expected}. Correct its entry point.")
        return cast("Kind", found)

    def clash_of(self, name: str) -> str:
        """Return a sentence that lists all classes called `name` if there are several, otherwise an empty string."""
        plugins = [plugin for plugin in self.plugins if plugin.name == name]
        claims = [f"{name!r} of episodia itself"] if name in self.shipped else []
        known = self._registered.get(name)
        if known is not None and not any(plugin.provides(known) for plugin in plugins):
            claims.append(f"{name!r}, registered by {known.__module__}")
        claims += map(str, plugins)
        return f"found {len(claims)} {self.noun}s of that name: {' and '.join(claims)}" if len(claims) > 1 else ""

    def check_unique(self, name: str) -> None:
        """Check that at most one class is called `name`.

        Raises:
            PluginError: If there are several.
        """
        clash = self.clash_of(name)
        if clash:
            raise PluginError(f"{self.noun} {name!r}: {clash}, expected one. Uninstall or rename all but one of them.")
