"""Helpers for test suites: named spaces and episodes, strategies, comparisons, fakes, and checks of all extension points.

They need hypothesis and pytest, which `pip install "episodia[testing]"` installs. No other part of the package imports this
one.
"""

from episodia.errors import MissingExtraError

try:
    import hypothesis  # noqa: F401  # only whether it is there
    import pytest  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"episodia.testing: found that {error.name} is not installed, expected hypothesis and pytest. Run "
        '`pip install "episodia[testing]"`.'
    ) from error

from episodia.testing.comparing import assert_same_episode, assert_same_items, assert_same_multi_agent_episode
from episodia.testing.connectors.connector_checks import CONNECTOR_LAWS, check_connector
from episodia.testing.connectors.connector_laws import check_connector_laws, laws_of
from episodia.testing.connectors.connector_subject import Subject, sample_episodes, sample_multi_agent_episodes
from episodia.testing.connectors.pipeline_strategies import pipelines
from episodia.testing.dataflow.chaos import Chaos
from episodia.testing.dataflow.engine_checks import check_engine
from episodia.testing.dataflow.simulated_engine import SimulatedEngine
from episodia.testing.env_runners.env_runner_checks import ENV_RUNNER_LAWS, check_env_runner
from episodia.testing.env_runners.env_runner_subject import EnvRunnerSubject
from episodia.testing.episodes.episode_catalogue import (
    EPISODES,
    MULTI_AGENT_EPISODES,
    MULTI_AGENT_TRAJECTORIES,
    SPACES,
    pictured,
)
from episodia.testing.episodes.episode_strategies import (
    OPTIONAL_FIELDS,
    chunked_episodes,
    cut_points,
    episodes,
    indices,
    items,
    slices,
    spaces,
    trajectories,
)
from episodia.testing.episodes.multi_agent_strategies import (
    AGENT_IDS,
    ITEM_KINDS,
    Content,
    agent_groups,
    chunked_multi_agent_episodes,
    contents,
    multi_agent_episodes,
    multi_agent_trajectories,
    next_env_steps,
    reset_trajectories,
)
from episodia.testing.episodes.multi_agent_trajectory import MultiAgentTrajectory
from episodia.testing.episodes.recorder_checks import RECORDER_LAWS, check_recorder
from episodia.testing.episodes.recorder_subject import RecorderSubject
from episodia.testing.episodes.trajectory import Trajectory
from episodia.testing.fakes import (
    FAKE_ACTIONS,
    FAKE_OBSERVATIONS,
    FakeConnector,
    FakeEnv,
    FakeEnvs,
    FakeModule,
    FakeMultiAgentEnv,
    fake_action,
)
from episodia.testing.law_checking import Check, CheckResult, NotApplicableError, result_of
from episodia.testing.learners.learner_checks import LEARNER_LAWS, check_learner
from episodia.testing.learners.learner_subject import LearnerSubject, played_episodes
from episodia.testing.modules.module_checks import MODULE_LAWS, check_module
from episodia.testing.modules.module_subject import ModuleSubject
from episodia.testing.parametrizing import checks_of, parametrize_with_checks
from episodia.testing.replay.selector_checks import check_selector

__all__ = [
    "AGENT_IDS",
    "CONNECTOR_LAWS",
    "ENV_RUNNER_LAWS",
    "EPISODES",
    "FAKE_ACTIONS",
    "FAKE_OBSERVATIONS",
    "ITEM_KINDS",
    "LEARNER_LAWS",
    "MODULE_LAWS",
    "MULTI_AGENT_EPISODES",
    "MULTI_AGENT_TRAJECTORIES",
    "OPTIONAL_FIELDS",
    "RECORDER_LAWS",
    "SPACES",
    "Chaos",
    "Check",
    "CheckResult",
    "Content",
    "EnvRunnerSubject",
    "FakeConnector",
    "FakeEnv",
    "FakeEnvs",
    "FakeModule",
    "FakeMultiAgentEnv",
    "LearnerSubject",
    "ModuleSubject",
    "MultiAgentTrajectory",
    "NotApplicableError",
    "RecorderSubject",
    "SimulatedEngine",
    "Subject",
    "Trajectory",
    "agent_groups",
    "assert_same_episode",
    "assert_same_items",
    "assert_same_multi_agent_episode",
    "check_connector",
    "check_connector_laws",
    "check_engine",
    "check_env_runner",
    "check_learner",
    "check_module",
    "check_recorder",
    "check_selector",
    "checks_of",
    "chunked_episodes",
    "chunked_multi_agent_episodes",
    "contents",
    "cut_points",
    "episodes",
    "fake_action",
    "indices",
    "items",
    "laws_of",
    "multi_agent_episodes",
    "multi_agent_trajectories",
    "next_env_steps",
    "parametrize_with_checks",
    "pictured",
    "pipelines",
    "played_episodes",
    "reset_trajectories",
    "result_of",
    "sample_episodes",
    "sample_multi_agent_episodes",
    "slices",
    "spaces",
    "trajectories",
]


def __dir__() -> list[str]:
    return sorted(__all__)
