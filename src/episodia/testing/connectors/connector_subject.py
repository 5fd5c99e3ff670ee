"""`Subject`, a connector with all that its checks need, and sample episodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors import ConnectorV2
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import SubjectError
from episodia.modules import Module
from episodia.stacking import stack
from episodia.testing.episodes.episode_catalogue import pictured
from episodia.testing.episodes.multi_agent_trajectory import MultiAgentTrajectory
from episodia.testing.episodes.trajectory import Trajectory
from episodia.trees import map_batch
from episodia.types import Item

OBSERVATIONS = spaces.Box(-8.0, 8.0, (2,), np.float32)
ACTIONS = spaces.Discrete(3)

# The lengths of the sample episodes, and how they end.
_LENGTHS = {3: "terminated", 1: "", 5: "truncated", 2: ""}

# One agent joins late, one waits, one ends before the others.
_PICTURES = (
    ("left: O AOR AOR AOR", "right: . O AOR AOR"),
    ("left: O AR OR AOR AORT", "right: O AOR A OR AORX"),
)


def sample_episodes(
    observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None, *, state: Item = None
) -> list[SingleAgentEpisode]:
    """Return a few growing episodes of random items, from their first step on, with infos and log-probabilities.

    Args:
        observation_space: The observation space; two numbers by default.
        action_space: The action space; three discrete actions by default.
        state: The initial state of a recurrent module; random states of this form are stored for each step.

    >>> [len(episode) for episode in sample_episodes()]
    [3, 1, 5, 2]
    """
    return [
        _sample(observation_space or OBSERVATIONS, action_space or ACTIONS, length, end, state)
        for length, end in _LENGTHS.items()
    ]


def _sample(
    observation_space: Space[Any], action_space: Space[Any], length: int, end: str, state: Item
) -> SingleAgentEpisode:
    rng = np.random.default_rng(length)
    extras: dict[str, list[Any]] = {Columns.ACTION_LOGP: (-rng.random(length)).tolist()}
    if state:
        extras[Columns.STATE_OUT] = [_state_like(state, rng) for _ in range(length)]
    return Trajectory.sampled(
        observation_space,
        action_space,
        length,
        seed=10 * length,
        id_=f"sample-{length}",
        infos=[{"t": t} for t in range(length + 1)],
        extra_model_outputs=extras,
        terminated=end == "terminated",
        truncated=end == "truncated",
    ).built()


def _state_like(state: Item, rng: np.random.Generator) -> Any:
    return map_batch(lambda leaf: rng.normal(size=np.shape(leaf)).astype(np.float32), state)


def episode_without_steps(like: SingleAgentEpisode) -> SingleAgentEpisode:
    """Return an episode without steps, with the first observation of `like`."""
    start = copy.copy(like)[:0]
    start.id_ = "no-steps"
    return start


def sample_multi_agent_episodes(
    observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None, *, state: Item = None
) -> list[MultiAgentEpisode]:
    """Return two multi-agent episodes in which agents join late, wait, and end at different times.

    >>> [sorted(episode.agent_episodes) for episode in sample_multi_agent_episodes()]
    [['left', 'right'], ['left', 'right']]
    """
    chosen = observation_space or OBSERVATIONS, action_space or ACTIONS
    return [_filled(pictured(*rows), f"game-{number}", *chosen, state) for number, rows in enumerate(_PICTURES)]


def _filled(
    trajectory: MultiAgentTrajectory, id_: str, observation_space: Space[Any], action_space: Space[Any], state: Item
) -> MultiAgentEpisode:
    """Return the episode of `trajectory`, with its items replaced by random items of the spaces."""
    rng = np.random.default_rng(len(trajectory))
    drawn = {"observations": copy.deepcopy(observation_space), "actions": copy.deepcopy(action_space)}
    for space in drawn.values():
        space.seed(len(trajectory))
    log: list[dict[str, dict[Any, Any]]] = []
    for entry in trajectory.log:
        filled = {
            name: {agent: drawn[name].sample() if name in drawn else item for agent, item in by_agent.items()}
            for name, by_agent in entry.items()
        }
        extras = {agent: _extras(state, rng) for agent in entry.get("actions", ())}
        log.append({**filled, "extra_model_outputs": extras} if extras else filled)
    agents = trajectory.agents
    return MultiAgentTrajectory(
        log=log,
        id_=id_,
        observation_space=dict.fromkeys(agents, observation_space),
        action_space=dict.fromkeys(agents, action_space),
    ).stepped()


def _extras(state: Item, rng: np.random.Generator) -> dict[str, Any]:
    extras = {Columns.ACTION_LOGP: -rng.random()}
    return {**extras, Columns.STATE_OUT: _state_like(state, rng)} if state else extras


# --- Forms ------------------------------------------------------------------------------------------------------------


def recorded(episodes: Sequence[SingleAgentEpisode]) -> list[SingleAgentEpisode]:
    """Return copies of `episodes`, which have steps, made by a recorder.

    >>> recorded(sample_episodes()[:1])[0]
    SingleAgentEpisode(len=3, return=..., terminated, finalized, id_='sample-3')
    """
    return [_recorded(episode) for episode in episodes]


def _recorded(episode: SingleAgentEpisode) -> SingleAgentEpisode:
    recorder = Recorder(episode.observation_space, episode.action_space, 1, lookback=0, seed=0)
    recorder.reset(stack([episode.get_observations(0)]), [episode.get_infos(0)])
    for t in range(len(episode)):
        is_last = t == len(episode) - 1
        recorder.step(
            stack([episode.get_observations(t + 1)]),
            stack([episode.get_actions(t)]),
            np.array([episode.get_rewards(t)]),
            np.array([episode.is_terminated and is_last]),
            np.array([episode.is_truncated and is_last]),
            [episode.get_infos(t + 1)],
            {name: stack([episode.get_extra_model_outputs(name, t)]) for name in episode.extra_model_outputs},
        )
    made: SingleAgentEpisode = recorder.take()[0]
    made.id_, made.agent_id, made.module_id = episode.id_, episode.agent_id, episode.module_id
    made.multi_agent_episode_id = episode.multi_agent_episode_id
    made.env_index, made.agent_index = episode.env_index, episode.agent_index
    return made


# Makes new pieces for each run: the last one is checked, the others write the columns that it reads.
Pieces = Callable[[], Sequence[ConnectorV2]]

# Returns the module outputs for the last observation of an episode, by column: one row of a module-to-env batch.
Outputs = Callable[[SingleAgentEpisode], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A connector with all that its checks need.

    Attributes:
        make: Makes new pieces for each run; the connector is the last one.
        rl_module: The module, for pieces that need it.
        outputs: For module-to-env pieces: returns the module outputs for an episode, one item per column.
        episodes: Whole single-agent episodes, from their first step on; empty if the piece is for several agents only.
        multi_agent_episodes: Multi-agent episodes; empty if the piece is not for several agents.
        expected_failures: The reasons why checks are expected to fail, by the names of the checks.
    """

    make: Pieces
    _: KW_ONLY
    rl_module: Module | None = None
    outputs: Outputs | None = None
    episodes: Sequence[SingleAgentEpisode] = ()
    multi_agent_episodes: Sequence[MultiAgentEpisode] = ()
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        connector: ConnectorV2,
        *,
        before: Sequence[ConnectorV2] = (),
        rl_module: Module | None = None,
        episodes: Sequence[SingleAgentEpisode] | None = None,
        multi_agent_episodes: Sequence[MultiAgentEpisode] | None = None,
        **options: Any,
    ) -> Subject:
        """Return `connector` as the subject of checks, on sample episodes unless others are given.

        Args:
            connector: What to check. Each run uses a copy.
            before: Pieces that write the columns that it reads, except observations, actions, rewards and flags.
            rl_module: The module, for pieces that need it.
            episodes: See the attributes. Sample episodes have the spaces of the connector.
            multi_agent_episodes: See the attributes.
            **options: `outputs` and `expected_failures`.

        Raises:
            SubjectError: If it is not a connector.

        >>> from episodia.connectors import FrameStacking
        >>> Subject.of(FrameStacking()).name
        'FrameStacking'
        """
        if not isinstance(connector, ConnectorV2):
            raise SubjectError(
                f"check of a connector: found {connector!r}, expected an object derived from `ConnectorV2`. Pass one, such as "
                "`MyConnector()`, not the class."
            )
        spaces = connector.input_observation_space, connector.input_action_space
        state = None if rl_module is None else rl_module.get_initial_state()
        if episodes is None:
            episodes = sample_episodes(*spaces, state=state)
        if multi_agent_episodes is None:
            multi_agent_episodes = sample_multi_agent_episodes(*spaces, state=state)
        pieces = [*before, connector]
        return cls(
            lambda: [_copied(piece) for piece in pieces],
            rl_module=rl_module,
            episodes=episodes,
            multi_agent_episodes=multi_agent_episodes,
            **options,
        )

    @cached_property
    def connector(self) -> ConnectorV2:
        """The connector, for its declarations."""
        return self.make()[-1]

    def fresh_episodes(self) -> list[SingleAgentEpisode]:
        """Return forks of the episodes, so that a faulty piece does not affect other checks."""
        return [copy.copy(episode) for episode in self.episodes]

    @property
    def name(self) -> str:
        """The name of the subject in its checks."""
        return self.connector.name


def _copied(piece: ConnectorV2) -> ConnectorV2:
    try:
        return copy.deepcopy(piece)
    except Exception:  # noqa: BLE001  # a check of its own reports this
        return piece
