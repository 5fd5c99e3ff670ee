"""Policies: they act as the runner's loop would, remember what they have to, and are the same after they were saved."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from action_spaces import ACTION_SPACES
from episodia import Columns, EpisodeList, SingleAgentEpisode
from episodia.connectors import (
    ConnectorV2,
    EpsilonGreedy,
    ExponentialSchedule,
    FlattenObservations,
    FrameStacking,
    GaussianNoise,
    MeanStdFilter,
    OneHotObservations,
    PiecewiseLinearSchedule,
    PrevActionsPrevRewards,
    UniformNoise,
    defaults,
)
from episodia.errors import ConnectorError, PolicyError, SpaceError
from episodia.modules import LSTMActorCritic, MLPActorCritic, MultiModule, RandomModule, default_module
from episodia.policies import Policy
from episodia.testing import SPACES
from episodia.trees import map_batch

CUSTOM = {
    "plain": list,
    "stacked frames": lambda: [FrameStacking(num_frames=3), FlattenObservations()],
    "the past": lambda: [PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=3), FlattenObservations()],
    "a filter": lambda: [MeanStdFilter(clip_by_value=2.0)],
}
RECURRENT = [None, "lstm", "gru"]


def decided(module, seed=5):
    """Return the module with other weights, so that observations really decide what it does."""
    generator = torch.Generator().manual_seed(seed)
    for weight in module.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    return module


def parts(env_id, custom="plain", recurrent=None, **options):
    """Return a module with both pipelines for an environment."""
    env = gym.make(env_id)
    sides = env.observation_space, env.action_space
    stateful = recurrent is not None
    to_module = defaults.env_to_module(*sides, custom=CUSTOM[custom](), stateful=stateful)
    generator = torch.Generator().manual_seed(0)
    module = default_module(
        to_module.observation_space, sides[1], hidden=(8,), recurrent=recurrent, generator=generator, **options
    )
    return decided(module), to_module, defaults.module_to_env(*sides, stateful=stateful)


def seen(to_module, env_id, steps=20):
    """Let the pieces that collect statistics see something."""
    env = gym.make(env_id)
    env.action_space.seed(0)
    episode = SingleAgentEpisode("seen")
    episode.add_env_reset(env.reset(seed=3)[0])
    filters = [piece for piece in to_module if isinstance(piece, MeanStdFilter)]
    for _ in range(steps):
        for piece in filters:
            piece(rl_module=None, batch={}, episodes=EpisodeList([episode]).current())
        action = env.action_space.sample()
        episode.add_env_step(env.step(action)[0], action, 0.0)
    for piece in filters:
        piece.commit()


def played(policy, env_id, steps=25, seed=0):
    """Return the actions of a policy in some steps of an environment, which goes on after its end."""
    env = gym.make(env_id)
    observation, _ = env.reset(seed=seed)
    policy.reset()
    actions = []
    for _ in range(steps):
        actions.append(policy(observation))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        policy.observe(reward)
        if terminated or truncated:
            observation, _ = env.reset()
            policy.reset()
    return actions


def looped(module, to_module, to_env, env_id, steps=25):
    """Return the same as `played`, from a plain loop over one whole episode after another."""
    env = gym.make(env_id)
    observation, _ = env.reset(seed=0)
    episode, actions = None, []
    for _ in range(steps):
        if episode is None:
            episode = SingleAgentEpisode("loop")
            episode.add_env_reset(observation)
        shared = {}
        with torch.no_grad():
            outputs = module.forward_inference(to_module(rl_module=module, episodes=[episode], shared_data=shared))
        made = to_env(rl_module=module, batch=outputs, episodes=[episode], explore=False, shared_data=shared)
        actions.append(made[Columns.ACTIONS_FOR_ENV][0])
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        extras = {}
        if Columns.STATE_OUT in made:
            extras[Columns.STATE_OUT] = map_batch(lambda leaf: leaf[0], made[Columns.STATE_OUT])
        episode.add_env_step(observation, made[Columns.ACTIONS][0], reward, extra_model_outputs=extras)
        if terminated or truncated:
            observation, _ = env.reset()
            episode = None
    return actions


def same(left, right):
    return all(map(np.array_equal, left, right)) and len(left) == len(right)


@pytest.mark.parametrize("custom", CUSTOM)
@pytest.mark.parametrize("recurrent", RECURRENT)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_policy_acts_as_a_plain_loop_over_whole_episodes_does(env_id, recurrent, custom):
    module, to_module, to_env = parts(env_id, custom, recurrent)
    seen(to_module, env_id)

    actions = played(Policy(module, to_module, to_env), env_id)

    assert same(actions, looped(module, to_module, to_env, env_id))
    # Else the observations would not have mattered.
    assert env_id == "CartPole-v1" or len({action.tobytes() for action in actions}) > 10


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("custom", CUSTOM)
@pytest.mark.parametrize("recurrent", RECURRENT)
def test_a_saved_policy_acts_like_the_one_that_was_saved_bit_for_bit(tmp_path, recurrent, custom, explore):
    env_id = "Pendulum-v1"
    module, to_module, to_env = parts(env_id, custom, recurrent)
    seen(to_module, env_id)
    policy = Policy(module, to_module, to_env, explore=explore, seed=3)
    played(policy, env_id, steps=3)
    policy.save(tmp_path / "saved")

    loaded = Policy.load(tmp_path / "saved")

    assert same(played(loaded, env_id), played(policy, env_id))
    assert (loaded.observation_space, loaded.action_space) == (policy.observation_space, policy.action_space)


@pytest.mark.parametrize("name", [name for name in ACTION_SPACES if name != "box without elements"])
@pytest.mark.parametrize("explore", [False, True])
def test_every_action_space_comes_back(tmp_path, name, explore):
    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    policy = Policy(decided(MLPActorCritic(observation_space, ACTION_SPACES[name])), explore=explore, seed=0)
    policy.save(tmp_path / "saved")
    loaded = Policy.load(tmp_path / "saved")
    for seed in range(3):
        observation = np.random.default_rng(seed).normal(size=3).astype(np.float32)
        left, right = policy(observation), loaded(observation)

        flat = [[leaf for _, leaf in _leaves(action)] for action in (left, right)]
        assert same(*flat)
        assert all(type(one) is type(other) for one, other in zip(*flat, strict=True))
        if not isinstance(ACTION_SPACES[name], spaces.Box) or ACTION_SPACES[name].shape:
            assert ACTION_SPACES[name].contains(left)


def _leaves(action):
    if isinstance(action, dict):
        return [pair for key in action for pair in _leaves(action[key])]
    if isinstance(action, tuple):
        return [pair for part in action for pair in _leaves(part)]
    return [(None, action)]


UNFIT = ("text", "sequence", "graph", "one of", "box without elements")
OBSERVABLE = {name: space for name, space in SPACES.items() if not any(word in name for word in UNFIT)}


@pytest.mark.parametrize("name", OBSERVABLE)
def test_every_observation_space_comes_back(tmp_path, name):
    space = OBSERVABLE[name]
    policy = Policy(decided(default_module(space, spaces.Box(-1.0, 1.0, (2,)), hidden=(6,))))
    policy.save(tmp_path / "saved")
    loaded = Policy.load(tmp_path / "saved")
    space.seed(0)
    for _ in range(3):
        observation = space.sample()

        assert np.array_equal(loaded(observation), policy(observation))


PIECES = {
    "epsilon": lambda: [EpsilonGreedy(epsilon=PiecewiseLinearSchedule([(0, 0.9), (50, 0.1)]), seed=1)],
    "normal noise": lambda: [GaussianNoise(std=ExponentialSchedule(1.0, 0.1, half_life=10), seed=1, name="noise")],
    "uniform noise": lambda: [UniformNoise(amplitude=0.5, real_range=None, seed=2)],
}


@pytest.mark.parametrize("name", PIECES)
def test_exploring_pieces_go_on_where_they_were(tmp_path, name):
    env = gym.make("Pendulum-v1")
    sides = env.observation_space, env.action_space
    to_env = defaults.module_to_env(*sides, custom=PIECES[name]())
    policy = Policy(decided(MLPActorCritic(*sides)), None, to_env, explore=True, seed=0)
    played(policy, "Pendulum-v1", 7)
    policy.save(tmp_path / "saved")

    assert same(played(Policy.load(tmp_path / "saved"), "Pendulum-v1"), played(policy, "Pendulum-v1"))


def test_classes_as_observations_go_through_one_hot_pieces(tmp_path):
    env = gym.make("FrozenLake-v1", is_slippery=False)
    sides = env.observation_space, env.action_space
    to_module = defaults.env_to_module(*sides, custom=[OneHotObservations()])
    policy = Policy(decided(LSTMActorCritic(*sides)), explore=True, seed=0)
    flat = Policy(decided(MLPActorCritic(to_module.observation_space, sides[1])), to_module)
    for place, one in enumerate((policy, flat)):
        one.save(tmp_path / str(place))

        loaded = Policy.load(tmp_path / str(place))
        assert same(played(loaded, "FrozenLake-v1"), played(one, "FrozenLake-v1"))


def test_a_random_policy_goes_on_drawing_the_same(tmp_path):
    sides = spaces.Discrete(3), spaces.Discrete(1000)
    policy = Policy(RandomModule(*sides, seed=4))
    policy(0)
    policy.save(tmp_path / "saved")
    loaded = Policy.load(tmp_path / "saved")

    assert [loaded(0) for _ in range(5)] == [policy(0) for _ in range(5)]


def test_weights_of_double_precision_stay_so(tmp_path):
    module = decided(MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2))).double()
    Policy(module).save(tmp_path / "saved")

    weights = Policy.load(tmp_path / "saved").get_state()["module"]["state"]

    assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())


# --- What a policy remembers ----------------------------------------------------------------------------------------


def test_a_new_episode_begins_from_nothing():
    policy = Policy(*parts("CartPole-v1", "the past", "lstm"))
    first = played(policy, "CartPole-v1")

    assert same(played(policy, "CartPole-v1"), first)


def test_a_policy_that_looks_at_rewards_wants_to_be_told_them():
    policy = Policy(*parts("CartPole-v1", "the past"))
    observation = np.zeros(4, np.float32)
    policy(observation)

    with pytest.raises(PolicyError, match=r"found no reward for its last action.*`observe\(reward\)`"):
        policy(observation)
    policy.observe(1.0)
    policy(observation)


class LastReward(ConnectorV2):
    """A piece of a user that declares that it reads rewards."""

    reads, writes = frozenset(), frozenset({"last_reward"})
    writes_to_episodes = False
    reads_rewards = True

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            self.add_batch_item(batch, "last_reward", episode.get_rewards(-1, fill=0.0), episode)
        return batch


def test_a_policy_with_a_piece_that_declares_to_read_rewards_needs_them():
    module, to_module, to_env = parts("CartPole-v1")
    to_module.append(LastReward())
    policy = Policy(module, to_module, to_env)
    policy(np.zeros(4, np.float32))

    with pytest.raises(PolicyError, match="found no reward for its last action"):
        policy(np.zeros(4, np.float32))


def test_rewards_between_two_actions_add_up():
    left, right = (Policy(*parts("Pendulum-v1", "the past")) for _ in range(2))
    observation = np.zeros(3, np.float32)
    for policy, rewards in ((left, [1.0, 2.0]), (right, [3.0])):
        policy(observation)
        for reward in rewards:
            policy.observe(reward)

    other = Policy(*parts("Pendulum-v1", "the past"))
    other(observation)
    other.observe(-9.0)
    after = right(observation)
    assert np.array_equal(left(observation), after)
    assert not np.array_equal(other(observation), after)


@pytest.mark.parametrize("reward", [np.nan, np.inf, [1.0, 2.0]])
def test_what_is_no_reward_is_rejected(reward):
    policy = Policy(*parts("CartPole-v1"))
    policy(np.zeros(4, np.float32))

    with pytest.raises(PolicyError, match="expected a finite number"):
        policy.observe(reward)


def test_a_reward_before_any_action_is_rejected():
    with pytest.raises(PolicyError, match="found a reward before the first action"):
        Policy(*parts("CartPole-v1")).observe(1.0)


def test_the_past_does_not_pile_up():
    policy = Policy(*parts("CartPole-v1", "stacked frames"))
    for _ in range(50):
        policy(np.zeros(4, np.float32))

    assert policy._episode.observations.len_incl_lookback() <= 5


# --- A policy is a snapshot -----------------------------------------------------------------------------------------


def test_training_that_goes_on_does_not_change_a_policy():
    module, to_module, to_env = parts("Pendulum-v1", "a filter")
    seen(to_module, "Pendulum-v1")
    policy = Policy(module, to_module, to_env)
    before = played(policy, "Pendulum-v1")

    decided(module)
    seen(to_module, "Pendulum-v1", 5)

    assert same(played(policy, "Pendulum-v1"), before)


def test_acting_changes_no_statistics():
    module, to_module, to_env = parts("Pendulum-v1", "a filter")
    seen(to_module, "Pendulum-v1")
    policy = Policy(module, to_module, to_env)
    theirs, own = str(to_module.get_state()), str(policy.get_state()["env_to_module"]["state"])

    played(policy, "Pendulum-v1")

    assert str(to_module.get_state()) == theirs
    assert str(policy.get_state()["env_to_module"]["state"]) == own


class Fragile(ConnectorV2):
    """Fails when it is told to."""

    fails = False

    def __call__(self, *, batch, **kwargs):
        if Fragile.fails:
            raise RuntimeError("told to")
        return batch


@pytest.mark.parametrize("problem", ["piece", "observation"])
def test_a_call_that_fails_changes_nothing(monkeypatch, problem):
    policies = []
    for _ in range(2):
        module, to_module, to_env = parts("Pendulum-v1", "the past", "gru")
        to_module.append(Fragile())
        policies.append(Policy(module, to_module, to_env))
    first, second = np.zeros(3, np.float32), np.ones(3, np.float32)
    for policy in policies:
        policy(first)
        policy.observe(0.5)
    with monkeypatch.context() as patch:
        patch.setattr(Fragile, "fails", problem == "piece")
        with pytest.raises((ConnectorError, SpaceError)):
            policies[0](second if problem == "piece" else np.zeros(5))

    assert np.array_equal(policies[0](second), policies[1](second))


def test_masked_actions_are_never_taken():
    policy = Policy(MLPActorCritic(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(5)), explore=True, seed=0)
    observation = np.zeros(2, np.float32)

    assert {int(policy(observation, action_mask=[0, 1, 0, 0, 1])) for _ in range(40)} == {1, 4}


def test_several_modules_are_no_policy():
    module = MLPActorCritic(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(5))

    with pytest.raises(PolicyError, match=r"found the modules .*'a', 'b'.*MultiAgentPolicy"):
        Policy(MultiModule({"a": module, "b": module}))


def test_a_policy_says_what_it_is():
    assert repr(Policy(RandomModule(None, spaces.Discrete(2)))) == "Policy(RandomModule, explore=False)"
