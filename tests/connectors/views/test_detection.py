"""Finding out which columns a module and its loss use: what is read is needed, what is not is named, nothing is changed."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia.connectors import AddColumnsFromEpisodesToTrainBatch, ConnectorV2, View, defaults, detect_columns
from episodia.connectors.batches.tracked_batch import TrackedBatch
from episodia.errors import BatchError, PipelineError
from episodia.learners import LOSS, LossInputs, PPOConfig
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.modules import LSTMActorCritic, MLPActorCritic, RuleModule

SPACES = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2)


def reads(*columns):
    """Return a loss that reads `columns`."""
    return lambda _, batch: [batch[column] for column in columns]


def test_what_the_module_or_the_loss_reads_is_needed():
    report = detect_columns(MLPActorCritic(*SPACES), reads("actions", "action_logp"))

    assert report.needed == {"obs", "actions", "action_logp"}
    assert report.training["obs"] == ("forward_train", "compute_values")
    assert report.training["actions"] == ("loss",)


def test_unread_columns_would_be_dropped_and_the_report_says_why():
    report = detect_columns(MLPActorCritic(*SPACES), reads("actions"))

    assert report.dropped.keys() == {"action_logp", "action_dist_inputs"}
    assert "action_logp: DROP, no forward pass, no loss and no piece" in str(report)


@pytest.mark.parametrize("loss", [None, reads(), reads("actions")])
def test_rewards_and_flags_are_never_dropped(loss):
    report = detect_columns(MLPActorCritic(*SPACES), loss)

    assert report.kept.keys() >= {"rewards", "terminateds", "truncateds"}
    assert not report.dropped.keys() & {"rewards", "terminateds", "truncateds"}


def test_unread_views_are_found():
    module = MLPActorCritic(*SPACES)
    module.views = {
        "window": View("obs", [-1, 0]),
        "last": View("rewards", -1),
        "next": View("actions", 1, infer=False),
    }
    report = detect_columns(module, reads("last"))

    assert report.unused_when_acting == {"window", "last"}
    assert report.dropped.keys() >= {"window", "next"}
    assert "last" in report.needed


def test_what_a_piece_of_the_pipeline_reads_is_needed():
    module, config = MLPActorCritic(*SPACES), PPOConfig()
    coefficients = {"clip": 0.2, "kl_coefficient": 0.0, "value_coefficient": 0.5, "entropy_coefficient": 0.0}
    report = detect_columns(
        module,
        lambda module, batch: config.loss(LossInputs(module, batch, coefficients)).losses[LOSS],
        learner=default_pipeline(config, *SPACES),
    )

    assert report.needed >= {"obs", "actions", "advantages", "value_targets", "action_logp", "rewards"}
    assert report.training["rewards"] == ("GeneralAdvantageEstimation",)
    assert "action_dist_inputs" in report.dropped


def test_following_the_report_changes_nothing_for_the_loss():
    module = MLPActorCritic(*SPACES)
    report = detect_columns(module, reads("actions"))
    pipeline = defaults.learner(*SPACES)
    pipeline.replace(
        AddColumnsFromEpisodesToTrainBatch, AddColumnsFromEpisodesToTrainBatch(skip_columns=report.dropped)
    )

    again = detect_columns(module, reads("actions"), learner=pipeline)

    assert again.needed == report.needed
    assert again.dropped == {}


def test_nothing_is_dropped_where_a_piece_does_not_say_what_it_reads():
    class Silent(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            return batch

    report = detect_columns(MLPActorCritic(*SPACES), reads(), learner=defaults.learner(*SPACES, custom=[Silent()]))

    assert report.dropped == {}
    assert report.kept["actions"] == "Silent does not declare what it reads"


def test_a_column_that_is_not_there_is_an_error_that_names_it():
    with pytest.raises(BatchError, match=r"loss requested \['wind'\].*Declare a view"):
        detect_columns(MLPActorCritic(*SPACES), reads("wind"))


def test_what_was_asked_for_in_vain_is_reported():
    report = detect_columns(MLPActorCritic(*SPACES), lambda _, batch: batch.get("weights"))

    assert report.missed["weights"] == ("loss",)
    assert "missing: weights, requested by loss" in str(report)


def test_recurrent_modules_keep_their_states_and_masks():
    report = detect_columns(LSTMActorCritic(*SPACES), reads("actions"))

    assert {"state_in", "seq_lens", "loss_mask"} <= report.needed | report.kept.keys()
    assert "state_in" in report.acting


def test_modules_without_weights_work_too():
    module = RuleModule(lambda observations: np.zeros(len(observations), np.int64), *SPACES)

    assert "obs" in detect_columns(module).needed


def test_an_episode_without_steps_is_rejected():
    with pytest.raises(PipelineError, match=r"`num_steps=0`, expected at least 1"):
        detect_columns(MLPActorCritic(*SPACES), num_steps=0)


def test_spaces_have_to_be_known():
    with pytest.raises(PipelineError, match=r"no observation space.*Pass `observation_space`"):
        detect_columns(RuleModule(lambda observations: observations))


def test_the_generators_of_the_caller_are_not_touched():
    module = MLPActorCritic(*SPACES)
    module.observation_space.seed(7)
    expected = module.observation_space.sample()
    module.observation_space.seed(7)

    detect_columns(module)

    np.testing.assert_array_equal(module.observation_space.sample(), expected)


# --- The dict that takes notes --------------------------------------------------------------------------------------

ACCESSES = {
    "brackets": (lambda batch: batch["a"], {"a"}),
    "get": (lambda batch: batch.get("a"), {"a"}),
    "in": (lambda batch: "a" in batch, {"a"}),
    "pop": (lambda batch: batch.pop("a"), {"a"}),
    "setdefault": (lambda batch: batch.setdefault("a"), {"a"}),
    "names": (lambda batch: (list(batch), list(batch.keys()), len(batch), repr(type(batch))), set()),
    "items": (lambda batch: list(batch.items()), {"a", "b"}),
    "values": (lambda batch: list(batch.values()), {"a", "b"}),
    "unpacked": (lambda batch: {**batch}, {"a", "b"}),
    "as a dict": (lambda batch: dict(batch), {"a", "b"}),  # noqa: PLW0108  # what is tested
    "a copy": (lambda batch: batch.copy()["a"], {"a"}),
    "written first": (lambda batch: batch.update(new=1) or batch["new"], set()),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_every_way_to_read_a_column_is_noted(name):
    access, expected = ACCESSES[name]
    batch = TrackedBatch({"a": 1, "b": 2})
    access(batch)

    assert batch.read == expected
    assert not batch.missed


@given(st.dictionaries(st.text(max_size=2), st.integers(), max_size=4))
def test_it_is_equal_to_the_dict_that_it_was_made_of(columns):
    assert TrackedBatch(columns) == columns
    assert isinstance(TrackedBatch(columns), dict)
