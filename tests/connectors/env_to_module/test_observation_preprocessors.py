"""Preprocessors: what they write into running episodes, and who reads it."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import EnvToModulePipeline
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.env_to_module.flatten_observations import FlattenObservations
from episodia.connectors.env_to_module.frame_stacking import FrameStacking
from episodia.connectors.env_to_module.mean_std_filter import MeanStdFilter
from episodia.connectors.env_to_module.observation_preprocessors import (
    MultiAgentObservationPreprocessor,
    ObservationPreprocessor,
    SingleAgentObservationPreprocessor,
)
from episodia.connectors.env_to_module.write_observations_to_episodes import WriteObservationsToEpisodes
from episodia.errors import BatchError, PipelineError
from episodia.testing import assert_same_episode
from piece_calls import called

NARROW, WIDE = spaces.Box(-9.0, 9.0, (2,), np.float32), spaces.Box(-99.0, 99.0, (3,), np.float64)


class AppendSum(SingleAgentObservationPreprocessor):
    """Makes float64 vectors of three of float32 vectors of two."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return WIDE

    def preprocess(self, observation, episode):
        return np.array([*observation, observation.sum()], np.float64)


class Ranked(MultiAgentObservationPreprocessor):
    """Adds to each agent's observation the sum of all."""

    def preprocess(self, observations, episode):
        total = sum(float(value) for value in observations.values())
        return {agent: np.array([value, total]) for agent, value in observations.items()}


def row(number):
    return np.full(2, number, np.float32)


def running(**kwargs):
    """Return an episode that has just been reset."""
    episode = SingleAgentEpisode(**kwargs)
    episode.add_env_reset(row(1))
    return episode


@pytest.mark.parametrize("known", [{}, {"observation_space": NARROW}])
def test_a_new_shape_and_dtype_is_what_everybody_reads_from_then_on(known):
    episode, piece = running(**known), AppendSum()
    called(piece, EpisodeList([episode]).current())
    for number in (2, 3):
        episode.add_env_step(row(number), 0, 0.0)
        called(piece, EpisodeList([episode]).current())

    expected = [[1, 1, 2], [2, 2, 4], [3, 3, 6]]
    assert [item.tolist() for item in episode.get_observations()] == expected
    assert episode.finalize().get_observations().tolist() == expected
    assert episode.get_observations().dtype == np.float64
    assert EpisodeList([episode]).flat("obs").values.tolist() == expected[:2]


def test_the_episode_keeps_its_space_as_long_as_it_fits():
    class Halve(SingleAgentObservationPreprocessor):
        def preprocess(self, observation, episode):
            return observation / 2

    episode = running(observation_space=NARROW)
    called(Halve(), [episode])

    assert episode.observation_space is NARROW
    called(AppendSum(), [episode])
    assert episode.observation_space is None


def test_a_value_out_of_bounds_does_not_break_finalizing():
    class Far(SingleAgentObservationPreprocessor):
        def preprocess(self, observation, episode):
            return observation * 1_000

    episode = running(observation_space=NARROW)
    called(Far(), [episode])

    assert episode.finalize().get_observations().tolist() == [[1000.0, 1000.0]]


def test_scalars_give_no_warnings():
    class Double(SingleAgentObservationPreprocessor):
        def preprocess(self, observation, episode):
            return observation * 2

    episode = SingleAgentEpisode(observation_space=spaces.Box(0.0, 9.0, ()))
    episode.add_env_reset(np.float32(1.5))
    called(Double(), [episode])

    assert episode.get_observations(-1) == 3.0


def test_later_pieces_of_the_pipeline_read_what_was_written():
    pipeline = EnvToModulePipeline(
        NARROW, spaces.Discrete(2), connectors=[AppendSum(), FrameStacking(num_frames=2, axis=0), FlattenObservations()]
    )
    episode = running(observation_space=NARROW, action_space=spaces.Discrete(2))
    pipeline(rl_module=None, episodes=[episode])
    episode.add_env_step(row(2), 0, 0.0)

    batch = pipeline(rl_module=None, episodes=[episode])

    assert batch["obs"].tolist() == [[1, 1, 2, 2, 2, 4]]
    assert pipeline.observation_space.shape == (6,)


def test_each_episode_is_given_with_its_observation():
    seen = []

    class Note(ObservationPreprocessor):
        def preprocess(self, observation, episode):
            seen.append((float(observation[0]), episode.id_))
            return observation

    called(Note(), EpisodeList([running(id_="a"), running(id_="b")]).current())

    assert seen == [(1.0, "a"), (1.0, "b")]


def test_it_rejects_to_come_too_late_or_in_a_learner():
    episodes = EpisodeList([running()])

    with pytest.raises(BatchError, match="would not reach them"):
        called(AppendSum(), episodes.current(), called(AddObservationsFromEpisodesToBatch(), episodes.current()))
    with pytest.raises(PipelineError, match="Place this piece in the env-to-module pipeline"):
        called(AppendSum(), episodes)
    with pytest.raises(PipelineError, match="Place this piece in the env-to-module pipeline"):
        called(WriteObservationsToEpisodes(), episodes, {"obs": [row(5)]})
    assert episodes[0].get_observations(-1).tolist() == [1.0, 1.0]


# --- Many agents ------------------------------------------------------------------------------------------------------


