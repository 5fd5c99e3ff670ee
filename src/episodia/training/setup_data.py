"""Setups as plain data: what has no name in it, whether it is one at all, and whether two of them are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from episodia.errors import TrainingError
from episodia.trees import describe

_KEYS = {"algorithm", "env", "connectors", "seed", "device", "options"}
_UNNAMED = "unnamed"


def unnamed(part: Any) -> dict[str, str]:
    """Return what is known of something that cannot be saved: what it is called.

    >>> unnamed(len)
    {'unnamed': 'len'}
    """
    return {_UNNAMED: getattr(part, "__qualname__", type(part).__qualname__)}


def unnamed_parts(data: Any, path: str = "") -> Iterator[str]:
    """Yield which parts of a setup's data, at this `path` in it, cannot be made again.

    >>> list(unnamed_parts({"env": {"unnamed": "make"}, "options": {"gamma": 0.9, "optimizers": [{"unnamed": "Mine"}]}}))
    ['env (make)', 'options.optimizers[0] (Mine)']
    """
    if isinstance(data, Mapping):
        if _UNNAMED in data:
            yield f"{path} ({data[_UNNAMED]})"
            return
        for key, part in data.items():
            yield from unnamed_parts(part, f"{path}.{key}".removeprefix("."))
    elif isinstance(data, (list, tuple)):
        for place, part in enumerate(data):
            yield from unnamed_parts(part, f"{path}[{place}]")


def check_setup_data(data: object) -> None:
    """Check that `data` is that of a setup, as far as its outside goes.

    Raises:
        TrainingError: If it is something else.
    """
    if not isinstance(data, Mapping) or set(data) != _KEYS:
        raise TrainingError(
            f"setup: found {describe(data)}, expected what `Setup.to_dict` returns. It was made by something else."
        )
    options = data["options"]
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TrainingError(f"setup: found the options {options!r}, expected a dict. It was made by something else.")


def check_same_setup(where: str, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check that a training goes on with the setup that it was saved with, but for the device, which may be another one.

    Raises:
        TrainingError: If something else differs.
    """
    check_setup_data(saved)
    before, now = ({**data, **data["options"]} for data in (saved, given))
    # What a later version has in addition was not there to differ.
    names = [name for name in before if name not in ("device", "options")]
    odd = [name for name in names if before[name] != now.get(name)]
    if odd:
        raise TrainingError(
            f"{where}: found a setup with { ({name: now.get(name) for name in odd}) }, expected that of the training, "
            f"{ ({name: before[name] for name in odd}) }. Pass the same one; to go on with another on purpose, "
            "make `Training.of(setup)`, and `training.set_state(load_state(path))`."
        )
