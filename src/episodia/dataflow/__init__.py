"""Algorithms as flows over runners, buffers and learners; engines say where these live."""

from episodia.dataflow.deliveries import Delivery
from episodia.dataflow.engines.engine import Call, Engine, Handle, Worker
from episodia.dataflow.engines.local_engine import LocalEngine
from episodia.dataflow.engines.thread_engine import ThreadEngine
from episodia.dataflow.flows.concurrently import ALL, concurrently, union
from episodia.dataflow.flows.duplicate import duplicate
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.gates import RatioGates, at_least
from episodia.dataflow.flows.rollouts import rollouts
from episodia.dataflow.flows.sources import NOTHING, Pending, Pulled, Source
from episodia.dataflow.ledger import Ledger
from episodia.dataflow.rounds import Rounds
from episodia.dataflow.runner_group import RunnerGroup, episodes_of

__all__ = [
    "ALL",
    "NOTHING",
    "Call",
    "Delivery",
    "Engine",
    "Flow",
    "Handle",
    "Ledger",
    "LocalEngine",
    "Pending",
    "Pulled",
    "RatioGates",
    "Rounds",
    "RunnerGroup",
    "Source",
    "ThreadEngine",
    "Worker",
    "at_least",
    "concurrently",
    "duplicate",
    "episodes_of",
    "rollouts",
    "union",
]
