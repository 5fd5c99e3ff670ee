"""What `connectors.py` measures: the default pipelines of both sides, on the same data and with the same networks.

RLlib's learner pipeline changes the episodes that it is given (it adds a time step to each), so both sides get new ones
each time, restored outside the timing from the bytes that a runner would send. What comes out is compared step by step:
copied columns bit by bit between the sides, advantages and value targets with a computation by the book in float64.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from _bare_loop import flat_batch, recurrent_batch
from _case import Case
from _connector_data import MAX_SEQ_LEN, FlatValues, RecurrentValues, Trajectory, trajectories, verified
from _connector_sides import MODULE_ID, Ours, RLlib, finalized_episode, running_episode

SIZES = ((20, 200), (200, 20), (160, 200))
# 4,000 steps that do not fill whole sequences, so there is padding on both sides.
UNEVEN = [193, 207] * 10
RUNNING_EPISODES = (1, 16, 64, 256)
RUNNING_STEPS = 5


def cases(side: str) -> list[Case]:
    """Return all cases, bound to the classes of `side`."""
    bench = _Bench(Ours() if side == "episodia" else RLlib())
    return [*bench.learner(), bench.recurrent_learner(), *bench.env_to_module()]


class _Bench:
    """The cases over the pipelines of one side."""

    def __init__(self, side: Ours | RLlib) -> None:
        self.side = side

    def learner(self) -> Iterator[Case]:
        """Episodes to tensors, with value forward, GAE and standardisation."""
        network = FlatValues()
        for count, steps in SIZES:
            data = trajectories([steps] * count)
            episodes = [finalized_episode(self.side, trajectory) for trajectory in data]
            by_hand = partial(flat_batch, data, network)
            yield self.learner_case(f"learner pipeline {count}x{steps}", episodes, data, network, by_hand)

    def recurrent_learner(self) -> Case:
        """The same for an LSTM, with states and padded sequences."""
        network, data = RecurrentValues(), trajectories(UNEVEN)
        states = [network.states(trajectory.obs[:-1]) for trajectory in data]
        episodes = [finalized_episode(self.side, *pair) for pair in zip(data, states, strict=True)]
        name = f"learner pipeline LSTM 20x200 max_seq_len {MAX_SEQ_LEN}"
        return self.learner_case(name, episodes, data, network, partial(recurrent_batch, data, states, network))

    def learner_case(
        self,
        name: str,
        episodes: list[Any],
        data: list[Trajectory],
        network: FlatValues | RecurrentValues,
        by_hand: Callable[[], Any],
    ) -> Case:
        """Return the case of the learner pipeline on `episodes`, which are made of `data`."""
        pipeline = self.side.learner(stateful=isinstance(network, RecurrentValues))
        module, sent = self.side.learner_module(network), pickle.dumps(episodes)
        prepare = partial(pickle.loads, sent)

        def run(received: list[Any]) -> Any:
            return pipeline(rl_module=module, batch={}, episodes=received, shared_data={})[MODULE_ID]

        def check() -> Any:
            batch, artificial = run(prepare()), self.side.counts_artificial_steps
            made = verified(batch, data, network, counts_artificial_steps=artificial)
            if isinstance(self.side, Ours):
                _same(made, verified(by_hand(), data, network))
            return made

        own = by_hand if isinstance(self.side, Ours) else None
        return Case(name, run, prepare=prepare, unit="ms", check=check, by_hand=own)

    def env_to_module(self) -> Iterator[Case]:
        """Running episodes to the tensors that a module acts on."""
        pipeline, module = self.side.env_to_module(), self.side.acting_module(FlatValues())
        data = trajectories([RUNNING_STEPS] * max(RUNNING_EPISODES))
        episodes = [running_episode(self.side, trajectory) for trajectory in data]
        for count in RUNNING_EPISODES:
            run = partial(_observed, pipeline, module, episodes[:count])
            yield Case(f"env-to-module {count} episodes", run, check=lambda run=run: run()["obs"].numpy())


def _observed(pipeline: Any, module: Any, episodes: list[Any]) -> Any:
    return pipeline(rl_module=module, batch={}, episodes=episodes, explore=True, shared_data={})


def _same(ours: dict[str, np.ndarray], by_hand: dict[str, np.ndarray]) -> None:
    for name, column in ours.items():
        np.testing.assert_array_equal(column, by_hand[name], err_msg=name)
