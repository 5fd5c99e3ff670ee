"""Following the report on columns: who writes what, several modules, and what is left out without changing what is learned."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.connectors import AddViews, ConnectorV2, DropModuleOutputs, View, defaults, detect_columns
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.learners import LOSS, A2CConfig, Learner, LossInputs, PPOConfig
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.modules import LSTMActorCritic, MLPActorCritic, MultiModule
from scripted_agents import ACTIONS, OBSERVATIONS, ScriptedEnv

SPACES = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2)
CARTPOLE = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)
COEFFICIENTS = {"clip": 0.2, "kl_coefficient": 0.0, "value_coefficient": 0.5, "entropy_coefficient": 0.0}


def reads(*columns):
    """Return a loss that reads `columns`."""
    return lambda _, batch: [batch[column] for column in columns]


def loss_of(config):
    return lambda module, batch: config.loss(LossInputs(module, batch, COEFFICIENTS)).losses[LOSS]


class Bends(ConnectorV2):
    """Adds a column, overwrites another and deletes a third."""

    reads = frozenset({"rewards"})
    writes = frozenset({"rewards", "wind"})

    def __call__(self, *, batch, **kwargs):
        columns = batch.get("default_policy", batch)
        columns["wind"] = columns["rewards"].map(np.copy)
        columns["rewards"] = columns["rewards"].map(lambda leaf: leaf + 1.0)
        del columns["action_dist_inputs"]
        return batch


def test_columns_that_a_piece_adds_overwrites_and_deletes_are_named():
    learner = defaults.learner(*SPACES, targets=[Bends()])
    report = detect_columns(MLPActorCritic(*SPACES), reads("actions"), learner=learner)

    assert report.added["wind"] == ("Bends",)
    assert report.overwritten == {"rewards": ("Bends",)}
    assert report.deleted == {"action_dist_inputs": ("Bends",)}
    assert "added: wind, by Bends" in str(report)
    assert "deleted: action_dist_inputs, by Bends" in str(report)


def test_columns_that_a_loss_adds_overwrites_and_deletes_are_named():
    def loss(_, batch):
        batch["scaled"] = batch["rewards"] * 2.0
        batch["actions"] = batch["actions"] + 1
        batch["rewards"] += 1.0
        del batch["action_logp"]

    report = detect_columns(MLPActorCritic(*SPACES), loss)

    assert report.added["scaled"] == report.overwritten["actions"] == report.overwritten["rewards"] == ("loss",)
    assert report.deleted == {"action_logp": ("loss",)}


def test_a_pipeline_that_only_changes_the_form_overwrites_nothing():
    report = detect_columns(MLPActorCritic(*SPACES), reads("actions"))

    assert (report.overwritten, report.deleted) == ({}, {})
    assert {"obs", "actions", "rewards"} <= report.added.keys()


def test_a_column_is_dropped_if_no_module_needs_it():
    modules = MultiModule({"left": MLPActorCritic(*SPACES), "right": MLPActorCritic(*CARTPOLE)})
    right = modules["right"]

    def loss(module, batch):
        return batch["actions"], batch["action_logp"] if module is right else None

    report = detect_columns(modules, loss)

    assert report.training["action_logp"] == ("right: loss",)
    assert set(report.training["actions"]) == {"left: loss", "right: loss"}
    assert report.dropped.keys() == {"action_dist_inputs"} == report.unrecorded


@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
def test_following_the_report_changes_nothing_that_is_learned(kind):
    def trained(is_pruned):
        config = A2CConfig()
        modules = [kind(*CARTPOLE, generator=torch.Generator().manual_seed(0)) for _ in range(2)]
        stateful = modules[0].is_stateful()
        learner = Learner(
            modules[0], config, learner_pipeline=default_pipeline(config, *CARTPOLE, stateful=stateful), seed=0
        )
        with SingleAgentEnvRunner(
            "CartPole-v1", modules[1], num_envs=2, seed=0, lookback=learner.pipeline.lookback
        ) as runner:
            if is_pruned:
                pipeline = default_pipeline(config, *CARTPOLE, stateful=stateful)
                report = detect_columns(modules[0], loss_of(config), learner=pipeline)
                report.prune(learner=learner.pipeline, module_to_env=runner.module_to_env)
            for _ in range(2):
                episodes = runner.sample(num_timesteps=60)
                columns = set(learner.batch_of(episodes)["default_policy"])
                learner.update(episodes)
                runner.set_weights(learner.get_weights()["default_policy"])
        return learner.get_weights()["default_policy"], columns, set(episodes.extra_columns())

    (weights, columns, recorded), (pruned, fewer, less) = trained(is_pruned=False), trained(is_pruned=True)

    assert all(torch.equal(weights[name], pruned[name]) for name in weights)
    assert columns - fewer == recorded - less == {"action_logp", "action_dist_inputs"}
    assert {"rewards", "terminateds", "truncateds"} <= fewer


def test_outputs_that_a_view_reads_are_recorded_though_they_are_not_gathered():
    module = MLPActorCritic(*SPACES)
    module.views = {"before": View("action_dist_inputs", -1, fill=0.0), "unread": View("action_logp", -1, fill=0.0)}
    module.views["unread"] = View("action_logp", -1, fill=0.0, infer=False)
    learner = defaults.learner(*SPACES, module=module)
    report = detect_columns(module, reads("actions", "before"), learner=learner)
    report.prune(learner=learner)

    assert report.dropped.keys() == {"action_logp", "action_dist_inputs", "unread"}
    assert report.unrecorded == {"action_logp"}
    assert set(learner[AddViews].views) == {"before"}


def test_a_view_that_is_only_read_when_acting_stays_for_acting():
    views = AddViews({"last": View("rewards", -1)})
    learner = defaults.learner(*SPACES, custom=[views])

    detect_columns(MLPActorCritic(*SPACES), reads("actions"), learner=learner).prune(learner=learner)

    assert views.views["last"] == View("rewards", -1, train=False)


def test_runners_of_several_agents_leave_out_what_is_not_recorded():
    module = MLPActorCritic(OBSERVATIONS, ACTIONS)
    with MultiAgentEnvRunner(lambda: ScriptedEnv(kind="simultaneous"), module, num_envs=2, seed=0) as runner:
        detect_columns(module, reads("actions", "action_logp")).prune(module_to_env=runner.module_to_env)
        episodes = runner.sample(num_timesteps=20)

    assert episodes.extra_columns() == ["action_logp"]


def test_losses_of_algorithms_need_what_they_read():
    report = detect_columns(
        MLPActorCritic(*SPACES), loss_of(PPOConfig()), learner=default_pipeline(PPOConfig(), *SPACES)
    )

    assert report.unrecorded == {"action_dist_inputs"}
    assert "not recorded: action_dist_inputs" in str(report)


def test_dropping_outputs_leaves_all_others():
    piece = DropModuleOutputs(columns=["vf_preds", "embeddings"])
    batch = {"actions": np.zeros(1), "vf_preds": np.ones(1)}

    assert piece(rl_module=None, batch=batch, episodes=[]) == {"actions": np.zeros(1)}
    assert repr(piece) == "DropModuleOutputs(columns=('embeddings', 'vf_preds'))"


def test_dropping_outputs_works_for_each_of_several_modules():
    piece = DropModuleOutputs(columns=["vf_preds"])
    outputs = {"actions": np.zeros(1), "vf_preds": np.ones(1)}
    batch = {"left": dict(outputs), "right": {**outputs, "embeddings": np.ones(1)}}
    modules = MultiModule({name: MLPActorCritic(*SPACES, hidden=()) for name in batch})

    found = piece(rl_module=modules, batch=batch, episodes=[])

    assert {name: list(columns) for name, columns in found.items()} == {
        "left": ["actions"],
        "right": ["actions", "embeddings"],
    }
