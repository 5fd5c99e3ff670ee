"""`RunnerGroup`: many runners behind the interface of one, and the exactly-once hand-over of what they play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Self, TypeVar, final

from episodia.arguments import checked_number, checked_seed, checked_whole, names_nearest_argument
from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.dataflow.deliveries import Delivery, Request, Statistics, Wanted
from episodia.dataflow.engines.engine import Call, Engine
from episodia.dataflow.engines.local_engine import LocalEngine
from episodia.dataflow.kept_deliveries import kept_from, kept_state, metrics_from, metrics_state
from episodia.dataflow.ledger import Ledger
from episodia.dataflow.rounds import Rounds
from episodia.dataflow.runner_host import MakeRunner, RunnerFacts, RunnerHost, Then
from episodia.dataflow.seats import Seat, Seats, seed_of
from episodia.dataflow.statistics import add_statistics, collecting, set_statistics, statistics_of
from episodia.env_runners import EnvRunner, RunnerMetrics
from episodia.env_runners.env_runner import load_weights, weights_of
from episodia.env_runners.rollout.sample_goals import CountStepsBy
from episodia.episodes import EpisodeList
from episodia.episodes.lists.joined_rows import joined_lists
from episodia.errors import EngineError
from episodia.interrupts import uninterrupted
from episodia.modules import Module
from episodia.trees import shortened, shown

_Value = TypeVar("_Value")

_EVALUATIONS = 2**32  # a place that no runner has


@names_nearest_argument
@final
class RunnerGroup:
    """Plays with many runners as with one.

    *Synchronous.* `sample` and `sample_round` ask all idle runners, and wait as `rounds` says. A runner that is late is not
    asked again; its delivery belongs to a later round.

    *Asynchronous.* `poll` and `stream` return deliveries as they come. Requests are made only here, so deliveries never
    pile up for a caller that does not poll.

    *Exactly once.* Weights, their version and the statistics of filters ride on each request; metrics and new statistics come
    back with the episodes. A runner that dies or hangs is replaced by one with another seed, and what it had to answer is
    lost, and counted. A request is never repeated. Always `requested = delivered + failed + lost + in flight`.

    Args:
        make_runner: Makes the runner of a seed, where the runner will live. In this process, each needs a module of its own.
        num_runners: How many.
        seed: What the seeds of all runners follow from.
        engine: Where they live: an engine, or a function that makes one, which the group then closes. By default, they live in
            this thread.
        rounds: How long `sample` waits.
        in_flight: The number of requests that may wait at each runner in asynchronous mode: 1 has the freshest weights, 2
            hides the way.
        call_timeout_s: A request that takes longer is given up, and its runner replaced. None waits for ever.
        max_restarts: The number of runners in a row that may die in one place without a delivery.
        then: Makes, of a runner, a function that is applied where the runner lives: to each list of episodes, and the
            statistics of filters that it was played with.

    Attributes:
        counts: Requests: requested, delivered, failed, lost. Runners: died, hung. Deliveries: late, stale (dropped). Episodes:
            broken_off.
        lags: The number of deliveries that were handed over so many versions of the weights after they were requested.
        on_delivery: Called with each delivery that is handed over.
        acted_with: The statistics of filters that the last delivery was played with, for the pipeline of a learner.

    Raises:
        EngineError: If an argument is invalid.

    >>> from episodia import SingleAgentEnvRunner
    >>> with RunnerGroup(lambda seed: SingleAgentEnvRunner("CartPole-v1", seed=seed), 2) as group:
    ...     int(group.sample(num_timesteps=20).lengths.sum()), group.counts["delivered"]
    (20, 2)
    """

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        make_runner: MakeRunner,
        num_runners: int,
        *,
        seed: int = 0,
        engine: Engine | Callable[[], Engine] = LocalEngine,
        rounds: Rounds | None = None,
        in_flight: int = 1,
        call_timeout_s: float | None = None,
        max_restarts: int = 100,
        then: Then | None = None,
    ) -> None:
        where = "RunnerGroup"
        checked_whole(EngineError, where, "num_runners", num_runners, 1)
        self.seed = checked_seed(EngineError, where, seed) or 0
        self._in_flight = checked_whole(EngineError, where, "in_flight", in_flight, 1)
        checked_whole(EngineError, where, "max_restarts", max_restarts, 0)
        if call_timeout_s is not None:
            checked_number(EngineError, where, "call_timeout_s", call_timeout_s, 0.0)
        if not isinstance(engine, Engine) and not callable(engine):
            raise EngineError(
                f"{where}: found `engine={shown(engine)}`, expected an engine such as `ThreadEngine()`. Pass one."
            )
        self._rounds = Rounds() if rounds is None else rounds
        self._make_runner, self._then = make_runner, then
        self._owns_engine = not isinstance(engine, Engine)
        self.engine: Engine = engine if isinstance(engine, Engine) else engine()
        self.lags: Counter[int] = Counter()
        self.on_delivery: Callable[[Delivery], object] = bool
        self.acted_with: Statistics = {}
        self._ledger = Ledger()
        self._lookback = self._num_evaluations = self._version = 0
        self._clock: int | None = None
        self._resetting: set[int] = set()  # places whose next request begins new episodes
        self._weights: Any = None
        self._statistics: Any = None
        self._kept: list[Delivery] = []  # arrived, and not handed over yet
        self._leaving: list[Delivery] = []  # counted, and about to be returned
        self._errors: list[Exception] = []
        self._left_out: list[int] = []  # the incarnations in places that an earlier, larger group had
        self._metrics: list[RunnerMetrics] = []
        self._is_closed = False
        self._seats = Seats(
            self.engine, self._maker, num_runners, call_timeout_s=call_timeout_s, max_restarts=max_restarts
        )
        self._seats.on_replaced = self._broken_off
        self.counts = self._seats.counts
        self._facts: RunnerFacts = self._each("facts", [(), *[None] * (num_runners - 1)])[0]
        self._share_statistics()

    def _maker(self, index: int, incarnation: int) -> Callable[[], RunnerHost]:
        seed, place = seed_of(self.seed, index, incarnation), (index, incarnation)
        return partial(RunnerHost, self._make_runner, seed, place, self._lookback, self._then)

    def _broken_off(self, seat: Seat) -> None:
        self.counts["broken_off"] += len(self._ledger.break_off(seat.index))

    def __repr__(self) -> str:
        return f"RunnerGroup({len(self._seats)} runners, {type(self.engine).__name__}, {dict(self.counts)})"

    # --- What all runners have --------------------------------------------------------------------------------------

    @property
    def is_multi_agent(self) -> bool:
        """Whether runners return multi-agent episodes."""
        return self._facts.is_multi_agent

    @property
    def count_steps_by(self) -> CountStepsBy:
        """The kind of steps that runners count."""
        return self._facts.count_steps_by

    @property
    def env_to_module(self) -> EnvToModulePipeline:
        """A copy of the pipeline in front of the modules, with the statistics of all runners."""
        return self._facts.env_to_module

    @property
    def module_to_env(self) -> ModuleToEnvPipeline:
        """A copy of the pipeline behind the modules."""
        return self._facts.module_to_env

    @property
    def modules(self) -> Mapping[Any, Module]:
        """Copies of the modules, with the newest weights."""
        return self._facts.modules

    @property
    def module(self) -> Module | None:
        """A copy of the only module, with the newest weights; None if there are several, or none."""
        return next(iter(self.modules.values())) if len(self.modules) == 1 else None

    @property
    def agent_to_module_mapping_fn(self) -> Any:
        """The function from an agent to its module; None for single-agent runners."""
        return self._facts.agent_to_module_mapping_fn

    @property
    def num_runners(self) -> int:
        """The number of runners."""
        return len(self._seats)

    @property
    def num_alive(self) -> int:
        """How many runners there are, without successors of dead ones that have still to deliver."""
        return self._seats.num_alive

    @property
    def num_steps(self) -> int:
        """The number of steps that have arrived in episodes; in multi-agent episodes, of steps of agents."""
        return self._ledger.num_steps

    @property
    def in_flight(self) -> int:
        """The number of requests on the way."""
        return self._seats.in_flight

    def require_lookback(self, steps: int) -> None:
        """Let chunks of all runners carry at least so many earlier steps; see `EnvRunner.require_lookback`."""
        checked_whole(EngineError, "require_lookback", "steps", steps, 0)
        if steps > self._lookback:
            self._lookback = steps
            self.foreach_runner(partial(_require_lookback, steps=steps))

    # --- Synchronous ------------------------------------------------------------------------------------------------

    def sample(
        self, *, num_timesteps: int | None = None, num_episodes: int | None = None, **wanted: Any
    ) -> EpisodeList[Any]:
        """Play with all runners, which share the steps or episodes, and return what they deliver in one round.

        Args:
            num_timesteps: How many steps together.
            num_episodes: How many episodes together. With neither, each runner plays what its settings say.
            **wanted: Other arguments of a runner's `sample`.

        Raises:
            EngineError: If the group is closed, or places lose too many runners.
            Exception: The first error of a runner's own, with notes of others, when the round is over; deliveries are kept for
                the next call.
        """
        steps, episodes = self._shares(num_timesteps), self._shares(num_episodes)
        shares = {
            index: {"num_timesteps": own_steps, "num_episodes": own_episodes, **wanted}
            for index, (own_steps, own_episodes) in enumerate(zip(steps, episodes, strict=True))
            if own_steps != 0 and own_episodes != 0
        }
        deliveries = self._round(shares, self._rounds)
        return self._given(deliveries, episodes_of(deliveries))

    def _shares(self, total: int | None) -> list[int | None]:
        if total is None:
            return [None] * self.num_runners
        checked_whole(EngineError, "sample", "the number to play", total, 0)
        each, rest = divmod(total, self.num_runners)
        return [each + (index < rest) for index in range(self.num_runners)]

    def sample_round(self, rounds: Rounds | None = None, **wanted: Any) -> list[Delivery]:
        """Ask all idle runners for `wanted` each, and return all that has arrived when the round is over, in order of runners.

        Args:
            rounds: When it is over; by default as the group was made.
            **wanted: Arguments of a runner's `sample`, or functions that return them, which are called for each request.
        """
        deliveries = self._round(dict.fromkeys(range(self.num_runners), wanted), rounds or self._rounds)
        return self._given(deliveries, deliveries)

    def _round(self, wanted: Mapping[int, Wanted], rounds: Rounds) -> list[Delivery]:
        self._check_open("sample")
        asked: set[tuple[int, int, int]] = set()
        begun = self.engine.now()
        until: float | None = None
        sitting = [-1] * self.num_runners
        self._ask_new(wanted, sitting, asked)
        while self.in_flight:
            here = {delivery.runner for delivery in self._kept}
            coming = here | {seat.index for seat in self._seats if seat.flights}
            if len(here) >= min(rounds.min_ready or self.num_runners, len(coming)):
                now = self.engine.now()
                until = now + rounds.grace_after(now - begun) if until is None else until
                if now >= until:
                    break
                self._receive(until - now)
            else:
                self._receive(None)
            self._ask_new(wanted, sitting, asked)
        self._raise_own_errors()
        found = sorted(self._kept, key=lambda delivery: (delivery.runner, delivery.incarnation, delivery.number))
        self.counts["late"] += sum(
            (delivery.runner, delivery.incarnation, delivery.number) not in asked for delivery in found
        )
        return self._hand_over(found)

    def _ask_new(self, wanted: Mapping[int, Wanted], sitting: list[int], asked: set[tuple[int, int, int]]) -> None:
        """Ask each runner once in a round, and the successor of one that has died, unless requests wait there."""
        for seat in self._seats:
            is_new = seat.incarnation != sitting[seat.index]
            sitting[seat.index] = seat.incarnation
            if is_new and not seat.flights and seat.index in wanted:
                asked.add((seat.index, seat.incarnation, seat.number))
                self._ask(seat, wanted[seat.index])

    # --- Asynchronous -----------------------------------------------------------------------------------------------

    def poll(self, wanted: Wanted, timeout_s: float | None = None) -> Delivery | None:
        """Keep all runners busy, and return a delivery as soon as there is one; None if there is none in time.

        Args:
            wanted: As for `sample_round`, for new requests.
            timeout_s: How long to wait: 0 only looks, None waits for ever.
        """
        self._check_open("poll")
        while not self._kept and not self._leaving and not self._errors:
            self.request(wanted)
            self._receive(timeout_s)
            if timeout_s is not None:
                break
        if not self._kept and not self._leaving:
            self._raise_own_errors()
            self.request(wanted)  # from the successors of runners that have died meanwhile
            return None
        found = self._hand_over([] if self._leaving else self._kept[:1])[:1]
        return self._given(found, found[0])

    def request(self, wanted: Wanted) -> None:
        """Ask each runner until `in_flight` requests wait there."""
        for seat in self._seats:
            while len(seat.flights) < self._in_flight:
                self._ask(seat, wanted)

    def first_calls(self) -> list[Call]:
        """Return the calls that can end next, one of each runner that is busy."""
        return self._seats.first_calls()

    @property
    def limit_s(self) -> float | None:
        """The seconds until `poll` has to look for runners that hang; None if it need not."""
        return self._seats.limit_s

    def stream(self, **wanted: Any) -> Iterator[Delivery]:
        """Yield deliveries as they come."""
        while True:
            delivery = self.poll(wanted)
            if delivery is not None:
                yield delivery

    # --- Requests and deliveries ------------------------------------------------------------------------------------

    def _ask(self, seat: Seat, wanted: Wanted) -> None:
        own = {name: value() if callable(value) else value for name, value in wanted.items()}
        if seat.index in self._resetting:
            self._resetting.remove(seat.index)
            own["force_reset"] = True
        self._seats.ask(seat, self._request(seat.number, own))

    def _request(self, number: int, wanted: Wanted) -> Request:
        return Request(number, wanted, self._version, self._weights, self._statistics, self._clock)

    def _receive(self, timeout_s: float | None) -> None:
        self._seats.settle(timeout_s, self._arrived, self._errors.append)

    def _arrived(self, delivery: Delivery) -> None:
        seat = self._seats.seats[delivery.runner]
        if delivery.incarnation != seat.incarnation:
            raise EngineError(
                f"{type(self.engine).__name__}: found an answer of a runner that was given up, expected none. Check the "
                "engine with `episodia.testing.check_engine`."
            )
        # On arrival: if the runner dies before the hand-over, its running episodes are broken off.
        if isinstance(delivery.episodes, EpisodeList):
            self._ledger.enter(delivery.episodes, delivery.runner)
        self._kept.append(delivery)

    def _hand_over(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Return kept deliveries that leave now, after those that an interrupt has kept from being returned."""
        with uninterrupted():
            for delivery in deliveries:
                self._kept.remove(delivery)
                self._count(delivery)
                self._leaving.append(delivery)
                self.on_delivery(delivery)
        return list(self._leaving)

    def _given(self, deliveries: list[Delivery], value: _Value) -> _Value:
        """Return `value`, and forget the deliveries behind it: an interrupt before this moment keeps them for the next call."""
        del self._leaving[: len(deliveries)]
        return value

    def _count(self, delivery: Delivery) -> None:
        """Count a delivery that leaves: its steps and its statistics are counted together."""
        self.lags[self._version - delivery.version] += 1
        self._metrics.append(delivery.metrics)
        self.acted_with = delivery.acted_with
        if delivery.statistics:
            add_statistics(self.env_to_module, delivery.statistics)
            self._share_statistics()

    def _share_statistics(self) -> None:
        if collecting(self.env_to_module):
            self._statistics = self.engine.share(statistics_of(self.env_to_module))

    def _raise_own_errors(self) -> None:
        """Raise the first error of a runner's own, with notes of the others."""
        if self._errors:
            (first, *others), self._errors = self._errors, []
            for other in others:
                first.add_note(f"Another runner has raised: {shortened(repr(other))}")
            raise first

    def _check_open(self, where: str) -> None:
        if self._is_closed:
            raise EngineError(f"{where}: found a group that is closed, expected an open one. Make another one.")

    # --- All runners at once ----------------------------------------------------------------------------------------

    def _each(self, method: str, arguments: list[tuple[Any, ...] | None]) -> list[Any]:
        self._check_open(method)
        return self._seats.ask_each(method, arguments)

    def foreach_runner(self, function: Callable[[EnvRunner[Any]], Any]) -> list[Any]:
        """Return what `function` returns of each runner, called where the runner lives, after the requests on the way."""
        return self._each("apply", [(function,)] * self.num_runners)

    def apply_there(self, then: Then) -> None:
        """Let all runners apply `then` to each list of episodes from now on, see `RunnerGroup`."""
        self._then = then
        self._each("set_then", [(then,)] * self.num_runners)

    def continue_at(self, steps: int) -> None:
        """Let schedules of exploration go on at a number of steps, with the next requests."""
        self._clock = checked_whole(EngineError, "continue_at", "steps", steps, 0)

    def evaluate(self, num_episodes: int = 10, *, explore: bool = False, seed: int | None = None) -> EpisodeList[Any]:
        """Play whole episodes on all runners, beside all sampling, and return them; see `EnvRunner.evaluate`."""
        number, self._num_evaluations = self._num_evaluations, self._num_evaluations + 1
        own = self.seed if seed is None else seed
        arguments: list[tuple[Any, ...] | None] = []
        for index, count in enumerate(self._shares(num_episodes)):
            # A given seed gives the same episodes each time.
            own_seed = seed_of(own, _EVALUATIONS + index, number if seed is None else 0)
            wanted = {"num_episodes": count, "explore": explore, "seed": own_seed}
            arguments.append((self._request(number, wanted),) if count else None)
        return joined_lists(self._each("evaluate", arguments))

    def get_metrics(self) -> RunnerMetrics:
        """Return the sum of the metrics of all deliveries that were handed over since the last call."""
        taken, self._metrics = self._metrics, []
        return RunnerMetrics.merged(taken)

    # --- Weights and state ------------------------------------------------------------------------------------------

    @property
    def weights_version(self) -> int:
        """The version of the weights that new requests carry."""
        return self._version

    def get_weights(self) -> dict[Any, Any]:
        """Return copies of the newest weights: `{module_id: {name: array}}`."""
        return weights_of(self.modules)

    def set_weights(self, weights: Mapping[Any, Any], version: int | None = None) -> None:
        """Let all requests from now on carry other weights, without a call to a runner.

        Args:
            weights: As a runner takes them.
            version: One more than before by default.

        Raises:
            EnvRunnerError: If they are not weights of the modules; nothing is changed then.
        """
        by_module = weights if self.is_multi_agent else {DEFAULT_MODULE_ID: weights}
        load_weights(self.modules, by_module)
        self._version = self._version + 1 if version is None else version
        self._weights = self.engine.share(weights)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is on the way; what arrives is handed over first by the next call.

        Args:
            timeout_s: Runners that take longer are given up.
        """
        begun = self.engine.now()
        while self.in_flight:
            left = None if timeout_s is None else begun + timeout_s - self.engine.now()
            if left is not None and left <= 0:
                for seat in self._seats:
                    if seat.flights:
                        self._seats.replace(seat, "hung")
                return
            self._receive(left)

    def get_state(self) -> dict[str, Any]:
        """Return the states of all runners, and what has arrived from them; what is on the way is waited for first.

        Environments are not part of it: here and there, each runner begins new episodes with its next request.
        """
        self.settle()
        self._resetting = set(range(self.num_runners))
        for seat in self._seats:
            self._broken_off(seat)
        return {
            "runners": self._each("get_state", [()] * self.num_runners),
            "incarnations": [*(seat.incarnation for seat in self._seats), *self._left_out],
            "numbers": [seat.number for seat in self._seats],
            "weights": self.get_weights(),
            "weights_version": self._version,
            "statistics": dict(statistics_of(self.env_to_module)),
            "num_evaluations": self._num_evaluations,
            "num_steps": self.num_steps,
            "acted_with": dict(self.acted_with),
            "metrics": metrics_state(RunnerMetrics.merged(self._metrics)),
            "counts": dict(self.counts),
            "lags": [[lag, count] for lag, count in sorted(self.lags.items())],
            "kept": [kept_state(delivery) for delivery in self._kept],
            "leaving": [kept_state(delivery) for delivery in self._leaving],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, which `get_state` of a group of any size returned. Environments are reset.

        In a larger group, further runners start with new seeds; in a smaller one, some are left out.
        """
        self.settle()
        count, incarnations = len(state["runners"]), list(state["incarnations"])
        for seat in self._seats:
            known = incarnations[seat.index] if seat.index < len(incarnations) else 0
            # A place that was left out for a while must not play the same episodes again.
            incarnation = known if seat.index < count or seat.index >= len(incarnations) else known + 1
            if seat.incarnation != incarnation:
                seat.worker.kill()
                self._seats.start(seat, incarnation)
            seat.number = state["numbers"][seat.index] if seat.index < count else 0
        self._left_out = incarnations[self.num_runners :]
        runners = [(own,) for own in state["runners"][: self.num_runners]]
        self._each("set_state", [*runners, *[None] * (self.num_runners - len(runners))])
        load_weights(self.modules, state["weights"])
        weights = state["weights"]
        self._weights = self.engine.share(weights if self.is_multi_agent else weights.get(DEFAULT_MODULE_ID, {}))
        self._version, self._num_evaluations = int(state["weights_version"]), int(state["num_evaluations"])
        set_statistics(self.env_to_module, state["statistics"])
        self._share_statistics()
        self.counts.clear()
        self.counts.update(state["counts"])
        self.lags = Counter(dict(state["lags"]))
        self.acted_with = state["acted_with"]
        self._kept, self._leaving = ([kept_from(own) for own in state[name]] for name in ("kept", "leaving"))
        self._metrics, self._errors = [metrics_from(state["metrics"])], []
        self._ledger = Ledger(state["num_steps"])
        self._resetting = set(range(self.num_runners))

    # --- The end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all runners; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._seats.close()
            if self._owns_engine:
                self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _require_lookback(runner: EnvRunner[Any], steps: int) -> None:
    runner.require_lookback(steps)


def episodes_of(deliveries: Iterable[Delivery]) -> EpisodeList[Any]:
    """Return the episodes of several deliveries as one list, without making them."""
    return joined_lists(delivery.episodes for delivery in deliveries)
