"""Engines with one fault each, which `check_engine` must find."""

from contextlib import suppress

from episodia.dataflow.engines.engine import Call, Engine, Worker
from episodia.dataflow.engines.outcome import Outcome
from episodia.errors import WorkerDiedError


class PlainCall(Call):
    def __init__(self, worker, method, arguments):
        self.worker, self.asked, self.outcome = worker, (method, arguments), None

    def result(self):
        return self.outcome.result()


class PlainWorker(Worker):
    def __init__(self, engine, make):
        self.engine, self.made, self.is_dead = engine, Outcome.of(make), False

    def call(self, method, *arguments):
        call = PlainCall(self, method, arguments)
        if self.is_dead:
            call.outcome = Outcome.died("was killed")
        else:
            self.engine.queue.append(call)
        return call

    def kill(self):
        self.is_dead = True
        for call in self.engine.queue:
            if call.worker is self and call.outcome is None:
                call.outcome = Outcome.died("was killed")


class PlainEngine(Engine):
    """A correct engine of a few lines."""

    def __init__(self):
        self.queue, self.workers = [], []

    def start(self, make):
        self.workers.append(PlainWorker(self, make))
        return self.workers[-1]

    def run(self, call):
        call.outcome = Outcome.of_method(call.worker.made, *call.asked)

    def wait(self, calls, timeout_s=None):
        while timeout_s != 0 and self.queue and not any(call.outcome for call in calls):
            call = self.next_call()
            if call.outcome is None:
                self.run(call)
        return [call for call in calls if call.outcome]

    def next_call(self):
        return self.queue.pop(0)

    def now(self):
        return 0.0

    def close(self):
        for worker in self.workers:
            worker.kill()


class LastFirst(PlainEngine):
    def next_call(self):
        return self.queue.pop()


class RunsTwice(PlainEngine):
    def run(self, call):
        super().run(call)
        super().run(call)


class SwallowsErrors(PlainEngine):
    def run(self, call):
        super().run(call)
        with suppress(Exception):
            call.outcome.result()
            return
        call.outcome = Outcome(None)


class DiesOfErrors(PlainEngine):
    def run(self, call):
        super().run(call)
        if call.outcome.error is not None:
            call.outcome = Outcome(error=WorkerDiedError("found an error, expected none."))
            call.worker.kill()


class AnswersAfterAKill(PlainEngine):
    """The calls of a killed worker still run."""

    def start(self, make):
        worker = super().start(make)
        worker.kill = lambda: None
        return worker


class KillsAll(PlainEngine):
    def start(self, make):
        worker = super().start(make)
        worker.kill = lambda: [PlainWorker.kill(each) for each in self.workers]
        return worker


class ReturnsAll(PlainEngine):
    """`wait` returns calls that it was not asked about."""

    over = ()

    def wait(self, calls, timeout_s=None):
        self.over = [*self.over, *super().wait(calls, timeout_s)]
        return self.over


class SharesNothing(PlainEngine):
    def share(self, value):
        return super().share(None)


class AnswersLate(PlainEngine):
    """Calls end when their worker is killed, and have an answer later all the same."""

    def wait(self, calls, timeout_s=None):
        while timeout_s != 0 and self.queue and not any(call.outcome for call in calls):
            self.run(self.next_call())
        return [call for call in calls if call.outcome]


class AnswersOnce(PlainEngine):
    def start(self, make):
        worker = super().start(make)
        call = worker.call
        worker.call = lambda *asked: self.forgetful(call(*asked))
        return worker

    def forgetful(self, call):
        result, asked = call.result, []

        def once():
            asked.append(1)
            return result() if len(asked) == 1 else None

        call.result = once
        return call


class ReturnsWhatIsNotOver(PlainEngine):
    def wait(self, calls, timeout_s=None):
        super().wait(calls, timeout_s)
        return list(calls)


class WaitsWithALimitOf0(PlainEngine):
    def wait(self, calls, timeout_s=None):
        return super().wait(calls, None)


class WaitsForAll(PlainEngine):
    def wait(self, calls, timeout_s=None):
        while timeout_s != 0 and not all(call.outcome for call in calls):
            super().wait([next(call for call in calls if not call.outcome)])
        return [call for call in calls if call.outcome]


FAULTY_ENGINES = (
    LastFirst,
    RunsTwice,
    SwallowsErrors,
    DiesOfErrors,
    AnswersAfterAKill,
    KillsAll,
    ReturnsAll,
    SharesNothing,
    AnswersLate,
    AnswersOnce,
    ReturnsWhatIsNotOver,
    WaitsWithALimitOf0,
    WaitsForAll,
)
