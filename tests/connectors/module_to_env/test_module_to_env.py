"""The pieces from module to environment, one after another in a pipeline."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Columns
from episodia.connectors import ModuleToEnvPipeline
from episodia.connectors.common.agent_to_module_mapping import row_owners
from episodia.connectors.defaults import module_to_env
from episodia.connectors.module_to_env.action_noise import GaussianNoise, UniformNoise
from episodia.connectors.module_to_env.epsilon_greedy import EpsilonGreedy
from episodia.connectors.module_to_env.get_actions import GetActions
from episodia.connectors.module_to_env.normalize_and_clip_actions import NormalizeAndClipActions
from episodia.connectors.module_to_env.tensor_to_numpy import TensorToNumpy
from episodia.episodes import EpisodeList
from episodia.modules import dist_for
from module_columns import ACTION_SPACES, Acting, row, started_match


def _inputs(space, *axes):
    return torch.randn((*axes, dist_for(space).num_inputs), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_the_environment_gets_actions_of_its_space(name, time):
    space = ACTION_SPACES[name]
    pipeline = module_to_env(
        action_space=space,
        stateful=time,
        custom=[EpsilonGreedy(epsilon=0.3), GaussianNoise(std=0.2), UniformNoise(amplitude=0.1)],
    )
    inputs = _inputs(space, 8, 1) if time else _inputs(space, 8)

    after = pipeline(
        rl_module=Acting(space),
        batch={Columns.ACTION_DIST_INPUTS: inputs},
        episodes=[],
        explore=True,
        shared_data={"_added_single_ts_time_rank": time},
    )

    assert all(space.contains(row(after[Columns.ACTIONS_FOR_ENV], index)) for index in range(8))
    assert after[Columns.ACTION_LOGP].shape == (8,)


def test_stored_actions_have_the_log_probability_beside_them():
    space = spaces.Box(-3.0, 5.0, (2,))
    inputs = _inputs(space, 6)
    pipeline = module_to_env(action_space=space, custom=[GaussianNoise(std=0.5)])

    after = pipeline(rl_module=Acting(space), batch={Columns.ACTION_DIST_INPUTS: inputs}, episodes=[], explore=True)

    logp = dist_for(space).from_logits(inputs).logp(torch.from_numpy(after[Columns.ACTIONS]))
    np.testing.assert_array_equal(after[Columns.ACTION_LOGP], logp.numpy())


def test_agents_get_the_actions_of_their_modules():
    space = spaces.Discrete(3, start=5)
    matches = EpisodeList([started_match("m0", {"a": 0, "b": 1}), started_match("m1", {"a": 2})])
    shared_data = {"memorized_map_structure": row_owners(matches.current())}
    inputs = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])

    after = module_to_env(multi_agent=True)(
        rl_module={"shared": Acting(space)},
        batch={"shared": {Columns.ACTION_DIST_INPUTS: inputs}},
        episodes=matches,
        explore=False,
        shared_data=shared_data,
    )

    assert after[Columns.ACTIONS_FOR_ENV] == [{"a": 5, "b": 6}, {"a": 7}]


def test_the_state_of_a_pipeline_restores_its_randomness():
    space = spaces.Box(-1.0, 1.0, (2,))

    def make(seed):
        pieces = [GetActions(seed=seed), TensorToNumpy(), GaussianNoise(std=0.5, seed=seed), NormalizeAndClipActions()]
        return ModuleToEnvPipeline(None, space, connectors=pieces)

    def acted(pipeline):
        batch = {Columns.ACTION_DIST_INPUTS: _inputs(space, 3)}
        return pipeline(rl_module=Acting(space), batch=batch, episodes=[], explore=True)[
            Columns.ACTIONS_FOR_ENV
        ].tolist()

    first, second = make(1), make(2)
    acted(first)
    second.set_state(first.get_state())

    assert acted(first) == acted(second)
