"""Views in real runs: what a module was shown when it acted is what a learner shows it, and frames are stored once."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.connectors import View, defaults
from episodia.env_runners import SingleAgentEnvRunner


class Wanders(gym.Env):
    """Ends after a number of steps that differs from episode to episode, terminated or truncated."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-9.0, 9.0, (2,), np.float32), "gear": spaces.Discrete(3, start=2)}
    )
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 9))
        return self._seen(), {}

    def step(self, action):
        self.left -= 1
        ended, timed_out = self.left == 0, self.left == 0 and bool(self.np_random.integers(2))
        return self._seen(), float(self.np_random.normal()), ended and not timed_out, timed_out, {}

    def _seen(self):
        place = self.np_random.uniform(-9.0, 9.0, 2).astype(np.float32)
        return {"place": place, "gear": np.int64(self.np_random.integers(2, 5))}


VIEWS = {
    "places": View("obs", shift="-3:0"),
    "last_action": View("actions", shift=-1),
    "last_rewards": View("rewards", shift=[-1, -4]),
    "ends": View("terminateds", shift=range(-2, 0)),
    "cuts": View("truncateds", shift=-1),
    "times": View("t", shift=range(-5, 1)),
    "env": View("env_index", shift=[-1, 0]),
    "agent": View("agent_index"),
    "weights": View("weights_version", shift=[-4, -1]),
    "mood_before": View("mood", shift="-4:-1:3", fill=np.zeros(2, np.float32)),
}


class TellsWhatItSees:
    """Acts at random, and puts out what its views show beside its actions."""

    observation_space = action_space = None
    views = VIEWS

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def forward_exploration(self, batch):
        rows = len(batch["last_action"])
        told = {f"saw_{name}": batch[name] for name in VIEWS if name != "places"}
        told |= {f"saw_{part}": batch["places"][part] for part in ("place", "gear")}
        actions = torch.randint(4, (rows,), generator=self.generator)
        return {"actions": actions, "mood": torch.rand(rows, 2, generator=self.generator), **told}

    forward_inference = forward_train = forward_exploration

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("steps", [1, 7, 40])
def test_a_learner_shows_what_was_shown_when_the_module_acted(num_envs, steps):
    module = TellsWhatItSees()
    runner = SingleAgentEnvRunner(Wanders, module, num_envs=num_envs, seed=1)
    pipeline = defaults.learner(module=module)
    total = 0

    for _ in range(60 // steps + 2):
        runner.set_weights({})
        episodes = runner.sample(num_timesteps=steps)
        batch = pipeline(rl_module=module, episodes=episodes)["default_policy"]
        total += len(batch["actions"])
        shown = {name: batch[name] for name in VIEWS if name != "places"} | batch["places"]
        for name, column in shown.items():
            acted_on = np.concatenate([episode.get_extra_model_outputs(f"saw_{name}") for episode in episodes])
            assert acted_on.dtype == column.numpy().dtype
            np.testing.assert_array_equal(acted_on, column.numpy(), err_msg=name)

    assert total >= 60


class Frames(gym.Env):
    """Shows small pictures, for ever."""

    observation_space = spaces.Box(0, 255, (32, 32), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


class SeesFrames(TellsWhatItSees):
    """Acts on what it sees, and puts out nothing else."""

    def __init__(self, views):
        self.views = views

    def forward_exploration(self, batch):
        assert batch["obs"].shape[1:] == ((4, 32, 32) if self.views else (32, 32))
        return {"actions": torch.zeros(len(batch["obs"]), dtype=torch.int64)}

    forward_inference = forward_train = forward_exploration


def stored_bytes(episodes):
    """Return the bytes of the arrays that hold the observations of all episodes, each array counted once."""
    owners = {}
    for episode in episodes:
        array = episode.get_observations()
        while isinstance(array.base, np.ndarray):
            array = array.base
        owners[id(array)] = array
    return sum(array.nbytes for array in owners.values())


def test_stacked_frames_take_no_more_memory_than_single_ones_but_for_the_lookback():
    def sampled(views):
        runner = SingleAgentEnvRunner(Frames, SeesFrames(views), num_envs=2, seed=0)
        runner.sample(num_timesteps=200)
        return runner.sample(num_timesteps=200)

    single, stacked = sampled({}), sampled({"obs": View("obs", shift=range(-3, 1))})

    assert {episode.observations.lookback for episode in stacked} == {3}
    # Two lanes that each remember two frames more than the one that is kept anyway: room for a few, not for four times all.
    assert stored_bytes(stacked) <= stored_bytes(single) + 2 * 4 * 32 * 32
    assert stored_bytes(stacked) < 1.5 * 200 * 32 * 32
