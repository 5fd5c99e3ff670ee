"""Two agents that have to meet: a game of one step for several learners."""

import numpy as np
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnv
from episodia.modules import default_module
from episodia.schedules import PiecewiseLinearSchedule

PLACES = 3
FALLING = PiecewiseLinearSchedule([(0, 1.0), (1_500, 0.1)])


class Meet(MultiAgentEnv):
    """Both agents see the place where they have to meet; both get 1 if both go there, 1 time in 9 at random."""

    possible_agents = agents = ("left", "right")
    observation_spaces = action_spaces = dict.fromkeys(agents, spaces.Discrete(PLACES))

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.place = int(self.rng.integers(PLACES))
        return dict.fromkeys(self.agents, self.place), {}

    def step(self, actions):
        have_met = float(set(actions.values()) == {self.place})
        shown = dict.fromkeys(self.agents, self.place)
        return shown, dict.fromkeys(self.agents, have_met), {"__all__": True}, {}, {}


def network(kind, generator):
    place = spaces.Discrete(PLACES)
    return default_module(place, place, kind=kind, hidden=(32,), generator=generator)
