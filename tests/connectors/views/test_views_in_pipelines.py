"""Views in pipelines: checked when they are built, edited later, declared by modules, for recurrent ones too."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from drives import ACTIONS, OBSERVATIONS, drive
from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    AddViews,
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    GeneralAdvantageEstimation,
    Kind,
    LearnerConnectorPipeline,
    View,
    ViewRequirement,
    defaults,
)
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import ConnectorError, PipelineError
from episodia.learners import Learner, PPOConfig
from episodia.modules import MLPActorCritic
from scripted_agents import Echo, ScriptedEnv
from valued_modules import MemoryModule, SumModule

NEXT_ACTIONS = View("actions", shift=1, infer=False)


# --- The future -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [View("actions", 0), View("obs", [-1, 1]), ViewRequirement("rewards", shift="-3:0")])
def test_a_view_of_the_future_is_rejected_where_a_module_acts(view):
    with pytest.raises(PipelineError, match=r"EnvToModulePipeline, piece 'AddViews'.*'soon'.*future.*`infer=False`"):
        EnvToModulePipeline(connectors=[AddViews({"soon": view})])


def test_a_view_of_the_future_is_found_in_a_nested_pipeline():
    inner = ConnectorPipelineV2(connectors=[AddViews({"soon": View("actions", 1)})])

    with pytest.raises(PipelineError, match="looks into the future"):
        EnvToModulePipeline(connectors=[inner])


def test_learners_may_see_the_future():
    pipeline = LearnerConnectorPipeline(connectors=[AddViews({"soon": View("actions", 1)})])

    assert pipeline.kind is Kind.FORWARD_LOOKING
    assert pipeline(rl_module=None, episodes=[drive(3)])["soon"].shape == (3,)


# --- Editing --------------------------------------------------------------------------------------------------------


def test_a_view_that_is_added_later_is_in_the_next_batch():
    pipeline = defaults.learner(custom=[AddViews({})])
    pipeline["AddViews"].add("next_actions", NEXT_ACTIONS)
    actions = drive(4).get_actions().tolist()

    batch = pipeline(rl_module=None, episodes=[drive(4)])["default_policy"]

    assert batch["next_actions"].tolist() == [*actions[1:], 0]


def test_the_lookback_follows_the_views():
    piece = AddViews({"last": View("obs", -1)})
    pipeline = EnvToModulePipeline(connectors=[piece])
    piece.add("window", ViewRequirement("obs", shift="-50:-1"))
    before = pipeline.lookback
    piece.remove("window")

    assert (before, pipeline.lookback) == (50, 1)


def test_an_edit_that_a_pipeline_rejects_changes_nothing():
    piece = AddViews({"obs": View("obs", [-1, 0])})
    learner = LearnerConnectorPipeline(OBSERVATIONS, ACTIONS, connectors=[piece])
    acting = EnvToModulePipeline(OBSERVATIONS, ACTIONS, connectors=[piece])

    with pytest.raises(PipelineError, match="looks into the future"):
        piece.add("obs", View("obs", [-1, 0, 1]))

    assert dict(piece.views) == {"obs": View("obs", [-1, 0])}
    assert learner.observation_space.shape == acting.observation_space.shape == (2, 2)


class Reads(ConnectorV2):
    reads, writes, lookback = frozenset({"last"}), frozenset(), 0

    def __call__(self, *, batch, **kwargs):
        return batch


def test_a_view_that_another_piece_reads_cannot_be_removed():
    piece = AddViews({"last": View("obs", -1)})
    pipeline = EnvToModulePipeline(connectors=[piece, Reads()])

    with pytest.raises(PipelineError, match="reads the column 'last'"):
        piece.remove("last")

    assert "last" in pipeline["AddViews"].views


def test_only_what_is_seen_in_a_pipeline_counts_as_written_there():
    views = {"last": View("obs", -1, infer=False)}

    LearnerConnectorPipeline(connectors=[AddViews(views), Reads()])
    with pytest.raises(PipelineError, match="reads the column 'last'"):
        EnvToModulePipeline(connectors=[AddViews(views), Reads()])


def test_an_unknown_view_cannot_be_removed():
    with pytest.raises(PipelineError, match=r"no view 'x', expected one of \['a'\]"):
        AddViews({"a": View("obs")}).remove("x")


@pytest.mark.parametrize("views", [[View("obs")], {"a": "obs"}, {"": View("obs")}, {3: View("obs")}, None])
def test_anything_but_named_views_is_rejected(views):
    with pytest.raises(PipelineError, match="expected"):
        AddViews(views)


def test_an_error_names_the_view():
    pipeline = LearnerConnectorPipeline(connectors=[AddViews({"wrong": View("actions", -1, fill=0.5)})])

    with pytest.raises(ConnectorError) as caught:
        pipeline(rl_module=None, episodes=[drive(2)])

    assert caught.value.column == "wrong"


# --- In the place of observations -----------------------------------------------------------------------------------


def test_a_view_can_take_the_place_of_the_observations():
    pipeline = defaults.env_to_module(OBSERVATIONS, ACTIONS, custom=[AddViews({"obs": View("obs", range(-2, 1))})])
    batch = pipeline(rl_module=None, episodes=[drive(3)])

    assert pipeline.observation_space.shape == batch["obs"].shape[1:] == (3, 2)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Discrete(3, start=2), spaces.MultiDiscrete([3, 3], start=[2, 2])),
        (spaces.MultiBinary(4), spaces.MultiBinary([2, 4])),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([[2, 3], [2, 3]])),
        (spaces.Tuple([spaces.Discrete(2)]), spaces.Tuple([spaces.MultiDiscrete([2, 2])])),
    ],
)
def test_the_space_of_a_window_has_one_axis_more(space, expected):
    assert AddViews({"obs": View("obs", [-1, 0])}, space).observation_space == expected


def test_bounds_include_the_fill():
    space = AddViews({"obs": View("obs", -1, fill=-7.0)}, spaces.Box(0.0, 1.0, (2,))).observation_space

    assert space.low.tolist() == [-7.0, -7.0]


def test_agents_have_spaces_of_their_own():
    both = spaces.Dict({"a": spaces.Box(0.0, 1.0, (2,)), "b": spaces.Discrete(3)})
    space = AddViews({"obs": View("obs", [-1, 0])}, both, multi_agent=True).observation_space

    assert (space["a"].shape, space["b"].shape) == ((2, 2), (2,))


# --- Modules --------------------------------------------------------------------------------------------------------


def sees(*both_spaces):
    """Return a module that declares views, and uses none of them."""
    module = MLPActorCritic(*both_spaces)
    module.views = {"window": View("obs", range(-4, 1)), "last_reward": View("rewards", -1), "next": NEXT_ACTIONS}
    return module


def test_default_pipelines_have_the_views_that_a_module_declares():
    module = sees(OBSERVATIONS, ACTIONS)
    acted = defaults.env_to_module(OBSERVATIONS, ACTIONS, module=module)(rl_module=module, episodes=[drive(3)])
    learned = defaults.learner(OBSERVATIONS, ACTIONS, module=module)(rl_module=module, episodes=[drive(3)])

    assert acted.keys() == {"obs", "window", "last_reward"}
    assert learned["default_policy"].keys() >= {"window", "last_reward", "next"}


def test_modules_that_declare_nothing_have_no_piece():
    plain = defaults.learner(module=MLPActorCritic(OBSERVATIONS, ACTIONS))

    assert [piece.name for piece in plain] == [piece.name for piece in defaults.learner()]


def game():
    return MultiAgentEpisode(
        observations=[{"left": float(t), "right": [t, 1.0]} for t in range(3)],
        actions=[{"left": 0, "right": 1}] * 2,
        rewards=[{"left": 1.0, "right": 2.0}] * 2,
        len_lookback_buffer=0,
        agent_to_module_mapping_fn=lambda agent, _: agent,
    )


def test_each_of_several_modules_has_its_own_views():
    modules = {"left": SumModule(), "right": SumModule()}
    modules["left"].views = {"seen": View("obs", -1)}
    modules["right"].views = {"seen": View("rewards", [-1, 0], infer=False)}
    batch = defaults.learner(module=modules)(rl_module=modules, episodes=[game()])

    assert batch["left"]["seen"].tolist() == [0.0, 0.0]
    assert batch["right"]["seen"].tolist() == [[0.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("first", [True, False])
def test_views_stand_on_either_side_of_the_mapping(first):
    pipeline = defaults.learner()
    key = "AddObservationsFromEpisodesToBatch" if first else "BatchIndividualItems"
    pipeline.insert_before(key, AddViews({"seen": View("rewards", -1)}))

    batch = pipeline(rl_module=None, episodes=[game()])

    assert batch["right"]["seen"].tolist() == [0.0, 2.0]


def test_a_runner_keeps_what_its_modules_look_back_to():
    module = sees(*cart_pole())
    runner = SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=3)
    learner = Learner(module, PPOConfig(), seed=0)

    for _ in range(3):
        episodes = runner.sample(num_timesteps=12)
        batch = learner.batch_of(episodes)["default_policy"]
        assert batch["window"].shape[1:] == (5, 4)

    assert any(episode.observations.lookback == 4 for episode in episodes)


def cart_pole():
    return spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)


def test_a_runner_follows_a_view_that_is_added_between_samples():
    runner = SingleAgentEnvRunner("CartPole-v1", sees(*cart_pole()), num_envs=2, seed=3)
    runner.sample(num_timesteps=20)
    runner.env_to_module["AddViews"].add("long", View("obs", -9))

    runner.sample(num_timesteps=20)
    episodes = runner.sample(num_timesteps=20)

    assert max(episode.observations.lookback for episode in episodes) == 9


class Watches(Echo):
    """Notes what it sees of the agent before it."""

    def __init__(self):
        super().__init__()
        self.views = {
            "other": View("obs", agent="agent 0"),
            "heard": View("tag", -1, agent="agent 0", fill=np.float32(-1.0)),
        }
        self.seen = []

    def forward_exploration(self, batch):
        self.seen += zip(batch["obs"].tolist(), batch["other"].tolist(), batch["heard"].tolist(), strict=True)
        return super().forward_exploration(batch)


@pytest.mark.parametrize("kind", ["simultaneous", "turns", "random"])
def test_agents_of_a_runner_see_each_other_and_learners_see_what_they_saw(kind):
    module = Watches()
    runner = MultiAgentEnvRunner(lambda: ScriptedEnv(kind=kind), module, seed=5)
    pipeline = defaults.learner(module=runner.modules)
    learned = []
    for _ in range(6):
        batch = pipeline(rl_module=runner.modules, episodes=runner.sample(num_timesteps=4))
        columns = batch.get("default_policy")
        if columns is not None:
            rows = zip(*(columns[name].tolist() for name in ("obs", "other", "heard")), strict=True)
            learned += rows

    # Who acts and is never shown anything again has no step.
    assert {str(row) for row in learned} <= {str(row) for row in module.seen}
    assert len(learned) > 5


# --- Bootstrapping, and recurrent modules ---------------------------------------------------------------------------


class ValuesTheLastReward(SumModule):
    """Values a situation at the reward that led to it."""

    views = {"last_reward": View("rewards", -1)}  # noqa: RUF012

    def compute_values(self, batch, embeddings=None):
        return batch["last_reward"]


def test_values_after_the_last_step_see_the_views_too():
    episode = SingleAgentEpisode(
        observations=[np.zeros(1)] * 3, actions=[0, 0], rewards=[1.0, 5.0], truncated=True, len_lookback_buffer=0
    )
    module = ValuesTheLastReward()
    targets = [GeneralAdvantageEstimation(gamma=1.0, lambda_=0.0)]
    batch = defaults.learner(module=module, targets=targets)(rl_module=module, episodes=[episode])["default_policy"]

    # reward + value after - value before
    assert batch["advantages"].tolist() == [1.0 + 1.0 - 0.0, 5.0 + 5.0 - 1.0]


class Remembers(MemoryModule):
    """Gets the last three observations at the beginning of each sequence of three."""

    views = {"memory": View("obs", range(-3, 0), every=3), "last_reward": View("rewards", -1)}  # noqa: RUF012

    def compute_values(self, batch, embeddings=None):
        assert batch["memory"].shape[1:] == (3, 2)
        assert batch["last_reward"].shape == batch["obs"].shape[:2]
        return super().compute_values(batch) + batch["memory"].sum((1, 2))[:, None]


def test_a_view_of_every_nth_step_has_a_row_for_each_sequence():
    episodes = [drive(7, stateful=True), drive(1, 2, stateful=True)]
    module = Remembers()
    pipeline = defaults.learner(module=module, stateful=True, targets=[GeneralAdvantageEstimation()])
    batch = pipeline(rl_module=module, episodes=episodes)["default_policy"]
    frames = episodes[0].get_observations()

    assert (batch["obs"].shape[:2], batch["memory"].shape) == ((4, 3), (4, 3, 2))
    assert torch.equal(batch["memory"][1], torch.from_numpy(frames[0:3].copy()))
    assert torch.equal(batch["memory"][2], torch.from_numpy(frames[3:6].copy()))
    assert not batch["memory"][[0, 3]].any()


def test_when_acting_it_has_a_row_for_each_episode_and_no_time_axis():
    module = Remembers()
    pipeline = defaults.env_to_module(module=module, stateful=True)
    batch = pipeline(rl_module=module, episodes=[drive(2, stateful=True), drive(5, stateful=True)])

    assert (batch["obs"].shape, batch["memory"].shape) == ((2, 1, 2), (2, 3, 2))
    assert batch["last_reward"].shape == (2, 1)


@pytest.mark.parametrize("options", [{"max_seq_len": 4}, {"burn_in": 2}])
def test_rows_that_do_not_fit_the_sequences_are_rejected(options):
    module = Remembers()
    pipeline = defaults.learner(module=module, stateful=True, **options)

    with pytest.raises(ConnectorError, match=r"column 'memory': found rows for every 3 steps.*`max_seq_len`"):
        pipeline(rl_module=module, episodes=[drive(7, stateful=True)])


def test_pieces_in_front_do_not_change_what_views_show():
    class Doubles(ConnectorV2):
        reads, writes, lookback = frozenset({"obs"}), frozenset({"obs"}), 0

        def __call__(self, *, batch, **kwargs):
            batch["obs"] = batch["obs"].map(lambda leaf: 2 * leaf)
            return batch

    pieces = [AddObservationsFromEpisodesToBatch(), Doubles(), AddViews({"raw": View("obs")})]
    batch = LearnerConnectorPipeline(connectors=pieces)(rl_module=None, episodes=[drive(3)])

    np.testing.assert_array_equal(batch["obs"], 2 * batch["raw"])
