"""The allocation of workers to modules by their loads: the method of the largest remainder."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from episodia.arguments import checked_whole, is_number
from episodia.errors import EngineError

Key = TypeVar("Key")


def allocate(num_workers: int, loads: Mapping[Key, float]) -> dict[Key, int]:
    """Return how many workers each module gets: in proportion to its load, and at least one if there are enough.

    What is left after whole workers goes to the largest remainders, and then to the modules that come first. Loads are
    numbers of steps, of agents, or 1 for each module. A module without load gets no worker. If there are fewer workers than
    modules, some modules get none: let workers take turns.

    Args:
        num_workers: The number of workers.
        loads: The load of each module.

    Raises:
        EngineError: If there is no worker, or a load is not a number of at least 0.

    >>> allocate(8, {"red": 300, "blue": 100, "green": 10})
    {'red': 5, 'blue': 2, 'green': 1}
    """
    checked_whole(EngineError, "allocate", "num_workers", num_workers, 1)
    odd = {key: load for key, load in loads.items() if not is_number(load) or not 0 <= load < float("inf")}
    if odd:
        raise EngineError(f"allocate: found the loads {odd}, expected numbers of at least 0. Correct them.")
    total = sum(map(Fraction, loads.values()))
    busy = [key for key, load in loads.items() if load]
    least = int(len(busy) <= num_workers)
    left = num_workers - least * len(busy)
    shares = {key: Fraction(loads[key]) / total * left for key in busy}
    found = {key: least + int(shares[key]) if key in shares else 0 for key in loads}
    remainders = sorted(busy, key=lambda key: int(shares[key]) - shares[key])
    for key in remainders[: num_workers - sum(found.values())]:
        found[key] += 1
    return found
