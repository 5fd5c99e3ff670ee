"""The places of a group: runners may sit there one after another, and each call is settled once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from episodia.dataflow.deliveries import Delivery, Request
from episodia.dataflow.engines.engine import Call, Engine, Worker
from episodia.errors import EngineError, WorkerDiedError
from episodia.interrupts import uninterrupted


class Flight(NamedTuple):
    """A request that is on the way."""

    call: Call
    request: Request


@final
@dataclass
class Seat:
    """One place of a group.

    Attributes:
        index: Which place.
        worker: The runner in this seat.
        incarnation: How many have sat there before.
        deaths: How many of them in a row have delivered nothing.
        number: That of the next request.
        flights: The requests on the way, in order.
        first_since_s: Since when the first of them is the first in line.
    """

    index: int
    worker: Worker
    incarnation: int = 0
    deaths: int = 0
    number: int = 0
    flights: deque[Flight] = field(default_factory=deque)
    first_since_s: float = 0.0


@final
class Seats:
    """All places of a group, and the counters of what went there and came back.

    Always `requested = delivered + failed + lost + in flight`. A call is delivered, failed with an error of the runner's own,
    or lost with its runner, which has died or was given up because it hung.

    Args:
        engine: Where workers live.
        make: Returns what makes the worker of a place and an incarnation.
        num_seats: The number of places.
        call_timeout_s: How long a request may be the first in line before its runner is given up.
        max_restarts: The number of runners in a row that may die in one place without a delivery.
    """

    def __init__(
        self,
        engine: Engine,
        make: Callable[[int, int], Callable[[], Any]],
        num_seats: int,
        *,
        call_timeout_s: float | None,
        max_restarts: int,
    ) -> None:
        self.engine = engine
        self._make = make
        # Calls that run one after another wait for each other.
        self._timeout_s = None if engine.is_serial else call_timeout_s
        self._max_restarts = max_restarts
        self.counts: Counter[str] = Counter()
        self.on_replaced: Callable[[Seat], object] = bool
        self.seats = [Seat(index, engine.start(make(index, 0))) for index in range(num_seats)]

    def __iter__(self) -> Iterator[Seat]:
        return iter(self.seats)

    def __len__(self) -> int:
        return len(self.seats)

    @property
    def num_alive(self) -> int:
        """How many runners there are, without successors of dead ones that have still to deliver."""
        return sum(not seat.deaths for seat in self.seats)

    @property
    def in_flight(self) -> int:
        """The number of requests on the way."""
        return sum(len(seat.flights) for seat in self.seats)

    def ask(self, seat: Seat, request: Request) -> None:
        """Send a request."""
        with uninterrupted():
            if not seat.flights:
                seat.first_since_s = self.engine.now()
            seat.flights.append(Flight(seat.worker.call("sample", request), request))
            seat.number += 1
            self.counts["requested"] += 1

    def first_calls(self) -> list[Call]:
        """Return the calls that can end next."""
        return [seat.flights[0].call for seat in self.seats if seat.flights]

    @property
    def limit_s(self) -> float | None:
        """The seconds until a runner is given up; None if that cannot happen."""
        if self._timeout_s is None or not self.in_flight:
            return None
        first = min(seat.first_since_s for seat in self.seats if seat.flights)
        return max(0.0, first + self._timeout_s - self.engine.now())

    def settle(
        self, timeout_s: float | None, arrived: Callable[[Delivery], object], failed: Callable[[Exception], object]
    ) -> None:
        """Wait until a request is settled, or for `timeout_s`.

        Ctrl-C ends the wait; what is over is settled as a whole.

        Args:
            timeout_s: How long; None waits for ever.
            arrived: Called with each delivery.
            failed: Called with each error of a runner's own.

        Raises:
            EngineError: If a place loses one runner after another, or if nothing on the way can ever end.
        """
        waiting = {id(seat.flights[0].call): seat for seat in self.seats if seat.flights}
        if not waiting:
            return
        limits = [limit for limit in (timeout_s, self.limit_s) if limit is not None]
        over = self.engine.wait(self.first_calls(), min(limits, default=None))
        if not over and timeout_s is None and self._timeout_s is None:
            raise EngineError(
                "runner group: found requests that never end, expected an answer or the death of a runner. Pass "
                "`call_timeout_s=`, so that runners that hang are replaced."
            )
        with uninterrupted():
            for call in over:
                self._settle(waiting[id(call)], call, arrived, failed)
            self._give_up_hung()

    def _settle(
        self, seat: Seat, call: Call, arrived: Callable[[Delivery], object], failed: Callable[[Exception], object]
    ) -> None:
        try:
            delivery = call.result()
        except WorkerDiedError as error:
            self.replace(seat, "died", error)
            return
        except Exception as error:  # noqa: BLE001  # the runner's own, raised after the deliveries of others are kept
            self._land(seat, "failed")
            failed(error)
        else:
            self._land(seat, "delivered")
            seat.deaths = 0
            arrived(delivery)

    def _land(self, seat: Seat, how: str) -> None:
        self.counts[how] += 1
        seat.flights.popleft()
        seat.first_since_s = self.engine.now()

    def _give_up_hung(self) -> None:
        if self._timeout_s is None:
            return
        for seat in self.seats:
            if seat.flights and self.engine.now() >= seat.first_since_s + self._timeout_s:
                # An answer that has come meanwhile is taken with the next call.
                if self.engine.wait([seat.flights[0].call], 0):
                    continue
                if seat.worker.may_take_longer():
                    seat.first_since_s = self.engine.now()
                else:
                    self.replace(seat, "hung")

    def replace(self, seat: Seat, why: str, cause: Exception | None = None) -> None:
        """Start another runner in the place of one that has died or is given up; what it had to answer is lost.

        Raises:
            EngineError: If too many have died there in a row.
        """
        self.counts["lost"] += len(seat.flights)
        self.counts[why] += 1
        seat.flights.clear()
        seat.worker.kill()
        self.on_replaced(seat)
        seat.deaths += 1
        if seat.deaths > self._max_restarts:
            raise EngineError(
                f"runner group: found that runner {seat.index} {why} {seat.deaths} times in a row without a delivery, expected "
                f"at most {self._max_restarts} times. Look at its environment, or raise `max_restarts=`."
            ) from cause
        self.start(seat, seat.incarnation + 1)

    def start(self, seat: Seat, incarnation: int) -> None:
        """Let another runner sit there."""
        seat.incarnation = incarnation
        seat.worker = self.engine.start(self._make(seat.index, incarnation))

    def ask_each(self, method: str, arguments: list[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of each runner, and return the results in order; None of arguments leaves a place out.

        A runner that dies meanwhile is replaced, and its successor is asked. Requests on the way stay there.

        Raises:
            EngineError: See `replace`.
            Exception: The first error of a runner's own, after all others have answered.
        """
        results: dict[int, Any] = {}
        asked = {
            seat.index: seat.worker.call(method, *given)
            for seat, given in zip(self.seats, arguments, strict=True)
            if given is not None
        }
        errors: list[Exception] = []
        while asked:
            over = self.engine.wait(list(asked.values()), self._timeout_s)
            for index in [index for index, call in asked.items() if call in over or not over]:
                seat = self.seats[index]
                if not over and seat.worker.may_take_longer():
                    continue
                call = asked.pop(index)
                try:
                    if not over:
                        raise WorkerDiedError(f"runner {index}: found no answer to `{method}` in time.")
                    results[index] = call.result()
                except WorkerDiedError as error:
                    self.replace(seat, "died" if over else "hung", error)
                    asked[index] = seat.worker.call(method, *(arguments[index] or ()))
                except Exception as error:  # noqa: BLE001  # raised when the others have answered
                    errors.append(error)
        if errors:
            raise errors[0]
        return [results[seat.index] for seat in self.seats if seat.index in results]

    def close(self) -> None:
        """Kill all runners."""
        for seat in self.seats:
            self.counts["lost"] += len(seat.flights)
            seat.flights.clear()
            seat.worker.kill()


def seed_of(seed: int, index: int, incarnation: int) -> int:
    """Return the seed of a runner, another one for each place and incarnation: a successor repeats no ids of episodes.

    >>> seed_of(0, 1, 0) == seed_of(0, 1, 0), seed_of(0, 1, 0) == seed_of(0, 1, 1)
    (True, False)
    """
    return int(np.random.SeedSequence([seed, index, incarnation]).generate_state(1, np.uint64)[0] >> np.uint64(1))
