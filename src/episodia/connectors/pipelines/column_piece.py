"""Base class of the shipped pieces: `work` changes a run, and pipelines use it without calling the piece."""

from __future__ import annotations

from abc import abstractmethod
from types import FunctionType
from typing import Any

from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.episodes.lists.episode_list import EpisodeList, Episodes
from episodia.modules.protocol import Modules


class ColumnPiece(ConnectorV2):
    """A piece that works on whole columns of all episodes, in its method `work`.

    A pipeline runs `work` directly. `__call__`, with the keywords of `ConnectorV2`, does the same for a single piece. A
    pipeline calls a subclass that overrides `__call__`. The `compile` of a class holds for its subclasses, except for those
    that override other methods of the class: pipelines run their `work`.
    """

    writes_to_episodes = False
    changes_episodes = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        mro = cls.__mro__
        compiled, called = (
            next(at for at, kind in enumerate(mro) if name in vars(kind)) for name in ("compile", "__call__")
        )
        if compiled < called and any(_overrides(kind, mro[compiled]) for kind in mro[:compiled]):
            cls.compile = ColumnPiece.compile  # type: ignore[method-assign]  # the inherited one does not know `cls`

    @abstractmethod
    def work(self, run: Run) -> None:
        """Change the batch of `run`, in place or with `run.replace`."""

    def compile(self, layout: Layout) -> Step:
        """Return `work`; a piece with a fast path for some layouts overrides this."""
        return self.work

    def __call__(
        self,
        *,
        rl_module: Modules = None,
        batch: dict[Any, Any],
        episodes: Episodes = (),
        explore: bool | None = None,
        shared_data: dict[Any, Any] | None = None,
        metrics: object = None,
        **kwargs: Any,
    ) -> dict[Any, Any]:
        """Return the batch that the piece makes of `batch`, see `ConnectorV2`; its errors are not wrapped."""
        if self._acts_on_lists and not isinstance(episodes, EpisodeList):
            episodes = EpisodeList.now(episodes)
        run = Run(batch, episodes, rl_module, explore, shared_data, metrics, kwargs)
        self.work(run)
        return run.batch


def _overrides(kind: type[Any], base: type[Any]) -> bool:
    """Return whether `kind` has a method of its own for one of `base`, apart from special methods such as `__init__`."""
    return any(
        isinstance(made, (FunctionType, staticmethod, classmethod))
        and not name.startswith("__")
        and hasattr(base, name)
        for name, made in vars(kind).items()
    )
