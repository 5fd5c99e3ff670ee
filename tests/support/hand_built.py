"""The same vector steps twice: written into a recorder, and added to one hand-built episode per lane."""

import copy

import numpy as np
from gymnasium import spaces

from episodia.columns import Columns
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.recorder.recorder import Recorder
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.spaces import ARRAY_SPACES
from episodia.testing import assert_same_episode, assert_same_items


def batched(space, items):
    """Return items of one space as gymnasium's vector environments give them."""
    if isinstance(space, spaces.Dict):
        return {key: batched(child, [item[key] for item in items]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batched(child, [item[i] for item in items]) for i, child in enumerate(space.spaces))
    return np.stack([np.asarray(item) for item in items]) if isinstance(space, ARRAY_SPACES) else tuple(items)


def row(batch, lane):
    """Return one lane's item of a batch of plain or nested arrays."""
    if isinstance(batch, dict):
        return {key: row(value, lane) for key, value in batch.items()}
    return tuple(row(value, lane) for value in batch) if isinstance(batch, tuple) else batch[lane]


def vector_form(infos):
    """Return dicts, one for each lane, in the form of gymnasium's vector environments."""
    vector = {}
    for key in {key for info in infos for key in info}:
        mask = np.array([key in info for info in infos])
        vector[key] = np.array([info.get(key, 0) for info in infos])
        vector[f"_{key}"] = mask
    return vector


class Twins:
    """A recorder, and for each lane the episode that `add_env_reset` and `add_env_step` make of the same data."""

    def __init__(self, observation_space, action_space, num_lanes, *, lookback=1, block_steps=256, seed=3):
        self.spaces = copy.deepcopy((observation_space, action_space))
        for number, space in enumerate(self.spaces):
            space.seed(seed + number)
        self.rng = np.random.default_rng(seed)
        self.recorder = Recorder(*self.spaces, num_lanes, lookback=lookback, block_steps=block_steps, seed=seed)
        self.num_lanes, self.lookback, self.seed = num_lanes, lookback, seed
        self.episodes = [None] * num_lanes
        self.finished, self.numbers = [], [0] * num_lanes
        self.version = None
        self.given = []  # everything that was passed in

    # --- Data -------------------------------------------------------------------------------------------------------

    def sampled(self, which, count):
        return [self.spaces[which].sample() for _ in range(count)]

    def infos(self, kind, count):
        """Return infos to pass in, and the same as one dict for each lane."""
        if kind == "none":
            return None, [{} for _ in range(count)]
        plain = [{"lives": np.int64(n)} if n % 2 else {} for n in self.rng.integers(0, 9, count)]
        if kind == "dicts":
            return [{**info, "name": "x", "path": [1, 2]} for info in plain], [
                {**info, "name": "x", "path": [1, 2]} for info in plain
            ]
        return vector_form(plain), plain

    def extras(self, names, count):
        known = {
            "logp": self.rng.normal(size=count).astype(np.float32),
            "state": {"h": self.rng.normal(size=(count, 2)), "c": (self.rng.integers(0, 9, count),)},
        }
        return {name: known[name] for name in names}

    # --- What happens -----------------------------------------------------------------------------------------------

    def reset(self, lanes, infos="none"):
        items = self.sampled(0, len(lanes))
        given, plain = self.infos(infos, len(lanes))
        observations = batched(self.spaces[0], items)
        self.recorder.reset(observations, given, lanes=None if len(lanes) == self.num_lanes else lanes)
        self.given += [observations, given]
        for place, lane in enumerate(lanes):
            if self.episodes[lane] is not None and not self.episodes[lane].is_done and len(self.episodes[lane]):
                self.finished.append(self.episodes[lane])
            self._begin(lane, items[place], plain[place])

    def _begin(self, lane, item, info):
        self.episodes[lane] = episode = SingleAgentEpisode(
            f"{self.seed}-{lane}-{self.numbers[lane]}",
            observation_space=self.spaces[0],
            action_space=self.spaces[1],
        )
        self.numbers[lane] += 1
        episode.add_env_reset(item, info)
        if self.version is not None:
            episode.weights_version = self.version

    def step(self, lanes, ends=(), infos="none", extras=(), *, autoreset=False):
        """Step `lanes`; those of `ends` end, if they run. With `autoreset`, ended ones are reset by this step."""
        count = len(lanes)
        began = [lane for lane in lanes if self.episodes[lane].is_done] if autoreset else []
        items, actions = self.sampled(0, count), self.sampled(1, count)
        rewards = self.rng.normal(size=count)
        terminateds = np.array([lane in ends and lane not in began and lane % 3 != 1 for lane in lanes])
        truncateds = np.array([lane in ends and lane not in began and lane % 3 != 0 for lane in lanes])
        given, plain = self.infos(infos, count)
        outputs = self.extras(extras, count)
        data = [batched(self.spaces[0], items), batched(self.spaces[1], actions), rewards]
        self.recorder.step(
            *data,
            terminateds,
            truncateds,
            given,
            outputs or None,
            lanes=None if count == self.num_lanes else lanes,
            resets=np.array([lane in began for lane in lanes]) if autoreset else None,
        )
        for place, lane in enumerate(lanes):
            if lane in began:
                self._begin(lane, items[place], plain[place])
                continue
            self.episodes[lane].add_env_step(
                items[place],
                row(data[1], place) if _is_array_like(self.spaces[1]) else actions[place],
                rewards[place],
                plain[place],
                terminated=terminateds[place],
                truncated=truncateds[place],
                extra_model_outputs={name: row(batch, place) for name, batch in outputs.items()},
            )
            if self.episodes[lane].is_done:
                self.finished.append(self.episodes[lane])
        self.given += [*data, terminateds, truncateds, given, outputs]

    def set_version(self, version):
        self.version = self.recorder.weights_version = version
        for episode in self.episodes:
            if episode is not None and not episode.is_done:
                episode.weights_version = version

    def idle(self):
        return [lane for lane, episode in enumerate(self.episodes) if episode is None or episode.is_done]

    def take(self):
        """Return what is returned by the recorder, and what it should be."""
        running = [
            lane for lane, episode in enumerate(self.episodes) if episode and not episode.is_done and len(episode)
        ]
        expected = [*self.finished, *(self.episodes[lane] for lane in running)]
        for lane in running:
            self.episodes[lane] = self.episodes[lane].cut(self.lookback)
        self.finished = []
        return list(self.recorder.take()), [episode.finalize() for episode in expected]

    def take_finished(self):
        expected, self.finished = [episode.finalize() for episode in self.finished], []
        return list(self.recorder.take_finished()), expected

    # --- Checks -----------------------------------------------------------------------------------------------------

    def check_handles(self):
        for lane, expected in enumerate(self.episodes):
            if expected is not None:
                assert_same_episode(self.recorder.episode(lane), expected, ignore=["times"])

    def check_latest(self):
        if None in self.episodes:
            return
        assert_same_items(self.recorder.latest(Columns.OBS), EpisodeList(self.episodes).latest(Columns.OBS))


def _is_array_like(space):
    return isinstance(space, ARRAY_SPACES)


def assert_same_episodes(found, expected):
    assert [episode.id_ for episode in found] == [episode.id_ for episode in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert_same_episode(ours, theirs, ignore=["times"])
