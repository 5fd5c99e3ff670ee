"""Several modules by their ids, for environments with several agents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, final

from episodia.arguments import checked_keys
from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules.protocol import Module


@final
class MultiModule(Mapping[str, Module]):
    """A read-only mapping from module ids to modules. Two ids may stand for the same module.

    Members may be frozen: they act, and learners do not change them. Learners also do not change weights without a gradient
    (`requires_grad_(False)`). A module with a frozen id and another id learns from the steps of the other id.

    Args:
        modules: The modules by their ids.
        frozen: The ids of the modules that do not learn.

    Raises:
        ModuleError: If there is no module, if one lacks a method of `Module`, or if `frozen` names an unknown id.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> walker = MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2))
    >>> modules = MultiModule({"left": walker, "right": walker})
    >>> "left" in modules, modules["left"] is walker, list(modules)
    (True, True, ['left', 'right'])
    """

    def __init__(self, modules: Mapping[str, Module], *, frozen: Collection[str] = ()) -> None:
        given: object = modules
        if not isinstance(given, Mapping):
            raise ModuleError(
                f"MultiModule: found {type(given).__name__}, expected modules by their ids. Pass a dict of ids and modules."
            )
        if not modules:
            raise ModuleError("MultiModule: found no modules, expected at least one. Pass a dict of ids and modules.")
        for module_id, module in modules.items():
            _check(module_id, module)
        # A single string would be taken apart into its letters.
        ids = [frozen] if isinstance(frozen, str) else checked_keys(ModuleError, "MultiModule", "frozen", frozen)
        unknown = [module_id for module_id in ids if not isinstance(module_id, Hashable) or module_id not in modules]
        if unknown:
            raise ModuleError(
                f"MultiModule: found {sorted(map(str, unknown))} in `frozen`, expected some of {list(modules)}. "
                "Correct the ids."
            )
        self._modules = dict(modules)
        self._frozen = frozenset(ids)

    @property
    def frozen(self) -> frozenset[str]:
        """The ids of the members that do not learn."""
        return self._frozen

    def __getitem__(self, module_id: str) -> Module:
        try:
            return self._modules[module_id]
        except KeyError:
            raise EpisodeKeyError(
                f"MultiModule: found no module {module_id!r}, expected one of {list(self._modules)}. "
                "Add it, or map the agent to one of these."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def foreach_module(
        self, func: Callable[..., Any], *, return_dict: bool = False, **kwargs: Any
    ) -> list[Any] | dict[str, Any]:
        """Return `func(module_id, module, **kwargs)` of each member: a list, or a dict by module ids."""
        results = {module_id: func(module_id, module, **kwargs) for module_id, module in self._modules.items()}
        return results if return_dict else list(results.values())

    def __repr__(self) -> str:
        parts = ", ".join(f"{module_id!r}: {type(module).__name__}" for module_id, module in self._modules.items())
        frozen = f", frozen={sorted(map(str, self._frozen))}" if self._frozen else ""
        return f"MultiModule({{{parts}}}{frozen})"


def _check(module_id: str, module: object) -> None:
    if isinstance(module, Module):
        return
    names = ("observation_space", "action_space", "forward_inference", "forward_exploration", "forward_train")
    missing = [name for name in (*names, "get_initial_state", "is_stateful") if not hasattr(module, name)]
    raise ModuleError(
        f"MultiModule: found {type(module).__name__} as {module_id!r}, which lacks {missing}; expected a module. "
        "Give it what `episodia.modules.Module` lists."
    )
