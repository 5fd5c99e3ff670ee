"""Peers: how ranks reach each other, in threads of one process or through `torch.distributed`."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed
from torch import Tensor

from episodia.errors import LostRankError


class Peers(ABC):
    """The joint operations of ranks; all ranks have to call the same ones, in the same order.

    Attributes:
        rank: The number of this one.
        num_ranks: How many there are.
    """

    rank: int
    num_ranks: int

    @abstractmethod
    def summed(self, numbers: Tensor) -> Tensor:
        """Return the sum of the float64 tensors of all ranks; all ranks get the same bits."""

    @abstractmethod
    def said_by_all(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order."""

    @abstractmethod
    def close(self) -> None:
        """Leave the others."""


class Meeting(ABC):
    """The place where ranks find each other."""

    @abstractmethod
    def enter(self, rank: int, num_ranks: int, device: torch.device) -> Peers:
        """Return the peers of a rank, when all have come.

        Raises:
            LostRankError: If not all come in time.
        """


@final
class ThreadMeeting(Meeting):
    """For ranks in threads of one process, such as one for each of its GPUs.

    Args:
        num_ranks: How many come.
        timeout_s: How long they wait for each other.
    """

    def __init__(self, num_ranks: int, timeout_s: float) -> None:
        self._barrier = threading.Barrier(num_ranks)
        self._timeout_s = timeout_s
        self._said: list[Any] = [None] * num_ranks

    def enter(self, rank: int, num_ranks: int, device: torch.device) -> Peers:
        """Return the peers of a rank."""
        peers = _ThreadPeers(self, rank, num_ranks)
        peers.said_by_all(None)
        return peers

    def exchange(self, rank: int, value: Any) -> list[Any]:
        """Return the values of all ranks."""
        self._said[rank] = value
        self._wait()
        said = list(self._said)
        self._wait()
        return said

    def _wait(self) -> None:
        try:
            self._barrier.wait(self._timeout_s)
        except threading.BrokenBarrierError as error:
            raise _lost("a thread", error) from error

    def abort(self) -> None:
        """End all waiting."""
        self._barrier.abort()


@final
class _ThreadPeers(Peers):
    def __init__(self, meeting: ThreadMeeting, rank: int, num_ranks: int) -> None:
        self._meeting = meeting
        self.rank, self.num_ranks = rank, num_ranks

    def summed(self, numbers: Tensor) -> Tensor:
        first, *others = [own.to(numbers.device) for own in self._meeting.exchange(self.rank, numbers)]
        total: Tensor = first.clone()
        for other in others:
            total += other
        return total

    def said_by_all(self, value: Any) -> list[Any]:
        return self._meeting.exchange(self.rank, value)

    def close(self) -> None:
        self._meeting.abort()


@final
class ProcessMeeting(Meeting):
    """For ranks in processes of their own, on one or several machines.

    Args:
        host: The machine of rank 0.
        port: The port of its store, see `opened_store`.
        timeout_s: How long ranks wait for each other.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._address = host, port
        self._timeout_s = timeout_s

    def enter(self, rank: int, num_ranks: int, device: torch.device) -> Peers:
        """Return the peers of a rank: gloo between CPUs, NCCL between GPUs."""
        limit = timedelta(seconds=self._timeout_s)
        try:
            store = _store(*self._address, timeout=limit)
            backend = "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:nccl"
            torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=num_ranks, timeout=limit)
        except (RuntimeError, ValueError) as error:
            raise _lost("another process", error) from error
        return _ProcessPeers(rank, num_ranks)


@final
class _ProcessPeers(Peers):
    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank, self.num_ranks = rank, num_ranks
        self._lost: LostRankError | None = None

    def summed(self, numbers: Tensor) -> Tensor:
        self._exchange(torch.distributed.all_reduce, numbers)
        return numbers

    def said_by_all(self, value: Any) -> list[Any]:
        said: list[Any] = [None] * self.num_ranks
        self._exchange(torch.distributed.all_gather_object, said, value)
        return said

    def _exchange(self, function: Callable[..., object], *arguments: Any) -> None:
        if self._lost is not None:
            raise self._lost  # another exchange might wait for ever
        try:
            function(*arguments)
        except RuntimeError as error:
            self._lost = _lost("another process", error)
            raise self._lost from error

    def close(self) -> None:
        torch.distributed.destroy_process_group()


def opened_store(timeout_s: float) -> tuple[Any, str, int]:
    """Return the store of a meeting in this process, with its host and port; it lives as long as it is referenced."""
    store = _store("0.0.0.0", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    return store, socket.gethostbyname(socket.gethostname()), store.port


def _store(host: str, port: int, **how: Any) -> Any:
    return torch.distributed.TCPStore(host, port, **how)  # type: ignore[attr-defined]  # torch does not export it to checkers


def _lost(who: str, error: Exception) -> LostRankError:
    return LostRankError(
        f"rank: found that {who} which learns together with this one does not answer ({error}), expected that it takes part. "
        "A `LearnerGroup` replaces it and repeats the update."
    )
