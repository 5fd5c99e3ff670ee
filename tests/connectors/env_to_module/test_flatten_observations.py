"""Observations as vectors, against `gymnasium.spaces.flatten` of each item."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.env_to_module.flatten_observations import FlattenObservations
from episodia.connectors.spaces.flat_vectors import flat_space, flat_vectors
from episodia.errors import BatchError, PipelineError, SpaceError
from episodia.testing import SPACES
from episodia.testing import spaces as drawn_spaces
from piece_calls import VECTOR_KINDS, acted, built, called, from_birth, trained, without_spaces

NESTED = spaces.Dict(
    {"kind": spaces.Discrete(3, start=1), "rest": spaces.Tuple([spaces.Box(0, 9, (2,)), spaces.MultiBinary(2)])}
)


def flat(space, item):
    return np.asarray(spaces.flatten(space, item)).astype(np.float32).tolist()


@given(from_birth(), st.booleans(), st.booleans())
def test_vectors_are_those_of_gymnasium(trajectory, finalized, gives_space):
    space = trajectory.observation_space
    piece = FlattenObservations(space) if gives_space else FlattenObservations()
    episode = built(without_spaces(trajectory) if gives_space else trajectory, finalized)

    expected = [flat(space, item) for item in trajectory.observations]
    assert [row.tolist() for row in trained(piece, episode)] == expected
    assert [row.tolist() for row in acted(piece, episode)] == expected[-1:]
    assert {row.dtype for row in trained(piece, episode)} == {np.dtype(np.float32)}


@given(drawn_spaces(kinds=VECTOR_KINDS), st.integers(0, 2**16))
def test_vectors_lie_in_the_output_space(space, seed):
    space.seed(seed)
    piece = FlattenObservations(space)

    assert piece.observation_space.contains(np.array(flat(space, space.sample()), np.float32))


@pytest.mark.parametrize("name", ["text", "sequence", "graph", "one of", "dict with text"])
def test_spaces_without_a_fixed_size_are_rejected_by_name_when_they_are_threaded(name):
    with pytest.raises(PipelineError, match=r"FlattenObservations: found (Text|Sequence|Graph|OneOf).*expected Box"):
        FlattenObservations(SPACES[name])
    piece = FlattenObservations()
    with pytest.raises(PipelineError):
        piece.input_observation_space = SPACES[name]
    assert piece.input_observation_space is None


def test_an_empty_dict_has_vectors_without_elements():
    assert flat_space("piece", spaces.Dict({})).shape == (0,)
    assert flat_vectors("piece", spaces.Dict({}), {}, 3).shape == (3, 0)


def test_no_space_at_all_is_an_error_that_says_what_to_do():
    with pytest.raises(PipelineError, match=r"found no space.*Build the pipeline with its input spaces"):
        called(FlattenObservations(), EpisodeList([SingleAgentEpisode(observations=[1.0])]))


def test_rows_that_are_not_items_of_the_space_are_rejected():
    episodes = EpisodeList([SingleAgentEpisode(observations=[np.zeros(3)])])

    with pytest.raises(BatchError, match=r"found rows of float64\[3\], expected items of Box\(0.0, 1.0, \(2,\)"):
        called(FlattenObservations(spaces.Box(0, 1, (2,))), episodes)
    with pytest.raises(BatchError, match="multi_agent=True"):
        called(FlattenObservations(spaces.Dict({"agent": spaces.Box(0, 1, (3,))})), episodes)


@pytest.mark.parametrize("item", [0, 4, 1.5])
def test_a_class_outside_of_its_space_is_rejected(item):
    with pytest.raises(SpaceError, match=r"Discrete\(3, start=1\)"):
        called(FlattenObservations(spaces.Discrete(3, start=1)), EpisodeList([SingleAgentEpisode(observations=[item])]))


def test_keys_are_removed_with_the_space_given_before_or_after():
    space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 9, ()), "c": spaces.Box(0, 9, (2,))})
    walk = SingleAgentEpisode(observations=[{"b": 1, "a": 5.0, "c": np.array([6.0, 7.0])}])
    early, late = FlattenObservations(space, keys_to_remove=["a"]), FlattenObservations(keys_to_remove=["a"])
    late.input_observation_space = space

    for piece in (early, late):
        assert [row.tolist() for row in acted(piece, walk)] == [[0.0, 1.0, 6.0, 7.0]]
        assert piece.observation_space.shape == (4,)


def test_keys_that_the_space_does_not_have_are_rejected():
    with pytest.raises(PipelineError, match=r"keys_to_remove=\['z'\]"):
        FlattenObservations(spaces.Dict({"a": spaces.Discrete(2)}), keys_to_remove=["z"])
    with pytest.raises(PipelineError, match="keys of a `Dict` space"):
        FlattenObservations(spaces.Discrete(2), keys_to_remove=["z"])


def test_observations_that_an_earlier_piece_has_written_are_flattened_too():
    walk = SingleAgentEpisode(observations=[np.zeros(2)])
    batch = {"obs": [{"a": np.array([1.0, 2.0]), "b": 3.0}]}

    piece = FlattenObservations(spaces.Dict({"a": spaces.Box(0, 9, (2,)), "b": spaces.Box(0, 9, ())}))

    assert [row.tolist() for row in acted(piece, walk, batch=batch)] == [[1.0, 2.0, 3.0]]


def test_no_episodes_are_no_error():
    assert len(called(FlattenObservations(NESTED), EpisodeList())["obs"]) == 0


# --- Many agents -----------------------------------------------------------------------------------------------------

UNLIKE = {
    "left": spaces.Dict({"kind": spaces.Discrete(2), "speed": spaces.Box(0, 9, ())}),
    "right": spaces.Box(0, 9, (3,)),
    "far": spaces.Discrete(5),
}


def team(agents, *, spaces_known=True, modules=None):
    """Return a multi-agent episode of two steps with observations sampled from `UNLIKE`."""
    known = {agent: UNLIKE[agent] for agent in agents}
    for seed, space in enumerate(known.values()):
        space.seed(seed)
    episode = MultiAgentEpisode(
        observation_space=known if spaces_known else None,
        agent_to_module_mapping_fn=lambda agent, _: (modules or {}).get(agent, "shared"),
    )
    episode.add_env_reset(observations={agent: space.sample() for agent, space in known.items()})
    for _ in range(2):
        episode.add_env_step(
            {agent: space.sample() for agent, space in known.items()},
            dict.fromkeys(agents, 0),
            dict.fromkeys(agents, 0.0),
        )
    return episode


@pytest.mark.parametrize("spaces_known", [True, False])
@pytest.mark.parametrize("finalized", [True, False])
def test_agents_of_one_module_may_have_different_nestings_of_one_size(spaces_known, finalized):
    episode = team(["left", "right"], spaces_known=spaces_known)
    expected = [
        flat(UNLIKE[agent], item)
        for agent, single in episode.agent_episodes.items()
        for item in single.get_observations()
    ]
    piece = FlattenObservations(None if spaces_known else spaces.Dict(UNLIKE), multi_agent=True)
    if finalized:
        episode.finalize()

    column = called(piece, EpisodeList([episode, episode]))["obs"]["shared"]
    assert column.values.tolist() == expected * 2
    assert column.lengths.tolist() == [2] * 4
    now = called(piece, EpisodeList([episode, episode]).current())["obs"]["shared"]
    assert now.values.tolist() == [expected[2], expected[5]] * 2


def test_agents_of_one_module_with_vectors_of_different_sizes_are_rejected():
    with pytest.raises(BatchError, match=r"float32\[3\] and of float32\[5\] for agents of one module"):
        called(FlattenObservations(multi_agent=True), EpisodeList([team(["left", "far"])]))


def test_only_the_chosen_agents_are_flattened():
    episode = team(["left", "far"], modules={"far": "other"})
    piece = FlattenObservations(
        spaces.Dict({"left": UNLIKE["left"], "far": UNLIKE["far"]}), multi_agent=True, agent_ids=["left"]
    )

    batch = called(piece, EpisodeList([episode]))
    assert batch["obs"]["shared"].values.shape == (3, 3)
    assert batch["obs"]["other"].values.tolist() == episode.agent_episodes["far"].get_observations()
    assert piece.observation_space["left"].shape == (3,)
    assert piece.observation_space["far"] == UNLIKE["far"]


@pytest.mark.parametrize("form", ["all", "now"])
def test_it_works_on_either_side_of_the_mapping_to_modules(form):
    found = EpisodeList([team(["left", "far"], modules={"far": "other"}) for _ in range(2)])
    found = found.current() if form == "now" else found
    by_agent = FlattenObservations(spaces.Dict(UNLIKE), multi_agent=True)
    by_module = FlattenObservations(spaces.Dict({"shared": UNLIKE["left"], "other": UNLIKE["far"]}), multi_agent=True)

    before = called(AgentToModuleMapping(), found, called(by_agent, found))
    mapped = called(AgentToModuleMapping(), found, called(AddObservationsFromEpisodesToBatch(), found))
    after = called(by_module, found, mapped)

    for module in ("shared", "other"):
        assert before[module]["obs"].values.tolist() == after[module]["obs"].values.tolist()


def test_the_name_of_a_module_counts_once_a_batch_is_mapped():
    """Agents and modules may have the same names, crosswise."""
    found = EpisodeList([team(["left", "far"], modules={"far": "left", "left": "far"})])
    mapped = called(AgentToModuleMapping(), found, called(AddObservationsFromEpisodesToBatch(), found))

    piece = FlattenObservations(spaces.Dict({"left": UNLIKE["far"], "far": UNLIKE["left"]}), multi_agent=True)

    assert called(piece, found, mapped)["left"]["obs"].values.shape == (3, 5)


def test_an_agent_without_a_space_is_named():
    with pytest.raises(
        PipelineError, match=r"found no space for the agent 'right' \(module 'shared'\) among \['left'\]"
    ):
        called(
            FlattenObservations(spaces.Dict({"left": UNLIKE["left"]}), multi_agent=True),
            EpisodeList([team(["left", "right"])]),
        )


def test_a_space_that_is_not_divided_into_agents_is_rejected():
    with pytest.raises(PipelineError, match="one entry for each agent"):
        FlattenObservations(spaces.Discrete(2), multi_agent=True)
