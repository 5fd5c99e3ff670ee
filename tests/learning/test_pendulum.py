"""Real-valued actions: Pendulum is learned within the steps that are written here, with every seed.

All seeds run with `pytest -m learning`, none with the other tests: one takes a minute.
"""

from __future__ import annotations

import numpy as np
import pytest

from episodia.training import train

# The recipe of docs/training.md.
PENDULUM = {"gamma": 0.9, "value_coefficient": 0.01, "num_timesteps": 4096, "num_epochs": 10, "minibatch_size": 128}


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(5))
def test_ppo_reaches_minus_400_on_pendulum_within_300_000_steps(seed):
    # Without a `target`: one lucky window of 20 episodes ends it too early. And with 4,096 steps for each update: with 1,024
    # noisy actions did well in the training, but their means let the pendulum whirl round, or held it aslant, from some
    # starts: -169 to -723 after 150,000 steps, with 8 seeds. Like this it was -154 to -213, with 13 seeds.
    with train("ppo", "Pendulum-v1", steps=200_000, seed=seed, progress=False, **PENDULUM) as training:
        returns = training.evaluate(100)

    # At random it is about -1,200; the best there is is about -150.
    assert np.mean(returns) >= -400.0
    assert training.steps <= 300_000
