"""What `episodes.py` measures, in code that is the same on both sides but for one import.

RLlib keeps the caller's observation array; ours keeps its own copy of it, as an environment that reuses its
array needs. So the RLlib side does what its careful user does: it copies each observation that it hands over. The
copy knows nothing of how an observation is nested, as ours does not. In the same way it copies other arrays that it hands
over, and the info dicts that it hands over or gets with `get_data_dict`: ours are not shared.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from _case import Case
from gymnasium import spaces

HOMES = {"episodia": "episodia", "rllib": "ray.rllib.env.single_agent_episode"}
STEPS = 1000
ACTIONS = spaces.Discrete(4)
FORCES = spaces.Box(-1.0, 1.0, (2,), np.float32)
VECTOR = spaces.Box(-10.0, 10.0, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (84, 84, 4), np.uint8)
NESTED = spaces.Dict(
    position=spaces.Box(-10.0, 10.0, (3,), np.float32),
    goal=spaces.Dict(target=spaces.Box(-10.0, 10.0, (3,), np.float32), kind=spaces.Discrete(4)),
)
IMAGE_STEPS = 100


def cases(side: str) -> list[Case]:
    """Return all cases, bound to the episode class of `side`."""
    bench = _Bench(side)
    return [
        *bench.building(),
        *bench.forms(bench.getters),
        *bench.setters(),
        *bench.forms(bench.chunks),
        *bench.joins(),
    ]


class _Bench:
    """The data, made once, and the cases over it."""

    def __init__(self, side: str) -> None:
        self.episode_class = import_module(HOMES[side]).SingleAgentEpisode
        self.keeps_arrays = side == "rllib"
        random = np.random.default_rng(0)
        count = STEPS + 101
        self.vectors = list(random.uniform(-5, 5, (count, 4)).astype(np.float32))
        self.images = list(random.integers(0, 255, (IMAGE_STEPS + 1, 84, 84, 4), np.uint8))
        self.nested = [_nested_item(random) for _ in range(count)]
        self.actions = [int(action) for action in random.integers(0, 4, count)]
        self.rewards = [float(reward) for reward in random.uniform(-1, 1, count)]
        self.infos: list[dict[str, Any]] = [{} for _ in range(count)]
        self.log_probs = [np.float32(value) for value in random.uniform(-1, 0, count)]
        self.extras = [{"action_logp": value} for value in self.log_probs]
        self.forces = list(random.uniform(-1, 1, (STEPS, 2)).astype(np.float32))
        self.numpy_rewards = [np.float64(reward) for reward in self.rewards[:STEPS]]
        self.measured = [{"speed": reward, "success": False} for reward in self.numpy_rewards]
        self.outputs = [{"action_logp": logp, "action_dist_inputs": np.ones(4, np.float32)} for logp in self.log_probs]

    # --- Building -------------------------------------------------------------------------------------------

    def building(self) -> Iterator[Case]:
        """Append, construct, finalize."""
        for name, observations, space in (
            ("float32[4]", self.vectors, VECTOR),
            ("uint8[84,84,4]", self.images, IMAGE),
            ("nested", self.nested, NESTED),
        ):
            steps = min(STEPS, len(observations) - 1)
            build = partial(self.grow, observations, steps)
            build_with_spaces = partial(build, observation_space=space, action_space=ACTIONS)
            yield Case(f"add_env_step {name}", build, per=steps)
            yield Case(f"add_env_step {name} with spaces", build_with_spaces, per=steps)
            yield Case(f"finalize {steps} steps {name}", lambda e: e.to_numpy(), prepare=build_with_spaces)
        yield Case("add_env_step of NumPy's numbers, infos and arrays", self.grow_in_robotics, per=STEPS)
        yield Case(f"constructor {STEPS} steps", self.construct)

    def grow(self, observations: list[Any], steps: int, **settings: Any) -> Any:
        """Return an episode that was built by stepping."""
        episode = self.episode_class("e", **settings)
        episode.add_env_reset(*self.stored(observations[:1]), self.infos[0])
        self.extend(episode, observations, 0, steps)
        return episode

    def grow_in_robotics(self) -> Any:
        """Return an episode of what a continuous task returns: nothing in it is a plain Python object."""
        episode = self.episode_class("e", observation_space=VECTOR, action_space=FORCES)
        episode.add_env_reset(*self.stored(self.vectors[:1]), self.infos[0])
        arrays = map(self.stored, (self.vectors[1 : STEPS + 1], self.forces, self.measured, self.outputs[:STEPS]))
        add, going_on = episode.add_env_step, np.False_
        for reward, observation, action, infos, extra in zip(self.numpy_rewards, *arrays, strict=True):
            add(observation, action, reward, infos, terminated=going_on, truncated=going_on, extra_model_outputs=extra)
        return episode

    def extend(self, episode: Any, observations: list[Any], first: int, steps: int) -> None:
        """Append `steps` steps, the first of which acts on observation `first`."""
        now, later = slice(first, first + steps), slice(first + 1, first + steps + 1)
        columns = self.actions[now], self.rewards[now], self.infos[later], self.extras[now]
        add = episode.add_env_step
        for observation, action, reward, infos, extra in zip(self.stored(observations[later]), *columns, strict=True):
            add(observation, action, reward, infos, extra_model_outputs=extra)

    def stored(self, observations: list[Any]) -> Iterable[Any]:
        """Return what is handed to the episode: on the side that keeps the caller's arrays, copies."""
        if not self.keeps_arrays:
            return observations
        return map(np.ndarray.copy if isinstance(observations[0], np.ndarray) else _copied, observations)

    def own_infos(self, infos: list[Any]) -> list[Any]:
        """Return the infos, on the side that shares them in copies."""
        return list(map(dict.copy, infos)) if self.keeps_arrays else infos

    def construct(self) -> Any:
        """Return an episode that was built from lists, which are new because RLlib keeps them."""
        return self.episode_class(
            "e",
            observations=list(self.stored(self.vectors[: STEPS + 1])),
            observation_space=VECTOR,
            actions=self.actions[:STEPS],
            action_space=ACTIONS,
            rewards=self.rewards[:STEPS],
            infos=self.own_infos(self.infos[: STEPS + 1]),
            extra_model_outputs={"action_logp": self.log_probs[:STEPS]},
            len_lookback_buffer=0,
        )

    def vector_episode(self, steps: int = STEPS, lookback: int = 0) -> Any:
        """Return a growing episode of `steps` steps, with `lookback` steps before them."""
        episode = self.grow(self.vectors, lookback or steps, observation_space=VECTOR, action_space=ACTIONS)
        if lookback:
            episode = episode.cut(len_lookback_buffer=lookback)
            self.extend(episode, self.vectors, lookback, steps)
        return episode

    # --- Reading and writing --------------------------------------------------------------------------------

    def forms(self, make: Callable[[Any, Any, str], Iterator[Case]]) -> Iterator[Case]:
        """Yield the cases of `make` for both forms of an episode."""
        for form in ("growing", "finalized"):
            plain, behind = self.vector_episode(), self.vector_episode(lookback=20)
            if form == "finalized":
                plain.to_numpy()
                behind.to_numpy()
            yield from make(plain, behind, form)

    def getters(self, episode: Any, behind: Any, form: str) -> Iterator[Case]:
        """Read items, windows and columns; `behind` has a lookback."""
        get, window = episode.get_observations, slice(-10, 2)
        fill = partial(get, window, neg_index_as_lookback=True, fill=0.0)
        lookback = partial(behind.get_observations, window, neg_index_as_lookback=True)
        last4, indices = slice(-4, None), [-1, 5, 300, 17]
        yield Case(f"get last observation, {form}", lambda: get(-1))
        yield Case(f"get last 4 observations, {form}", lambda: get(last4))
        yield Case(f"get window with fill, {form}", fill)
        yield Case(f"get window into lookback, {form}", lookback)
        yield Case(f"get list of indices, {form}", lambda: get(indices))
        yield Case(f"get all observations, {form}", get)
        yield Case(f"get last reward, {form}", lambda: episode.get_rewards(-1))
        yield Case(f"get all rewards, {form}", episode.get_rewards)
        yield Case(f"get last action one-hot, {form}", lambda: episode.get_actions(-1, one_hot_discrete=True))
        yield Case(f"get all actions one-hot, {form}", lambda: episode.get_actions(one_hot_discrete=True))
        yield Case(f"get last extra output, {form}", lambda: episode.get_extra_model_outputs("action_logp", -1))
        yield Case(f"get_return, {form}", episode.get_return, check=lambda: round(episode.get_return(), 9))
        yield Case(f"get_data_dict, {form}", partial(self.data_dict, episode))

    def data_dict(self, episode: Any) -> dict[str, Any]:
        """Return the columns of `episode`, with infos of their own."""
        data: dict[str, Any] = episode.get_data_dict()
        data["infos"] = self.own_infos(data["infos"])
        return data

    def setters(self) -> Iterator[Case]:
        """Overwrite one observation."""
        item = np.ones(4, np.float32)
        for form in ("growing", "finalized"):
            episode = self.vector_episode()
            if form == "finalized":
                episode.to_numpy()
            write = partial(episode.set_observations, at_indices=-1)
            run = partial(write, new_data=item)
            if self.keeps_arrays and form == "growing":
                run = partial(_write_copy, write, item)
            yield Case(f"set last observation, {form}", run, check=partial(episode.get_observations, -1))

    # --- Chunks and copies ----------------------------------------------------------------------------------

    @staticmethod
    def chunks(episode: Any, _behind: Any, form: str) -> Iterator[Case]:
        """Cut, slice, and take the state."""
        part, load = slice(100, 300), type(episode).from_state
        yield Case(f"cut lookback 0, {form}", episode.cut)
        yield Case(f"cut lookback 10, {form}", lambda: episode.cut(10))
        yield Case(f"slice [100:300], {form}", lambda: episode[100:300])
        yield Case(f"slice [100:300] lookback 10, {form}", lambda: episode.slice(part, len_lookback_buffer=10))
        yield Case(f"get_state and from_state, {form}", lambda: load(episode.get_state()))
        yield Case(f"pickle and unpickle, {form}", lambda: pickle.loads(pickle.dumps(episode, protocol=5)))

    def joins(self) -> Iterator[Case]:
        """Concatenate two chunks."""
        for form in ("growing", "finalized"):
            prepare = partial(self.two_chunks, finalized=form == "finalized")
            yield Case(f"concat_episode 500 and 500 steps, {form}", _concatenate, prepare=prepare)

    def two_chunks(self, *, finalized: bool) -> tuple[Any, Any]:
        """Return an episode of 500 steps and its continuation."""
        first = self.vector_episode(500)
        second = first.cut()
        self.extend(second, self.vectors, 500, 500)
        if finalized:
            first.to_numpy()
            second.to_numpy()
        return first, second


def _concatenate(chunks: tuple[Any, Any]) -> Any:
    first, second = chunks
    first.concat_episode(second)
    return first


def _nested_item(random: np.random.Generator) -> dict[str, Any]:
    position, target = random.uniform(-5, 5, (2, 3)).astype(np.float32)
    return {"position": position, "goal": {"target": target, "kind": int(random.integers(0, 4))}}


def _copied(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _copied(value) for key, value in item.items()}
    return item.copy() if isinstance(item, np.ndarray) else item


def _write_copy(write: Callable[..., None], item: Any) -> None:
    write(new_data=item.copy())
