"""Where the single-agent episodes of RLlib 2.60 go wrong, one test each, named after what is right.

Numbers such as "silent 1" and "hard 4" count its confirmed silent errors and hard failures, "#47542" is an
issue of ray-project/ray, and "measured" was seen when running it.
"""

import json
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import SingleAgentEpisode
from episodia.errors import EpisodeError, SpaceError

NESTED = spaces.Dict(
    camera=spaces.Box(0, 255, (2, 2), np.uint8),
    speed=spaces.Box(-1.0, 1.0, (), np.float32),
)


def nested(t):
    return {"camera": np.full((2, 2), t, np.uint8), "speed": np.float32(t / 16)}


def counting(steps, **kwargs):
    """Return an episode whose observations are 0, 1, 2, … and whose actions are 100, 101, 102, …"""
    return SingleAgentEpisode(
        "walk",
        observations=list(range(steps + 1)),
        actions=[100 + t for t in range(steps)],
        rewards=[float(t) for t in range(steps)],
        infos=[{"t": t} for t in range(steps + 1)],
        extra_model_outputs={"logp": [-float(t) for t in range(steps)]},
        **{"len_lookback_buffer": 0, **kwargs},
    )


def test_slices_and_cuts_keep_every_field():
    """Silent 6: `slice` and `cut` drop the ids of agent, module and multi-agent episode."""
    episode = counting(4, agent_id="a", module_id="m", multi_agent_episode_id="all")
    episode.custom_data["seen"] = [1]
    episode.weights_version = 3

    for part in (episode[1:3], episode.cut(2), episode.slice(slice(0, 2), len_lookback_buffer=0)):
        assert (part.id_, part.agent_id, part.module_id, part.multi_agent_episode_id) == (
            "walk",
            "a",
            "m",
            "all",
        )
        assert part.custom_data == {"seen": [1]}
        assert [info["t"] for info in part.get_infos()] == part.get_observations()


@pytest.mark.parametrize("lookback", [1, 3, 5])
def test_a_nested_episode_looks_back_further_than_it_has_keys(lookback):
    """Hard 1: slicing and cutting finalized Dict episodes fails for a lookback above the number of keys."""
    episode = SingleAgentEpisode(observation_space=NESTED)
    episode.add_env_reset(nested(0))
    for t in range(1, 9):
        episode.add_env_step(nested(t), 0, 0.0)
    episode.finalize()

    cut, part = episode.cut(lookback), episode.slice(slice(6, 8), len_lookback_buffer=lookback)

    assert cut.get_observations(slice(-lookback - 1, None))["camera"][:, 0, 0].tolist() == list(range(8 - lookback, 9))
    assert part.get_observations()["camera"][:, 0, 0].tolist() == [6, 7, 8]
    assert part.get_observations(-lookback, neg_index_as_lookback=True)["camera"][0, 0] == 6 - lookback


@pytest.mark.parametrize("form", ["growing", "finalized"])
def test_observations_of_a_nested_episode_can_be_set(form):
    """Hard 2: setting always fails once finalized, with a bare assert."""
    episode = SingleAgentEpisode(observation_space=NESTED)
    episode.add_env_reset(nested(0))
    episode.add_env_step(nested(1), 0, 0.0)
    episode.add_env_step(nested(2), 0, 0.0)
    if form == "finalized":
        episode.finalize()

    episode.set_observations(new_data=nested(7), at_indices=-1)
    episode.set_observations(new_data=[nested(5), nested(6)], at_indices=slice(0, 2))

    assert episode.finalize().get_observations()["camera"][:, 0, 0].tolist() == [5, 6, 7]
    assert episode.get_observations()["speed"].tolist() == [5 / 16, 6 / 16, 7 / 16]


def test_the_space_is_checked_at_every_step():
    """Hard 11: the check that is meant for every 100th step runs at the other 99, and is an assert."""
    episode = SingleAgentEpisode(observation_space=spaces.Box(-1, 1, (2,), np.float32))
    episode.add_env_reset(np.zeros(2, np.float32))
    for t in range(201):
        with pytest.raises(SpaceError, match=f"t={t}, observation"):
            episode.add_env_step(np.zeros(3, np.float32), 0, 0.0)
        episode.add_env_step(np.zeros(2, np.float32), 0, 0.0)

    assert len(episode) == 201


