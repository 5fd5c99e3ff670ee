"""Returns need whole episodes: REINFORCE rejects chunks that were cut before their episode ended."""

import pytest

from episodia import SingleAgentEpisode
from episodia.connectors import ComputeReturnsToGo
from episodia.errors import ConnectorError
from episodia.learners import ReinforceConfig, default_pipeline


def chunk(length=3, **end):
    return SingleAgentEpisode(
        "walk",
        observations=list(range(length + 1)),
        actions=[0] * length,
        rewards=[1.0] * length,
        len_lookback_buffer=0,
        **end,
    ).finalize()


@pytest.mark.parametrize(
    "episodes", [[chunk()], [chunk(terminated=True), chunk(2)]], ids=["alone", "beside a whole one"]
)
def test_reinforce_rejects_chunks_that_were_cut_and_says_what_to_ask_the_runner_for(episodes):
    pipeline = default_pipeline(ReinforceConfig())

    with pytest.raises(
        ConnectorError, match=r"(?s)'ComputeReturnsToGo'.*cut before their end.*num_episodes=.*complete_episodes"
    ):
        pipeline(rl_module=None, batch={}, episodes=episodes)


def test_reinforce_takes_episodes_that_ended_and_chunks_without_steps():
    pipeline = default_pipeline(ReinforceConfig(gamma=0.5, standardize_returns=False))

    batch = pipeline(rl_module=None, batch={}, episodes=[chunk(terminated=True), chunk(2, truncated=True), chunk(0)])

    assert batch["default_policy"]["returns_to_go"].tolist() == [1.75, 1.5, 1.0, 1.5, 1.0]


def test_returns_of_chunks_end_at_the_cut_where_pieces_are_chosen_by_hand():
    pipeline = default_pipeline(ReinforceConfig(gamma=0.5, standardize_returns=False))
    pipeline.replace(ComputeReturnsToGo, ComputeReturnsToGo(gamma=0.5))

    batch = pipeline(rl_module=None, batch={}, episodes=[chunk(2)])

    assert batch["default_policy"]["returns_to_go"].tolist() == [1.5, 1.0]
