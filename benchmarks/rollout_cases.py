"""What `rollouts.py` measures. Each side plays with its own collector, in the same environments, with networks of one size.

Sides draw different random numbers, so what they play differs; that it is right is shown by tests, not here. What is
compared is that each side returns as many real transitions as were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Any

from _case import Case
from _rollout_pieces import CALLBACK, PIECES, REQUIRED, UNCHANGED
from _rollout_settings import FRAGMENTS, KINDS, PIECE_ENVS, RECURRENT_ENVS, TEAMS, WATCHED_TEAM, single_row, team_row

# What does the playing: a module with `single`, `with_piece`, `recurrent`, `team` and `watched_team`, or with some of them.
_SIDES = {
    "episodia": "_rollout_ours",
    "rllib": "_rollout_rllib",
    "sb3": "_rollout_sb3",
    "tianshou": "_rollout_tianshou",
    "torchrl": "_rollout_torchrl",
}
_DIFFERS = "sides draw random numbers of their own"


def cases(side: str) -> list[Case]:
    """Return all rows that `side` can play."""
    players = import_module(_SIDES[side])
    made = []
    for kind in KINDS:
        if kind in getattr(players, "KINDS", KINDS):
            made += [_case(players, "single", single_row(kind, count), (kind, count)) for count in FRAGMENTS]
    if hasattr(players, "recurrent"):
        made.append(_case(players, "recurrent", single_row("recurrent", RECURRENT_ENVS), (RECURRENT_ENVS,)))
    if hasattr(players, "team"):
        made += [_case(players, "team", team_row(*team[:3]), team) for team in TEAMS]
    if hasattr(players, "with_piece"):
        made += [_with_piece(players, added, count) for added in PIECES for count in PIECE_ENVS]
    if hasattr(players, "watched_team"):
        made += [_watched_team(players, added) for added in (UNCHANGED, CALLBACK)]
    return made


def _with_piece(players: Any, added: str, count: int) -> Case:
    case = _case(players, "with_piece", single_row("sync", count, added), (added, count))
    return replace(case, is_quick=added in REQUIRED)


def _watched_team(players: Any, added: str) -> Case:
    return _case(players, "watched_team", team_row(*WATCHED_TEAM[:3], added), (added, *WATCHED_TEAM))


def _case(players: Any, what: str, name: str, setting: tuple[Any, ...]) -> Case:
    by_hand, by_default = (getattr(players, f"{what}_by_{way}", None) for way in ("hand", "default"))
    return Case(
        name,
        _Lazily(partial(getattr(players, what), *setting)),
        per=None,
        unit="steps/s",
        differs=_DIFFERS,
        by_hand=by_hand and _Lazily(partial(by_hand, *setting)),
        by_default=by_default and _Lazily(partial(by_default, *setting)),
    )


class _Lazily:
    """Makes environments and networks when they are first played with, so that rows that are left out cost nothing."""

    def __init__(self, make: Callable[[], Callable[[], int]]) -> None:
        self._made = cache(make)

    def __call__(self) -> int:
        return self._made()()
