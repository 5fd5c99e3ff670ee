"""The views that a module declares: a dict whose changes reach the pipelines that were built with the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, TypeAlias, final

from episodia.errors import ModuleError
from episodia.trees import describe

# Takes over all views of a module, and returns whether it wants to be told of further changes.
_Follower: TypeAlias = Callable[[Mapping[str, Any]], bool]


@final
class DeclaredViews(MutableMapping[str, Any]):
    """The views of a module, by column. A change that a pipeline rejects leaves all as it was.

    A copied or pickled module has views without followers.

    >>> views, told = DeclaredViews({}), []
    >>> views.follow(lambda changed: told.append(dict(changed)) or True)
    >>> views["window"] = "a view"
    >>> dict(views), told
    ({'window': 'a view'}, [{'window': 'a view'}])
    """

    def __init__(self, views: Mapping[str, Any]) -> None:
        self._views = dict(views)
        self._followers: list[_Follower] = []

    def follow(self, follower: _Follower) -> None:
        """Call `follower` with all views after each change, until it returns False."""
        self._followers.append(follower)

    def assigned(self, views: Any) -> DeclaredViews:
        """Return the views of a module whose `views`, ours up to now, were assigned; our followers follow them.

        The views of another module are shared with it from now on. Others take the place of ours; None stands for no views.

        Raises:
            ModuleError: If they are no dict.
        """
        if isinstance(views, DeclaredViews):
            if views is not self:
                self._change(views._views)
                views._followers += self._followers
                self._followers = []
            return views
        if views is not None and not isinstance(views, Mapping):
            raise ModuleError(
                f"views: found {describe(views)}, expected a dict of `View`s by the columns that they become. Pass such a dict."
            )
        self._change(dict(views or {}))
        return self

    def __getitem__(self, name: str) -> Any:
        return self._views[name]

    def __setitem__(self, name: str, view: Any) -> None:
        self._change({**self._views, name: view})

    def __delitem__(self, name: str) -> None:
        views = dict(self._views)
        del views[name]
        self._change(views)

    def __ior__(self, views: Mapping[str, Any]) -> DeclaredViews:
        self._change({**self._views, **views})
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def _change(self, views: dict[str, Any]) -> None:
        followers, told = [], []
        try:
            for follower in self._followers:
                told.append(follower)
                if follower(views):
                    followers.append(follower)
        except BaseException:
            for follower in told[:-1]:
                follower(self._views)
            raise
        self._views, self._followers = views, followers

    def __reduce__(self) -> tuple[Any, ...]:
        return DeclaredViews, (self._views,)

    def __repr__(self) -> str:
        return repr(self._views)


class WithViews:
    """A module whose class declares views, and whose own `views` can be changed and assigned.

    >>> class Module(WithViews):
    ...     def __init__(self):
    ...         self.views = DeclaredViews(type(self).views)
    >>> module, told = Module(), []
    >>> module.views.follow(lambda changed: told.append(dict(changed)) or True)
    >>> module.views = {"window": "a view"}
    >>> told
    [{'window': 'a view'}]
    """

    views: Mapping[str, object] = MappingProxyType({})

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self).get(name) if name == "views" else None
        super().__setattr__(name, value if own is None else own.assigned(value))
