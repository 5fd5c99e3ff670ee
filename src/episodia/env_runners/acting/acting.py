"""From running episodes to the next actions: both pipelines with the module between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors import ActionDecoder, ConnectorV2, NormalizeAndClipActions
from episodia.connectors.batches.batch_descriptions import rows_of
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.connectors.common.add_states_from_episodes_to_batch import CARRIED_STATES, initial_state_of
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.connectors.module_to_env.reward_shaper import SETTLED_ENDS, RewardShaper
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.piece_lookup import leaves as piece_leaves
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.spaces.action_masks import IGNORED_ROWS
from episodia.env_runners.acting.runner_pipelines import shapers_of
from episodia.env_runners.rollout.vector_step import Chosen, Stepper
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import EnvRunnerError, ModuleError
from episodia.modules.random_actions import Range, random_actions
from episodia.spaces import ARRAY_SPACES
from episodia.stacking import stack
from episodia.trees import map_batch


@final
class Actor:
    """Chooses actions for all lanes.

    `observe` has to be called after each reset and each step, and before the next `act`: every observation goes through the
    env-to-module pipeline once, also the last one of an episode, so pieces that write into episodes reach all of them.

    Args:
        module: What acts; None acts at random.
        env_to_module: The pipeline in front of it.
        module_to_env: The pipeline behind it.
        random: What draws random actions.
        generator: What modules' actions are drawn with.
        metrics: Where time is counted.
        mask_key: Under which observations tell the allowed actions.
    """

    def __init__(
        self,
        module: Any,
        env_to_module: EnvToModulePipeline,
        module_to_env: ModuleToEnvPipeline,
        *,
        random: RandomActions,
        generator: torch.Generator,
        metrics: RunnerMetrics,
        mask_key: str | None,
    ) -> None:
        self.module = module
        self.env_to_module = env_to_module
        self.module_to_env = module_to_env
        self.generator = generator
        self.metrics = metrics
        self.random = random
        self.mask_key = mask_key
        self.shapers: list[RewardShaper] = shapers_of(env_to_module)
        self._settled_ends: Sequence[str] = ()
        self._is_stateful = module is not None and module.is_stateful()
        self._states: Any = None  # what the module has returned last, one row for each lane
        self._batch: dict[str, Any] | None = None
        self._shared: dict[Any, Any] = {}
        self._for_drawing = {"generator": generator}

    @property
    def has_observed(self) -> bool:
        """Whether the batch for the next actions is there."""
        return self.module is None or self._batch is not None

    def forget(self) -> None:
        """Forget the batch: something has changed that it was made with."""
        self._batch = None

    def observe(self, episodes: LiveEpisodes, began: Sequence[int], explore: bool) -> None:
        """Make the batch for the next actions of all lanes, in some of which an episode began."""
        if self.module is None:
            self._shape_rewards(episodes)
            self._settled_ends = ()
            return
        self._batch = None
        started = perf_counter()
        self._shared = {SETTLED_ENDS: self._settled_ends} if self._settled_ends else {}
        self._settled_ends = ()
        if self._is_stateful:
            self._shared[CARRIED_STATES] = self._carried(began, len(episodes))
        self._batch = self.env_to_module.run(Run({}, episodes, self.module, explore, self._shared, None, {}))
        self.metrics.env_to_module_time_s += perf_counter() - started

    def observe_ends(self, episodes: EpisodeList, explore: bool) -> None:
        """Let the pipeline see the last observations of episodes that have ended."""
        if self.module is not None:
            shared: dict[Any, Any] = {}
            if self._is_stateful:
                shared[CARRIED_STATES] = self._initial(len(episodes))
            self.env_to_module.run(Run({}, episodes.current(), self.module, explore, shared, None, {}))
        else:
            self._shape_rewards(episodes)

    def _shape_rewards(self, episodes: EpisodeList) -> None:
        """Run the pieces that set rewards, which need an env-to-module pipeline also without a module."""
        for shaper in self.shapers:
            shaper(
                rl_module=self.module,
                batch={},
                episodes=episodes.current(),
                shared_data={SETTLED_ENDS: self._settled_ends},
            )

    def settle_ends(self, episodes: Sequence[SingleAgentEpisode]) -> None:
        """Set the last rewards of ended episodes before `observe`, so that callbacks see them."""
        if self.shapers:
            self._shape_rewards(EpisodeList(episodes))
            self._settled_ends = [episode.id_ for episode in episodes]

    # --- Acting -----------------------------------------------------------------------------------------------------

    def act(self, episodes: LiveEpisodes, stepper: Stepper, explore: bool) -> Chosen:
        """Return what the module chooses."""
        metrics, shared, started = self.metrics, self._shared, perf_counter()
        outputs = dict(self._outputs(explore))
        between = perf_counter()
        metrics.forward_time_s += between - started
        masks, ignored = stepper.action_masks, stepper.ignored
        if masks is not None and Columns.ACTION_MASK not in outputs:
            # With the time axis of all other columns, if they have one.
            outputs[Columns.ACTION_MASK] = masks[:, None] if shared.get(ADDED_TIME_AXIS) else masks
        if ignored:
            shared[IGNORED_ROWS] = ignored
        run = Run(outputs, episodes, self.module, explore, shared, None, self._for_drawing)
        chosen = self._chosen(self.module_to_env.run(run))
        metrics.module_to_env_time_s += perf_counter() - between
        return chosen

    def _outputs(self, explore: bool) -> dict[str, Any]:
        batch = self._batch
        if batch is None:
            raise EnvRunnerError("found no observations to act on, expected `observe` first.")
        outputs: dict[str, Any] = (
            self.module.forward_exploration(batch) if explore else self.module.forward_inference(batch)
        )
        if self._is_stateful:
            if Columns.STATE_OUT not in outputs:
                raise ModuleError(
                    f"{type(self.module).__name__}: found the outputs {list(outputs)} of a recurrent module, expected "
                    f"{Columns.STATE_OUT!r} among them. Return the state after the step, or False from `is_stateful()`."
                )
            self._states = outputs[Columns.STATE_OUT]
        return outputs

    def _chosen(self, outputs: dict[str, Any]) -> Chosen:
        try:
            actions = outputs[Columns.ACTIONS]
        except KeyError:
            raise EnvRunnerError(
                f"found the columns {list(outputs)} at the end of the module-to-env pipeline, expected {Columns.ACTIONS!r} "
                "among them. Let the module return it, or put `GetActions` into the pipeline."
            ) from None
        for_env = outputs.get(Columns.ACTIONS_FOR_ENV, actions)
        extras = outputs.copy()
        for name in NOT_RECORDED:
            extras.pop(name, None)
        if for_env is actions and (type(actions) is not np.ndarray or actions.ndim > 1):
            # The environment may change what it gets, and what is recorded must not change with it; numbers are values.
            for_env = map_batch(_own, actions)
        return Chosen(actions, for_env, extras)

    def act_randomly(self, episodes: LiveEpisodes, stepper: Stepper) -> Chosen:
        """Return actions at random. A module with a state is asked nevertheless, so that its state keeps up."""
        extras: dict[str, Any] = {}
        if self._is_stateful:
            self._outputs(explore=False)
            extras[Columns.STATE_OUT] = map_batch(_as_array, self._states)
        masks = stepper.action_masks
        if masks is not None:
            extras[Columns.ACTION_MASK] = masks
        elif self.mask_key is not None:
            masks = _masks_in(episodes, self.mask_key)
        actions = self.random.drawn(_allowing(masks, stepper.ignored))
        return self._chosen({**extras, **self._scaled({Columns.ACTIONS: actions}, episodes)})

    def _scaled(self, outputs: dict[str, Any], episodes: LiveEpisodes) -> dict[str, Any]:
        """Bring random actions from the units of the module to those of the environment."""
        if self.module is not None:
            for piece in pieces_for_random_actions(self.module_to_env):
                outputs = piece(rl_module=self.module, batch=outputs, episodes=episodes, shared_data={})
        return outputs

    # --- States -----------------------------------------------------------------------------------------------------

    def _carried(self, began: Sequence[int], num_lanes: int) -> Any:
        """Return the state of each lane: what the module returned last, or the initial one where an episode began."""
        if self._states is None or len(began) == num_lanes:
            return self._initial(num_lanes)
        if not began:
            return self._states
        return map_batch(lambda leaf, start: _replaced(leaf, began, start), self._states, initial_state_of(self.module))

    def _initial(self, num_rows: int) -> Any:
        return map_batch(lambda leaf: np.repeat(np.asarray(leaf)[None], num_rows, 0), initial_state_of(self.module))


def _replaced(leaf: Any, rows: Sequence[int], start: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        leaf = leaf.clone()
        leaf[list(rows)] = torch.as_tensor(start, dtype=leaf.dtype, device=leaf.device)
        return leaf
    leaf = np.array(leaf)
    leaf[list(rows)] = start
    return leaf


def _own(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) and leaf.ndim > 1 else leaf


def _masks_in(episodes: LiveEpisodes, key: str) -> Any:
    observations = episodes.latest(Columns.OBS)
    return observations.get(key) if isinstance(observations, dict) else None


def _allowing(masks: Any, rows: Sequence[int]) -> Any:
    """Return masks that allow everything in `rows`, whose actions are ignored."""
    if masks is None or not rows:
        return masks
    return map_batch(lambda leaf: _replaced(leaf, rows, 1), masks)


def _as_array(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)


@final
class RandomActions:
    """Draws an action for each lane: uniform where the space has bounds, and among the allowed ones if there is a mask.

    Args:
        space: The action space of one lane.
        num_lanes: The number of lanes.
        rng: Where the randomness comes from.
        real_range: Stands for the bounds of real-valued actions that have two, where a module's actions are of that size.

    >>> RandomActions(spaces.Discrete(3), 2, np.random.default_rng(0)).drawn(np.array([[0, 0, 1], [1, 0, 0]]))
    array([2, 0])
    """

    def __init__(
        self, space: Space[Any], num_lanes: int, rng: np.random.Generator, real_range: Range | None = None
    ) -> None:
        self._space = space
        self._num_lanes = num_lanes
        self.rng = rng
        self._real_range = real_range

    def drawn(self, masks: Any = None) -> Any:
        """Return a batch of actions; `masks` are nested as the space is, None allows everything."""
        return self._drawn(self._space, masks)

    def _drawn(self, space: Space[Any], masks: Any) -> Any:
        if isinstance(space, spaces.Dict):
            parts: Mapping[Any, Any] = {} if masks is None else masks
            return {key: self._drawn(child, parts.get(key)) for key, child in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            entries = (None,) * len(space.spaces) if masks is None else masks
            return tuple(self._drawn(child, entry) for child, entry in zip(space.spaces, entries, strict=True))
        if not isinstance(space, ARRAY_SPACES):
            return tuple(self._sampled(space) for _ in range(self._num_lanes))
        actions = random_actions(space, (self._num_lanes,), self.rng, self._real_range, masks)
        return actions.astype(space.dtype, copy=False)

    def _sampled(self, space: Space[Any]) -> Any:
        # Such spaces only draw from a generator of their own: give it one that follows from ours.
        space.seed(int(self.rng.integers(2**31)))
        return space.sample()


# Under which an observation or an info holds the mask of allowed actions, as in PettingZoo's games.
ACTION_MASK = "action_mask"


def pieces_for_random_actions(module_to_env: ModuleToEnvPipeline) -> list[ConnectorV2]:
    """Return the pieces that bring random actions from the units of the module to those of the environment.

    Exploration and pieces of users do not run on random actions.
    """
    places = piece_leaves(module_to_env)
    return [place.piece for place in places if isinstance(place.piece, (ActionDecoder, NormalizeAndClipActions))]


_Owners = Sequence[tuple[int, Any]]


def mask_of(episode: MultiAgentEpisode, agent: Any) -> Any:
    """Return the mask of an agent's allowed actions, from its last observation or info; None without a mask."""
    single = episode.agent_episodes[agent]
    observation = single.get_observations(-1)
    if isinstance(observation, dict) and ACTION_MASK in observation:
        return observation[ACTION_MASK]
    return single.get_infos(-1).get(ACTION_MASK)