def test_data_can_be_added_after_finalizing():
    """Hard 11: documented as impossible; it works, at the price of copies."""
    episode = counting(2).finalize()

    episode.add_env_step(3, 102, 2.0, {"t": 3}, terminated=True, extra_model_outputs={"logp": -2.0})

    assert episode.get_observations().tolist() == [0, 1, 2, 3]
    assert episode.get_extra_model_outputs("logp").tolist() == [0.0, -1.0, -2.0]


def test_a_chunk_may_have_other_extra_outputs_than_the_one_before():
    """Hard 6: changing from a policy to random actions in mid-episode fails in `validate`."""
    episode = counting(2)
    chunk = episode.cut(1)
    chunk.add_env_step(3, 102, 2.0, {"t": 3})
    chunk.validate()

    episode.concat_episode(chunk)

    episode.validate()
    assert episode.get_extra_model_outputs("logp") == [0.0, -1.0, 0.0]
    assert episode.get_extra_model_outputs("logp_mask") == [True, True, False]


def test_within_a_chunk_extra_outputs_have_no_holes():
    """Measured: a key that is left out, or comes late, is taken silently; columns get out of step."""
    episode = counting(2)
    for extras in ({}, {"logp": 0.0, "value": 1.0}):
        with pytest.raises(EpisodeError, match=r"expected \['logp'\] as in the steps before"):
            episode.add_env_step(3, 102, 2.0, extra_model_outputs=extras)

    assert len(episode) == len(episode.get_extra_model_outputs("logp")) == 2


def test_an_episode_without_steps_has_a_data_dict_without_rows():
    """Hard 10: terminateds and truncateds have one entry next to empty columns."""
    episode = SingleAgentEpisode(observations=[0], observation_space=spaces.Discrete(2))

    assert {key: len(column) for key, column in episode.get_data_dict().items() if len(column)} == {}


def test_a_slice_starts_at_a_time_that_exists():
    """Measured: a start left of the chunk gives a negative time step, and steps go missing."""
    episode = counting(6, t_started=10)

    assert episode[-100:2].t_started == 10
    assert episode[-100:2].get_actions() == [100, 101]
    assert episode[4:2].get_observations() == [4]


def test_a_slice_that_reaches_the_end_keeps_the_end():
    """Measured: `episode[3:100]` drops the flags of the end."""
    episode = counting(6, terminated=True)

    assert episode[3:100].is_terminated
    assert episode[3:].is_terminated
    assert not episode[3:5].is_terminated


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("stop", range(1, 8))
def test_a_slice_with_a_step_takes_every_so_many_steps(stop, step):
    """Measured: works only if the step divides the length, and strides over the lookback wrongly."""
    steps = list(range(7))[1:stop:step]

    part = counting(7)[1:stop:step]

    part.validate()
    assert part.get_actions() == [100 + t for t in steps]
    assert part.get_observations()[:-1] == steps
    assert len(part) == len(steps)


def test_concatenating_takes_over_the_time_of_the_last_step():
    """Measured: the duration stays that of the first chunk."""
    episode = SingleAgentEpisode()
    episode.add_env_reset(0)
    episode.add_env_step(1, 0, 0.0)
    chunk = episode.cut()
    chunk.add_env_step(2, 0, 0.0)
    before = episode.get_duration_s()

    episode.concat_episode(chunk)

    assert episode._last_step_time == chunk._last_step_time
    assert episode.get_duration_s() >= before + chunk.get_duration_s() - 1e-9


def test_stepping_before_the_reset_and_uneven_columns_are_rejected():
    """Measured: both pass without a word."""
    with pytest.raises(EpisodeError, match="before the reset"):
        SingleAgentEpisode().add_env_step(1, 0, 0.0)
    with pytest.raises(EpisodeError, match="different lengths"):
        SingleAgentEpisode(observations=[0, 1], actions=[0, 1], rewards=[0.0, 1.0])


def test_the_constructor_takes_arrays():
    """Measured: ValueError about the truth value of an array."""
    episode = SingleAgentEpisode(
        observations=np.zeros((3, 2)), actions=np.arange(2), rewards=np.ones(2), len_lookback_buffer=0
    )

    assert episode.is_finalized
    assert episode.get_return() == 2.0


def test_the_return_is_a_float_in_both_forms():
    """Measured: an int for an empty episode, a NumPy number once finalized."""
    for episode in (SingleAgentEpisode(), counting(3), counting(3).finalize()):
        assert type(episode.get_return()) is float


