"""H3: where very many episodes are cut changes no bit of what a learner gets."""

from itertools import pairwise

import numpy as np
import pytest
from gymnasium import spaces

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors import (
    AddNextObservationsFromEpisodesToTrainBatch,
    AddViews,
    ClipRewards,
    FlattenObservations,
    FrameStacking,
    NumpyToTensor,
    OneHotObservations,
    PrevActionsPrevRewards,
    SignRewards,
    View,
    defaults,
)

BOX, ACTIONS = spaces.Box(-8.0, 8.0, (2,), np.float32), spaces.Discrete(3)
VIEWS = {
    "past": View("obs", shift=[-4, -1]),
    "paid": View("rewards", shift=range(-3, 0), fill=0.5),
    "did": View("actions", shift=-2),
    "said": View("action_logp", shift=-1, fill=-1.0),
    "clock": View("t", shift=0),
}
PIECES = [
    [FrameStacking(num_frames=4)],
    [FlattenObservations(), FrameStacking(num_frames=3)],
    [PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=3), FlattenObservations()],
    [AddViews(VIEWS)],
]
TARGETS = [[ClipRewards(low=-0.5, high=0.5)], [SignRewards()]]


def pipelines():
    """Return learner pipelines of NumPy columns; the last one also adds next observations."""
    made = [defaults.learner(BOX, ACTIONS, custom=pieces) for pieces in PIECES]
    made += [defaults.learner(BOX, ACTIONS, targets=pieces) for pieces in TARGETS]
    made.append(defaults.learner(spaces.Discrete(4), ACTIONS, custom=[OneHotObservations()]))
    made.append(defaults.learner(BOX, ACTIONS))
    made[-1].insert_after("AddObservationsFromEpisodesToBatch", AddNextObservationsFromEpisodesToTrainBatch())
    for pipeline in made:
        pipeline.remove(NumpyToTensor)
    return made


def walk(rng, observation_space, number):
    steps = int(rng.integers(1, 13))
    if isinstance(observation_space, spaces.Box):
        observations = rng.normal(size=(steps + 1, 2)).astype(np.float32)
    else:
        observations = rng.integers(0, 4, steps + 1)
    return SingleAgentEpisode(
        f"walk-{number}",
        observation_space=observation_space,
        action_space=ACTIONS,
        observations=observations,
        actions=rng.integers(0, 3, steps),
        rewards=rng.normal(size=steps),
        extra_model_outputs={"action_logp": rng.normal(size=steps)},
        terminated=bool(rng.integers(2)),
        len_lookback_buffer=0,
    )


def chunks_of(episode, rng, lookback):
    """Return the chunks of an episode that is cut at random places; each has at most so many earlier steps."""
    inner = rng.random(len(episode) - 1) < 0.3
    cuts = [0, *(np.flatnonzero(inner) + 1).tolist(), len(episode)]
    return [
        episode.slice(slice(start, stop), len_lookback_buffer=min(lookback, start)) for start, stop in pairwise(cuts)
    ]


@pytest.mark.parametrize("number", [5_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_h3_where_episodes_are_cut_changes_no_bit(number):
    rng, made = np.random.default_rng(0), pipelines()
    for index, first in enumerate(range(0, number, 250)):
        pipeline = made[index % len(made)]
        whole = [walk(rng, pipeline.input_observation_space, first + place) for place in range(250)]
        cut = [chunk for episode in whole for chunk in chunks_of(episode, rng, pipeline.lookback)]
        expected, found = (
            pipeline(rl_module=None, episodes=EpisodeList(episodes))["default_policy"] for episodes in (whole, cut)
        )

        assert len(cut) > 400
        assert found.keys() == expected.keys()
        for column, values in expected.items():
            assert found[column].tobytes() == values.tobytes(), (column, index)