def masks_to_act(episode: MultiAgentEpisode) -> list[Any]:
    """Return the masks of the agents that act next, as far as they have one."""
    masks = [mask_of(episode, agent) for agent in episode.get_agents_to_act()]
    return [mask for mask in masks if mask is not None]


def random_items(
    episodes: Sequence[MultiAgentEpisode],
    owners: _Owners,
    space_of: Callable[[int, Any], Space[Any]],
    rng: np.random.Generator,
    real_range: Range | None,
) -> list[Any]:
    """Draw an action for each of some agents.

    Args:
        episodes: The episodes.
        owners: Position of the episode and agent, of each that acts.
        space_of: Returns the action space of one of them.
        rng: Where the randomness comes from.
        real_range: For elements of a `Box` with two bounds; None takes the bounds.
    """
    groups: dict[int, tuple[Space[Any], list[int]]] = {}
    for row, (position, agent) in enumerate(owners):
        space = space_of(position, agent)
        groups.setdefault(id(space), (space, []))[1].append(row)
    drawn: list[Any] = [None] * len(owners)
    for space, rows in groups.values():
        masks = [mask_of(episodes[owners[row][0]], owners[row][1]) for row in rows]
        batched = None if any(mask is None for mask in masks) else stack(masks)
        for row, item in zip(rows, rows_of(_random_batch(space, len(rows), rng, real_range, batched)), strict=True):
            drawn[row] = item
    return drawn


def _random_batch(
    space: Space[Any], count: int, rng: np.random.Generator, real_range: Range | None, masks: Any = None
) -> Any:
    """Return a batch of random actions, nested as `space` is; masks are nested in the same way.

    >>> _random_batch(spaces.Dict({"x": spaces.Discrete(2)}), 3, np.random.default_rng(0), None)
    {'x': array([1, 1, 1])}
    """
    if isinstance(space, spaces.Dict):
        masks = masks if isinstance(masks, dict) else {}
        return {
            key: _random_batch(child, count, rng, real_range, masks.get(key)) for key, child in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        children = zip(space.spaces, masks if isinstance(masks, tuple) else (None,) * len(space.spaces), strict=True)
        return tuple(_random_batch(child, count, rng, real_range, mask) for child, mask in children)
    return random_actions(space, (count,), rng, real_range, masks).astype(space.dtype, copy=False)
