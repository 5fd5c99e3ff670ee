"""Algorithms as flows over runners, buffers and learners; engines say where these live."""

from episodia.dataflow.deliveries import Delivery, WithEpisodes
from episodia.dataflow.engines.engine import Call, Engine, Handle, Worker
from episodia.dataflow.engines.local_engine import LocalEngine
from episodia.dataflow.engines.ray_engine import RayEngine
from episodia.dataflow.engines.thread_engine import ThreadEngine
from episodia.dataflow.flows.concurrently import ALL, concurrently, union
from episodia.dataflow.flows.duplicate import duplicate
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.gates import RatioGates, at_least
from episodia.dataflow.flows.rollouts import rollouts
from episodia.dataflow.flows.sources import NOTHING, Pending, Pulled, Source
from episodia.dataflow.learner_groups.allocation import allocate
from episodia.dataflow.learner_groups.gradient_workers import GradientWorkers
from episodia.dataflow.learner_groups.learner_group import LearnerGroup
from episodia.dataflow.learner_groups.policy_hosts import PolicyHosts
from episodia.dataflow.rounds import Rounds
from episodia.dataflow.runner_group import RunnerGroup, episodes_of
from episodia.dataflow.updates.concat_steps import ConcatSteps
from episodia.dataflow.updates.delivery_stages import DropStale, select_modules
from episodia.dataflow.updates.learner_stages import (
    GradientsThere,
    PrioritiesThere,
    apply_gradients,
    compute_gradients,
    send_weights,
    train_modules,
    train_one_step,
)
from episodia.dataflow.updates.learner_worker import Updated, Updates
from episodia.dataflow.updates.replay_shard import ReplayShard
from episodia.dataflow.updates.replaying import replay, replayed_lists, store
from episodia.dataflow.updates.reporting import Every, Report, counters_of

__all__ = [
    "ALL",
    "NOTHING",
    "Call",
    "ConcatSteps",
    "Delivery",
    "DropStale",
    "Engine",
    "Every",
    "Flow",
    "GradientWorkers",
    "GradientsThere",
    "Handle",
    "LearnerGroup",
    "LocalEngine",
    "Pending",
    "PolicyHosts",
    "PrioritiesThere",
    "Pulled",
    "RatioGates",
    "RayEngine",
    "ReplayShard",
    "Report",
    "Rounds",
    "RunnerGroup",
    "Source",
    "ThreadEngine",
    "Updated",
    "Updates",
    "WithEpisodes",
    "Worker",
    "allocate",
    "apply_gradients",
    "at_least",
    "compute_gradients",
    "concurrently",
    "counters_of",
    "duplicate",
    "episodes_of",
    "replay",
    "replayed_lists",
    "rollouts",
    "select_modules",
    "send_weights",
    "store",
    "train_modules",
    "train_one_step",
    "union",
]


def __dir__() -> list[str]:
    return sorted(__all__)
