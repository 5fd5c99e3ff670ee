"""Actions of all agents: one batch, one forward pass and one draw for each module, over all environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors import EnvToModulePipeline, ModuleToAgentUnmapping, ModuleToEnvPipeline
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.connectors.common.agent_to_module_mapping import ROW_OWNERS
from episodia.connectors.module_to_env.module_to_agent_unmapping import MAPPED_BATCH
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.spaces.action_masks import masks_in_infos
from episodia.env_runners.acting.acting import pieces_for_random_actions, random_items
from episodia.env_runners.acting.runner_pipelines import decoder_of, real_range_of, shapers_of
from episodia.env_runners.rollout.multi_agent_lane import Choice
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.episodes import EpisodeList, MultiAgentEpisode
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.errors import EnvRunnerError
from episodia.modules import MultiModule
from episodia.modules.random_actions import Range
from episodia.stacking import stack
from episodia.trees import SCALAR_TYPES, map_batch, private

_ACTIONS = frozenset({Columns.ACTIONS, Columns.ACTIONS_FOR_ENV})

_SpaceOf = Callable[[int, Any], Space[Any]]


@final
class MultiAgentActor:
    """Chooses actions for all agents that are to act, with modules or at random.

    Args:
        modules: The modules by their ids; None acts at random.
        env_to_module: The pipeline in front of them.
        module_to_env: The pipeline behind them.
        rng: For random actions.
        generator: For actions that are drawn from the outputs of modules.

    Attributes:
        metrics: The metrics that sum up the time spent.
        shapers: The pieces that set rewards.
        agents: The agents that act; replaced when other agents do.
    """

    def __init__(
        self,
        modules: MultiModule | None,
        env_to_module: EnvToModulePipeline,
        module_to_env: ModuleToEnvPipeline,
        rng: np.random.Generator,
        generator: torch.Generator,
    ) -> None:
        self.modules = modules
        self.env_to_module = env_to_module
        self.module_to_env = module_to_env
        self.rng = rng
        self.generator = generator
        self.metrics = RunnerMetrics()
        self.shapers = shapers_of(env_to_module)
        self._stateful = {} if modules is None else {name: module.is_stateful() for name, module in modules.items()}
        self._observed: list[tuple[str, int]] | None = None
        self.agents: LiveAgents | None = None
        self._batch: dict[Any, Any] = {}
        self._shared: dict[Any, Any] = {}

    def observe(self, episodes: Sequence[MultiAgentEpisode], *, explore: bool) -> None:
        """Run the env-to-module pipeline on the last observations of `episodes`; repeated calls run it only once.

        Called after each step, before chunks are cut, so that pieces can write into episodes for every observation.

        Args:
            episodes: The running episodes.
            explore: Whether modules explore.
        """
        moment = [(episode.id_, episode.roster.clock.env_t) for episode in episodes]
        if moment == self._observed:
            return
        self._observed, self._batch, self._shared = None, {}, {}
        if self.modules is None:
            self._shape_rewards(episodes)
            self._observed = moment
            return
        started = perf_counter()
        agents = self._live(episodes)
        has_ended = agents.lacks_ended and self.env_to_module.writes_to_episodes
        seen = LiveAgents(episodes, with_ended=True) if has_ended else agents
        run = Run({}, seen, self.modules, explore, self._shared, None, {})
        self._batch = self.env_to_module.run(run)
        if ROW_OWNERS not in self._shared:
            raise EnvRunnerError(
                "found no owners of rows after the env-to-module pipeline, expected an owner for each row. Put "
                "`AgentToModuleMapping` into it."
            )
        if has_ended:
            self._drop_ended(agents)
        self._observed = moment
        self.metrics.env_to_module_time_s += perf_counter() - started

    def _drop_ended(self, agents: LiveAgents) -> None:
        """Drop the rows of agents that have ended, which are there for the pieces alone; `agents` are to act."""
        agents.note_reading()
        owners, batch = agents.owners_by_module(), {}
        for module_id, columns in self._batch.items():
            acting = set(owners.get(module_id, ()))
            if acting:
                places = [at for at, owner in enumerate(self._shared[ROW_OWNERS][module_id]) if owner in acting]
                batch[module_id] = map_batch(partial(_rows_at, places), columns)
        self._batch, self._shared[ROW_OWNERS] = batch, owners

    def _shape_rewards(self, episodes: Sequence[MultiAgentEpisode]) -> None:
        """Without modules, run the env-to-module pipeline for the pieces that set rewards."""
        for shaper in self.shapers:
            shaper(rl_module=None, batch={}, episodes=episodes)

    def _live(self, episodes: Sequence[MultiAgentEpisode]) -> LiveAgents:
        if self.agents is None or not self.agents.holds(episodes):
            self.agents = LiveAgents(episodes)
        return self.agents

    def _observed_agents(self, episodes: Sequence[MultiAgentEpisode]) -> LiveAgents:
        """Return the agents of `episodes` after `observe`: no step has been made, but chunks may have been cut since."""
        if self.agents is None or not self.agents.lists(episodes):
            self.agents = LiveAgents(episodes)
        return self.agents

    @property
    def last_act(self) -> tuple[LiveAgents | None, dict[Any, Any]]:
        """The agents that acted last and the outputs for them, by module."""
        return self.agents, self._shared.get(MAPPED_BATCH, {})

    def observe_end(self, episode: MultiAgentEpisode, *, explore: bool) -> None:
        """Let pieces that write into episodes see the last observations of an episode; no module acts on them."""
        if self.modules is None:
            self._shape_rewards([episode])
        elif self.env_to_module.writes_to_episodes:
            ended = LiveAgents([episode], with_ended=True)
            self.env_to_module(rl_module=self.modules, episodes=ended, explore=explore, shared_data={})

    def forget(self) -> None:
        """Drop the observed batch, because its inputs have changed."""
        self._observed = self.agents = None

    def act(
        self,
        episodes: Sequence[MultiAgentEpisode],
        space_of: _SpaceOf,
        *,
        explore: bool,
        at_random: bool,
    ) -> list[Choice]:
        """Return the actions of the agents of each episode.

        Args:
            episodes: The running episodes.
            space_of: Returns the action space of an agent, by the position of its episode.
            explore: Whether modules explore.
            at_random: Whether actions are drawn at random. Recurrent modules still run, so that their states advance.
        """
        self.observe(episodes, explore=explore)
        if self.modules is None:
            return self._without_modules(episodes, space_of)
        started = perf_counter()
        outputs = self._outputs(self.modules, explore and not at_random, at_random)
        between = perf_counter()
        self.metrics.forward_time_s += between - started
        if self.agents is None or not self.agents.are_shown:
            self._add_masks(outputs, episodes)
        if at_random:
            choices = self._at_random(outputs, episodes, space_of)
        else:
            choices = self._chosen(outputs, self._observed_agents(episodes), explore)
        self.metrics.module_to_env_time_s += perf_counter() - between
        return choices

    def _chosen(self, outputs: dict[Any, Any], agents: LiveAgents, explore: bool) -> list[Choice]:
        """Return the result of the module-to-env pipeline for `outputs`."""
        run = Run(outputs, agents, self.modules, explore, self._shared, None, {"generator": self.generator})
        run.needed_by_agents = _ACTIONS
        made = self.module_to_env.run(run)
        return _choices(made, agents, run.left_by_modules or {})

    def _outputs(self, modules: MultiModule, explore: bool, at_random: bool) -> dict[Any, Any]:
        outputs: dict[Any, Any] = {}
        for module_id, columns in self._batch.items():
            module = modules[module_id]
            forward = module.forward_exploration if explore else module.forward_inference
            is_needed = self._stateful[module_id] or not at_random
            outputs[module_id] = dict(forward(columns)) if is_needed else {}
        return outputs

    def _at_random(
        self, outputs: dict[Any, Any], episodes: Sequence[MultiAgentEpisode], space_of: _SpaceOf
    ) -> list[Choice]:
        """Return random actions in place of the outputs of modules; states and masks are kept."""
        real_range, decoder = self._real_range(), decoder_of(self.module_to_env)
        own_space = None if decoder is None else decoder.module_action_space

        def drawn_from(position: int, agent: Any) -> Space[Any]:
            return space_of(position, agent) if own_space is None else own_space

        made: dict[Any, Any] = {}
        for module_id, columns in outputs.items():
            owners = self._shared[ROW_OWNERS][module_id]
            made[module_id] = {Columns.ACTIONS: stack(random_items(episodes, owners, drawn_from, self.rng, real_range))}
            if Columns.STATE_OUT in columns:
                made[module_id][Columns.STATE_OUT] = map_batch(as_array, columns[Columns.STATE_OUT])
            if Columns.ACTION_MASK in columns:
                masks = columns[Columns.ACTION_MASK]
                made[module_id][Columns.ACTION_MASK] = masks[:, 0] if self._stateful[module_id] else masks
        agents = self._live(episodes)
        for piece in (*pieces_for_random_actions(self.module_to_env), ModuleToAgentUnmapping()):
            made = piece(rl_module=self.modules, batch=made, episodes=agents, shared_data=self._shared)
        return _choices(made, agents, {})

    def _add_masks(self, outputs: dict[Any, Any], episodes: Sequence[MultiAgentEpisode]) -> None:
        """Add masks that are in infos; those in observations are found by the pieces that need them."""
        for module_id, columns in outputs.items():
            masks = masks_in_infos(episodes, self._shared[ROW_OWNERS][module_id])
            if masks is not None and Columns.ACTION_MASK not in columns:
                columns[Columns.ACTION_MASK] = masks[:, None] if self._stateful.get(module_id) else masks

    def _without_modules(self, episodes: Sequence[MultiAgentEpisode], space_of: _SpaceOf) -> list[Choice]:
        """Draw actions in the units of the environment."""
        owners = EpisodeList(episodes).current().row_owners()
        choices = [Choice({}, {}, dict) for _ in episodes]
        for (position, agent), action in zip(
            owners, random_items(episodes, owners, space_of, self.rng, None), strict=True
        ):
            choices[position].actions[agent] = action
            choices[position].for_env[agent] = private(action)
        return choices

    def _real_range(self) -> Range | None:
        """Return the range of real-valued actions of a module."""
        return real_range_of(self.modules, self.module_to_env)


def _rows_at(places: list[int], leaf: Any) -> Any:
    """Return some rows of a leaf; a value without rows, such as a number, is returned unchanged."""
    return leaf[places] if np.ndim(leaf) else leaf


def _choices(made: dict[str, Any], agents: LiveAgents, mapped: dict[Any, Any]) -> list[Choice]:
    """Return the actions of each episode's agents, from `{column: [{agent: item}, ...]}`; `mapped` are others by modules."""
    if not made:  # no agent acts
        return [Choice({}, {}, dict) for _ in range(len(agents))]
    actions = made.get(Columns.ACTIONS)
    if not isinstance(actions, list):
        raise EnvRunnerError(
            f"found the columns {list(made)} after the module-to-env pipeline, expected {Columns.ACTIONS!r} with a dict of "
            "agents for each episode. Let `ModuleToAgentUnmapping` be the last piece."
        )
    for_env = made.get(Columns.ACTIONS_FOR_ENV, actions)
    stored = {name: dicts for name, dicts in made.items() if name not in NOT_RECORDED}
    outputs = _Outputs(stored, agents, mapped)
    return [
        # Extra model outputs are looked up where they are needed: most steps are stored without.
        Choice(chosen, _received(for_env[position]), partial(outputs.of, position, chosen))
        for position, chosen in enumerate(actions)
    ]


