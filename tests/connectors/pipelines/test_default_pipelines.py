"""The default pipelines around real modules and environments: what was acted on is what is learned from."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    ConnectorV2,
    FrameStacking,
    GeneralAdvantageEstimation,
    MeanStdFilter,
    PrevActionsPrevRewards,
    Standardize,
    defaults,
)
from episodia.connectors.env_to_module.flatten_observations import FlattenObservations
from episodia.modules import LSTMActorCritic, MLPActorCritic, MultiModule

NUM_ENVS = 3


def play(module, env, pipelines, steps, episodes=None):
    """Act in all environments at once for some steps, and return an episode for each."""
    env_to_module, module_to_env = pipelines
    observations, _ = env.reset(seed=0)
    episodes = [SingleAgentEpisode(f"lane-{lane}") for lane in range(NUM_ENVS)]
    for episode, observation in zip(episodes, observations, strict=True):
        episode.add_env_reset(observation)
    for _ in range(steps):
        shared = {}
        batch = env_to_module(rl_module=module, episodes=episodes, explore=True, shared_data=shared)
        with torch.no_grad():
            outputs = module.forward_exploration(batch)
        made = module_to_env(rl_module=module, batch=outputs, episodes=episodes, explore=True, shared_data=shared)
        observations, rewards, *_ = env.step(made[Columns.ACTIONS_FOR_ENV])
        extras = {name: made[name] for name in (Columns.ACTION_LOGP, Columns.STATE_OUT) if name in made}
        for lane, episode in enumerate(episodes):
            episode.add_env_step(
                observations[lane],
                made[Columns.ACTIONS][lane],
                rewards[lane],
                extra_model_outputs={name: row_of(column, lane) for name, column in extras.items()},
            )
    return [episode.finalize() for episode in episodes]


def row_of(column, lane):
    """Return one row of a nested column."""
    return {key: leaf[lane] for key, leaf in column.items()} if isinstance(column, dict) else column[lane]


CUSTOM = {
    "plain": list,
    "stacked frames": lambda: [FrameStacking(num_frames=3), FlattenObservations()],
    "the past": lambda: [PrevActionsPrevRewards(n_prev_actions=2), FlattenObservations()],
}


@pytest.mark.parametrize("custom", CUSTOM)
@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_learning_recomputes_the_log_probabilities_of_acting(custom, kind, env_id):
    env = gym.make_vec(env_id, num_envs=NUM_ENVS)
    spaces = env.single_observation_space, env.single_action_space
    stateful = kind is LSTMActorCritic
    env_to_module = defaults.env_to_module(*spaces, custom=CUSTOM[custom](), stateful=stateful)
    module = kind(env_to_module.observation_space, spaces[1], generator=torch.Generator().manual_seed(0))
    episodes = play(module, env, (env_to_module, defaults.module_to_env(*spaces, stateful=stateful)), steps=7)
    learner = defaults.learner(
        *spaces,
        custom=CUSTOM[custom](),
        targets=[GeneralAdvantageEstimation(max_seq_len=3), Standardize()],
        stateful=stateful,
        max_seq_len=3,
    )

    # In two chunks, cut with the lookback that the pipelines ask for.
    lookback = max(learner.lookback, env_to_module.lookback)
    chunks = [
        chunk
        for episode in episodes
        for chunk in (episode[:4], episode.slice(slice(4, None), len_lookback_buffer=lookback))
    ]
    batch = learner(rl_module=module, episodes=chunks)["default_policy"]
    outputs = module.forward_train(batch)
    dist = module.get_train_action_dist_cls().from_logits(outputs[Columns.ACTION_DIST_INPUTS])

    mask = batch.get(Columns.LOSS_MASK, torch.ones_like(batch[Columns.REWARDS], dtype=torch.bool))
    ratio = (dist.logp(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP])[mask]
    assert ratio.shape == (7 * NUM_ENVS,)
    torch.testing.assert_close(ratio, torch.zeros_like(ratio), atol=2e-5, rtol=0)
    assert abs(batch[Columns.ADVANTAGES][mask].mean()) < 1e-4


def test_a_filter_of_the_runner_serves_the_learner_with_the_same_numbers():
    env = gym.make_vec("CartPole-v1", num_envs=NUM_ENVS)
    spaces = env.single_observation_space, env.single_action_space
    env_to_module = defaults.env_to_module(*spaces, custom=[MeanStdFilter()])
    module = MLPActorCritic(env_to_module.observation_space, spaces[1])
    pipelines = env_to_module, defaults.module_to_env(*spaces)
    play(module, env, pipelines, steps=5)
    env_to_module["MeanStdFilter"].commit()

    episodes = play(module, env, pipelines, steps=5)
    learner = defaults.learner(*spaces, custom=[MeanStdFilter()])
    learner["MeanStdFilter"].set_state(env_to_module["MeanStdFilter"].get_state())
    learned = learner(rl_module=module, episodes=episodes)["default_policy"][Columns.OBS]

    acted = env_to_module(rl_module=module, episodes=[episode[:2] for episode in episodes])[Columns.OBS]
    torch.testing.assert_close(learned[[2, 7, 12]], acted, rtol=0, atol=0)
    assert episodes[0].get_observations().dtype == np.float32


class Pixels(ConnectorV2):
    """Writes the newest observation back as small integers of another shape."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            last = np.asarray(episode.get_observations(-1))
            if last.shape == (4,):
                pixels = np.clip(100 * np.abs(last), 0, 255).astype(np.uint8).reshape(2, 2)
                episode.set_observations(new_data=pixels, at_indices=-1)
        return batch

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return gym.spaces.Box(0, 255, (2, 2), np.uint8)


