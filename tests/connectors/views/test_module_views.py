"""Pipelines that were built with a module follow the views that are added to it later."""

import copy
import pickle
from types import MappingProxyType

import gymnasium as gym
import numpy as np
import pytest

from episodia import Columns, MultiAgentEnvRunner, Policy, SingleAgentEnvRunner
from episodia.connectors import AddViews, View, defaults
from episodia.errors import ModuleError, PipelineError
from episodia.learners import Learner, PPOConfig
from episodia.modules import MLPActorCritic
from episodia.rllib import TorchRLModule
from episodia.testing import FakeMultiAgentEnv

ENV = gym.make("CartPole-v1")
SPACES = ENV.observation_space, ENV.action_space
LAST = View(Columns.REWARDS, shift=-1)


class Seeing(MLPActorCritic):
    """Remembers the columns that it was given last."""

    seen = MappingProxyType({})

    def forward_exploration(self, batch):
        self.seen = dict(batch)
        return super().forward_exploration(batch)

    def forward_inference(self, batch):
        self.seen = dict(batch)
        return super().forward_inference(batch)


def runner_of(module, **kwargs):
    return SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=0, **kwargs)


def test_a_running_runner_follows_a_view_that_is_added():
    module = Seeing(*SPACES)
    with runner_of(module) as runner:
        runner.sample(num_timesteps=10)
        module.views["before"] = View(Columns.OBS, shift=range(-3, 0))
        runner.sample(num_timesteps=10)
        chunks = runner.sample(num_timesteps=10)

        assert runner.lookback == 3
        assert module.seen["before"].shape == (2, 3, 4)
        assert max(chunk.observations.lookback for chunk in chunks) == 3


def test_learner_and_runner_see_the_same_columns():
    module = Seeing(*SPACES)
    learner = Learner(module, PPOConfig(), seed=0)
    with runner_of(module) as runner:
        module.views["last"] = LAST
        for _ in range(2):
            episodes = runner.sample(num_timesteps=20)
            batch = learner.batch_of(episodes)["default_policy"]
            expected = [
                [0.0 if episode.t_started + t == 0 else 1.0 for t in range(len(episode))] for episode in episodes
            ]

            assert batch["last"].tolist() == [reward for rewards in expected for reward in rewards]


def assign(module):
    module.views = {"last": LAST}


def merge(module):
    module.views |= {"last": LAST}


class Ported(TorchRLModule):
    """A module in RLlib's form, without networks."""


@pytest.mark.parametrize("kind", [Seeing, Ported])
@pytest.mark.parametrize("add", [assign, merge])
def test_pipelines_follow_views_that_are_assigned_or_merged(kind, add):
    module = kind(*SPACES)
    module.views["first"] = LAST
    pipelines = [make(*SPACES, module=module) for make in (defaults.env_to_module, defaults.learner)]
    add(module)
    module.views["later"] = LAST

    expected = {"last", "later"} | ({"first"} if add is merge else set())
    assert set(module.views) == expected
    assert all(set(pipeline["AddViews"].views) == expected for pipeline in pipelines)
    module.views = None
    assert all("AddViews" not in [piece.name for piece in pipeline] for pipeline in pipelines)


def test_assigned_views_that_a_pipeline_rejects_change_nothing():
    module = Seeing(*SPACES)
    module.views["last"] = LAST
    pipeline = defaults.env_to_module(*SPACES, module=module)

    with pytest.raises(PipelineError, match="infer=False"):
        module.views = {"next": View(Columns.REWARDS, shift=1)}
    with pytest.raises(ModuleError, match=r"views: found 'obs'.*expected a dict of `View`s"):
        module.views = "obs"
    assert list(module.views) == list(pipeline["AddViews"].views) == ["last"]


def test_two_modules_share_the_views_that_one_is_given_of_the_other():
    one, other = Seeing(*SPACES), Seeing(*SPACES)
    pipelines = [defaults.env_to_module(*SPACES, module=module) for module in (one, other)]
    one.views["first"] = LAST
    other.views = one.views
    for number, module in enumerate([one, other]):
        module.views[f"{number}"] = LAST

    assert all(set(pipeline["AddViews"].views) == {"first", "0", "1"} for pipeline in pipelines)


