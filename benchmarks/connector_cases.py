"""What `connectors.py` measures: the default pipelines of both sides, on the same data and with the same networks.

Learner rows measure what users run: `Learner.batch_of` of a PPO learner, with all pieces that it has by default.

RLlib's learner pipeline changes the episodes that it is given (it adds a time step to each), so both sides get new ones
each time, restored outside the timing from the bytes that a runner would send. What comes out is compared step by step:
copied columns bit by bit between the sides, advantages and value targets with a computation by the book in float64.

In rows that end with "recorded", our episodes were recorded in vector steps, as a runner does it; theirs are the same as in
the other rows. Learner rows record and take them again each time, outside the timing.

Pipelines are called as runners and learners call them: RLlib's with its metrics logger, except in rows that say "no metrics".
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from _bare_loop import flat_batch, recurrent_batch
from _case import Case
from _connector_data import MAX_SEQ_LEN, FlatValues, RecurrentValues, Trajectory, as_handed_out, trajectories, verified
from _connector_sides import Ours, RLlib, finalized_episode, recorder_of, running_episode, vector_steps

SIZES = ((20, 200), (200, 20), (160, 200))
# 4,000 steps in episodes of 1 to 75 steps, such as an agent plays that has just begun to learn.
VARYING = 1 + np.random.default_rng(2).multinomial(4_000 - 198, np.random.default_rng(3).dirichlet(np.ones(198)))
# 4,000 steps that do not fill whole sequences, so there is padding on both sides.
UNEVEN = [193, 207] * 10
RUNNING_EPISODES = (1, 16, 64, 256)
RUNNING_STEPS = 5


def cases(side: str) -> list[Case]:
    """Return all cases, bound to the classes of `side`."""
    bench = _Bench(Ours() if side == "episodia" else RLlib())
    return [
        *(case for recorded in (False, True) for case in bench.learner(recorded=recorded)),
        *(case for recorded in (False, True) for case in bench.env_to_module(recorded=recorded)),
    ]


class _Bench:
    """The cases over the pipelines of one side."""

    def __init__(self, side: Ours | RLlib) -> None:
        self.side = side

    def learner(self, *, recorded: bool) -> Iterator[Case]:
        """Episodes to tensors, with value forward, GAE and standardisation; for an LSTM also states and padding."""
        for count, steps in SIZES:
            data = self.ordered(trajectories([steps] * count), recorded)
            yield self.learner_case(f"learner pipeline {count}x{steps}", data, None, FlatValues(), recorded)
        data = self.ordered(trajectories(VARYING.tolist()), recorded)
        yield self.learner_case("learner pipeline 4000 steps in 198 episodes", data, None, FlatValues(), recorded)
        network, data = RecurrentValues(), self.ordered(trajectories(UNEVEN), recorded)
        states = [network.states(trajectory.obs[:-1]) for trajectory in data]
        name = f"learner pipeline LSTM 20x200 max_seq_len {MAX_SEQ_LEN}"
        yield self.learner_case(name, data, states, network, recorded)

    @staticmethod
    def ordered(data: list[Trajectory], recorded: bool) -> list[Trajectory]:
        """Return `data` in the order in which both sides get it."""
        return as_handed_out(data) if recorded else data

    def learner_case(
        self,
        name: str,
        data: list[Trajectory],
        states: list[dict[str, np.ndarray]] | None,
        network: FlatValues | RecurrentValues,
        recorded: bool,
    ) -> Case:
        """Return the case of the learner pipeline on `data`; on our side `recorded` says who made the episodes."""
        is_ours = isinstance(self.side, Ours)
        run = self.side.batches(network)
        is_taken = recorded and is_ours
        prepare = partial(_taken, data, vector_steps(data, states)) if is_taken else self.sent(data, states)
        by_hand = partial(flat_batch, data, network)
        if isinstance(network, RecurrentValues):
            by_hand = partial(recurrent_batch, data, states, network)

        def check() -> Any:
            artificial = self.side.counts_artificial_steps
            made = verified(run(prepare()), data, network, counts_artificial_steps=artificial)
            if is_ours:
                _same(made, verified(by_hand(), data, network))
            return made

        named = f"{name}, recorded" if recorded else name
        return Case(named, run, prepare=prepare, unit="ms", check=check, by_hand=by_hand if is_ours else None)

    def sent(self, data: list[Trajectory], states: list[dict[str, np.ndarray]] | None) -> Callable[[], Any]:
        """Return what restores finalized episodes of `data` from bytes."""
        outputs = [None] * len(data) if states is None else states
        episodes = [finalized_episode(self.side, *pair) for pair in zip(data, outputs, strict=True)]
        return partial(pickle.loads, pickle.dumps(episodes))

    def env_to_module(self, *, recorded: bool) -> Iterator[Case]:
        """Running episodes to the tensors that a module acts on."""
        pipeline, module = self.side.env_to_module(), self.side.acting_module(FlatValues())
        for count in RUNNING_EPISODES:
            data = trajectories([RUNNING_STEPS] * count)
            if recorded and isinstance(self.side, Ours):
                data = [replace(row, terminated=False, truncated=False) for row in data]
                running = _live(data)
            else:
                running = partial(list, [running_episode(self.side, trajectory) for trajectory in data])
            for logging, ending in ((self.side.logging, ""), ({}, ", no metrics")):
                run = partial(_observed, pipeline, module, running, logging)
                name = f"env-to-module {count} episodes{', recorded' if recorded else ''}{ending}"
                yield Case(name, run, check=lambda run=run: run()["obs"].numpy())


def _live(data: list[Trajectory]) -> Callable[[], Any]:
    """Return what gives the list that a runner of ours has, as after a step."""
    live = import_module("episodia.episodes.recorder.live_episodes").LiveEpisodes(recorder_of(data, vector_steps(data)))

    def refreshed() -> Any:
        live.refresh()
        return live

    return refreshed


def _taken(data: list[Trajectory], steps: list[dict[str, Any]]) -> Any:
    return recorder_of(data, steps).take()


def _observed(pipeline: Any, module: Any, running: Callable[[], Any], logging: dict[str, Any]) -> Any:
    return pipeline(rl_module=module, batch={}, episodes=running(), explore=True, shared_data={}, **logging)


def _same(ours: dict[str, np.ndarray], by_hand: dict[str, np.ndarray]) -> None:
    for name, column in ours.items():
        np.testing.assert_array_equal(column, by_hand[name], err_msg=name)
