"""Masks of the actions that are allowed after each step: the largest value that a target takes is that of an allowed action."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.connectors import FlattenObservations, NStepReturns
from episodia.learners import DQNConfig, LossInputs, ReplayedSteps
from episodia.replay import Sequences
from episodia.training import train

LENGTH = 5
VECTORS = spaces.Box(-1.0, 1.0, (2,), np.float32)
STEPS = {"steps": 64, "num_envs": 2, "num_timesteps": 16, "warm_up": 16, "batch_size": 8, "hidden": (8,)}


def allowed_at(t):
    return [t % 3 != action for action in range(3)] if t < LENGTH else [False] * 3


class ForbidOne(gym.Env):
    """At each step one of three actions is forbidden, and all of them at the end."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Dict({"observations": VECTORS, "action_mask": spaces.MultiBinary(3)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.shown(VECTORS.sample(), np.array(allowed_at(0), np.int8))

    def step(self, action):
        assert allowed_at(self.t)[action]
        self.t += 1
        observation, info = self.shown(VECTORS.sample(), np.array(allowed_at(self.t), np.int8))
        return observation, 1.0, self.t == LENGTH, False, info

    def shown(self, vector, mask):
        return {"observations": vector, "action_mask": mask}, {}


class ForbidOneInInfos(ForbidOne):
    observation_space = VECTORS

    def shown(self, vector, mask):
        return vector, {"action_mask": mask}


WHERE = {
    "observations": (ForbidOne, []),
    "flattened observations": (ForbidOne, [FlattenObservations()]),
    "infos": (ForbidOneInInfos, []),
}


@dataclass(frozen=True, kw_only=True)
class DQNOfTwoSteps(DQNConfig):
    """Adds up the rewards behind the draw."""

    def draw(self):
        return Sequences(2)

    def targets(self, device):
        return [NStepReturns(n=2)]


ALGORITHMS = {
    "dqn": {},
    "rainbow": {"n_step": 2},
    "r2d2": {"max_seq_len": 3, "burn_in": 1},
    "discrete_sac": {},
    DQNOfTwoSteps(): {},
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda each: str(each).split("(")[0])
def test_targets_know_which_actions_are_allowed_after_each_step(algorithm, where):
    env, connectors = WHERE[where]
    with train(algorithm, env, connectors=connectors, **STEPS, progress=False, **ALGORITHMS[algorithm]) as training:
        learner, buffer = training.learner, training.updating.buffer
        sample = buffer.sample(64, learner.config.draw(), lookback=learner.pipeline.lookback)
        (_, times), (_, last) = sample.steps(), sample.known_times()
        batch = learner.batch_of(sample)["default_policy"]

    found = ReplayedSteps(LossInputs(None, batch, {}), gamma=1.0).next_batch()["action_mask"]
    if "seq_lens" in batch:
        found = found[torch.arange(found.shape[1]) < batch["seq_lens"][:, None]]
    stretches = np.repeat(np.arange(len(sample)), sample.lengths)
    adds_up_later = isinstance(algorithm, DQNOfTwoSteps)
    ends = sample.t_started + sample.lengths if adds_up_later else last
    for t, end, stop, mask in zip(times, ends[stretches], last[stretches], found.tolist(), strict=True):
        after = min(t + (2 if adds_up_later else learner.config.n_step), end)
        # What follows an end has no value. A mask of an info is stored with the action that is chosen by it.
        is_known = after < (stop if where == "infos" else LENGTH)
        assert mask == (allowed_at(after) if is_known else [True] * 3)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("algorithm", [DQNConfig(), DQNOfTwoSteps()], ids=["one step", "two steps"])
def test_targets_of_new_episodes_know_which_actions_are_allowed_after_each_step(algorithm, where):
    env, connectors = WHERE[where]
    with train(algorithm, env, connectors=connectors, **STEPS, progress=False) as training:
        episodes = training.runner.sample(num_timesteps=24)
        batch = training.learner.batch_of(episodes)["default_policy"]

    found = ReplayedSteps(LossInputs(None, batch, {}), gamma=1.0).next_batch()["action_mask"].tolist()
    num_steps = 2 if isinstance(algorithm, DQNOfTwoSteps) else 1
    for episode in episodes:
        times = range(episode.t_started, episode.t)
        after = [min(t + num_steps, episode.t) for t in times]
        known = episode.t if where == "infos" else min(LENGTH, episode.t + 1)
        expected = [allowed_at(t) if t < known else [True] * 3 for t in after]
        assert [found.pop(0) for _ in times] == expected
