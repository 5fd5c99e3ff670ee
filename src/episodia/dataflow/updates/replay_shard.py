"""`ReplayShard`: a replay buffer in a worker; what is stored, drawn and weighed there stays there, only samples travel."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, final

from episodia.arguments import checked_number, checked_whole
from episodia.dataflow.engines.engine import Call, Engine
from episodia.episodes import EpisodeList
from episodia.errors import EngineError, WorkerDiedError
from episodia.replay import Draw, ReplayBuffer, Transitions
from episodia.types import Item, State

# So many lists may be on the way to a shard.
_MOST_WRITES = 8


class _Write(NamedTuple):
    call: Call
    num_new: int  # steps


@final
class ReplayShard:
    """A replay buffer in a worker, with the methods of `ReplayBuffer` that `store`, `ReplayUpdates` and plans call.

    Lists and priorities are sent without waiting for the shard; each is there before the next sample is drawn.

    A shard that dies or hangs is replaced by an empty one. What it held is lost, and counted; `sample` raises, and plans wait
    until there are enough rows again.

    Args:
        make_buffer: Makes the buffer, where the shard will live.
        engine: Where it lives.
        ahead: How many samples are drawn in advance while a learner learns. Priorities count in later ones.
        call_timeout_s: A shard that takes longer is given up. None waits for ever.
        max_restarts: The number of shards in a row that may die without storing anything.
        counts: Where to count; by default, a new counter.

    Attributes:
        counts: shards_died (or hung), and shard_steps_lost: those that were stored, or on the way.

    Raises:
        EngineError: If an argument is invalid.

    >>> from episodia import SingleAgentEpisode
    >>> from episodia.dataflow import ThreadEngine
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], len_lookback_buffer=0)
    >>> with ThreadEngine() as engine:
    ...     shard = ReplayShard(lambda: ReplayBuffer(100, seed=0), engine)
    ...     shard.add([walk])
    ...     len(shard), shard.sample(3).flat("actions").values.tolist()
    (2, [6, 5, 5])
    """

    def __init__(
        self,
        make_buffer: Callable[[], ReplayBuffer],
        engine: Engine,
        *,
        ahead: int = 0,
        call_timeout_s: float | None = None,
        max_restarts: int = 100,
        counts: Counter[str] | None = None,
    ) -> None:
        where = "ReplayShard"
        self._ahead = checked_whole(EngineError, where, "ahead", ahead, 0)
        self._max_restarts = checked_whole(EngineError, where, "max_restarts", max_restarts, 0)
        if call_timeout_s is not None:
            checked_number(EngineError, where, "call_timeout_s", call_timeout_s, 0.0)
        self._timeout_s = None if engine.is_serial else call_timeout_s
        self._make, self._engine = partial(_Host, make_buffer), engine
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._worker = engine.start(self._make)
        self._line: deque[Call] = deque()  # calls that are not over, in order
        self._writes: deque[_Write] = deque()
        self._samples: deque[tuple[tuple[Any, ...], Call]] = deque()
        self._num_steps = self._deaths = 0
        self._has_priorities: bool | None = None

    def __repr__(self) -> str:
        return f"ReplayShard({self._num_steps} steps, {type(self._engine).__name__}, {dict(self.counts)})"

    # --- As a buffer ------------------------------------------------------------------------------------------------

    def add(self, episodes: Iterable[Any]) -> None:
        """Send episodes; an error of the buffer's own is raised by a later call."""
        listed = EpisodeList.of(episodes)
        self._write("add", listed, num_new=int(listed.lengths.sum()))

    def update_newest(self, values: Item) -> None:
        """Send values of the steps that the last `add` has stored."""
        self._write("update_newest", values)

    def update_priorities(self, keys: Item, values: Item) -> None:
        """Send new values of sampled steps."""
        self._write("update_priorities", keys, values)

    def sample(self, num: int, draw: Draw = Transitions(), *, lookback: int = 0) -> EpisodeList[Any]:  # noqa: B008  # frozen
        """Return a sample; see `ReplayBuffer.sample`.

        Raises:
            WorkerDiedError: If the shard has died or hangs. An empty one has taken its place.
        """
        self._settle()
        asked = (num, draw, lookback)
        if self._samples and self._samples[0][0] != asked:
            self._samples.clear()
        while len(self._samples) <= self._ahead:
            self._samples.append((asked, self._call("sample", *asked)))
        _, call = self._samples.popleft()
        found: EpisodeList[Any] = self._result(call)
        return found

    @property
    def has_priorities(self) -> bool:
        """Whether draws depend on the values that `update_priorities` writes."""
        if self._has_priorities is None:
            self._has_priorities = bool(self._asked("has_priorities"))
        return self._has_priorities

    def __len__(self) -> int:
        with suppress(WorkerDiedError):  # counted; its successor is empty
            self._settle()
        return self._num_steps

    def clear(self) -> None:
        """Forget all episodes."""
        self._samples.clear()
        self._write("clear")

    def get_state(self) -> State:
        """Return the state of the buffer; samples that were drawn in advance are dropped."""
        self._samples.clear()
        state: State = self._asked("get_state")
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a shard, or of a `ReplayBuffer`."""
        self._samples.clear()
        self._num_steps = self._asked("set_state", state)

    def close(self) -> None:
        """End the worker; what it holds is gone."""
        self._worker.kill()

    # --- Calls ------------------------------------------------------------------------------------------------------

    def _write(self, method: str, *arguments: Any, num_new: int = 0) -> None:
        if len(self._writes) >= _MOST_WRITES:
            with suppress(WorkerDiedError):
                self._settle()
        self._writes.append(_Write(self._call("write", method, arguments), num_new))

    def _settle(self) -> None:
        """Wait until all that was sent is stored.

        Raises:
            WorkerDiedError: If it is lost with the shard.
            Exception: An error of the buffer's own.
        """
        while self._writes:
            self._num_steps = self._result(self._writes[0].call)
            self._writes.popleft()
            self._deaths = 0

    def _asked(self, method: str, *arguments: Any) -> Any:
        """Return what the buffer answers; if the shard dies, its successor is asked."""
        while True:
            with suppress(WorkerDiedError):
                self._settle()
                return self._result(self._call(method, *arguments))

    def _call(self, method: str, *arguments: Any) -> Call:
        self._line.append(self._worker.call(method, *arguments))
        return self._line[-1]

    def _result(self, call: Call) -> Any:
        try:
            if self._is_over(call):
                return call.result()
            cause = None
        except WorkerDiedError as error:
            cause = error
        except Exception:
            if self._writes and self._writes[0].call is call:
                self._writes.popleft()  # the shard goes on without it
            raise
        why, num_lost = "hangs" if cause is None else "has died", self._replace(cause)
        raise WorkerDiedError(
            f"ReplayShard: found that it {why}, and that {num_lost} steps are lost, expected an answer. An empty one is in "
            "its place: fill it."
        ) from cause

    def _is_over(self, call: Call) -> bool:
        """Wait for a call, and those before it: its time begins when it is the first in line."""
        while call in self._line:
            over = self._engine.wait([self._line[0]], self._timeout_s)
            if over:
                self._line.popleft()
            elif not self._worker.may_take_longer():
                return False
        return True

    def _replace(self, cause: WorkerDiedError | None) -> int:
        """Start an empty shard, and return how many steps are lost."""
        num_lost = self._num_steps + sum(write.num_new for write in self._writes)
        self._deaths += 1
        self.counts["shards_died"] += 1
        self.counts["shard_steps_lost"] += num_lost
        if self._deaths > self._max_restarts:
            raise EngineError(
                f"ReplayShard: found that {self._deaths} shards in a row have died or hung, expected one that stores. Look for "
                "the reason where they live, such as their memory, or raise `max_restarts=`."
            ) from cause
        for waiting in (self._line, self._writes, self._samples):
            waiting.clear()
        self._num_steps = 0
        self._worker.kill()
        self._worker = self._engine.start(self._make)
        return num_lost


@final
class _Host:
    """Answers the calls of a shard with its buffer."""

    def __init__(self, make_buffer: Callable[[], ReplayBuffer]) -> None:
        self._buffer = make_buffer()

    def write(self, method: str, arguments: tuple[Any, ...]) -> int:
        """Change the buffer, and return how many steps it has."""
        getattr(self._buffer, method)(*arguments)
        return len(self._buffer)

    def sample(self, num: int, draw: Draw, lookback: int) -> EpisodeList[Any]:
        """Return a sample that later changes of the buffer do not matter to."""
        return self._buffer.sample(num, draw, lookback=lookback).load()

    def has_priorities(self) -> bool:
        """Tell whether draws depend on priorities."""
        return self._buffer.has_priorities

    def get_state(self) -> State:
        """Return the state of the buffer."""
        return self._buffer.get_state()

    def set_state(self, state: State) -> int:
        """Let the buffer go on from `state`, and return how many steps it has."""
        self._buffer.set_state(state)
        return len(self._buffer)