# --- What users reported ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lookback", [0, 1, 3])
def test_chunks_without_steps_are_ordinary_episodes(lookback):
    """#47542, #46721, #41730: zero-length episodes, and empty ones with a lookback, crash."""
    for chunk in (counting(3).cut(lookback), counting(3).finalize().cut(lookback)):
        for same in (chunk, chunk[0:5], pickle.loads(pickle.dumps(chunk)), chunk.cut(lookback).finalize()):
            same.validate()
            assert (len(same), same.get_return(), same.t_started) == (0, 0.0, 3)
            assert list(same.get_observations()) == [3]
            assert list(same.get_actions()) == list(same.get_rewards()) == []
            assert list(same.get_actions(slice(-lookback, None) if lookback else None)) == [
                100 + t for t in range(3 - lookback, 3)
            ]


def test_reading_nothing_gives_nothing():
    """#62903: getters of an episode without such data raise about an empty list of structs."""
    for episode in (SingleAgentEpisode(), SingleAgentEpisode().finalize()):
        columns = (
            episode.get_observations(),
            episode.get_actions(),
            episode.get_rewards(),
            episode.get_infos(),
        )

        assert [len(column) for column in columns] == [0, 0, 0, 0]


def test_the_state_is_plain_data():
    """#50390: episodes cannot be written to columnar formats, because their state holds objects of RLlib."""
    episode = SingleAgentEpisode(observation_space=NESTED, action_space=spaces.Discrete(3))
    episode.add_env_reset(nested(0), {"lives": 3})
    episode.add_env_step(nested(1), 2, 1.0, {"lives": 2}, extra_model_outputs={"logits": np.zeros(3)})

    def plain(value):
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tolist()
        raise TypeError(f"{type(value)} is no plain data")

    for state in (episode.get_state(), episode.finalize().get_state()):
        assert json.loads(json.dumps(state, default=plain))["observations"]["lookback"] == 0


def test_the_last_recurrent_state_is_there_at_the_start_of_a_chunk():
    """#60205: reading the last state from the lookback fails."""
    episode = SingleAgentEpisode()
    episode.add_env_reset(0)
    for t in range(3):
        episode.add_env_step(t + 1, 0, 0.0, extra_model_outputs={"state_out": {"h": np.full(2, float(t))}})

    for chunk in (episode.cut(1), episode.cut(1).finalize()):
        assert chunk.get_extra_model_outputs("state_out", -1)["h"].tolist() == [2.0, 2.0]
        assert chunk.get_extra_model_outputs("state_out", -1, neg_index_as_lookback=True)["h"].tolist() == [
            2.0,
            2.0,
        ]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple([spaces.Box(-1, 1, (2, 2)), spaces.MultiBinary(3)])),
        spaces.Box(-1, 1, (3, 2), np.float64),
        spaces.Sequence(spaces.Box(-1, 1, (2,))),
        spaces.Text(8),
    ],
    ids=["nested", "two axes", "repeated", "text"],
)
def test_every_kind_of_observation_space_works_without_flattening(space):
    """#51333, #46631, #52093: Dict, two-dimensional and repeated observations fail obscurely."""
    space.seed(0)
    samples = [space.sample() for _ in range(4)]
    episode = SingleAgentEpisode(observation_space=space)
    episode.add_env_reset(samples[0])
    for sample in samples[1:]:
        episode.add_env_step(sample, 0, 0.0)

    restored = pickle.loads(pickle.dumps(episode.finalize()))

    restored.validate()
    assert all(space.contains(restored.get_observations(t)) for t in range(4))


def test_the_whole_episode_can_be_put_together_again_from_its_chunks():
    """PR #52252: at the end of an episode only the last chunk is at hand."""
    episode = SingleAgentEpisode("walk")
    episode.add_env_reset(0)
    chunks = [episode]
    for t in range(6):
        chunks[-1].add_env_step(t + 1, t, 1.0, truncated=t == 5)
        if t % 2 and t < 5:
            chunks.append(chunks[-1].cut(len_lookback_buffer=1))

    whole = chunks[0]
    for chunk in chunks[1:]:
        whole.concat_episode(chunk)

    assert whole.get_observations() == [0, 1, 2, 3, 4, 5, 6]
    assert (whole.get_return(), whole.is_truncated, whole.is_terminated) == (6.0, True, False)
