"""An env runner as a user might write it: a plain loop, with the calls that runners have in common."""

import numpy as np

from episodia import EpisodeList, SingleAgentEpisode


class Lane:
    """One environment, and the episode that runs in it."""

    def __init__(self, env, seed):
        self.env, self.seed, self.count, self.episode = env, seed, 0, None

    def begin(self, seed, name):
        observation, info = self.env.reset(seed=seed)
        self.count += 1
        self.episode = SingleAgentEpisode(
            name, observation_space=self.env.observation_space, action_space=self.env.action_space
        )
        self.episode.add_env_reset(observation, info)


class PlainRunner:
    """Plays with one module in several environments, one step of each after another."""

    def __init__(self, env, module, *, num_envs, seed, lookback):
        self.module, self.seed, self.lookback = module, seed, lookback
        self.rng = np.random.default_rng(seed)
        self.make_env, self.num_evaluations, self.is_closed = env, 0, False
        self.lanes = [Lane(env(), 1000 * seed + place) for place in range(num_envs)]
        self.waiting = []

    # --- Playing ----------------------------------------------------------------------------------------------------

    def sample(self, *, num_timesteps=None, num_episodes=None, explore=True, random_actions=False, force_reset=False):
        if self.is_closed:
            raise RuntimeError("closed")
        if force_reset or num_episodes is not None:
            self.leave_episodes()
        if num_episodes is not None:
            self.waiting.clear()
            return self.whole_episodes(num_episodes, explore, random_actions)
        while self.num_waiting() < num_timesteps:
            self.step(explore, random_actions)
        self.cut()
        chunks, self.waiting = self.waiting, []
        return EpisodeList([chunk.finalize() for chunk in chunks])

    def num_waiting(self):
        return sum(map(len, self.waiting)) + sum(len(lane.episode) for lane in self.lanes if lane.episode is not None)

    def whole_episodes(self, count, explore, random_actions):
        while len(self.waiting) < count:
            self.step(explore, random_actions)
        episodes, self.waiting = self.waiting[:count], []
        self.leave_episodes()
        return EpisodeList([episode.finalize() for episode in episodes])

    def step(self, explore, random_actions):
        for lane in self.lanes:
            if lane.episode is None:
                lane.begin(self.next_seed(lane), self.next_name(lane))
        actions, extras = self.choose([lane.episode for lane in self.lanes], explore, random_actions)
        for lane, action, extra in zip(self.lanes, actions, extras, strict=True):
            self.record(lane.episode, action, lane.env.step(action), extra)
            if lane.episode.is_done:
                self.waiting.append(lane.episode)
                lane.episode = None

    def next_seed(self, lane):
        return 10_000 * lane.seed + lane.count

    def next_name(self, lane):
        return f"{lane.seed}-{lane.count}"

    def choose(self, episodes, explore, random_actions):
        if random_actions:
            return self.rng.integers(0, 5, len(episodes)), [None] * len(episodes)
        batch = {"obs": np.stack([episode.get_observations(-1) for episode in episodes])}
        forward = self.module.forward_exploration if explore else self.module.forward_inference
        outputs = forward(batch)
        return outputs["actions"], [{"tag": tag} for tag in outputs["tag"]]

    def record(self, episode, action, result, extra):
        observation, reward, terminated, truncated, info = result
        episode.add_env_step(
            observation, action, reward, info, terminated=terminated, truncated=truncated, extra_model_outputs=extra
        )

    def cut(self):
        for lane in self.lanes:
            if lane.episode is not None and len(lane.episode):
                self.waiting.append(lane.episode)
                lane.episode = lane.episode.cut(len_lookback_buffer=self.lookback)

    def leave_episodes(self):
        self.cut()
        for lane in self.lanes:
            lane.episode = None

    # --- Beside that ------------------------------------------------------------------------------------------------

    def evaluate(self, num_episodes):
        self.num_evaluations += 1
        seed = 77 + self.seed + self.num_evaluations
        twin = type(self)(self.make_env, self.module, num_envs=1, seed=seed, lookback=self.lookback)
        try:
            return twin.sample(num_episodes=num_episodes, explore=False)
        finally:
            twin.close()

    def get_state(self):
        return {"rng": self.rng.bit_generator.state, "counts": [lane.count for lane in self.lanes]}

    def set_state(self, state):
        self.leave_episodes()
        self.rng.bit_generator.state = state["rng"]
        for lane, count in zip(self.lanes, state["counts"], strict=True):
            lane.count = count

    def close(self):
        self.is_closed = True
        for lane in self.lanes:
            lane.env.close()
