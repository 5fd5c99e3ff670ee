"""Plans: algorithms as flows of metrics over a group of runners and a learner, one item for each update."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from episodia.dataflow.flows.concurrently import concurrently
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.rollouts import rollouts
from episodia.dataflow.runner_group import RunnerGroup
from episodia.dataflow.updates.concat_steps import ConcatSteps
from episodia.dataflow.updates.delivery_stages import DropStale
from episodia.dataflow.updates.learner_stages import apply_gradients, train_one_step
from episodia.dataflow.updates.learner_worker import Updated, Updates
from episodia.dataflow.updates.replaying import replay, store
from episodia.learners import Learner, Metrics, ReplayUpdates
from episodia.learners.update_metrics import mean_of_updates


def share_of(group: RunnerGroup, num_timesteps: int) -> int:
    """Return how many steps each runner plays so that all together play at least `num_timesteps`."""
    return ceil(num_timesteps / group.num_runners)


def in_rounds(group: RunnerGroup, learner: Learner, *, num_timesteps: int, **how: Any) -> Flow:
    """Return A2C, or PPO with several epochs: all runners play, and the learner learns from what they have played together.

    Args:
        group: The group.
        learner: The learner.
        num_timesteps: How many steps an update learns from.
        **how: Arguments of `Learner.update`.
    """
    played = rollouts(group, num_timesteps=share_of(group, num_timesteps)).flatten()
    return played.combine(ConcatSteps(num_timesteps)).for_each(train_one_step(learner, group, **how))


def a3c(group: RunnerGroup, learner: Learner, *, num_timesteps: int) -> Flow:
    """Return A3C: runners compute gradients where they are, which are applied as they come.

    Args:
        group: The group, made with `then=GradientsThere(make_learner)`.
        learner: Applies the gradients.
        num_timesteps: How many steps all runners together play for their next gradients.
    """
    arrived = rollouts(group, "async", num_timesteps=share_of(group, num_timesteps))
    gradients = arrived.for_each(lambda delivery: delivery.episodes)
    return gradients.batch(1).for_each(apply_gradients(learner, group))


def impala(
    group: RunnerGroup, updates: Updates, *, num_timesteps: int, min_steps: int, max_lag: int | None = None
) -> Flow:
    """Return IMPALA, or asynchronous PPO: runners play while a learner learns, and neither waits longer than room allows.

    Args:
        group: The group.
        updates: The learner in its worker. Losses have to cope with steps of older weights, as V-trace or clipped ratios do.
        num_timesteps: How many steps all runners together play for one delivery of each.
        min_steps: How many steps an update learns from.
        max_lag: See `DropStale`; None drops nothing.
    """
    played = rollouts(group, "async", num_timesteps=share_of(group, num_timesteps))
    fresh = played if max_lag is None else played.combine(DropStale(group, max_lag))
    feed = fresh.combine(ConcatSteps(min_steps)).tap(updates.put).gated(updates.has_room)

    def take_over(updated: Updated) -> Metrics:
        weights = updated.weights
        group.set_weights(weights if group.is_multi_agent else next(iter(weights.values())))
        return updated.metrics

    return concurrently([feed, Flow(updates).for_each(take_over)], mode="async", output=[1])


def from_replay(
    group: RunnerGroup,
    shards: Sequence[ReplayUpdates],
    *,
    num_timesteps: int,
    warm_up: int,
    updates_per_step: float,
    mode: str = "async",
) -> Flow:
    """Return DQN, SAC and their kin, and Ape-X with several shards: what is played is stored, and learned from in proportion.

    Args:
        group: The group.
        shards: The updates from a buffer, or from each of several shards.
        num_timesteps: How many steps all runners together play for one delivery of each.
        warm_up: How many rows there have to be in each shard before the first update.
        updates_per_step: The number of updates for each step; it may be a fraction.
        mode: `"async"`: as deliveries come. `"bulk_sync"`: in rounds.
    """
    share = share_of(group, num_timesteps)
    played = rollouts(group, mode, num_timesteps=share)
    stored = (played if mode == "async" else played.flatten()).tap(store(*(own.buffer for own in shards)))
    learned = replay(shards, group, warm_up=warm_up, steps=lambda: group.num_steps)
    both = concurrently([stored, learned], weights=[1, updates_per_step * share], output=[1])
    return both.batch(max(1, round(updates_per_step * share))).for_each(mean_of_updates)
