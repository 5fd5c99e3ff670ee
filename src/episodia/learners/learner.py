"""The learner: from episodes to updated weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor

from episodia.arguments import checked_flag, checked_keys, checked_seed, checked_whole, names_nearest_argument
from episodia.connectors import LearnerConnectorPipeline
from episodia.episodes.lists.episode_list import Episode, EpisodeList
from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig, check_algorithm
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.learners.gradients.backward_pass import Gradients
from episodia.learners.gradients.differentiation import Differentiation, check_can_learn
from episodia.learners.gradients.gradient_averages import (
    MeasuredGradients,
    Weight,
    averaged,
    averaged_metrics,
    by_module,
    total_weight,
)
from episodia.learners.gradients.gradient_function import GradientFunction
from episodia.learners.gradients.gradient_steps import GradientSteps, Taken
from episodia.learners.hooks import Hooks, LearnerHook
from episodia.learners.learner_modules import LearnerModules
from episodia.learners.losses.coefficients import Coefficients
from episodia.learners.minibatches import Minibatch, drawn, in_order, on_device, step_counts
from episodia.learners.optimizers import Optimizers
from episodia.learners.ranks import Alone, Ranks
from episodia.learners.row_results import RowResults, Rows
from episodia.learners.state_checks import (
    check_components,
    check_metrics,
    check_names,
    check_part,
    check_progress,
    generator_with,
)
from episodia.learners.update_metrics import ALL_MODULES, Log, Metrics, UpdateMetrics
from episodia.modules import Module
from episodia.modules.devices import usable_device
from episodia.trees import shown
from episodia.types import Batch


@names_nearest_argument
@final
class Learner:
    """Owns modules, their optimizers and the learner pipeline, and updates the modules with episodes.

    Args:
        modules: The module, or modules by their ids. They are changed in place. Modules without weights, and modules that no
            optimizer of `config` names, stay unchanged.
        config: The algorithm.
        observation_space: The observation space of the environment, for pieces that need it.
        action_space: The action space of the environment.
        learner_pipeline: The pipeline from episodes to batches; None takes the default one, with the targets of `config`.
        seed: The seed of the order of rows in minibatches.
        hooks: Called before and after each part of an update, see `LearnerHook`.
        device: The device that modules are moved to. Batches stay on the CPU; minibatches are moved, and so are observations
            whose values are computed.

    Raises:
        LearnerError: If optimizers and modules do not fit together, or if the device is missing.
        ModuleError: If an object is not a module.
        PipelineError: If a piece of the pipeline cannot work with the modules.

    >>> from gymnasium import spaces
    >>> from episodia import SingleAgentEpisode
    >>> from episodia.learners import PPOConfig
    >>> from episodia.modules import MLPActorCritic
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2))
    >>> episode = SingleAgentEpisode(observations=[np.zeros(1)] * 3, actions=[0, 1], rewards=[0.0, 1.0], terminated=True,
    ...     extra_model_outputs={"action_logp": [-0.69, -0.69]}, len_lookback_buffer=0)
    >>> metrics = Learner(module, PPOConfig(), seed=0).update([episode], num_epochs=2)
    >>> metrics["default_policy"]["num_steps"]
    2
    """

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        modules: Module | Mapping[str, Module],
        config: AlgorithmConfig,
        *,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        learner_pipeline: LearnerConnectorPipeline | None = None,
        hooks: Sequence[LearnerHook] = (),
        seed: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        check_algorithm(config)
        self.config = config
        self.device = usable_device(LearnerError, device)
        self._hooks = Hooks(hooks)
        self._rng = np.random.default_rng(checked_seed(LearnerError, "learner", seed))
        self._networks = LearnerModules(modules)
        self._differentiation = Differentiation(self._networks, config)
        # Modules are moved only after all checks.
        for module in self._networks.torch_modules.values():
            module.to(self.device)
        self._optimizers = Optimizers(
            self._networks.parameters, config.optimizers, config.learning_rate, self._networks.ids_in_names
        )
        self._trained = self._differentiation.trained
        self._ranks: Ranks = Alone()
        self._steps = GradientSteps(self._optimizers, self._trained, config)
        self._coefficients = Coefficients(config.coefficients(), self._trained)
        self._progress = {
            "num_updates": 0,
            "num_gradient_steps": 0,
            "num_steps": 0,
            "num_skipped": 0,
            "num_schedule_steps": 0,
        }
        self.pipeline = (
            default_pipeline(
                config,
                observation_space,
                action_space,
                stateful=self._networks.is_stateful,
                device=self.device,
                module=self._networks.rl_module,
            )
            if learner_pipeline is None
            else _checked_pipeline(learner_pipeline)
        )
        self.pipeline.check_module(self._networks.rl_module)

    def join(self, ranks: Ranks) -> None:
        """Take all further updates together with other learners, such as those of a `LearnerGroup`."""
        self._ranks = ranks

    @property
    def modules(self) -> Mapping[str, Module]:
        """The modules, by id."""
        return self._networks.modules

    @property
    def trained_modules(self) -> tuple[str, ...]:
        """The ids of the modules that learn: they have weights, and an optimizer trains some of these."""
        return tuple(self._trained)

    @property
    def num_steps(self) -> int:
        """The number of steps trained on, each counted once per update."""
        return self._progress["num_steps"]

    @property
    def num_schedule_steps(self) -> int:
        """The number that schedules follow: the `env_steps` of updates, or else the number of steps trained on."""
        return self._progress["num_schedule_steps"]

    @property
    def target_networks(self) -> Mapping[str, Mapping[str, Module]]:
        """The target networks of each module that learns, by module and name."""
        return {module_id: self._differentiation.target_networks.of(module_id) for module_id in self._trained}

    def __repr__(self) -> str:
        kinds = ", ".join(
            f"{module_id}: {type(module).__name__}" for module_id, module in self._networks.modules.items()
        )
        return f"Learner({kinds}, {self.config!r}, device={str(self.device)!r})"

    # --- Updates ----------------------------------------------------------------------------------------------------

    def update(
        self,
        episodes: Iterable[Episode],
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        shuffle: bool = True,
        env_steps: int | None = None,
    ) -> UpdateMetrics:
        """Update the modules with `episodes`, which stay unchanged.

        Args:
            episodes: Finished episodes, or chunks.
            num_epochs: The number of passes over the steps of each module.
            minibatch_size: The approximate number of steps of a module per gradient step: steps are divided evenly into the
                number of minibatches that comes closest. None takes all steps at once.
            shuffle: Whether each epoch takes the rows in a new order.
            env_steps: The number of environment steps so far, which schedules then follow; None lets them follow the steps
                trained on. Pass it if steps are trained on more than once, as with replay.

        Returns:
            Averages over all minibatches, by module and name; metrics of all modules together are under `ALL_MODULES`.
            `rows` of it has the loss's results for each row, in the order of the batch.

        Raises:
            ConnectorError: If a piece of the pipeline fails, for example because rewards or values are not finite.
            LearnerError: If a number is out of range, if the loss misses a column, or if it does not depend on any weight.
            NonFiniteError: If a loss or a gradient is not finite, and `on_non_finite` is `"raise"`.
        """
        _check_arguments(num_epochs, minibatch_size, shuffle)
        check_can_learn()
        self._set_clock(env_steps)
        how = partial(drawn, num_epochs=num_epochs, minibatch_size=minibatch_size, rng=self._rng if shuffle else None)
        return self._update(self.batch_of(episodes), how, env_steps, last_epoch=num_epochs - 1)

    def batch_of(self, episodes: Iterable[Episode]) -> dict[str, Batch]:
        """Return the columns of each module that the pipeline makes of `episodes`, on the CPU; empty without episodes."""
        listed = EpisodeList.of(episodes)

        def make() -> dict[str, Batch]:
            # Without an episode the shapes of columns are unknown.
            return self.pipeline(rl_module=self._networks.rl_module, episodes=listed) if len(listed) else {}

        return self._ranks.batch_of(make)

    def update_batch(
        self,
        batch: Mapping[str, Batch],
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        shuffle: bool = True,
        env_steps: int | None = None,
    ) -> UpdateMetrics:
        """Update the modules with a batch that `batch_of` returned, see `update`."""
        _check_arguments(num_epochs, minibatch_size, shuffle)
        check_can_learn()
        self._set_clock(env_steps)
        how = partial(drawn, num_epochs=num_epochs, minibatch_size=minibatch_size, rng=self._rng if shuffle else None)
        return self._update(batch, how, env_steps, last_epoch=num_epochs - 1)

    def update_in_order(
        self, batch: Mapping[str, Batch], *, num_gradient_steps: int, env_steps: int | None = None
    ) -> UpdateMetrics:
        """Update the modules with a batch of several samples, one after another, see `update`.

        Args:
            batch: What `batch_of` returned for all samples together.
            num_gradient_steps: The number of samples. Each gradient step takes an equal number of rows, in their order.
            env_steps: See `update`.
        """
        checked_whole(LearnerError, "update_in_order", "num_gradient_steps", num_gradient_steps, 1)
        check_can_learn()
        self._set_clock(env_steps)
        return self._update(batch, partial(in_order, num=num_gradient_steps), env_steps)

    def _set_clock(self, env_steps: int | None) -> None:
        if env_steps is not None:
            checked_whole(LearnerError, "update", "env_steps", env_steps, self.num_schedule_steps, below=2**63)
            self._progress["num_schedule_steps"] = env_steps

    def _update(
        self,
        batch: Mapping[str, Batch],
        minibatches: Callable[..., Iterator[dict[str, Minibatch]]],
        env_steps: int | None,
        last_epoch: int = 0,
    ) -> UpdateMetrics:
        """Take a gradient step with each of the `minibatches` of a batch and its counts of steps."""
        own = self._differentiation.learnable(self._hooks.before_update(batch))
        row_counts = {module_id: step_counts(module_id, columns) for module_id, columns in own.items()}
        counts = {module_id: int(found.sum()) for module_id, found in self._ranks.rows(row_counts).items()}
        coefficients, rates = self._at_present()
        log = Log()
        results = RowResults({module_id: len(found) for module_id, found in row_counts.items()})
        with self._differentiation.learning(own, noise=self._noise(), device=self.device):
            for parts in self._ranks.minibatches(minibatches, own, row_counts):
                self._learn(parts, coefficients, log, results)
        self._progress["num_updates"] += 1
        self._count_steps(sum(counts.values()), env_steps)
        log, collected = self._ranks.merged(log, results.collected())
        means = {module_id: log.means(module_id) for module_id in counts}
        last = {key: log.means(key, epoch=last_epoch) for key in counts} if last_epoch else means
        for module_id, found in last.items():
            self._coefficients.adapt(module_id, found)
        metrics = UpdateMetrics({}, collected.rows)
        for module_id, count in counts.items():
            bad = {"num_bad_rows": collected.num_bad[module_id]} if module_id in collected.num_bad else {}
            skipped = log.num_skipped(module_id)
            own_metrics = {**means[module_id], **coefficients[module_id], **bad}
            metrics[module_id] = {**own_metrics, "num_steps": count, "num_skipped": skipped}
        metrics[ALL_MODULES] = {**rates, **self._progress}
        for module_id, extra in self._hooks.after_update(metrics).items():
            metrics.setdefault(module_id, {}).update(extra)
        return metrics

    def _count_steps(self, num_steps: int, env_steps: int | None) -> None:
        self._progress["num_steps"] += num_steps
        if env_steps is None:
            self._progress["num_schedule_steps"] += num_steps

    def _learn(
        self,
        parts: Mapping[str, Minibatch],
        coefficients: Mapping[str, Mapping[str, float]],
        log: Log,
        results: RowResults,
    ) -> None:
        """Take one gradient step with a minibatch of each module."""
        columns = {key: on_device(part.columns, self.device) for key, part in parts.items() if part.num_steps}
        buffers = self._differentiation.buffers
        kept = buffers.kept(parts)
        num_taken = self._progress["num_gradient_steps"]
        compute = partial(self._differentiation.computed, columns, coefficients, num_taken, self._hooks)
        try:
            computed = self._ranks.summed(compute, parts, self._trained, buffers.of(kept))
            taken = self._take_step(computed.gradients, computed.losses)
        except BaseException:
            buffers.restore(kept)
            raise
        # A skipped module stays unchanged, buffers included.
        buffers.restore(kept, [module_id for module_id in parts if module_id not in taken.norms])
        for module_id, part in parts.items():
            results.add(module_id, part, computed.rows.get(module_id, {}))
            if module_id in taken.norms:
                own: dict[str, Tensor | float] = {
                    "loss": taken.losses[module_id],
                    "gradient_norm": taken.norms[module_id],
                    **computed.metrics.get(module_id, {}),
                }
                log.add(module_id, own, num_steps=part.num_steps, epoch=part.epoch)
            else:
                log.skip(module_id)

    def step(self, losses: Mapping[str, Tensor]) -> dict[str, float]:
        """Take a gradient step with losses that you have computed by hand, one tensor without axes for each module.

        All weights that an optimizer trains learn from it. Gradients are processed, non-finite ones are skipped, and target
        networks follow, as in `update`.

        Returns:
            The norm of each module's gradients before clipping, without skipped modules.

        Raises:
            LearnerError: If a module is unknown, or if a loss does not depend on any trained weight.
            NonFiniteError: See `update`.
        """
        check_can_learn()
        self._at_present()
        return self._take_step(self._differentiation.gradients_of(losses), losses).norms

    # --- Gradients, local and remote -------------------------------------------------------------------------------

    def compute_gradients(self, batch: Mapping[str, Batch]) -> MeasuredGradients:
        """Return the gradients of the loss on a whole batch, by parameter name, not clipped; the learner stays unchanged.

        If the loss of a module is not finite, its gradients are NaN, so that applying them reports it. `GradientFunction`
        does the same without a learner.
        """
        check_can_learn()
        coefficients, _ = self._at_present()
        return self._differentiation.measured(
            batch, coefficients, progress=self._progress, device=self.device, hook=self._hooks
        )

    def row_results(self, batch: Mapping[str, Batch]) -> Rows:
        """Return the loss's results for each row of a batch, such as TD errors, by module and name; nothing is learned."""
        check_can_learn()
        coefficients, _ = self._at_present()
        found = self._differentiation.rows(
            batch, coefficients, progress=self._progress, device=self.device, hook=self._hooks
        )
        return {
            module_id: {name: tensor.detach().cpu().double().numpy() for name, tensor in named.items()}
            for module_id, named in found.items()
        }

    def gradient_function(self) -> GradientFunction:
        """Return `compute_gradients` as a function of a state and a batch, for workers without memory."""
        return GradientFunction(self._networks.rl_module, self.config)

    def num_steps_of(self, batch: Mapping[str, Batch]) -> dict[str, int]:
        """Return how many steps of each module count for the loss: the weights of the gradients of `batch`."""
        counts = {
            module_id: step_counts(module_id, columns)
            for module_id, columns in self._differentiation.learnable(batch).items()
        }
        return {module_id: int(found.sum()) for module_id, found in counts.items()}

    def apply_gradients(self, gradients: Sequence[Mapping[str, Any]], *, weights: Sequence[Weight]) -> Metrics:
        """Take one gradient step with the average of several gradients, as if their batches were one batch.

        Advantages are standardised in each batch separately, by default; without that the step is exactly the step of all
        rows together. Buffers, such as the statistics of batch normalisation, are not sent with gradients.

        Adaptive coefficients stay unchanged, because only the caller knows which step ends an update. Call `adapt` after
        that step.

        Args:
            gradients: Several results of `compute_gradients`.
            weights: The number of steps behind each of these; for several modules by module, as `num_steps_of` returns them.

        Returns:
            The norm of each module's gradients before clipping, and averages of the metrics that came with them.

        Raises:
            LearnerError: If a name is unknown, a shape differs, or weights are missing.
            NonFiniteError: See `update`.
        """
        check_can_learn()
        mean = averaged(by_module(gradients, self._trained), weights)
        metrics = averaged_metrics(gradients, weights)
        _, rates = self._at_present()
        norms = self._take_step(mean, {}).norms
        self._progress["num_updates"] += 1
        self._count_steps(int(sum(total_weight(weight) for weight in weights)), env_steps=None)
        found: Metrics = {
            module_id: {
                **({**metrics.get(module_id, {}), "gradient_norm": norms[module_id]} if module_id in norms else {}),
                "num_skipped": int(module_id not in norms),
            }
            for module_id in mean
        }
        return {**found, ALL_MODULES: {**rates, **self._progress}}

    def adapt(self, metrics: Metrics) -> None:
        """Adapt coefficients, such as an `AdaptiveKL`, to measured metrics; `update` does so at its end.

        Args:
            metrics: Metrics by module, as `apply_gradients` returns them. A coefficient whose metric is missing is kept.

        Raises:
            LearnerError: If `metrics` are not metrics of these modules.
        """
        check_metrics(metrics, self.modules)
        for module_id in self._trained:
            if module_id in metrics:
                self._coefficients.adapt(module_id, metrics[module_id])

    def _take_step(self, gradients: Mapping[str, Gradients], losses: Mapping[str, Tensor]) -> Taken:
        """Take a gradient step, and let target networks follow."""
        changed = {module_id: dict(named) for module_id, named in self._hooks.after_gradients(gradients).items()}
        self._hooks.before_step()
        taken = self._steps.take(changed, losses)
        self._progress["num_skipped"] += taken.num_skipped
        if taken.has_stepped:
            self._progress["num_gradient_steps"] += 1
            self._differentiation.target_networks.follow(
                gradient_steps=self._progress["num_gradient_steps"], env_steps=self.num_schedule_steps
            )
        self._hooks.after_step()
        return taken

    # --- Current values ---------------------------------------------------------------------------------------------

    def _at_present(self) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
        """Set the learning rates of the optimizers; return the coefficients of each module, and these rates."""
        self._optimizers.set_learning_rates(self.num_schedule_steps)
        rates = self._optimizers.learning_rates
        names = ["learning_rate"] if len(rates) == 1 else [f"learning_rate_{place}" for place in range(len(rates))]
        coefficients = {
            module_id: self._coefficients.at(module_id, self.num_schedule_steps) for module_id in self._trained
        }
        return coefficients, dict(zip(names, rates, strict=True))

    def _noise(self) -> int:
        """Return the seed of dropout and other noise: a new one for each update, derived from the state."""
        state = self._rng.bit_generator.state["state"]["state"]
        return int((state + self._progress["num_updates"]) % 2**63)

    # --- State ------------------------------------------------------------------------------------------------------

    def get_weights(self) -> dict[str, dict[str, Tensor]]:
        """Return copies of the weights of all modules, by id and name, on the CPU."""
        return self._networks.weights()

    def set_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Set the weights of all modules.

        Raises:
            LearnerError: If they do not fit; the modules then stay unchanged.
        """
        check_part("weights", weights, self._networks.check_weights)
        self._networks.set_weights(weights)

    def get_state(self, components: Collection[str] | None = None) -> dict[str, Any]:
        """Return the state from which an equal learner continues like this one: tensors, arrays and JSON values.

        Args:
            components: A selection of `weights`, `target_networks`, `optimizers`, `coefficients`, `progress`, `generator` and
                `pipeline`.

        Raises:
            LearnerError: If a component is unknown.
        """
        getters: dict[str, Callable[[], Any]] = {
            "weights": self._networks.weights,
            "target_networks": self._differentiation.target_networks.get_state,
            "optimizers": self._optimizers.get_state,
            "coefficients": self._coefficients.get_state,
            "progress": lambda: dict(self._progress),
            "generator": lambda: dict(self._rng.bit_generator.state),
            "pipeline": self.pipeline.get_state,
        }
        wanted = getters if components is None else checked_keys(LearnerError, "get_state", "components", components)
        check_names(wanted, getters)
        return {name: get() for name, get in getters.items() if name in wanted}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`; components that are missing in it are kept.

        Raises:
            LearnerError: If the state does not fit; the learner then stays unchanged.
            ConnectorStateError: If the state of the pipeline does not fit; the learner then stays unchanged.
        """
        checks: dict[str, Callable[[Any], object]] = {
            "weights": self._networks.check_weights,
            "target_networks": self._differentiation.target_networks.check_state,
            "optimizers": self._optimizers.check_state,
            "coefficients": self._coefficients.check_state,
            "progress": lambda found: check_progress(found, self._progress),
            "generator": generator_with,
            # The pipeline checks the rest when its state is set.
            "pipeline": dict,
        }
        check_components(state, checks)
        for name, check in checks.items():
            if name in state:
                check_part(name, state[name], check)
        setters: dict[str, Callable[[Any], object]] = {
            "pipeline": self.pipeline.set_state,
            "weights": self._networks.set_weights,
            "target_networks": self._differentiation.target_networks.set_state,
            "optimizers": self._optimizers.set_state,
            "coefficients": self._coefficients.set_state,
            "progress": self._progress.update,
            "generator": self._set_generator,
        }
        before = self.get_state([name for name in setters if name in state])
        try:
            for name, set_part in setters.items():
                if name in state:
                    check_part(name, state[name], set_part)
        except BaseException:
            for name, part in before.items():
                setters[name](part)
            raise

    def _set_generator(self, state: Mapping[str, Any]) -> None:
        self._rng = generator_with(state)


def _check_arguments(num_epochs: int, minibatch_size: int | None, shuffle: bool) -> None:
    checked_whole(LearnerError, "update", "num_epochs", num_epochs, 1)
    if minibatch_size is not None:
        checked_whole(LearnerError, "update", "minibatch_size", minibatch_size, 1)
    checked_flag(LearnerError, "update", "shuffle", shuffle)


def _checked_pipeline(pipeline: object) -> LearnerConnectorPipeline:
    if not isinstance(pipeline, LearnerConnectorPipeline):
        raise LearnerError(
            f"learner: found `learner_pipeline={shown(pipeline)}`, expected a `LearnerConnectorPipeline`, or None for the "
            "default one. Pass one of these."
        )
    return pipeline