def test_what_a_plugin_writes_into_episodes_reaches_module_and_learner():
    env = gym.make_vec("CartPole-v1", num_envs=NUM_ENVS)
    spaces = env.single_observation_space, env.single_action_space
    env_to_module = defaults.env_to_module(*spaces, custom=[Pixels()])
    module = MLPActorCritic(env_to_module.observation_space, spaces[1])
    episodes = [SingleAgentEpisode(f"lane-{lane}") for lane in range(NUM_ENVS)]
    for episode, observation in zip(episodes, env.reset(seed=0)[0], strict=True):
        episode.add_env_reset(observation)
    for _ in range(3):
        batch = env_to_module(rl_module=module, episodes=episodes)
        assert batch[Columns.OBS].shape == (NUM_ENVS, 2, 2)
        observations, *_ = env.step(np.zeros(NUM_ENVS, np.int64))
        for lane, episode in enumerate(episodes):
            episode.add_env_step(observations[lane], 0, 1.0)
    env_to_module(rl_module=module, episodes=episodes)

    learned = defaults.learner(*spaces)(rl_module=module, episodes=episodes)["default_policy"][Columns.OBS]

    assert learned.shape == (3 * NUM_ENVS, 2, 2)
    assert learned.dtype == torch.uint8


SPACES = {"small": gym.spaces.Box(-1, 1, (2,), np.float32), "large": gym.spaces.Box(-1, 1, (5,), np.float32)}


def test_agents_of_modules_with_other_spaces_share_a_pipeline():
    modules = MultiModule({name: MLPActorCritic(space, gym.spaces.Discrete(3)) for name, space in SPACES.items()})
    games = []
    for number in range(2):
        game = MultiAgentEpisode(f"game-{number}", agent_to_module_mapping_fn=lambda agent, _: agent.split("-")[0])
        game.add_env_reset(
            observations={agent: SPACES[agent.split("-")[0]].sample() for agent in ("small-0", "large-0", "large-1")}
        )
        games.append(game)
    env_to_module = defaults.env_to_module(multi_agent=True)
    module_to_env = defaults.module_to_env(multi_agent=True)
    for _ in range(4):
        shared = {}
        batch = env_to_module(rl_module=modules, episodes=games, explore=True, shared_data=shared)
        assert {name: tuple(columns[Columns.OBS].shape) for name, columns in batch.items()} == {
            "small": (2, 2),
            "large": (4, 5),
        }
        with torch.no_grad():
            outputs = {name: modules[name].forward_exploration(columns) for name, columns in batch.items()}
        made = module_to_env(rl_module=modules, batch=outputs, episodes=games, explore=True, shared_data=shared)
        for game, actions in zip(games, made[Columns.ACTIONS_FOR_ENV], strict=True):
            assert actions.keys() == {"small-0", "large-0", "large-1"}
            game.add_env_step(
                observations={agent: SPACES[agent.split("-")[0]].sample() for agent in actions},
                actions=actions,
                rewards=dict.fromkeys(actions, 1.0),
            )

    learner = defaults.learner(targets=[GeneralAdvantageEstimation()])
    learned = learner(rl_module=modules, episodes=EpisodeList(games))

    assert {name: tuple(columns[Columns.OBS].shape) for name, columns in learned.items()} == {
        "small": (8, 2),
        "large": (16, 5),
    }
    assert learned["large"][Columns.ADVANTAGES].shape == (16,)


@pytest.mark.parametrize("make", [defaults.env_to_module, defaults.learner])
def test_without_episodes_columns_have_the_shapes_of_their_spaces(make):
    observations = gym.spaces.Dict(camera=gym.spaces.Box(0, 255, (2, 3), np.uint8), speed=gym.spaces.Discrete(4))
    pipeline = make(observations, gym.spaces.Box(-1.0, 1.0, (5,)))

    made = pipeline(rl_module=None, episodes=[])

    columns = made.get("default_policy", made)
    assert {name: leaf.shape for name, leaf in columns[Columns.OBS].items()} == {"camera": (0, 2, 3), "speed": (0,)}
    assert columns[Columns.OBS]["camera"].dtype == torch.uint8
    if make is defaults.learner:
        assert columns[Columns.ACTIONS].shape == (0, 5)