def test_views_can_be_replaced_and_removed():
    module = Seeing(*SPACES)
    pipeline = defaults.env_to_module(*SPACES, module=module)
    names = [piece.name for piece in pipeline]
    module.views["last"] = LAST
    module.views["last"] = View(Columns.REWARDS, shift=-2)
    module.views["other"] = LAST

    assert pipeline.lookback == 2
    assert set(pipeline["AddViews"].views) == {"last", "other"}
    module.views.clear()
    assert [piece.name for piece in pipeline] == names


def test_a_view_that_a_pipeline_rejects_changes_nothing():
    module = Seeing(*SPACES)
    module.views["last"] = LAST
    learner = defaults.learner(*SPACES, module=module)
    runner = defaults.env_to_module(*SPACES, module=module)
    with pytest.raises(PipelineError, match="infer=False"):
        module.views["next"] = View(Columns.REWARDS, shift=1)

    for pipeline in (learner, runner):
        assert list(pipeline["AddViews"].views) == ["last"]
    assert list(module.views) == ["last"]


@pytest.mark.parametrize("view", [3, None, {"source": "obs"}])
def test_something_else_than_a_view_is_rejected_where_pipelines_follow(view):
    module = Seeing(*SPACES)
    pipeline = defaults.env_to_module(*SPACES, module=module)
    with pytest.raises(PipelineError, match="expected a `View`"):
        module.views["last"] = view

    assert "AddViews" not in [piece.name for piece in pipeline]
    assert not module.views


def test_a_view_of_observations_changes_the_space_of_the_pipeline():
    module = Seeing(*SPACES)
    pipeline = defaults.env_to_module(*SPACES, module=module)
    module.views[Columns.OBS] = View(Columns.OBS, shift=range(-1, 1))

    assert pipeline.observation_space.shape == (2, 4)


def test_views_of_one_of_several_modules_are_its_own():
    env = FakeMultiAgentEnv()
    left, right = (Seeing(env.observation_spaces["always"], env.action_spaces["always"]) for _ in range(2))
    modules = {"left": left, "right": right}
    with MultiAgentEnvRunner(
        lambda: env,
        modules,
        agent_to_module_mapping_fn=lambda agent, _: "left" if agent == "guest" else "right",
        seed=0,
    ) as runner:
        right.views["last"] = LAST
        runner.sample(num_episodes=2)

    assert "last" in right.seen
    assert left.seen
    assert "last" not in left.seen


def test_the_users_own_piece_of_views_stays():
    module, own = Seeing(*SPACES), AddViews({"mine": LAST})
    pipeline = defaults.env_to_module(*SPACES, custom=[own], module=module)
    module.views["last"] = LAST

    assert set(own.views) == {"mine"}
    assert pipeline.writes >= {"mine", "last"}


def test_a_policy_keeps_the_views_with_which_it_was_made():
    module = Seeing(*SPACES)
    policy = Policy(module)
    module.views["last"] = LAST

    assert policy(np.zeros(4, np.float32)) in (0, 1)
    assert "AddViews" not in [piece.name for piece in policy.parts().env_to_module]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copied_module_has_views_of_its_own(copied):
    module = MLPActorCritic(*SPACES)
    module.views["last"] = LAST
    pipeline = defaults.env_to_module(*SPACES, module=module)
    other = copied(module)
    other.views["more"] = LAST

    assert list(module.views) == list(pipeline["AddViews"].views) == ["last"]
    assert list(other.views) == ["last", "more"]


def test_a_pipeline_that_is_gone_is_forgotten():
    module = MLPActorCritic(*SPACES)
    defaults.env_to_module(*SPACES, module=module)
    module.views["last"] = LAST

    assert module.views._followers == []


def test_ported_modules_are_followed_too():
    class Ported(TorchRLModule):
        def _forward(self, batch, **kwargs):
            self.seen = dict(batch)
            return {Columns.ACTIONS: np.zeros(len(batch[Columns.OBS]), np.int64)}

    module = Ported(*SPACES)
    with runner_of(module) as runner:
        module.views["last"] = LAST
        runner.sample(num_timesteps=4)

    assert "last" in module.seen
