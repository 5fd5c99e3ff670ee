"""What holds for every shipped piece that changes observations: cutting, acting, modules, and episodes that stay."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors import EnvToModulePipeline, Kind, LearnerConnectorPipeline
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.env_to_module.flatten_observations import FlattenObservations
from episodia.connectors.env_to_module.frame_stacking import FrameStacking
from episodia.connectors.env_to_module.mean_std_filter import MeanStdFilter
from episodia.connectors.env_to_module.one_hot_observations import OneHotObservations
from episodia.connectors.env_to_module.prev_actions_prev_rewards import PrevActionsPrevRewards
from episodia.connectors.learner.reward_transforms import ClipRewards, ScaleRewards, SignRewards
from episodia.testing import (
    SPACES,
    Content,
    Trajectory,
    assert_same_episode,
    assert_same_multi_agent_episode,
    cut_points,
    multi_agent_episodes,
)
from episodia.testing.connectors.connector_laws import check_connector_laws
from episodia.trees import leaves
from piece_calls import BOX_KINDS, VECTOR_KINDS, acted, built, called, from_birth, items_of, same_bits, trained


def trained_filter(*spaces, trajectory=None, **kwargs):
    """Return a filter that has seen something."""
    piece = MeanStdFilter(*spaces, **kwargs)
    if trajectory is not None:
        for stop in range(len(trajectory) + 1):
            acted(piece, trajectory.chunk(0, stop).built())
        piece.commit()
        piece.update_stats = False
    return piece


# How a piece is made for a trajectory, from its spaces or without them; and for which observations.
PIECES = {
    "flatten": (lambda _, *spaces: FlattenObservations(*spaces), VECTOR_KINDS),
    "one-hot": (lambda _, *spaces: OneHotObservations(*spaces), VECTOR_KINDS),
    "frames": (lambda _, *spaces: FrameStacking(*spaces, num_frames=3), BOX_KINDS),
    "filter": (lambda trajectory, *spaces: trained_filter(*spaces, trajectory=trajectory), VECTOR_KINDS),
    "previous": (lambda _, *spaces: PrevActionsPrevRewards(*spaces, n_prev_actions=2, n_prev_rewards=3), VECTOR_KINDS),
}


@st.composite
def cases(draw):
    """Draw a piece, a trajectory that it takes, and the form of its episodes."""
    make, kinds = PIECES[draw(st.sampled_from(sorted(PIECES)))]
    trajectory = draw(from_birth(kinds=kinds))
    known = (trajectory.observation_space, trajectory.action_space) if draw(st.booleans()) else ()
    return make(trajectory, *known), trajectory, draw(st.booleans())


@given(cases(), st.data())
def test_rows_of_chunks_are_the_rows_of_the_whole_episode_bit_for_bit(case, data):
    piece, trajectory, finalized = case
    cuts = [0, *data.draw(cut_points(len(trajectory))), len(trajectory)]
    whole = trained(piece, built(trajectory, finalized))

    for start, stop in pairwise(cuts):
        chunk = built(trajectory.chunk(start, stop, lookback=piece.lookback), finalized)
        assert same_bits(trained(piece, chunk), whole[start : stop + 1])


@given(cases())
def test_what_a_module_acts_on_is_what_it_learns_from_bit_for_bit(case):
    piece, trajectory, finalized = case
    whole = trained(piece, built(trajectory, finalized))

    moments = [built(trajectory.chunk(0, stop), finalized) for stop in range(len(trajectory) + 1)]
    assert same_bits(acted(piece, *moments), whole)


@given(cases())
def test_several_episodes_at_once_are_the_rows_of_each(case):
    piece, trajectory, finalized = case
    parts = [built(trajectory.chunk(0, stop), finalized) for stop in (len(trajectory), 0, len(trajectory) // 2)]

    assert same_bits(trained(piece, *parts), [row for part in parts for row in trained(piece, part)])


@given(cases())
def test_episodes_stay_as_they_are_whatever_is_done_to_the_batch(case):
    piece, trajectory, finalized = case
    episode = built(trajectory, finalized)

    for found in (EpisodeList([episode]), EpisodeList([episode]).current()):
        for _, leaf in leaves(called(piece, found)["obs"].values):
            if leaf.flags.writeable:
                leaf[...] = np.zeros((), leaf.dtype) if leaf.any() else np.ones((), leaf.dtype)

    assert_same_episode(episode, built(trajectory, finalized))


@pytest.mark.parametrize("name", sorted(PIECES))
def test_declarations_are_as_the_laws_assume(name):
    piece = PIECES[name][0](None)

    assert piece.kind is Kind.CAUSAL
    assert piece.reads == frozenset()
    assert piece.writes == {"obs"}
    assert piece.fills == (frozenset() if name == "frames" else {"obs"})
    assert piece.is_stateful is (name == "filter")


@pytest.mark.parametrize("name", sorted(PIECES))
@pytest.mark.parametrize("kind", [EnvToModulePipeline, LearnerConnectorPipeline])
def test_it_may_stand_on_either_side_of_the_piece_that_adds_observations(name, kind):
    piece, add = PIECES[name][0](None), AddObservationsFromEpisodesToBatch()

    assert kind(connectors=[piece, add]).lookback == piece.lookback
    if name != "frames":
        assert kind(connectors=[add, piece]).lookback == piece.lookback


@pytest.mark.parametrize("name", sorted(PIECES))
def test_parameters_of_rllib_that_mean_nothing_here_are_swallowed(name):
    make = type(PIECES[name][0](None))

    assert make(as_learner_connector=True).lookback == make().lookback


WALKS = [
    Trajectory.sampled(
        SPACES["box vector float32"], SPACES["discrete from 5"], steps, seed=steps, terminated=steps == 4
    )
    for steps in (4, 0, 1, 6)
]
REWARD_PIECES = {
    "clip": lambda: ClipRewards(low=-0.5, high=0.5),
    "sign": SignRewards,
    "scale": lambda: ScaleRewards(factor=3.0),
}


@pytest.mark.parametrize("name", [*PIECES, *REWARD_PIECES])
@pytest.mark.parametrize("finalized", [True, False])
def test_the_laws_for_plugins_hold_for_it(name, finalized):
    make = REWARD_PIECES.get(name) or (lambda: PIECES[name][0](WALKS[0]))

    laws = check_connector_laws(lambda: [make()], [built(walk, finalized) for walk in WALKS])

    assert "cutting_changes_nothing" in laws


# --- Many agents ------------------------------------------------------------------------------------------------------

VECTORS = st.just(Content(kind="vectors"))


def filter_that_saw(episode, multi_agent=True):
    """Return a filter with statistics for the agents of a multi-agent episode."""
    piece = MeanStdFilter(multi_agent=multi_agent)
    for number, agent_id in enumerate(list(episode.agent_episodes) * 3):
        vector = np.array([number, 5 + 2 * number], np.float32)
        acted(piece, SingleAgentEpisode(observations=[vector], agent_id=agent_id))
    piece.commit()
    piece.update_stats = False
    return piece


@given(multi_agent_episodes(content=VECTORS), st.sampled_from(["frames", "filter"]), st.booleans(), st.booleans())
def test_rows_of_agents_are_those_of_their_own_episodes(episode, name, multi_agent, now):
    frames = FrameStacking(num_frames=3, multi_agent=multi_agent)
    piece = frames if name == "frames" else filter_that_saw(episode, multi_agent)
    found = EpisodeList([episode, episode])
    found = found.current() if now else found

    columns = called(piece, found)["obs"]

    for module, group in found.groups().items():
        alone = [row for single in group for row in (acted if now else trained)(piece, single)]
        assert same_bits(items_of(columns[module]), alone)


@given(multi_agent_episodes(content=VECTORS), st.booleans())
def test_either_side_of_the_mapping_gives_the_same_rows(episode, now):
    piece, mapping, add = filter_that_saw(episode), AgentToModuleMapping(), AddObservationsFromEpisodesToBatch()
    found = EpisodeList([episode])
    found = found.current() if now else found

    before = called(mapping, found, called(piece, found))
    mapped = called(mapping, found, called(add, found))
    after = called(piece, found, mapped) if mapped else {}

    assert before.keys() == after.keys()
    assert all(same_bits(items_of(before[module]["obs"]), items_of(after[module]["obs"])) for module in before)


@given(multi_agent_episodes(content=VECTORS), st.sampled_from(["frames", "filter"]))
def test_multi_agent_episodes_stay_as_they_are(episode, name):
    before = type(episode).from_state(episode.get_state())
    piece = FrameStacking(num_frames=2) if name == "frames" else MeanStdFilter(multi_agent=True)
    called(piece, EpisodeList([episode]))
    called(piece, EpisodeList([episode]).current())

    assert_same_multi_agent_episode(episode, before)
