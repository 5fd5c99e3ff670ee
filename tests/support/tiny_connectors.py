"""For tests of pipelines: pieces of a few lines, and episodes to run them on."""

import numpy as np

from episodia import SingleAgentEpisode
from episodia.connectors import ConnectorV2


class Tiny(ConnectorV2):
    """Declares what it is told to declare, and notes its tag in the batch when it runs."""

    def __init__(self, tag="", *, reads=None, writes=None, lookback=0, **kwargs):
        super().__init__(**kwargs)
        self.tag, self.reads, self.writes, self.lookback = tag, reads, writes, lookback

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        batch.setdefault("ran", []).append(self.tag or self.name)
        return batch


class Other(Tiny):
    """A second class."""


class Third(Tiny):
    """A third class."""


def adds(*columns, **kwargs):
    return Tiny(reads=frozenset(), writes=frozenset(columns), **kwargs)


def changes(*columns, **kwargs):
    return Other(reads=frozenset(columns), writes=frozenset(columns), **kwargs)


class Count(ConnectorV2):
    """Counts its calls: the smallest piece with a state."""

    reads = writes = frozenset()
    lookback = 0
    is_stateful = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = 0

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        self.calls += 1
        return batch

    def get_state(self, components=None, *, not_components=None, **kwargs):
        return {"calls": self.calls}

    def set_state(self, state):
        self.calls = state["calls"]

    def reset_state(self):
        self.calls = 0

    def merge_states(self, states):
        return {"calls": sum(state["calls"] for state in states)}


class AddObservations(ConnectorV2):
    """What the shipped piece of a longer name does: whole stretches, or the row of the present moment."""

    reads, writes, lookback = frozenset(), frozenset({"obs"}), 0

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        batch["obs"] = episodes.flat("obs", tail=not episodes.is_current)
        return batch


class Call(ConnectorV2):
    """Runs a function `(batch, episodes)` that returns the batch or None for the same batch; declares nothing."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        returned = self.function(batch, episodes)
        return batch if returned is None else returned


def run(pipeline, episodes=None, **kwargs):
    return pipeline(rl_module=kwargs.pop("rl_module", None), episodes=episodes, **kwargs)


def walk(id_="walk", length=3, *, start=0.0, **kwargs):
    """Return an episode with observations of two equal numbers that count up from `start`."""
    return SingleAgentEpisode(
        id_,
        observations=[np.full(2, start + t, np.float32) for t in range(length + 1)],
        actions=[t % 2 for t in range(length)],
        rewards=[float(t) for t in range(length)],
        len_lookback_buffer=0,
        **kwargs,
    )
