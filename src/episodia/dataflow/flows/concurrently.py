"""Several flows pulled together: in turns with exact weights, or whichever has something."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias, final

from episodia.arguments import checked_choice, checked_each, is_number
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.pictures import FlowPicture
from episodia.dataflow.flows.sources import NOTHING, Pending, Source
from episodia.errors import FlowError

# The weight of a flow that is pulled as long as it has something.
ALL: Final = "all"
Weight: TypeAlias = float | str

# At most so many items of a flow with the weight "all" in one turn.
_MOST_IN_A_TURN = 100


def _is_flow(value: object) -> bool:
    return isinstance(value, Flow)


def concurrently(
    flows: Sequence[Flow],
    *,
    mode: str = "round_robin",
    weights: Sequence[Weight] | None = None,
    output: Collection[int] | None = None,
    name: str = "concurrently",
) -> Flow:
    """Return one flow of the items of several flows.

    Args:
        flows: The flows.
        mode: `"round_robin"`: in turns, until the first flow ends; a flow that has nothing yet is waited for, and one whose
            gates are shut is left out of its turn. `"async"`: whichever has something, until all flows whose items come out
            have ended.
        weights: Of turns: how many items each flow gives in each round. Fractions add up exactly, so a weight of 2.5 gives 2
            and 3 items in turns; `ALL` gives all that is there.
        output: The numbers of the flows whose items come out; all by default. The others are pulled, and their items dropped.
        name: How pictures call the flow.

    Raises:
        FlowError: If an argument is invalid.

    >>> both = concurrently([Flow("abcdef"), Flow(range(9))], weights=[1, 1.5])
    >>> both.take(10)
    ['a', 0, 'b', 1, 2, 'c', 3, 'd', 4, 5]
    """
    checked_each(FlowError, "concurrently", "flows", flows, _is_flow, "flows")
    checked_choice(FlowError, "concurrently", "mode", mode, ("round_robin", "async"))
    given = [1] * len(flows) if weights is None else list(weights)
    are_weights = all(weight == ALL or (is_number(weight) and 0 < weight < float("inf")) for weight in given)
    if not flows or len(given) != len(flows) or not are_weights or (weights is not None and mode == "async"):
        raise FlowError(
            f"concurrently: found {len(flows)} flows in the mode {mode!r} with the weights {weights}, expected at least one "
            'flow and, for turns only, a positive number or "all" for each. Correct the weights.'
        )
    unknown = set(output or ()) - set(range(len(flows)))
    if unknown:
        raise FlowError(
            f"concurrently: found the outputs {sorted(unknown)}, expected numbers of the {len(flows)} flows."
        )
    shown = set(range(len(flows))) if output is None else set(output)
    if mode == "async":
        return Flow(_Whichever(flows, shown), name=name)
    return Flow(_InTurns(flows, given, shown), name=name)


class _Several(Source):
    def __init__(self, flows: Sequence[Flow], shown: set[int]) -> None:
        self._flows = flows
        self._shown = shown
        self._turn = 0

    def _next_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._flows)

    def why_nothing(self) -> str:
        return "; ".join(filter(None, (flow.why_nothing() for flow in self._flows)))

    def pending(self) -> list[Pending]:
        return [one for flow in self._flows for one in flow.pending()]

    def inner_flows(self) -> list[FlowPicture]:
        return [flow.drawn() for flow in self._flows]

    def get_state(self) -> Any:
        return {"turn": self._turn, "flows": [flow.get_state() for flow in self._flows]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._turn = state["turn"]
        for flow, own in zip(self._flows, state["flows"], strict=True):
            flow.set_state(own)


@final
class _Whichever(_Several):
    def poll(self) -> Any:
        silent: set[int] = set()
        ended: set[int] = set()
        while len(silent) < len(self._flows):
            number = self._turn
            self._next_turn()
            try:
                item = self._flows[number].poll()
            except StopIteration:
                item = NOTHING
                ended.add(number)
                if ended >= (self._shown or set(range(len(self._flows)))):
                    raise
            if item is NOTHING:
                silent.add(number)
            elif number in self._shown:
                return item
            else:
                silent.clear()
        return NOTHING


@final
class _InTurns(_Several):
    """`_credits` are how many items each flow may still give; a round adds the weight of each once."""

    def __init__(self, flows: Sequence[Flow], weights: Sequence[Weight], shown: set[int]) -> None:
        super().__init__(flows, shown)
        self._weights = [_MOST_IN_A_TURN if weight == ALL else _fraction(weight) for weight in weights]
        self._takes_all = [weight == ALL for weight in weights]
        self._credits = [Fraction(0)] * len(flows)
        self._has_begun = False  # whether the flow whose turn it is has its credit

    def poll(self) -> Any:
        silent: set[int] = set()
        # Small weights need several rounds until a flow may give something.
        while len(silent) < len(self._flows):
            number = self._turn
            if not self._has_begun:
                self._credits[number] += self._weights[number]
                self._has_begun = True
            if self._credits[number] < 1:
                self._end_turn()
                continue
            item = self._flows[number].poll()
            if item is NOTHING:
                if not self._takes_all[number] and self._flows[number].pending():
                    return NOTHING  # it will come: the order stays
                silent.add(number)
                self._credits[number] = Fraction(0)
                self._end_turn()
                continue
            silent.clear()
            self._credits[number] -= 1
            if self._credits[number] < 1:
                self._end_turn()
            if number in self._shown:
                return item
        return NOTHING

    def _end_turn(self) -> None:
        if self._takes_all[self._turn]:
            self._credits[self._turn] = Fraction(0)
        self._has_begun = False
        self._next_turn()

    def pending(self) -> list[Pending]:
        # The order is kept: only what is next is waited for, if it is on the way.
        return self._flows[self._turn].pending() or super().pending()

    def get_state(self) -> Any:
        credits_ = [[credit.numerator, credit.denominator] for credit in self._credits]
        return {**super().get_state(), "credits": credits_, "has_begun": self._has_begun}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        self._credits = [Fraction(*pair) for pair in state["credits"]]
        self._has_begun = state["has_begun"]


def _fraction(weight: Any) -> Fraction:
    """Return a weight as the fraction that its decimal numbers say: 0.1 is a tenth."""
    return Fraction(str(weight))


def union(*flows: Flow) -> Flow:
    """Return a flow of all items of several flows, whichever has something.

    >>> union(Flow("ab"), Flow(range(4))).take(10)
    ['a', 0, 'b', 1, 2, 3]
    """
    return concurrently(flows, mode="async", name="union")
