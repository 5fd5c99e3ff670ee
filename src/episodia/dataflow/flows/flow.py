"""`Flow`: a source, the stages that its items are pushed through, and a gate; nothing runs until an item is pulled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Any, final

from episodia.arguments import checked_each, checked_whole
from episodia.dataflow.deliveries import Delivery
from episodia.dataflow.flows.gates import Gate, why_shut
from episodia.dataflow.flows.pictures import FlowPicture, flow_html, flow_text
from episodia.dataflow.flows.sources import NOTHING, Items, Pending, Source, wait_for
from episodia.dataflow.flows.stages import (
    Batch,
    Stage,
    checked_function,
    each,
    flatten,
    kept,
    memory_of,
    name_of,
    tapped,
    zip_with_source,
)
from episodia.dataflow.kept_deliveries import held_from, held_state
from episodia.errors import FlowError


@final
class Flow(Source):
    """Items of a source, pushed through stages.

    A flow is an iterator, and nothing runs unless an item is pulled. So between two items everything stands still, and can be
    saved. Stages are functions of an item that return the items that come out: none, one or several. A flow with more stages
    takes the place of the one before. An error in a stage drops the item, and has a note that names the stage, the number of
    the item, and the runner that it came from.

    Args:
        source: Where items come from: a `Source`, or any iterable.
        *stages: Functions of an item that return items, in order.
        gate: Tells whether to pull: a function that returns True, or else the reason why not.
        name: How errors and pictures call the flow.

    Attributes:
        num_items: How many items came out of the source, and out of each stage.
        time_s: How long the source and each stage took. A source or stage that pulls from outside counts its waiting, too.

    Raises:
        FlowError: If an argument has the wrong type.

    >>> flow = Flow(range(10)).filter(lambda number: number % 2).for_each(lambda number: 10 * number).batch(2)
    >>> flow.take(2)
    [[10, 30], [50, 70]]
    """

    def __init__(
        self, source: Source | Iterable[Any], *stages: Stage, gate: Gate | None = None, name: str = ""
    ) -> None:
        checked_each(FlowError, "Flow", "stages", stages, callable, "functions")
        if not isinstance(source, Source | Iterable):
            raise FlowError(f"Flow: found the source {source!r}, expected a `Source` or an iterable. Pass one.")
        checked_function("Flow", "gate", bool if gate is None else gate)
        self._source = source if isinstance(source, Source) else Items(source)
        self._stages = stages
        self._gate = gate
        self.name = name or self._source.name or type(self._source).__name__
        self._out: deque[Any] = deque()
        self.num_items = [0] * (len(stages) + 1)
        self.time_s = [0.0] * (len(stages) + 1)

    # --- As a source ------------------------------------------------------------------------------------------------

    def poll(self) -> Any:
        """Return the next item; `NOTHING` if there is none yet."""
        out = self._out
        while not out:
            try:
                if self._gate is not None and self._gate() is not True:
                    return NOTHING
                begun = perf_counter()
                item = self._source.poll()
            except StopIteration:
                raise
            except Exception as error:
                _note_place(error, f"Raised in flow {self.name!r}, before its stages.")
                raise
            if item is NOTHING:
                return NOTHING
            self._push(item, begun)
        return out.popleft()

    def _push(self, item: Any, begun: float) -> None:
        """Push an item of the source through all stages; if one fails, the item is dropped."""
        counts, times = self.num_items, self.time_s
        counts[0] += 1
        now = perf_counter()
        times[0] += now - begun
        items: Sequence[Any] = (item,)
        for at, stage in enumerate(self._stages, 1):
            begun = now
            try:
                made = stage(items[0]) if len(items) == 1 else [new for old in items for new in stage(old)]
                items = made if type(made) is tuple or type(made) is list else list(made)
            except StopIteration as error:  # it would end the flow without a word
                raise FlowError(
                    f"{self._place(at, item)}: found a StopIteration, expected items. Correct the stage; the item is dropped."
                ) from error
            except Exception as error:
                _note_place(error, f"Raised in {self._place(at, item)}, which is dropped.")
                raise
            now = perf_counter()
            times[at] += now - begun
            counts[at] += len(items)
            if not items:
                return
        self._out += items

    def _place(self, at: int, item: Any) -> str:
        origin = f" of runner {item.runner}" if isinstance(item, Delivery) else ""
        stage = f"stage {at} of {len(self._stages)} ({name_of(self._stages[at - 1])})"
        return f"flow {self.name!r}, {stage}, item {self.num_items[0] - 1} of the source{origin}"

    def pending(self) -> list[Pending]:
        """Return what is on the way to the source, if the gate is open."""
        is_shut = self._gate is not None and self._gate() is not True
        return [] if is_shut else self._source.pending()

    def why_nothing(self) -> str:
        """Return why the gate is shut, or why the source has nothing."""
        why = "" if self._gate is None else why_shut(self._gate)
        why = why or self._source.why_nothing()
        return f"{self.name}: {why}" if why else ""

    # --- As an iterator ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while (item := self.poll()) is NOTHING:
            begun = perf_counter()
            wait_for(self)
            self.time_s[0] += perf_counter() - begun
        return item

    def take(self, count: int) -> list[Any]:
        """Pull `count` items, or all that are left."""
        return list(islice(self, checked_whole(FlowError, "take", "count", count, 0)))

    # --- More stages ------------------------------------------------------------------------------------------------

    def through(self, *stages: Stage) -> Flow:
        """Return the flow with more stages."""
        return Flow(self._source, *self._stages, *stages, gate=self._gate, name=self.name)

    def for_each(self, function: Callable[[Any], Any]) -> Flow:
        """Return the flow of what `function` returns of each item."""
        return self.through(each(function))

    def filter(self, keep: Callable[[Any], bool]) -> Flow:
        """Return the flow of the items that `keep` is true of."""
        return self.through(kept(keep))

    def combine(self, stage: Stage) -> Flow:
        """Return the flow of the items that `stage` makes of each item: none, one or several."""
        return self.through(stage)

    def flatten(self) -> Flow:
        """Return the flow of the items of each item."""
        return self.through(flatten)

    def batch(self, count: int) -> Flow:
        """Return the flow of lists of `count` items."""
        return self.through(Batch(count))

    def zip_with_source(self) -> Flow:
        """Return the flow of pairs: the runner that a delivery comes from, and the delivery."""
        return self.through(zip_with_source)

    def tap(self, function: Callable[[Any], object]) -> Flow:
        """Return the flow with `function` called with each item, such as one that prints."""
        return self.through(tapped(function))

    def gated(self, gate: Gate, name: str = "") -> Flow:
        """Return the flow, pulled only while `gate` and the gates before it are open; `name` is how pictures call it."""
        return Flow(self, gate=gate, name=name or self.name)

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return what the flow holds between two items: items, counts, and the states of source, stages and gate.

        The state is plain data if items are made of deliveries, episodes, metrics and plain data. Groups, learners and buffers
        are saved by their owners.
        """
        gate = memory_of(self._gate)
        return {
            "source": self._source.get_state(),  # first: it may wait for what is on the way
            "out": [held_state(item) for item in self._out],
            "num_items": list(self.num_items),
            "stages": [memory and memory.get_state() for memory in map(memory_of, self._stages)],
            "gate": gate and gate.get_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, which `get_state` of an equal flow returned.

        Raises:
            FlowError: If it is the state of another flow.
        """
        if len(state["stages"]) != len(self._stages):
            raise FlowError(
                f"set_state: found the state of {len(state['stages'])} stages, expected {len(self._stages)}. Make the flow "
                "like that one."
            )
        self._out = deque(map(held_from, state["out"]))
        self.num_items = list(state["num_items"])
        self._source.set_state(state["source"])
        for stage, own in zip([*self._stages, self._gate], [*state["stages"], state["gate"]], strict=True):
            memory = memory_of(stage)
            if memory is not None:
                memory.set_state(own)

    # --- Pictures ---------------------------------------------------------------------------------------------------

    def drawn(self) -> FlowPicture:
        """Return what a picture of the flow shows."""
        names = [self.name, *map(name_of, self._stages)]
        gate = "" if self._gate is None else (why_shut(self._gate) or "open")
        return FlowPicture(list(zip(names, self.num_items, self.time_s, strict=True)), gate, self._source.inner_flows())

    def inner_flows(self) -> list[FlowPicture]:
        """Return the picture of the flow, inside of another one."""
        return [self.drawn()]

    def __repr__(self) -> str:
        return flow_text(self.drawn())

    def _repr_html_(self) -> str:
        return flow_html(self.drawn())


def _note_place(error: Exception, note: str) -> None:
    """Add a note that says where an error was raised, unless a flow before has said it."""
    if not any(known.startswith("Raised in flow") for known in getattr(error, "__notes__", ())):
        error.add_note(note)
