"""Plans: a training as a flow of metrics, one item for each update."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from episodia.arguments import checked_choice
from episodia.dataflow import Flow, GradientsThere, PrioritiesThere, Pulled, ReplayShard, RunnerGroup, Updates
from episodia.dataflow import plans as flows
from episodia.errors import TrainingError

if TYPE_CHECKING:
    from episodia.training.training import Training

# Returns a flow of metrics over the runner and the learner of a training.
Plan: TypeAlias = "Callable[[Training], Flow]"


def loop(training: Training) -> Flow:
    """Collect episodes, learn from them, and copy the weights: the plan of one runner, and of groups in rounds."""
    return Flow(Pulled(training.collect), name="loop").for_each(training.learn).tap(training.send_weights)


def rounds(training: Training) -> Flow:
    """All runners play, and the learner learns from what they have played together: A2C and PPO as flows."""
    recipe: Any = training.recipe
    group, how = training.runner, {"num_epochs": recipe.num_epochs, "minibatch_size": recipe.minibatch_size}
    return flows.in_rounds(group, training.learner, **recipe.wanted, **how)


def a3c(training: Training) -> Flow:
    """Runners compute gradients where they are, which are applied as they come."""
    group = training.runner
    on_cpu = replace(_setup_of(training), device="cpu")
    return flows.a3c(group, training.learner, then=GradientsThere(on_cpu.new_learner), **training.recipe.wanted)


def impala(training: Training) -> Flow:
    """Runners play while the learner learns: IMPALA, and asynchronous PPO."""
    recipe: Any = training.recipe
    how = {"num_epochs": recipe.num_epochs, "minibatch_size": recipe.minibatch_size}
    updates = Updates(training.learner, training.runner.engine, call_timeout_s=_time_limit_of(training), **how)
    return flows.impala(training.runner, updates, max_lag=recipe.max_lag, **recipe.wanted)


def replay(training: Training) -> Flow:
    """Rounds are stored, and learned from in proportion: DQN, SAC, R2D2 and their kin as flows."""
    return _from_replay(training, mode="bulk_sync")


def apex(training: Training) -> Flow:
    """Deliveries are stored as they come, in shards, with priorities that are computed where the runners are: Ape-X.

    New steps have the largest priority if the algorithm learns from errors of several steps (`n_step`) or of sequences. If
    runners live elsewhere, so do shards, each in a worker of its own.
    """
    recipe: Any = training.recipe
    _move_shards(training)
    then = None
    config: Any = training.learner.config
    # Runners measure errors of single steps. The steps of sequences share priorities, which only the buffer knows.
    if recipe.priority_exponent is not None and config.max_seq_len is None and config.n_step == 1:
        then = PrioritiesThere(replace(_setup_of(training), device="cpu").new_learner)
    return _from_replay(training, mode="async", then=then)


def _move_shards(training: Training) -> None:
    """Let shards live where runners do."""
    group: Any = training.runner
    updating: Any = training.updating
    if group.engine.is_in_process:
        return
    how = {"ahead": 1, "call_timeout_s": _time_limit_of(training), "counts": group.counts}
    for shard in updating.shards:
        shard.buffer = ReplayShard(partial(copy.copy, shard.buffer), group.engine, **how)


def _from_replay(training: Training, mode: str, then: PrioritiesThere | None = None) -> Flow:
    recipe: Any = training.recipe
    updating: Any = training.updating

    def is_warming_up() -> bool:
        return bool(recipe.random_warm_up) and sum(len(shard.buffer) for shard in updating.shards) < recipe.warm_up

    return flows.from_replay(
        training.runner,
        updating.shards,
        num_timesteps=recipe.num_timesteps,
        warm_up=recipe.warm_up,
        updates_per_step=recipe.updates_per_step,
        mode=mode,
        then=then,
        random_actions=is_warming_up,
    )


def _time_limit_of(training: Training) -> float | None:
    """Return how long a worker may take for a call."""
    return None if training.setup is None else training.setup.workers.call_timeout_s


def _setup_of(training: Training) -> Any:
    if training.setup is None:
        raise TrainingError(
            "plan: found a training without a setup, expected one, because runners make learners of their own. Use "
            "`Training.of(setup)`, or pass `flow=` with `episodia.dataflow.plans`."
        )
    return training.setup


PLANS: Mapping[str, Plan] = {
    "loop": loop,
    "rounds": rounds,
    "a3c": a3c,
    "impala": impala,
    "replay": replay,
    "apex": apex,
}


def checked_plan(where: str, plan: object, names: tuple[str, ...]) -> str | Plan:
    """Return a plan of a recipe: a name, or a function.

    Raises:
        TrainingError: If it is neither a function nor one of `names`.
    """
    if callable(plan):
        return plan
    return checked_choice(TrainingError, where, "plan", plan, names)


def flow_of(plan: str | Plan, training: Training) -> Flow:
    """Return the flow of a plan.

    Raises:
        TrainingError: If a plan that needs a group has one runner, or returns no flow.
    """
    if plan != "loop" and not isinstance(training.runner, RunnerGroup):
        raise TrainingError(
            f"plan: found {plan!r} with {training.runner!r}, expected a `RunnerGroup`. Pass `num_runners=`, or a group."
        )
    made: object = (PLANS[plan] if isinstance(plan, str) else plan)(training)
    if not isinstance(made, Flow):
        raise TrainingError(f"plan: found that {plan!r} returned {made!r}, expected a `Flow` of metrics. Return one.")
    return made