@final
class _Outputs:
    """The outputs of modules beside actions; the part of an episode is looked up when it is asked for.

    Args:
        stored: Outputs by agents, `{name: [{agent: output}, ...]}`.
        agents: The agents of the rows in `mapped`.
        mapped: Other outputs by modules, `{module: {name: rows}}`.
    """

    def __init__(self, stored: dict[str, Any], agents: LiveAgents, mapped: dict[Any, Any]) -> None:
        self._stored = stored
        self._agents = agents
        self._mapped = mapped

    def of(self, position: int, actions: Iterable[Any]) -> dict[Any, dict[str, Any]]:
        """Return `{agent: {name: output}}` of the episode at `position`, in which the agents of `actions` act."""
        extras: dict[Any, dict[str, Any]] = {agent: {} for agent in actions}
        for module_id, owners in self._agents.owners_by_module().items() if self._mapped else ():
            columns = {
                name: column
                for name, column in self._mapped.get(module_id, {}).items()
                if name not in NOT_RECORDED and type(column) is np.ndarray
            }
            for place, (at, agent) in enumerate(owners):
                if at == position:
                    extras[agent] = {name: column[place] for name, column in columns.items()}
        for name, dicts in self._stored.items():
            for agent, item in dicts[position].items():
                extras[agent][name] = item
        return extras


def _received(actions: dict[Any, Any]) -> dict[Any, Any]:
    """Return copies for the environment: it may modify its actions, and the recorded actions must not change."""
    if SCALAR_TYPES.issuperset(map(type, actions.values())):
        return actions.copy()
    return {agent: private(item) for agent, item in actions.items()}
