"""Several modules under one name each, for environments with several agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules.protocol import Module


@final
class MultiModule(Mapping[str, Module]):
    """A read-only mapping from module ids to modules. Two ids may stand for the same module.

    Args:
        modules: The modules by their ids.

    Raises:
        ModuleError: If there is none, or if something lacks what a `Module` has.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> walker = MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2))
    >>> modules = MultiModule({"left": walker, "right": walker})
    >>> "left" in modules, modules["left"] is walker, list(modules)
    (True, True, ['left', 'right'])
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        if not modules:
            raise ModuleError("MultiModule: found no modules, expected at least one. Pass a dict of ids and modules.")
        for module_id, module in modules.items():
            _check(module_id, module)
        self._modules = dict(modules)

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

    def __repr__(self) -> str:
        parts = ", ".join(f"{module_id!r}: {type(module).__name__}" for module_id, module in self._modules.items())
        return f"MultiModule({{{parts}}})"


def _check(module_id: str, module: object) -> None:
    if isinstance(module, Module):
        return
    names = ("observation_space", "action_space", "forward_inference", "forward_exploration", "forward_train")
    missing = [name for name in (*names, "get_initial_state", "is_stateful") if not hasattr(module, name)]
    raise ModuleError(
        f"MultiModule: found {type(module).__name__} as {module_id!r}, which lacks {missing}; expected a module. "
        "Give it what `episodia.modules.Module` lists."
    )