def pair(*, known=False):
    space = spaces.Box(0.0, 9.0, ())
    episode = MultiAgentEpisode(
        observation_space={"a": space, "b": space} if known else None,
        agent_to_module_mapping_fn=lambda agent, _: f"module of {agent}",
    )
    episode.add_env_reset(observations={"a": 1.0, "b": 2.0})
    return episode


@pytest.mark.parametrize("known", [True, False])
def test_all_agents_are_preprocessed_together(known):
    episode, piece = pair(known=known), Ranked()
    called(piece, EpisodeList([episode]).current())
    episode.add_env_step({"b": 5.0}, {"a": 0, "b": 0}, {"b": 0.0})
    called(piece, EpisodeList([episode]).current())
    episode.add_env_step({"a": 7.0, "b": 6.0}, {"b": 0}, {"a": 0.0, "b": 0.0}, terminateds={"a": True})
    called(piece, EpisodeList([episode]).current())

    found = {agent: single.get_observations() for agent, single in episode.finalize().agent_episodes.items()}
    assert found["a"].tolist() == [[1, 3], [7, 13]]  # the last one of an agent that is done too
    assert found["b"].tolist() == [[2, 3], [5, 5], [6, 13]]


def test_a_single_agent_preprocessor_sees_each_agent_that_stepped():
    class Name(SingleAgentObservationPreprocessor):
        def preprocess(self, observation, episode):
            return float(observation) + (100 if episode.agent_id == "b" else 0)

    episode = pair()
    called(Name(), EpisodeList([episode]).current())
    episode.add_env_step({"b": 5.0}, {"a": 0, "b": 0}, {"b": 0.0})
    called(Name(), EpisodeList([episode]).current())

    assert episode.agent_episodes["a"].get_observations() == [1.0]
    assert episode.agent_episodes["b"].get_observations() == [102.0, 105.0]


def test_agents_that_are_left_out_keep_their_observation_and_unknown_ones_are_rejected():
    class Only(MultiAgentObservationPreprocessor):
        def preprocess(self, observations, episode):
            return {self.agent: 8.0}

    episode, piece = pair(), Only()
    piece.agent = "b"
    called(piece, [episode])
    assert episode.get_observations(-1) == {"a": 1.0, "b": 8.0}
    piece.agent = "c"
    with pytest.raises(BatchError, match=r"for the agents \['c'\].*expected some of \['a', 'b'\]"):
        called(piece, [episode])


def test_a_multi_agent_preprocessor_rejects_single_agent_episodes():
    with pytest.raises(PipelineError, match="found SingleAgentEpisode, expected a MultiAgentEpisode"):
        called(Ranked(), [running()])


# --- Writing back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["list", "by episode", "stretches", "array", "modules"])
def test_observations_of_the_batch_are_written_into_the_episodes(form):
    episodes = [running(id_="a"), running(id_="b")]
    current = EpisodeList(episodes).current()
    wanted = [np.array([5.0]), np.array([6.0])]
    batch = {
        "list": lambda: {"obs": list(wanted)},
        "by episode": lambda: {"obs": {("a",): [wanted[0]], ("b",): [wanted[1]]}},
        "stretches": lambda: {"obs": current.flat("obs").with_values(np.stack(wanted))},
        "array": lambda: {"obs": np.stack(wanted)},
        "modules": lambda: {"default_policy": {"obs": np.stack(wanted)}},
    }[form]()
    before = {key: dict(part) if isinstance(part, dict) else part for key, part in batch.items()}

    assert called(WriteObservationsToEpisodes(), current, batch) is batch
    assert [episode.get_observations(-1).tolist() for episode in episodes] == [[5.0], [6.0]]
    assert batch.keys() == before.keys()
    assert all(batch[key] is part or batch[key] == part for key, part in before.items())


def test_what_earlier_pieces_made_is_what_a_learner_reads():
    piece, writer = MeanStdFilter(), WriteObservationsToEpisodes()
    episode = running(observation_space=NARROW)
    current = EpisodeList([episode]).current()

    batch = called(writer, current, called(FlattenObservations(), current, called(piece, current)))

    assert episode.get_observations(-1).tolist() == batch["obs"].values[0].tolist()


def test_agents_get_the_observations_of_their_module_back():
    episode = pair()
    current = EpisodeList([episode]).current()
    batch = called(AgentToModuleMapping(), current, called(AddObservationsFromEpisodesToBatch(), current))
    for columns in batch.values():
        columns["obs"] = columns["obs"].map(lambda leaf: leaf * 10)

    called(WriteObservationsToEpisodes(), current, batch)

    assert episode.get_observations(-1) == {"a": 10.0, "b": 20.0}


def test_a_batch_without_observations_is_rejected():
    with pytest.raises(BatchError, match="found no column 'obs'"):
        called(WriteObservationsToEpisodes(), EpisodeList([running()]).current())


def test_a_preprocessor_that_fails_leaves_the_episode_as_it_was():
    class Broken(SingleAgentObservationPreprocessor):
        def preprocess(self, observation, episode):
            raise KeyError("speed")

    episode, twin = (SingleAgentEpisode("same", observations=[row(1)]) for _ in range(2))
    with pytest.raises(KeyError):
        called(Broken(), [episode])

    assert_same_episode(episode, twin)
