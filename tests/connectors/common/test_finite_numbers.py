"""NaN and infinite numbers are rejected where they would spread, and leave nothing behind."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drives import drive
from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    ComputeReturnsToGo,
    EnvToModulePipeline,
    GeneralAdvantageEstimation,
    MeanStdFilter,
    NStepReturns,
    Standardize,
    defaults,
)
from episodia.errors import ConnectorError, NonFiniteError
from valued_modules import MemoryModule, SumModule

NOT_FINITE = [np.nan, np.inf, -np.inf]


# --- The filter -----------------------------------------------------------------------------------------------------


def reset(observation, id_="bad"):
    return SingleAgentEpisode(id_, observations=[observation])


def noted(rows):
    """Return a filter that has seen these rows, some of them committed."""
    piece = MeanStdFilter()
    for position, row in enumerate(rows):
        piece(rl_module=None, batch={}, episodes=EpisodeList([reset(row)]).current())
        if position % 3 == 0:
            piece.commit()
    return piece


def same(state, other):
    return all(np.array_equal(a, b) for a, b in zip(flat(state), flat(other), strict=True))


def flat(state):
    return [
        entry[name]
        for table in ("synced", "delta", "pending")
        for entry in state[table]
        for name in ("count", "mean", "m2")
    ]


rows_of_three = st.lists(st.integers(-9, 9), min_size=3, max_size=3).map(lambda row: np.array(row, np.float32))


@given(
    st.lists(rows_of_three, max_size=6), rows_of_three, st.sampled_from(NOT_FINITE), st.integers(0, 2), st.booleans()
)
def test_an_observation_that_is_not_finite_leaves_the_statistics_as_they_were(rows, row, junk, place, first):
    piece = noted(rows)
    before = copy.deepcopy(piece.get_state())
    bad = row.copy()
    bad[place] = junk
    episodes = [reset(row, "good"), reset(bad)]

    with pytest.raises(NonFiniteError, match="episode 'bad' at its last step"):
        piece(rl_module=None, batch={}, episodes=EpisodeList(episodes[::-1] if first else episodes).current())

    assert same(piece.get_state(), before)


def test_no_agent_is_noted_if_one_of_them_sees_nan():
    episode = MultiAgentEpisode(agent_module_ids={"left": "a", "right": "b"})
    episode.add_env_reset(observations={"left": np.zeros(2), "right": np.array([0.0, np.nan])})
    piece = MeanStdFilter(multi_agent=True)

    with pytest.raises(NonFiniteError):
        piece(rl_module=None, batch={}, episodes=EpisodeList([episode]).current())

    assert piece.get_state()["pending"] == []


def test_the_pipeline_names_the_filter_and_the_leaf():
    pipeline = EnvToModulePipeline(connectors=[MeanStdFilter(name="norm")])

    with pytest.raises(ConnectorError, match=r"piece 'norm' at 0.*found nan in the column 'obs'\['arm'\]"):
        pipeline(rl_module=None, episodes=[reset({"arm": np.array([1.0, np.nan]), "leg": np.zeros(1)})])


@pytest.mark.parametrize("update_stats", [False, True])
def test_in_training_the_filter_rejects_too(update_stats):
    episode = SingleAgentEpisode(
        "bad",
        observations=[np.zeros(1), np.array([np.inf]), np.zeros(1)],
        actions=[0, 0],
        rewards=[0.0, 0.0],
        len_lookback_buffer=0,
    ).finalize()

    with pytest.raises(NonFiniteError, match="found inf in the column 'obs', episode 'bad' at row 1 of its chunk"):
        MeanStdFilter(update_stats=update_stats)(rl_module=None, batch={}, episodes=EpisodeList([episode]))


def test_numbers_too_large_to_be_squared_are_not_noted():
    piece = noted([np.zeros(2)])
    before = copy.deepcopy(piece.get_state())

    with pytest.raises(NonFiniteError, match="so large that their variance would be infinite"):
        piece(rl_module=None, batch={}, episodes=EpisodeList([reset(np.array([0.0, 1e200]))]).current())

    assert same(piece.get_state(), before)


def test_classes_and_whole_numbers_are_finite():
    seen = {"room": np.int64(3), "camera": np.zeros(4, np.uint8)}

    assert MeanStdFilter()(rl_module=None, batch={}, episodes=EpisodeList([reset(seen)]).current())


# --- What learners aim at -------------------------------------------------------------------------------------------

TARGETS = {
    "advantages": lambda: [GeneralAdvantageEstimation()],
    "returns": lambda: [ComputeReturnsToGo()],
    "n steps": lambda: [NStepReturns(n=2)],
    "standardized": lambda: [Standardize(column=Columns.REWARDS)],
}


def with_reward(reward, step=1):
    episode = drive(3, 7)
    rewards = np.array(episode.get_rewards())
    rewards[step] = reward
    episode.set_rewards(new_data=rewards)
    return episode


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("junk", NOT_FINITE)
def test_a_reward_that_is_not_finite_is_named_with_its_episode_and_step(name, junk):
    pipeline = defaults.learner(targets=TARGETS[name]())

    with pytest.raises(
        ConnectorError, match="in the column 'rewards', episode 'drive-7-3' at row 1 of its chunk"
    ) as caught:
        pipeline(rl_module=SumModule(), episodes=[drive(2), with_reward(junk), drive(4)])

    assert isinstance(caught.value.__cause__, NonFiniteError)


@pytest.mark.parametrize("name", ["advantages", "returns", "n steps"])
def test_rewards_too_large_for_what_is_made_of_them_are_rejected(name):
    pipeline = defaults.learner(targets=TARGETS[name]())

    with pytest.raises(ConnectorError, match=r"rewards.*so large that.*ScaleRewards"):
        pipeline(rl_module=SumModule(), episodes=[with_reward(1e300), with_reward(-1e300)])


def with_observation(place):
    episode = drive(3, 7, stateful=True)
    observations = np.array(episode.get_observations())
    observations[place] = np.nan
    episode.set_observations(new_data=observations)
    return episode


@pytest.mark.parametrize("module", [SumModule(), MemoryModule()])
@pytest.mark.parametrize(
    ("place", "what"), [(2, "'values'.*at row 2"), (3, "'values after the last step', episode 'drive-7-3'")]
)
def test_values_that_are_not_finite_are_named(module, place, what):
    pipeline = defaults.learner(targets=[GeneralAdvantageEstimation()], stateful=module.is_stateful())

    with pytest.raises(ConnectorError, match=rf"found nan in the column {what}"):
        pipeline(rl_module=module, episodes=[drive(2, stateful=True), with_observation(place)])


def test_the_value_after_the_end_of_an_episode_that_terminated_is_not_looked_at():
    episode = drive(3, end="terminated")
    observations = np.array(episode.get_observations())
    observations[-1] = np.nan
    other = SingleAgentEpisode(
        observations=list(observations),
        actions=list(episode.get_actions()),
        rewards=list(episode.get_rewards()),
        terminated=True,
        len_lookback_buffer=0,
    )
    pipeline = defaults.learner(targets=[GeneralAdvantageEstimation()])

    found, expected = (pipeline(rl_module=SumModule(), episodes=[each])["default_policy"] for each in (other, episode))

    np.testing.assert_array_equal(found[Columns.ADVANTAGES], expected[Columns.ADVANTAGES])
