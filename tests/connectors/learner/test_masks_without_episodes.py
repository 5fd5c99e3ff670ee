"""Action masks for the loss are read from columns; recorded episodes are not built for them."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.columns import Columns
from episodia.env_runners import SingleAgentEnvRunner
from episodia.learners import Learner, ReinforceConfig
from episodia.modules import RandomModule, default_module

PLAIN = spaces.Box(0.0, 1.0, (2,))
MASKED = spaces.Dict(board=PLAIN, action_mask=spaces.MultiBinary(2))


class Game(gymnasium.Env):
    """Five steps, in turn with the first and with the second action allowed."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observation(), {}

    def step(self, action):
        self.t += 1
        return self.observation(), 1.0, self.t == 5, False, {}

    def observation(self):
        board, mask = np.zeros(2, np.float32), np.array([self.t % 2, 1 - self.t % 2], np.int8)
        return board if self.observation_space is PLAIN else {"board": board, "action_mask": mask}


@pytest.mark.parametrize("space", [PLAIN, MASKED])
def test_recorded_episodes_are_not_built_for_masks(space):
    module = default_module(space, spaces.Discrete(2), hidden=())
    runner = SingleAgentEnvRunner(lambda: Game(space), RandomModule(space, spaces.Discrete(2)), num_envs=2)
    episodes = runner.sample(num_timesteps=10)

    batch = Learner(module, ReinforceConfig(), seed=0).batch_of(episodes)["default_policy"]

    assert episodes.is_untouched
    assert (Columns.ACTION_MASK in batch) == (space is MASKED)
    if space is MASKED:
        expected = torch.tensor([[t % 2, 1 - t % 2] for t in range(5)] * 2)
        assert torch.equal(batch[Columns.ACTION_MASK].long(), expected)
