"""Random episodes and small learners for tests of joint updates; workers of Ray import this module."""

import numpy as np
import torch
from gymnasium import spaces

from episodia import SingleAgentEpisode
from episodia.learners import Learner, LearnerHook, LossOutputs
from episodia.modules import LSTMActorCritic, MLPActorCritic

OBSERVATIONS, ACTIONS = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)


def walks(lengths, seed=0, modules=(None,)):
    """Return a random chunk of an episode of each length, for one module after another."""
    rng = np.random.default_rng(seed)
    return [
        SingleAgentEpisode(
            f"walk {seed}-{number}",
            module_id=modules[number % len(modules)],
            agent_id=modules[number % len(modules)],
            observations=rng.uniform(-1, 1, (length + 1, 3)).astype(np.float32),
            actions=rng.integers(0, 2, length),
            rewards=rng.normal(size=length),
            terminated=bool(number % 2),
            truncated=not number % 2,
            extra_model_outputs={
                "action_logp": np.log(rng.uniform(0.3, 0.7, length)).astype(np.float32),
                "state_out": {key: rng.normal(size=(length, 4)).astype(np.float32) for key in ("h", "c")},
                "action_dist_inputs": rng.normal(size=(length, 2)).astype(np.float32),
            },
            len_lookback_buffer=0,
        ).finalize()
        for number, length in enumerate(lengths)
    ]


def mlp(seed=0, hidden=(8,)):
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=hidden, generator=torch.Generator().manual_seed(seed))


def lstm(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return LSTMActorCritic(OBSERVATIONS, ACTIONS, hidden=(8,), cell_size=4, generator=generator)


class SpoiltByNines(LearnerHook):
    """Makes the loss of rows with a 9 among their observations NaN."""

    def after_loss(self, module_id, outputs):
        factor = float("nan") if self.is_spoilt else 1.0
        return LossOutputs(
            {name: loss * factor for name, loss in outputs.losses.items()}, outputs.metrics, outputs.rows
        )

    def before_loss(self, module_id, inputs):
        self.is_spoilt = bool((inputs.batch["obs"] == 9.0).any())
        return inputs


def learner_of(config, make=mlp, names=None):
    """Return a learner with one module, or with several by their names."""
    modules = make() if names is None else {name: make(seed) for seed, name in enumerate(names)}
    return Learner(modules, config, seed=3, hooks=[SpoiltByNines()])
