"""What a connector is checked with: how it is made, what feeds it, and the episodes that it is run on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from episodia.connectors import ConnectorV2
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.testing.connectors.connector_samples import sample_episodes, sample_multi_agent_episodes

# Makes the pieces to check, fresh for each run: the last one is what the law is about, those before it feed it.
Pieces = Callable[[], Sequence[ConnectorV2]]

# What the module puts out for the last observation of an episode, by column: one row of a module-to-env batch.
Outputs = Callable[[SingleAgentEpisode], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A connector, with all that is needed to hold it to its laws.

    Attributes:
        make: Makes the pieces, fresh each time: the connector is the last one.
        rl_module: The module, for pieces that need it.
        outputs: For pieces of module-to-env pipelines: what a module puts out for an episode, one item for each column.
        episodes: Whole single-agent episodes, from their first step on; none if the piece is for several agents only.
        multi_agent_episodes: Multi-agent episodes; none if the piece is not for several agents.
        expected_failures: Why checks fail that are expected to, by the names of the checks.
    """

    make: Pieces
    _: KW_ONLY
    rl_module: Any = None
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
        rl_module: Any = None,
        episodes: Sequence[SingleAgentEpisode] | None = None,
        multi_agent_episodes: Sequence[MultiAgentEpisode] | None = None,
        **options: Any,
    ) -> Subject:
        """Return `connector` as the subject of checks, on sample episodes unless others are given.

        Args:
            connector: What to check. It is copied for each run and stays as it is.
            before: Pieces that write what it reads, other than observations, actions, rewards and flags.
            rl_module: The module, for pieces that need it.
            episodes: See the attributes. The samples are of the spaces that the connector was given.
            multi_agent_episodes: See the attributes.
            **options: `outputs` and `expected_failures`.

        Raises:
            SubjectError: If it is no connector.

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
        state = rl_module.get_initial_state() if hasattr(rl_module, "get_initial_state") else None
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
        """The connector, to ask for what it declares."""
        return self.make()[-1]

    def fresh_episodes(self) -> list[SingleAgentEpisode]:
        """Return forks of the episodes, so that what a faulty piece does to them in one check is not seen in others."""
        return [copy.copy(episode) for episode in self.episodes]

    @property
    def name(self) -> str:
        """By which its checks are known."""
        return self.connector.name


def _copied(piece: ConnectorV2) -> ConnectorV2:
    try:
        return copy.deepcopy(piece)
    except Exception:  # noqa: BLE001  # that it cannot be copied is what one of the checks is about
        return piece
