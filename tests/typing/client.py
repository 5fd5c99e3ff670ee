"""What a user of the library writes: connectors, a runner, a learner and a policy. Two type checkers read it.

A comment behind `reveal_type` is the type that both have to find.
"""

from collections.abc import Callable, Collection
from typing import Any, reveal_type

from gymnasium import Space

import episodia
from episodia.connectors import ConnectorV2, FrameStacking, Kind, add_column, defaults
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.learners import PPOConfig
from episodia.modules import default_module
from episodia.types import AnyBatch, Batch, Item, ModuleBatch


class AddSpeed(ConnectorV2):
    """Declares with attributes of the class."""

    reads = frozenset({"obs"})
    writes = frozenset({"speed"})
    lookback = 1
    kind = Kind.CAUSAL
    is_stateful = False

    def __call__(self, *, batch: AnyBatch, episodes: Any, **kwargs: Any) -> AnyBatch:
        add_column(batch, "speed", episodes, self.speed)
        return batch

    def speed(self, rows: EpisodeList) -> Ragged:
        return rows.windows("obs", shifts=[-1, 0], fill=0.0)


class AddTime(ConnectorV2):
    """Declares in one line, and serves a learner, whose batches have modules."""

    reads, writes, lookback = frozenset[str](), frozenset({"t"}), 0

    def __call__(self, *, batch: ModuleBatch, **kwargs: Any) -> ModuleBatch:
        reveal_type(self.lookback)  # int
        return batch


class AddReturns(ConnectorV2):
    """Declares with properties, in the style of RLlib's plugins."""

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        columns: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, columns=columns, **kwargs)
        self.columns = columns

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(self.columns)

    @property
    def lookback(self) -> int:
        return 0

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: Batch,
        episodes: Any,
        explore: bool | None = None,
        shared_data: dict[Any, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Batch:
        for episode in self.single_agent_episode_iterator(episodes):
            reveal_type(episode)  # SingleAgentEpisode
            for column in self.columns:
                self.add_batch_item(batch, column, episode.get_return(), episode)
        return batch


def play(env: str) -> float:
    runner = episodia.SingleAgentEnvRunner(env, num_envs=2, env_to_module=[AddSpeed(), AddReturns(columns=["return"])])
    episodes = runner.sample(num_timesteps=10)
    reveal_type(episodes)  # EpisodeList[SingleAgentEpisode]
    reveal_type(episodes[0])  # SingleAgentEpisode
    reveal_type(episodes[:2])  # EpisodeList[SingleAgentEpisode]
    reveal_type([episode.id_ for episode in episodes])  # list[str]
    reveal_type(episodia.collect(env, episodes=1)[0])  # SingleAgentEpisode
    return sum(episode.get_return() for episode in episodes)


def play_together(make: Callable[[], Any]) -> None:
    games = episodia.MultiAgentEnvRunner(make, num_envs=2).sample(num_episodes=1)
    reveal_type(games[0])  # MultiAgentEpisode
    reveal_type(games[0].agent_episodes)  # dict[Hashable, SingleAgentEpisode]


def learn(observation_space: Space[Any], action_space: Space[Any], episodes: EpisodeList[SingleAgentEpisode]) -> None:
    module = default_module(observation_space, action_space)
    reveal_type(module)  # DefaultActorCritic
    learner = episodia.Learner(module, PPOConfig(clip=0.1))
    reveal_type(learner)  # Learner
    reveal_type(learner.update(episodes))  # UpdateMetrics


def act(path: str, observation: Item) -> Item:
    policy = episodia.Policy.load(path)
    reveal_type(policy)  # Policy
    return policy(observation)


def compose() -> None:
    reveal_type(FrameStacking(num_frames=4))  # FrameStacking
    reveal_type(FrameStacking(num_frames=4).num_frames)  # int
    pipeline = defaults.learner(custom=[AddSpeed()])
    reveal_type(pipeline)  # LearnerConnectorPipeline
    reveal_type(pipeline.lookback)  # int
    reveal_type(pipeline[0].lookback)  # int
    reveal_type(pipeline[0].reads)  # Collection[str] | None
