"""Steps in which nothing has to be decided for any agent, recorded for all environments at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.env_runners.acting.multi_agent_acting import MultiAgentActor
from episodia.env_runners.envs.multi_agent_env import StepResult
from episodia.env_runners.rollout.multi_agent_lane import Choice, Lane
from episodia.episodes import MultiAgentEpisode
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.multi_agent.bulk_steps import BulkSteps, JointStep
from episodia.errors import EpisodiaError
from episodia.stacking import stack


@final
class BulkRecording:
    """Keeps steps in which all agents that acted are shown what follows, and nothing else happens.

    The episodes do not know these steps until `flush`. A piece that gets hold of an episode may look at it whenever it runs, so
    no steps are kept from then on, as long as the pipelines consist of the same pieces. Nor are steps kept once a callback has
    looked into the episode that it was given.

    Args:
        actor: Knows what was put out for whom.
    """

    def __init__(self, actor: MultiAgentActor) -> None:
        self._actor = actor
        self._steps: BulkSteps | None = None
        self._is_open = False
        self._looking: tuple[object, object] | None = None  # the pieces of both pipelines, one of which has an episode
        self._is_read = False  # whether a callback has looked into an episode
        self._hidden: list[MultiAgentEpisode] = []

    def open(self, *, wanted: bool) -> None:
        """Take steps from now on, if that is wanted and no piece looks at episodes."""
        is_possible = self._actor.modules is not None and not self._is_read and self._pieces() != self._looking
        self._is_open = wanted and is_possible
        self._actor.on_look = self._on_look if self._is_open else None

    def _pieces(self) -> tuple[object, object]:
        return self._actor.env_to_module.connectors, self._actor.module_to_env.connectors

    def _on_look(self) -> None:
        self._is_open, self._looking, self._actor.on_look = False, self._pieces(), None
        if self._steps is not None:
            self._steps.agents.on_access = None
        self.flush()

    def hide(self, episodes: list[MultiAgentEpisode]) -> None:
        """Let `episodes`, which callbacks get, store the steps that are kept before anything looks into them."""
        self._hidden = episodes
        for episode in episodes:
            episode.hide_roster(self._on_read)

    def show(self) -> None:
        """Undo `hide`."""
        for episode in self._hidden:
            episode.show_roster()

    def _on_read(self) -> None:
        self.show()
        self._is_read = True
        self._on_look()

    def __len__(self) -> int:
        return 0 if self._steps is None else len(self._steps)

    @property
    def num_agent_steps(self) -> int:
        """How many steps of agents are kept."""
        return 0 if self._steps is None else len(self._steps) * len(self._steps.agents.row_owners())

    def record(
        self,
        lanes: Sequence[Lane],
        episodes: Sequence[MultiAgentEpisode],
        choices: Sequence[Choice],
        outcomes: Sequence[StepResult | BaseException],
    ) -> bool:
        """Keep a step of all lanes, if it is such a step, and return whether it is."""
        if not self._is_open:
            return False
        ahead = len(self) + 1
        for lane, episode, choice, outcome in zip(lanes, episodes, choices, outcomes, strict=True):
            if not _is_plain(choice, outcome) or lane.is_last(episode.env_t + ahead):
                return False
        agents, mapped = self._actor.last_act  # of these episodes: a piece that changes an episode closes the recording
        if agents is None:
            return False
        if self._steps is None or self._steps.agents is not agents:
            self.flush()
            self._steps = BulkSteps(agents)
        step = _joint_step(agents, mapped, outcomes) if self._steps.takes_steps else None
        if step is None or not self._steps.add(step):
            self.flush()
            self._steps = None  # what follows may be a better pattern
            return False
        for lane in lanes:
            lane.is_mid_step = False
        return True

    def flush(self) -> None:
        """Store all steps in the episodes."""
        if self._steps is not None:
            self._steps.flush()

    @property
    def is_broken(self) -> bool:
        """Whether storing was interrupted, so that the episodes do not fit together."""
        return self._steps is not None and self._steps.is_broken

    def forget(self) -> None:
        """Forget the steps; they have been stored before, or cannot be."""
        self._steps = None


def _is_plain(choice: Choice, outcome: Any) -> bool:
    """Tell whether exactly those who acted are shown something and paid, and no agent ends."""
    if isinstance(outcome, BaseException):
        return False
    observations, rewards, terminateds, truncateds, infos = outcome
    try:
        acted = choice.actions.keys()
        return (
            observations.keys() == acted
            and rewards.keys() == acted
            and not (terminateds and any(terminateds.values()))
            and not (truncateds and any(truncateds.values()))
            and not (infos and any(infos.values()))
        )
    except (AttributeError, TypeError, ValueError):  # no dicts, or flags that are neither true nor false
        return False


def _joint_step(agents: LiveAgents, mapped: dict[Any, Any], outcomes: Sequence[Any]) -> dict[Any, JointStep] | None:
    """Return the step with one array for all agents of a module; None if they do not fit together."""
    joint = {}
    for module_id, owners in agents.owners_by_module().items():
        columns = mapped.get(module_id)
        if columns is None or Columns.ACTIONS not in columns:
            return None
        try:
            observations = stack([outcomes[position][0][agent] for position, agent in owners])
        except EpisodiaError:
            return None
        if type(observations) is not np.ndarray:
            return None
        # Who is given it must not write into it, as it is what will be recorded.
        observations.setflags(write=False)
        rewards = [outcomes[position][1][agent] for position, agent in owners]
        # A module may use the memory of its outputs again.
        extras = {name: _copied(column) for name, column in columns.items() if name not in NOT_RECORDED}
        joint[module_id] = JointStep(observations, _copied(columns[Columns.ACTIONS]), rewards, extras)
    return joint


def _copied(column: Any) -> Any:
    return column.copy() if type(column) is np.ndarray else column
