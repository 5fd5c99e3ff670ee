"""Modules in RLlib's form: act, estimate values, keep states and learn."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Learner, SingleAgentEnvRunner
from episodia.errors import ModuleError
from episodia.learners import PPOConfig
from episodia.modules import DistributionModule, MultiModule, RandomModule, ValueModule
from episodia.rllib import Columns, RLModule, TorchRLModule, ValueFunctionAPI

OBSERVATIONS, ACTIONS = spaces.Box(-5.0, 5.0, (4,)), spaces.Discrete(2)


class Small(TorchRLModule, ValueFunctionAPI):
    def setup(self):
        self.body = torch.nn.Linear(self.observation_space.shape[0], self.model_config.get("width", 8))
        self.head = torch.nn.Linear(self.model_config.get("width", 8), self.action_space.n)
        self.critic = torch.nn.Linear(self.model_config.get("width", 8), 1)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.head(torch.tanh(self.body(batch[Columns.OBS])))}

    def compute_values(self, batch, embeddings=None):
        return self.critic(torch.tanh(self.body(batch[Columns.OBS]))).squeeze(-1)


class Counting(Small):
    def get_initial_state(self):
        return {"count": torch.zeros(1)}

    def _forward(self, batch, **kwargs):
        outputs = super()._forward(batch)
        return {**outputs, Columns.STATE_OUT: {"count": batch[Columns.STATE_IN]["count"] + batch[Columns.OBS].shape[1]}}


def test_setup_sees_spaces_and_model_config():
    module = Small(observation_space=OBSERVATIONS, action_space=ACTIONS, model_config={"width": 3})

    assert module.body.out_features == 3
    assert isinstance(module, DistributionModule)
    assert isinstance(module, ValueModule)


def test_no_catalog_is_taken_and_any_other_rejected():
    Small(OBSERVATIONS, ACTIONS, inference_only=True, learner_only=False, model_config=None, catalog_class=None)

    with pytest.raises(ModuleError, match=r"Small: found `catalog_class=.*Build the networks in `setup`"):
        Small(OBSERVATIONS, ACTIONS, catalog_class=dict)


def test_each_forward_pass_calls_its_own_method():
    class Named(RLModule):
        def _forward(self, batch, **kwargs):
            return {"called": "plain"}

        def _forward_train(self, batch, **kwargs):
            return {"called": "train"}

    module = Named()
    passes = [module.forward_inference, module.forward_exploration, module.forward_train]

    assert [forward({})["called"] for forward in passes] == ["plain", "plain", "train"]


def test_only_the_training_pass_computes_gradients():
    module, batch = Small(OBSERVATIONS, ACTIONS), {"obs": torch.zeros(2, 4)}
    passes = [module.forward_inference, module.forward_exploration, module.forward_train, module]

    assert [forward(batch)["action_dist_inputs"].requires_grad for forward in passes] == [False, False, True, True]


def test_a_module_without_a_forward_pass_says_what_to_implement():
    with pytest.raises(ModuleError, match="Implement them"):
        RLModule().forward_train({})


def test_a_given_distribution_is_used():
    class Own(RLModule):
        action_dist_cls = "mine"

    module = Own()
    getters = [
        module.get_inference_action_dist_cls,
        module.get_exploration_action_dist_cls,
        module.get_train_action_dist_cls,
    ]

    assert [getter() for getter in getters] == ["mine"] * 3


def test_states_given_as_tensors_are_carried_through_an_episode():
    module = Counting(OBSERVATIONS, ACTIONS)
    (episode,) = SingleAgentEnvRunner("CartPole-v1", module, seed=0).sample(num_episodes=1)
    counts = episode.get_extra_model_outputs(Columns.STATE_OUT)["count"]

    assert isinstance(module.get_initial_state()["count"], np.ndarray)
    assert module.is_stateful()
    assert counts[:, 0].tolist() == [step + 1.0 for step in range(len(episode))]


def test_a_ported_module_learns_with_ppo():
    module = Small(OBSERVATIONS, ACTIONS)
    before = module.head.weight.detach().clone()
    runner, learner = SingleAgentEnvRunner("CartPole-v1", module, seed=0), Learner(module, PPOConfig(), seed=0)
    learner.update(runner.sample(num_timesteps=64))

    assert not torch.equal(before, module.head.weight)


def test_sequences_are_as_long_as_the_model_config_says():
    module = Counting(OBSERVATIONS, ACTIONS, model_config={"width": 4, "max_seq_len": 3})
    with SingleAgentEnvRunner("CartPole-v1", module, seed=0) as runner:
        batch = Learner(module, PPOConfig()).batch_of(runner.sample(num_timesteps=12))["default_policy"]

    assert batch["obs"].shape[1:] == (3, 4)


def test_the_config_of_a_module_makes_an_equal_module():
    module = Small(OBSERVATIONS, ACTIONS, model_config={"width": 3})
    copy = Small(OBSERVATIONS, ACTIONS, **module.get_config())

    assert copy.get_config() == module.get_config()
    assert copy.body.out_features == 3


def test_a_module_without_an_action_space_has_no_distribution():
    with pytest.raises(ModuleError, match="Pass `action_space=`"):
        RLModule().get_train_action_dist_cls()


def test_foreach_module_calls_the_function_with_each_member():
    modules = MultiModule({"left": RandomModule(None, ACTIONS, seed=1), "right": RandomModule(None, ACTIONS, seed=2)})
    seeds = {"left": 11, "right": 12}

    assert modules.foreach_module(lambda _, module, plus: module.seed + plus, plus=10) == list(seeds.values())
    assert modules.foreach_module(lambda _, module: module.seed + 10, return_dict=True) == seeds
