"""From running episodes to the next actions: both pipelines with the module between them."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, final

import numpy as np
import torch

from episodia.columns import Columns
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.connectors.common.add_states_from_episodes_to_batch import CARRIED_STATES
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.connectors.module_to_env.reward_shaper import SETTLED_ENDS, RewardShaper
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.spaces.action_masks import IGNORED_ROWS
from episodia.env_runners.acting.random_batches import RandomActions, pieces_for_random_actions
from episodia.env_runners.acting.runner_pipelines import shapers_of
from episodia.env_runners.rollout.vector_step import Chosen, Stepper
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import EnvRunnerError
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
        self._batch = self._through(episodes, explore, self._shared)
        self.metrics.env_to_module_time_s += perf_counter() - started

    def observe_ends(self, episodes: EpisodeList, explore: bool) -> None:
        """Let the pipeline see the last observations of episodes; nobody acts on them."""
        if self.module is not None:
            shared: dict[Any, Any] = {}
            if self._is_stateful:
                shared[CARRIED_STATES] = self._initial(len(episodes))
            self._through(episodes.current(), explore, shared)
        else:
            self._shape_rewards(episodes)

    def _shape_rewards(self, episodes: EpisodeList) -> None:
        """Let the pieces set rewards for whom an env-to-module pipeline is run, where there is no module."""
        for shaper in self.shapers:
            shaper(
                rl_module=self.module,
                batch={},
                episodes=episodes.current(),
                shared_data={SETTLED_ENDS: self._settled_ends},
            )

    def settle_ends(self, episodes: Sequence[SingleAgentEpisode]) -> None:
        """Let the last rewards of episodes be set that have ended, before `observe` is called: somebody wants to see them."""
        if self.shapers:
            self._shape_rewards(EpisodeList(episodes))
            self._settled_ends = [episode.id_ for episode in episodes]

    def _through(self, episodes: EpisodeList, explore: bool, shared: dict[Any, Any]) -> dict[str, Any]:
        return self.env_to_module.run(Run({}, episodes, self.module, explore, shared, None, {}))

    # --- Acting -----------------------------------------------------------------------------------------------------

    def act(self, episodes: LiveEpisodes, stepper: Stepper, explore: bool) -> Chosen:
        """Return what the module chooses."""
        metrics, started = self.metrics, perf_counter()
        outputs = self._outputs(explore)
        between = perf_counter()
        metrics.forward_time_s += between - started
        chosen = self._chosen(self._back(outputs, episodes, stepper, explore))
        metrics.module_to_env_time_s += perf_counter() - between
        return chosen

    def _back(self, outputs: dict[str, Any], episodes: LiveEpisodes, stepper: Stepper, explore: bool) -> dict[str, Any]:
        """Return what the module-to-env pipeline makes of `outputs`."""
        if stepper.action_masks is not None and Columns.ACTION_MASK not in outputs:
            # With the time axis of all other columns, if they have one.
            has_time_axis = self._shared.get(ADDED_TIME_AXIS)
            outputs[Columns.ACTION_MASK] = stepper.action_masks[:, None] if has_time_axis else stepper.action_masks
        if stepper.ignored:
            self._shared[IGNORED_ROWS] = stepper.ignored
        run = Run(dict(outputs), episodes, self.module, explore, self._shared, None, {"generator": self.generator})
        return self.module_to_env.run(run)

    def _outputs(self, explore: bool) -> dict[str, Any]:
        batch = self._batch
        if batch is None:
            raise EnvRunnerError("found no observations to act on, expected `observe` first.")
        outputs: dict[str, Any] = (
            self.module.forward_exploration(batch) if explore else self.module.forward_inference(batch)
        )
        if self._is_stateful:
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
        extras = {name: column for name, column in outputs.items() if name not in NOT_RECORDED}
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
        return map_batch(
            lambda leaf, start: _replaced(leaf, began, start), self._states, self.module.get_initial_state()
        )

    def _initial(self, num_rows: int) -> Any:
        return map_batch(lambda leaf: np.repeat(np.asarray(leaf)[None], num_rows, 0), self.module.get_initial_state())


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
    """Return masks that allow everything in `rows`, whose actions nobody looks at."""
    if masks is None or not rows:
        return masks
    return map_batch(lambda leaf: _replaced(leaf, rows, 1), masks)


def _as_array(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
