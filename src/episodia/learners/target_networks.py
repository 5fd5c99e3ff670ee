"""Target networks: copies of modules whose weights follow those of the modules."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from episodia.arguments import checked_whole
from episodia.errors import LearnerError
from episodia.learners.algorithms.target import Target


@final
class TargetNetworks:
    """The target networks of a learner. They are in evaluation mode, and their own weights need no gradients.

    Args:
        modules: The modules that learn, by id.
        rules: The rule of each target network, by name; each module gets all of them.

    Raises:
        LearnerError: If a rule names a component without weights, or if a module cannot be copied.

    >>> targets = TargetNetworks({"net": nn.Linear(1, 1)}, {"slow": Target(every=2)})
    >>> type(targets.of("net")["slow"])
    <class 'torch.nn.modules.linear.Linear'>
    """

    def __init__(self, modules: Mapping[str, nn.Module], rules: Mapping[str, Target]) -> None:
        self._rules = dict(rules)
        self._copies = {
            module_id: {name: _Copy(module_id, module, rule) for name, rule in rules.items()}
            for module_id, module in modules.items()
        }
        self._periods = dict.fromkeys(rules, 0)

    def of(self, module_id: str) -> Mapping[str, Any]:
        """Return the target networks of a module, by name."""
        return {name: copied.network for name, copied in self._copies[module_id].items()}

    def follow(self, *, gradient_steps: int, env_steps: int) -> None:
        """Let each target network whose time has come follow its module.

        Args:
            gradient_steps: The number of gradient steps so far.
            env_steps: The number of steps that schedules follow.
        """
        for name, rule in self._rules.items():
            period = (gradient_steps if rule.unit == "gradient_steps" else env_steps) // rule.every
            if period > self._periods[name]:
                self._periods[name] = period
                for copies in self._copies.values():
                    copies[name].follow(rule.tau)

    def get_state(self) -> dict[str, Any]:
        """Return the weights of all target networks, and how often each of them has followed."""
        return {
            "weights": {
                module_id: {name: copied.weights() for name, copied in copies.items()}
                for module_id, copies in self._copies.items()
            },
            "periods": dict(self._periods),
        }

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Check that `state` fits these target networks.

        Raises:
            LearnerError: If modules, names or shapes differ.
        """
        own, given = _shapes(self.get_state()["weights"]), _shapes(state["weights"])
        if own != given or state["periods"].keys() != self._periods.keys():
            odd = sorted(path for path in {*own, *given} if own.get(path) != given.get(path))
            raise LearnerError(
                f"state of target networks: found {[(path, given.get(path)) for path in odd[:3]]}, expected "
                f"{[(path, own.get(path)) for path in odd[:3]]} (module, target, name and shape). Load the state of a learner "
                "with the same modules and algorithm."
            )
        for name, period in state["periods"].items():
            checked_whole(LearnerError, "state of target networks", name, period, 0, below=2**63)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, see `check_state`."""
        self.check_state(state)
        for module_id, copies in self._copies.items():
            for name, copied in copies.items():
                copied.set_weights(state["weights"][module_id][name])
        self._periods = {name: int(period) for name, period in state["periods"].items()}


@final
class _Copy:
    """One target network: a copy of a module that has some weights for itself and shares the others."""

    def __init__(self, module_id: str, module: nn.Module, rule: Target) -> None:
        tensors = dict(module.state_dict(keep_vars=True))
        parts = (rule.of,) if isinstance(rule.of, str) else rule.of
        self._names = _names_in(module_id, list(tensors), parts)
        # Tensors in the memo are shared instead of copied.
        memo: dict[int, Any] = {id(tensor): tensor for name, tensor in tensors.items() if name not in self._names}
        try:
            self.network = copy.deepcopy(module, memo).eval()
        except Exception as error:  # foreign modules raise anything
            raise LearnerError(
                f"target network of {module_id!r}: found {type(module).__name__}, which cannot be copied ({error}), expected "
                "a module that `copy.deepcopy` copies. Keep handles of processes and files out of modules."
            ) from error
        found = self.network.state_dict(keep_vars=True)
        self._own = [found[name].requires_grad_(False) for name in self._names]
        self._followed = [tensors[name] for name in self._names]

    def follow(self, tau: float) -> None:
        with torch.no_grad():
            if tau < 1.0 and all(tensor.is_floating_point() for tensor in self._own):
                torch._foreach_lerp_(self._own, self._followed, tau)  # torch has no public name for it
                return
            for own, followed in zip(self._own, self._followed, strict=True):
                if tau < 1.0 and own.is_floating_point():
                    own.lerp_(followed, tau)
                else:
                    own.copy_(followed)

    def weights(self) -> dict[str, Tensor]:
        return {name: own.detach().cpu().clone() for name, own in zip(self._names, self._own, strict=True)}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, own in zip(self._names, self._own, strict=True):
                own.copy_(weights[name])


def _names_in(module_id: str, names: list[str], components: Collection[str] | None) -> list[str]:
    if components is None:
        return names
    found = [name for name in names if any(name == part or name.startswith(f"{part}.") for part in components)]
    for part in components:
        if not any(name == part or name.startswith(f"{part}.") for name in found):
            raise LearnerError(
                f"target network of {module_id!r}: found the component {part!r} without weights, expected the beginning, up to "
                f"a dot, of one of {names}. Correct `Target.of`."
            )
    return found


def _shapes(weights: Mapping[str, Any]) -> dict[tuple[str, str, str], tuple[int, ...] | None]:
    # None never equals the shape of a weight.
    return {
        (module_id, name, weight): tuple(value.shape) if isinstance(value, Tensor) else None
        for module_id, targets in weights.items()
        for name, found in targets.items()
        for weight, value in found.items()
    }
