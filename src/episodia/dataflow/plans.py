"""Plans: algorithms as flows of metrics over a group of runners and a learner, one item for each update."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from episodia.dataflow.flows.concurrently import concurrently
from episodia.dataflow.flows.duplicate import duplicate
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.rollouts import made_there, rollouts
from episodia.dataflow.runner_group import RunnerGroup, episodes_of
from episodia.dataflow.updates.concat_steps import ConcatSteps
from episodia.dataflow.updates.delivery_stages import DropStale, select_modules
from episodia.dataflow.updates.learner_stages import GradientsThere, PrioritiesThere, apply_gradients, train_one_step
from episodia.dataflow.updates.learner_worker import Updated, Updates
from episodia.dataflow.updates.replaying import replay, replayed_lists, store
from episodia.episodes import EpisodeList
from episodia.errors import FlowError
from episodia.learners import Learner, Metrics, ReplayUpdates
from episodia.learners.update_metrics import mean_of_updates
from episodia.replay import ReplayBuffer, Sequences


def _share_of(group: RunnerGroup, num_timesteps: int) -> int:
    """Return how many steps each runner plays so that all together play at least `num_timesteps`."""
    return ceil(num_timesteps / group.num_runners)


def shared(group: RunnerGroup, num_timesteps: int | None, num_episodes: int | None) -> dict[str, Any]:
    """Return what each runner plays so that all together play so many steps, or episodes."""
    if num_episodes is not None:
        return {"num_episodes": _share_of(group, num_episodes)}
    return {"num_timesteps": _share_of(group, 0 if num_timesteps is None else num_timesteps)}


def in_rounds(
    group: RunnerGroup,
    learner: Learner,
    *,
    num_timesteps: int | None = None,
    num_episodes: int | None = None,
    **how: Any,
) -> Flow:
    """Return A2C, or PPO with several epochs: all runners play, and the learner learns from what they have played together.

    Args:
        group: The group.
        learner: The learner.
        num_timesteps: The number of steps that an update learns from.
        num_episodes: The number of episodes instead.
        **how: Arguments of `Learner.update`.
    """
    played = rollouts(group, **shared(group, num_timesteps, num_episodes))
    in_steps = num_episodes is None
    lists = played.flatten().combine(ConcatSteps(num_timesteps or 1)) if in_steps else played.for_each(episodes_of)
    return lists.for_each(train_one_step(learner, group, **how))


def a3c(
    group: RunnerGroup,
    learner: Learner,
    *,
    then: GradientsThere | None = None,
    num_timesteps: int | None = None,
    num_episodes: int | None = None,
) -> Flow:
    """Return A3C: runners compute gradients where they are, which are applied as they come.

    Args:
        group: The group.
        learner: Applies the gradients.
        then: What computes the gradients; None if the group was made with it.
        num_timesteps: The number of steps that all runners together play for their next gradients.
        num_episodes: The number of episodes instead.
    """
    gradients = rollouts(group, "raw", then=then, **shared(group, num_timesteps, num_episodes))
    return gradients.batch(1).for_each(apply_gradients(learner, group))


def impala(
    group: RunnerGroup,
    updates: Updates,
    *,
    num_timesteps: int | None = None,
    num_episodes: int | None = None,
    max_lag: int | None = None,
) -> Flow:
    """Return IMPALA, or asynchronous PPO: runners play while a learner learns, and neither waits longer than room allows.

    Args:
        group: The group.
        updates: The learner in its worker. Losses have to cope with steps of older weights, as V-trace or clipped ratios do.
        num_timesteps: The number of steps that an update learns from; a delivery of each runner has as many together.
        num_episodes: The number of episodes instead.
        max_lag: See `DropStale`; None drops nothing.
    """
    played = rollouts(group, "async", **shared(group, num_timesteps, num_episodes))
    fresh = played if max_lag is None else played.combine(DropStale(group, max_lag))
    if num_episodes is None:
        lists = fresh.combine(ConcatSteps(num_timesteps or 1))
    else:
        lists = fresh.batch(group.num_runners).for_each(episodes_of)

    def put(episodes: EpisodeList[Any]) -> None:
        updates.put(episodes, group.acted_with)

    feed = lists.tap(put).gated(updates.has_room, "feed")

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
    then: PrioritiesThere | None = None,
    **wanted: Any,
) -> Flow:
    """Return DQN, SAC and their kin, and Ape-X with several shards: what is played is stored, and learned from in proportion.

    Args:
        group: The group.
        shards: The updates from a buffer, or from each of several shards.
        num_timesteps: The number of steps that all runners together play for one delivery of each.
        warm_up: How many rows there have to be in all shards together before the first update.
        updates_per_step: The number of updates for each step; it may be a fraction.
        mode: `"async"`: as deliveries come. `"bulk_sync"`: in rounds.
        then: What computes priorities where the runners are; None gives new steps the largest one.
        **wanted: Other arguments of a runner's `sample`.

    Raises:
        FlowError: If there are more shards than runners.
    """
    if len(shards) > group.num_runners:
        raise FlowError(
            f"from_replay: found {len(shards)} shards and {group.num_runners} runners, expected one for each shard, because "
            "others stay empty. Use fewer shards, or more runners."
        )
    share = _share_of(group, num_timesteps)
    played = rollouts(group, mode, then=then, num_timesteps=share, **wanted)
    stored = (played if mode == "async" else played.flatten()).tap(store(*(own.buffer for own in shards)))
    learned = replay(shards, group, warm_up=ceil(warm_up / len(shards)), steps=lambda: group.num_steps)
    both = concurrently([stored, learned], weights=[1, updates_per_step * share], output=[1])
    return both.batch(max(1, round(updates_per_step * share))).for_each(mean_of_updates)


def two_trainers(
    group: RunnerGroup,
    learner: Learner,
    updates: ReplayUpdates,
    *,
    num_timesteps: int,
    warm_up: int,
    updates_per_step: float,
    **how: Any,
) -> Flow:
    """Return PPO and DQN in one environment with many agents: each learner learns from what the agents of its modules do.

    Args:
        group: The group.
        learner: Learns from what was just played, such as PPO.
        updates: Learns from replay, such as DQN; its learner has other modules.
        num_timesteps: The number of steps that an update of `learner` learns from.
        warm_up: How many rows there have to be before the first update from replay.
        updates_per_step: The number of updates from replay for each step.
        **how: Arguments of `Learner.update`, for `learner`.
    """
    share = _share_of(group, num_timesteps)
    for_both = rollouts(group, num_timesteps=share).flatten()
    first, second = duplicate(for_both)
    lists = first.combine(ConcatSteps(num_timesteps)).for_each(select_modules(*learner.modules))
    on_policy = lists.for_each(train_one_step(learner, group, **how))
    stored = second.for_each(made_there).for_each(select_modules(*updates.learner.modules)).tap(updates.buffer.add)
    learned = replay(updates, group, warm_up=warm_up)
    from_buffer = concurrently([stored, learned], weights=[1, updates_per_step * share], output=[1])
    return concurrently([on_policy, from_buffer], mode="async", name="two_trainers")


def with_replay(  # noqa: PLR0913  # each is an independent choice
    group: RunnerGroup,
    learner: Learner,
    buffer: ReplayBuffer,
    *,
    num_timesteps: int,
    num_replayed: int,
    warm_up: int,
    replayed_per_round: float = 1.0,
    draw: Any = None,
) -> Flow:
    """Return an algorithm that learns from what was just played, such as A2C, with a replay buffer put into it.

    Args:
        group: The group.
        learner: The learner. Its loss has to cope with steps of older weights, as that of IMPALA does.
        buffer: The buffer.
        num_timesteps: The number of steps that an update with new episodes learns from.
        num_replayed: The number of stretches of a sample.
        warm_up: How many rows there have to be before the first sample.
        replayed_per_round: How many updates with samples for each one with new episodes.
        draw: What a sample is made of; by default, stretches of 20 steps.
    """
    stretches = Sequences(20) if draw is None else draw
    played = rollouts(group, num_timesteps=_share_of(group, num_timesteps)).flatten().tap(store(buffer))
    fresh = played.combine(ConcatSteps(num_timesteps))
    old = replayed_lists(buffer, num_replayed, stretches, warm_up=warm_up, lookback=learner.pipeline.lookback)
    lists = concurrently([fresh, old], weights=[1, replayed_per_round], name="with_replay")
    return lists.for_each(train_one_step(learner, group))
