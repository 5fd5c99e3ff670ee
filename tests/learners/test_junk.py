"""Whatever is passed to a learner or a config: it works, or an EpisodiaError says what is wrong and nothing has changed."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.errors import LearnerError
from episodia.learners import (
    A2CConfig,
    AdaptiveKL,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    EvaluatedSteps,
    GradientFunction,
    Learner,
    OptimizerConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    default_pipeline,
    minibatches,
)
from episodia.modules import MLPActorCritic
from junk import JUNK, arrays, problem_with, problems, problems_of_making
from refusals import same

CONFIG = PPOConfig(kl_coefficient=AdaptiveKL())
COLUMNS = ("obs", "actions", "advantages", "action_logp", "value_targets", "loss_mask")


def module():
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=(4,), generator=torch.Generator().manual_seed(0))


def learner():
    made = Learner(module(), CONFIG, seed=0)
    made.update([drive(4)])
    return made


LEARNER = learner()
BATCH = LEARNER.batch_of([drive(5)])
GRADIENTS = LEARNER.compute_gradients(BATCH)
STATE = LEARNER.get_state()


def with_column(name, junk):
    return {"default_policy": {**BATCH["default_policy"], name: junk}}


def state_with(part, key, junk):
    """Return a state in which one part, or one entry of it, is junk."""
    return {**STATE, part: junk if key is None else {**STATE[part], key: junk}}


MEMORY = STATE["optimizers"][0]["parameters"]["actor_head.bias"]


def with_memories(junk):
    """Return a state whose only optimizer remembers junk."""
    return {**STATE, "optimizers": [{**STATE["optimizers"][0], "parameters": junk}]}


def snapshot(target):
    return arrays(target.get_state())


CALLS = {
    "update": lambda it, junk: it.update(junk),
    "update([])": lambda it, junk: it.update([junk]),
    "batch_of": lambda it, junk: it.batch_of(junk),
    **{
        f"update({name})": lambda it, junk, name=name: it.update([drive(4)], **{name: junk})
        for name in ("minibatch_size", "shuffle")
    },
    # A large number of epochs is no mistake: it takes its time.
    "update(num_epochs)": lambda it, junk: it.update(
        [drive(4)], num_epochs=2 if junk is JUNK["a large number"] else junk
    ),
    **{
        f"{name}({what})": lambda it, junk, name=name, make=make: getattr(it, name)(make(junk))
        for name in ("update_batch", "compute_gradients", "num_steps_of")
        for what, make in {
            "batch": lambda junk: junk,
            "columns": lambda junk: {"default_policy": junk},
            **{column: lambda junk, column=column: with_column(column, junk) for column in COLUMNS},
        }.items()
    },
    "apply_gradients": lambda it, junk: it.apply_gradients(junk, weights=[1]),
    "apply_gradients([])": lambda it, junk: it.apply_gradients([junk], weights=[1]),
    "apply_gradients(one)": lambda it, junk: it.apply_gradients(
        [{**GRADIENTS, next(iter(GRADIENTS)): junk}], weights=[1]
    ),
    "apply_gradients(weights)": lambda it, junk: it.apply_gradients([GRADIENTS], weights=junk),
    "apply_gradients(weight)": lambda it, junk: it.apply_gradients([GRADIENTS], weights=[junk]),
    "apply_gradients(by module)": lambda it, junk: it.apply_gradients([GRADIENTS], weights=[{"default_policy": junk}]),
    "set_weights": lambda it, junk: it.set_weights(junk),
    "set_weights({})": lambda it, junk: it.set_weights({"default_policy": junk}),
    "set_weights(one)": lambda it, junk: it.set_weights(
        {"default_policy": {**STATE["weights"]["default_policy"], "actor_head.bias": junk}}
    ),
    "get_state": lambda it, junk: it.get_state(junk),
    "get_state([])": lambda it, junk: it.get_state([junk]),
    "set_state": lambda it, junk: it.set_state(junk),
    **{f"set_state({part})": lambda it, junk, part=part: it.set_state(state_with(part, None, junk)) for part in STATE},
    **{
        f"set_state({part}[{key}])": lambda it, junk, part=part, key=key: it.set_state(state_with(part, key, junk))
        for part in STATE
        if isinstance(STATE[part], dict)
        for key in STATE[part]
    },
    "set_state(optimizer)": lambda it, junk: it.set_state({**STATE, "optimizers": [junk]}),
    "set_state(memories)": lambda it, junk: it.set_state(with_memories(junk)),
    "set_state(memory)": lambda it, junk: it.set_state(with_memories({"actor_head.bias": junk})),
    "set_state(moment)": lambda it, junk: it.set_state(with_memories({"actor_head.bias": {**MEMORY, "exp_avg": junk}})),
    "set_state(coefficient)": lambda it, junk: it.set_state(
        state_with("coefficients", "default_policy", {"kl_coefficient": junk})
    ),
}

GRADIENT_CALLS = {
    "state": lambda it, junk: it(junk, BATCH),
    "batch": lambda it, junk: it(STATE, junk),
    "columns": lambda it, junk: it(STATE, {"default_policy": junk}),
    **{
        f"{part}": lambda it, junk, part=part: it(state_with(part, None, junk), BATCH)
        for part in GradientFunction.components
    },
    "num_steps": lambda it, junk: it(state_with("progress", "num_steps", junk), BATCH),
}


def made_and_used(config):
    """Let a learner with `config` learn; what a config accepts has to work."""
    Learner(module(), config, seed=0).update([drive(4, end="truncated")])


MAKING_CALLS = {
    "Learner(modules)": lambda junk: Learner(junk, CONFIG),
    "Learner({id: module})": lambda junk: Learner({"a": junk}, CONFIG),
    "Learner(config)": lambda junk: Learner(module(), junk),
    **{
        f"Learner({name})": lambda junk, name=name: Learner(module(), CONFIG, **{name: junk}).update([drive(4)])
        for name in ("observation_space", "action_space", "learner_pipeline", "seed", "device")
    },
    "GradientFunction(modules)": lambda junk: GradientFunction(junk, CONFIG),
    "GradientFunction(config)": lambda junk: GradientFunction(module(), junk),
    **{
        f"{config.__name__}({field.name})": lambda junk, config=config, name=field.name: made_and_used(
            config(**{name: junk})
        )
        for config in (ReinforceConfig, A2CConfig, PPOConfig)
        for field in fields(config)
    },
    **{
        f"AdaptiveKL({field.name})": lambda junk, name=field.name: made_and_used(
            PPOConfig(kl_coefficient=AdaptiveKL(**{name: junk}))
        )
        for field in fields(AdaptiveKL)
    },
    **{
        f"OptimizerConfig({field.name})": lambda junk, name=field.name: made_and_used(
            PPOConfig(optimizers=(OptimizerConfig(**{name: junk}),))
        )
        for field in fields(OptimizerConfig)
    },
    "PPOConfig(optimizers=[])": lambda junk: made_and_used(PPOConfig(optimizers=(junk,))),
    "PPOConfig(gradient_processors=[])": lambda junk: made_and_used(PPOConfig(gradient_processors=(junk,))),
    **{
        clip.__name__: lambda junk, clip=clip: made_and_used(PPOConfig(gradient_processors=(clip(junk),)))
        for clip in (ClipByGlobalNorm, ClipByNorm, ClipByValue)
    },
    "EvaluatedSteps(module)": lambda junk: EvaluatedSteps(junk, BATCH["default_policy"]),
    "EvaluatedSteps(batch)": lambda junk: EvaluatedSteps(module(), junk),
    "default_pipeline(config)": default_pipeline,
    "minibatches(batch)": lambda junk: list(minibatches(junk)),
    "minibatches(columns)": lambda junk: list(minibatches({"default_policy": junk})),
    **{
        f"minibatches({name})": lambda junk, name=name: next(minibatches(BATCH, **{name: junk}))
        for name in ("num_epochs", "minibatch_size", "rng")
    },
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_learner_takes_it_or_rejects_it_and_stays_as_it_was(call):
    assert problems(learner, call, snapshot) == {}


@pytest.mark.parametrize("call", GRADIENT_CALLS.values(), ids=GRADIENT_CALLS)
def test_gradients_are_computed_of_it_or_it_is_rejected(call):
    function = GradientFunction(module(), CONFIG)

    assert problems_of_making(lambda junk: call(function, junk)) == {}


@pytest.mark.parametrize("call", MAKING_CALLS.values(), ids=MAKING_CALLS)
def test_nothing_is_made_of_it_or_it_is_rejected(call):
    assert problems_of_making(call) == {}


LIKELY = {
    "no episodes": lambda it: it.update(None),
    "one episode": lambda it: it.update(drive(4)),
    "an unknown component": lambda it: it.get_state(["nope"]),
    "one component": lambda it: it.get_state("weights"),
    "a word as the seed": lambda _: Learner(module(), CONFIG, seed="a"),
    "a list of pieces": lambda _: Learner(module(), CONFIG, learner_pipeline=[]),
    "a word as a flag": lambda it: it.update([drive(4)], shuffle="no"),
    "columns without a module": lambda it: it.update_batch(BATCH["default_policy"]),
    "no modules": lambda it: it.compute_gradients(None),
    "gradients without a list": lambda it: it.apply_gradients(GRADIENTS, weights=[1]),
    "a weight without a list": lambda it: it.apply_gradients([GRADIENTS], weights=1),
    "a function that makes no optimizer": lambda _: made_and_used(
        PPOConfig(optimizers=(OptimizerConfig(optimizer=dict),))
    ),
    "a moment of another shape": lambda it: it.set_state(
        with_memories({"actor_head.bias": {**MEMORY, "exp_avg": torch.zeros(99)}})
    ),
}


@pytest.mark.parametrize("call", LIKELY.values(), ids=LIKELY)
def test_the_junk_that_is_most_likely_is_rejected(call):
    """So that the tests above, which allow what works, cannot pass by refusing nothing."""
    target = learner()
    before = snapshot(target)

    assert problem_with(lambda: call(target)) == (None, True)
    assert same(snapshot(target), before)


def test_a_loss_that_fails_is_told_with_its_module_and_its_columns():
    broken = module()
    broken.forward_train = lambda batch: batch["obs"] @ torch.zeros(7, 7)

    with pytest.raises(
        LearnerError, match=r"loss of 'default_policy'.*PPOConfig.*RuntimeError.*'obs'.*\[5, 2\]"
    ) as raised:
        Learner(broken, CONFIG).compute_gradients(BATCH)

    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize("processor", [lambda _: {}, lambda _: 1 / 0, len])
def test_a_gradient_processor_that_fails_leaves_the_learner_as_it_was(processor):
    target = Learner(module(), PPOConfig(gradient_processors=(processor,)), seed=0)
    before = snapshot(target)

    with pytest.raises(LearnerError, match="gradient processor"):
        target.update([drive(4)])
    assert same(snapshot(target), before)


@pytest.mark.parametrize("optimizers", [np.zeros(2), torch.zeros(2), np.array(["a", "b"]), 0, None])
def test_arrays_are_no_optimizers_of_actor_and_critics(optimizers):
    with pytest.raises(LearnerError, match="optimizers"):
        SACConfig(optimizers=optimizers)
