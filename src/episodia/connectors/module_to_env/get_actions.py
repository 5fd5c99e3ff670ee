"""Actions, drawn from what a module puts out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor

from episodia.arguments import checked_seed
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.module_outputs import ModuleOutputs, needed_column, outputs_of_modules
from episodia.connectors.kinds import Kind
from episodia.connectors.module_to_env.tensor_to_numpy import TensorToNumpy
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.connectors.spaces.action_masks import action_masks
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import ConnectorStateError, PipelineError
from episodia.modules import DistributionSpec, MultiModule
from episodia.trees import map_batch
from episodia.types import State


class GetActions(ColumnPiece):
    """Adds `actions` and `action_logp`: drawn while exploring, otherwise the most probable ones.

    A module that puts out `actions` itself is left alone. Specs without log-probabilities, such as those of Q-networks
    (`DistributionSpec.records_logp`), add `actions` only. Inputs may have a time axis, `[B, T, n]`; the actions then have it,
    too. The log-probability is that of the action as it was chosen: 0 for the most probable one when not exploring, since
    nothing else could have come out. Actions that are masked are never chosen, see `action_masks`.

    Args:
        seed: For a random generator of the piece's own, whose state is part of the piece's. None uses the one that the
            caller passes as `generator=`, or else torch's global one. Distributions of foreign classes draw as they like.
        action_mask_key: Under which observations hold the mask of allowed actions; None if they do not.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2, start=5))
    >>> batch = {"action_dist_inputs": torch.tensor([[0.0, 9.0], [9.0, 0.0]])}
    >>> GetActions()(rl_module=module, batch=batch, episodes=[], explore=False)["actions"]
    tensor([6, 5])
    """

    reads = frozenset({Columns.ACTION_DIST_INPUTS})
    writes = fills = frozenset({Columns.ACTIONS, Columns.ACTION_LOGP})
    lookback = 0
    kind = Kind.CAUSAL

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        seed: int | None = None,
        action_mask_key: str | None = "action_mask",
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        self.seed = seed = checked_seed(PipelineError, self.name, seed)
        self.action_mask_key = action_mask_key
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        # To ask for the class of an object takes longer than to find that it is the same object again.
        self._last_spec: Any = None

    @property
    def is_stateful(self) -> bool:
        """Whether the piece has a random generator of its own."""
        return self._generator is not None

    def compile(self, layout: Layout) -> Step:
        """Return `work`; in a shorter form for runners, if arrays are made of all tensors right after it."""
        if self._generator is not None or not layout.is_followed_by(TensorToNumpy):
            return self.work
        if layout.episodes is LiveAgents and type(layout.rl_module) is MultiModule:
            return partial(self._draw_arrays, dict(layout.rl_module))
        return partial(self._draw_arrays, None) if layout.episodes is LiveEpisodes else self.work

    def _draw_arrays(self, modules: dict[Any, Any] | None, run: Run) -> None:
        """Draw arrays instead of tensors, where nothing else has to be done; `modules` are those of many agents, by ids."""
        batch, key, episodes = run.batch, self.action_mask_key, run.episodes
        parts: Sequence[tuple[Any, Batch, Any]] = ((None, batch, run.rl_module),)
        if modules is not None:
            if not modules.keys() >= batch.keys():
                return self.work(run)
            parts = run.module_outputs = [
                ModuleOutputs(name, columns, modules[name]) for name, columns in batch.items()
            ]
        for module_id, columns, module in parts:
            if (
                not run.explore
                or Columns.ACTION_DIST_INPUTS not in columns
                or Columns.ACTIONS in columns
                or Columns.ACTION_MASK in columns
            ):
                return self.work(run)
            if key is not None and (
                key in episodes.observation_keys
                if modules is None
                else Columns.OBS in columns or episodes.module_has_in_observations(module_id, key)
            ):
                return self.work(run)
            made_by = module.get_exploration_action_dist_cls()
            if made_by is not self._last_spec and not isinstance(made_by, DistributionSpec):
                return self.work(run)
            self._last_spec = made_by
            actions, logp = made_by.sampled_arrays(columns[Columns.ACTION_DIST_INPUTS], run.others.get("generator"))
            columns[Columns.ACTIONS] = actions
            if made_by.records_logp and Columns.ACTION_LOGP not in columns:
                columns[Columns.ACTION_LOGP] = logp
        return None

    def work(self, run: Run) -> None:
        """Add actions for every module."""
        if torch.is_grad_enabled():
            # Runners have switched gradients off for the whole sample.
            with torch.no_grad():
                self._act_all(run)
        else:
            self._act_all(run)

    def _act_all(self, run: Run) -> None:
        for outputs in outputs_of_modules(run):
            if Columns.ACTIONS not in outputs.columns:
                masks = action_masks(outputs, run.episodes, run.shared_data, self.action_mask_key)
                self._act(outputs, masks, bool(run.explore), run.others.get("generator"))

    def _act(self, outputs: ModuleOutputs, masks: Any, explore: bool, given: torch.Generator | None) -> None:
        columns = outputs.columns
        inputs = needed_column(outputs, Columns.ACTION_DIST_INPUTS, "the module, unless it returns `actions`")
        module = outputs.module
        made_by = module.get_exploration_action_dist_cls() if explore else module.get_inference_action_dist_cls()
        if explore and isinstance(made_by, DistributionSpec):
            generator = given if self._generator is None else self._generator_for(inputs.device)
            if masks is None:
                actions, logp = made_by.sampled(inputs, generator)
            else:
                actions, logp = _distribution(made_by, inputs, masks).sample_with_logp(generator)
        else:
            distribution = _distribution(made_by, inputs, masks)
            distribution = distribution if explore else distribution.to_deterministic()
            actions = distribution.sample()
            logp = distribution.logp(actions)
        columns[Columns.ACTIONS] = actions
        if not isinstance(made_by, DistributionSpec) or made_by.records_logp:
            columns.setdefault(Columns.ACTION_LOGP, logp)

    def _generator_for(self, device: torch.device) -> torch.Generator | None:
        # A generator only draws on its own device, which is not known before the first batch.
        if self._generator is not None and self.seed is not None and self._generator.device != device:
            self._generator = torch.Generator(device).manual_seed(self.seed)
        return self._generator

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the state of the generator, if the piece has one of its own."""
        if self._generator is None:
            return {}
        return {"device": str(self._generator.device), "generator": self._generator.get_state().numpy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Draw from now on what the piece whose state this is would have drawn. An empty state changes nothing.

        Raises:
            ConnectorStateError: If the piece has no generator of its own, or the state is that of something else.
        """
        if not state:
            return
        if self._generator is None:
            raise ConnectorStateError(
                f"piece {self.name!r}: found the state of a random generator, expected none, as the piece has no generator of "
                "its own. Make it with `seed=`."
            )
        try:
            generator = torch.Generator(state["device"])
            generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ConnectorStateError(
                f"piece {self.name!r}: found a state with {list(state)} that is not that of a random generator ({error}), "
                "expected `device` and `generator`, as `get_state` returns them. Load a state of the same piece."
            ) from error
        self._generator = generator

    def reset_state(self) -> None:
        """Begin again with the seed."""
        self._generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)

    def merge_states(self, states: Sequence[State]) -> dict[str, Any]:
        """Return an empty state: parallel runners must not begin to draw the same actions, so each keeps its generator."""
        return {}


def _distribution(made_by: Any, inputs: Tensor, masks: Any) -> Any:
    if masks is None:
        # Distribution classes of other packages take no masks.
        return made_by.from_logits(inputs)
    return made_by.from_logits(inputs, action_mask=map_batch(lambda mask: _as_mask(mask, inputs), masks))


def _as_mask(mask: Any, inputs: Tensor) -> Any:
    """Return a mask as a tensor beside the inputs, with their time axis of one step if it has none."""
    if mask is None:
        return None
    mask = mask if isinstance(mask, Tensor) else torch.tensor(np.asarray(mask))
    mask = mask.to(inputs.device)
    return mask.unsqueeze(1) if mask.dim() == inputs.dim() - 1 and inputs.shape[1] == 1 else mask
