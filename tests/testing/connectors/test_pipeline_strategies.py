"""Drawn pipelines work, and so do laws that hold for all of them."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import EpisodeList
from episodia.connectors import EnvToModulePipeline, LearnerConnectorPipeline
from episodia.testing import assert_same_multi_agent_episode, chunked_multi_agent_episodes, pipelines, sample_episodes
from episodia.trees import equal, map_batch

QUICKLY = settings(max_examples=25)


def rows_of(pipeline, episodes):
    batch = pipeline(rl_module=None, episodes=EpisodeList(episodes), shared_data={})
    columns = batch["default_policy"] if isinstance(pipeline, LearnerConnectorPipeline) else batch
    return {name: map_batch(np.asarray, column) for name, column in columns.items()}


@pytest.mark.parametrize(("learner", "kind"), [(True, LearnerConnectorPipeline), (False, EnvToModulePipeline)])
@QUICKLY
@given(data=st.data())
def test_pipelines_are_drawn_as_they_were_asked_for(learner, kind, data):
    pipeline = data.draw(pipelines(learner=learner))

    assert isinstance(pipeline, kind)
    assert len(rows_of(pipeline, sample_episodes())["obs"]) == (11 if learner else 4)


def test_pieces_of_many_kinds_are_drawn():
    found = set()

    @settings(max_examples=100)
    @given(pipeline=pipelines())
    def collect(pipeline):
        found.update(type(piece).__name__ for piece in pipeline)

    collect()

    assert {"FrameStacking", "MeanStdFilter", "AddViews", "SignRewards", "NStepReturns", "Standardize"} <= found


@QUICKLY
@given(pipeline=pipelines())
def test_a_pipeline_that_was_pickled_makes_the_same_rows(pipeline):
    twin = pickle.loads(pickle.dumps(pipeline))

    assert equal(rows_of(twin, sample_episodes()), rows_of(pipeline, sample_episodes()))


@QUICKLY
@given(pipeline=pipelines(learner=True, causal=True), cut=st.integers(1, 4))
def test_chunks_with_the_derived_lookback_have_the_rows_of_the_whole(pipeline, cut):
    whole = sample_episodes()[2]
    chunks = [whole[:cut], whole.slice(slice(cut, None), len_lookback_buffer=pipeline.lookback)]

    assert equal(rows_of(pipeline, chunks), rows_of(pipeline, [whole]))


@QUICKLY
@given(pipeline=pipelines(observation_space=spaces.Discrete(4), action_space=spaces.Box(-1.0, 1.0, (2,))))
def test_pipelines_fit_the_spaces_that_were_asked_for(pipeline):
    episodes = sample_episodes(spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2,)))

    assert "obs" in rows_of(pipeline, episodes)


@QUICKLY
@given(drawn=chunked_multi_agent_episodes(finalized=False))
def test_drawn_chunks_of_several_agents_join_to_the_whole(drawn):
    whole, (first, *others) = drawn
    for chunk in others:
        first.concat_episode(chunk)

    assert_same_multi_agent_episode(first, whole, ignore=["times"])
