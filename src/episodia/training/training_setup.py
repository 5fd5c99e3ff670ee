"""What a training with one module is made of, as plain data that a checkpoint can hold."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, cast, final

import gymnasium as gym
import torch
from gymnasium import Space

from episodia.arguments import checked_each, checked_whole
from episodia.connectors import ConnectorV2, defaults
from episodia.connectors.plugins.piece_codec import decoded_pieces, encoded_piece
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import LearnerError, PipelineError, TrainingError
from episodia.learners import AlgorithmConfig, Learner, default_pipeline
from episodia.learners.algorithms.algorithm import check_algorithm
from episodia.learners.algorithms.config_codec import decoded, encoded
from episodia.modules import default_module
from episodia.modules.devices import usable_device
from episodia.training.recipes import Recipe, chosen, config_options, name_of, named
from episodia.trees import describe

# The keys of a setup as plain data, and of a part in it that has no name.
_KEYS = {"algorithm", "env", "connectors", "seed", "device", "options"}
_UNNAMED = "unnamed"

MakeEnv: TypeAlias = Callable[[], Any]

# Arguments of `default_module`, and of `SingleAgentEnvRunner`, that a training can be told.
MODULE_OPTIONS = ("hidden", "recurrent", "shared", "squashed")
RUNNER_OPTIONS = (
    "vectorization",
    "horizon",
    "soft_horizon",
    "ignore_terminations",
    "on_env_error",
    "max_restarts",
    "step_timeout_s",
    "check_finite",
)


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """An algorithm, an environment, a recipe, a network, a seed: everything that a training follows from.

    Args:
        algorithm: The algorithm.
        env: A gymnasium id, or a function that makes an environment.
        recipe: How much is collected at a time, and how it is learned from.
        network: Arguments of `default_module`.
        runner: How environments are played, see `RUNNER_OPTIONS`: arguments of `SingleAgentEnvRunner`.
        connectors: Pieces in front of the network, in the runner and in the learner: what observations become there.
        seed: Where all randomness comes from.
        device: Where the learner computes.

    Raises:
        TrainingError: If one of them is something else.
        LearnerError: If `algorithm` is something else.

    >>> setup = Setup.of("ppo", "CartPole-v1", num_envs=2, gamma=0.98, hidden=(32,))
    >>> setup.recipe.num_envs, setup.algorithm.gamma, setup.network
    (2, 0.98, {'hidden': (32,)})
    """

    algorithm: AlgorithmConfig
    env: str | MakeEnv
    recipe: Recipe
    network: Mapping[str, Any] = field(default_factory=dict)
    runner: Mapping[str, Any] = field(default_factory=dict)
    connectors: Sequence[ConnectorV2] = ()
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_algorithm(self.algorithm)
        _check_env(self.env)
        pieces = checked_each(TrainingError, "training", "connectors", self.connectors, _is_piece, "connectors")
        seed = checked_whole(TrainingError, "training", "seed", self.seed, 0, below=2**63)
        # A list could change afterwards, and a number of NumPy is none of JSON.
        object.__setattr__(self, "connectors", tuple(pieces))
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "device", "cpu" if cast("object", self.device) is None else str(self.device))
        if not isinstance(cast("object", self.recipe), Recipe):
            raise TrainingError(
                f"training: found `recipe={self.recipe!r}`, expected a `Recipe`. Use `Setup.of`, which makes it."
            )
        object.__setattr__(self, "network", _plain_options("network", self.network, MODULE_OPTIONS))
        object.__setattr__(self, "runner", _plain_options("runner", self.runner, RUNNER_OPTIONS))

    @classmethod
    def of(
        cls,
        algorithm: str | AlgorithmConfig,
        env: str | MakeEnv,
        *,
        connectors: Sequence[ConnectorV2] = (),
        seed: int = 0,
        device: str = "cpu",
        **options: Any,
    ) -> Setup:
        """Return the usual setup of an algorithm, with some things done differently.

        Args:
            algorithm: Its name, or its config.
            env: A gymnasium id, or a function that makes an environment.
            connectors: Pieces in front of the network, such as `MeanStdFilter()`; they are copied.
            seed: Where all randomness comes from.
            device: Where the learner computes.
            **options: Fields of the algorithm's config if it is given by name, fields of `Recipe`, arguments of
                `default_module`, and those of the runner that are in `RUNNER_OPTIONS`.

        Raises:
            TrainingError: If there is no such algorithm or option.
            LearnerError: If a number of the algorithm is out of its range.
        """
        config, recipe, others = chosen(algorithm, options)
        unknown = sorted(set(others) - {*MODULE_OPTIONS, *RUNNER_OPTIONS})
        if unknown:
            own = {*config_options(algorithm), *(each.name for each in fields(recipe))}
            known = sorted({*own, *MODULE_OPTIONS, *RUNNER_OPTIONS})
            raise TrainingError(
                f"training: found the options {unknown}, expected some of {known}. Correct their names, or put them into the "
                "config if you pass one."
            )
        return cls(
            algorithm=config,
            env=env,
            recipe=recipe,
            network={name: value for name, value in others.items() if name in MODULE_OPTIONS},
            runner={name: value for name, value in others.items() if name in RUNNER_OPTIONS},
            connectors=connectors,
            seed=seed,
            device=device,
        )

    def build(self) -> tuple[SingleAgentEnvRunner, Learner]:
        """Return a runner and a learner, each with a network of its own; both have the same weights.

        Raises:
            TrainingError: If the environment cannot be made.
            LearnerError: If there is no such device.
        """
        spaces = _spaces(self.env)
        shown = defaults.env_to_module(*spaces, custom=self._pieces()).observation_space
        networks = [
            default_module(
                spaces[0] if shown is None else shown,
                spaces[1],
                **dict(self.network),
                generator=torch.Generator().manual_seed(self.seed),
            )
            for _ in range(2)
        ]
        device = usable_device(LearnerError, self.device)
        pipeline = default_pipeline(
            self.algorithm, *spaces, custom=self._pieces(), stateful=networks[0].is_stateful(), device=device
        )
        learner = Learner(networks[0], self.algorithm, learner_pipeline=pipeline, seed=self.seed, device=device)
        runner = SingleAgentEnvRunner(
            self.env,
            networks[1],
            num_envs=self.recipe.num_envs,
            seed=self.seed,
            env_to_module=self._pieces(),
            lookback=learner.pipeline.lookback,
            **self.runner,
        )
        return runner, learner

    def _pieces(self) -> list[ConnectorV2]:
        return [copy.deepcopy(piece) for piece in self.connectors]

    # --- As plain data ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that `from_dict` understands.

        Everything is in it, also what is as usual: that may be something else in a later version. What has no name, such as a
        function that makes environments, is only mentioned.
        """
        recipe = {each.name: getattr(self.recipe, each.name) for each in fields(self.recipe)}
        config = {each.name: encoded(getattr(self.algorithm, each.name), _unnamed) for each in fields(self.algorithm)}
        network = {**_usual(default_module, MODULE_OPTIONS), **self.network}
        runner = {**_usual(SingleAgentEnvRunner.__init__, RUNNER_OPTIONS), **self.runner}
        return {
            "algorithm": name_of(self.algorithm) or _unnamed(type(self.algorithm)),
            "env": self.env if isinstance(self.env, str) else _unnamed(self.env),
            "connectors": [_encoded_or_unnamed(piece) for piece in self.connectors],
            "seed": self.seed,
            "device": self.device,
            "options": {**config, **recipe, **{name: encoded(value) for name, value in (network | runner).items()}},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Setup:
        """Return the setup that `to_dict` turned into `data`.

        Raises:
            TrainingError: If it is something else, or if a part of it has no name.
        """
        _check_setup_data(data)
        nameless = sorted(_unnamed_parts(data))
        if nameless:
            raise TrainingError(
                f"setup: found {', '.join(nameless)} without a name, expected one. Pass `setup=`, the one that was used."
            )
        named(data["algorithm"])
        pieces = decoded_pieces(data["connectors"], torch.device("cpu"))
        others = {key: data[key] for key in ("algorithm", "env", "seed", "device")}
        options = {name: decoded(value) for name, value in data["options"].items()}
        return cls.of(**others, connectors=pieces, **options)


def _plain_options(name: str, options: object, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(options, Mapping) or set(options) - set(known):
        raise TrainingError(
            f"training: found `{name}={options!r}`, expected a dict with some of {list(known)}. Use `Setup.of`, which makes it."
        )
    # A list could change afterwards.
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def _usual(function: Callable[..., Any], names: Sequence[str]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in names}


def _encoded_or_unnamed(piece: ConnectorV2) -> dict[str, Any]:
    try:
        return encoded_piece(piece)
    except PipelineError:  # It is not registered.
        return _unnamed(piece)


def _spaces(env: str | MakeEnv) -> tuple[Space[Any], Space[Any]]:
    made = made_env(env)
    try:
        observation_space = getattr(made, "single_observation_space", made.observation_space)
        return observation_space, getattr(made, "single_action_space", made.action_space)
    except AttributeError as error:
        raise TrainingError(
            f"environment: found {made!r}, which {env!r} has made, expected a gymnasium environment with spaces. Return one."
        ) from error
    finally:
        if hasattr(made, "close"):
            made.close()


def _check_env(env: object) -> None:
    if not isinstance(env, str) and not callable(env):
        raise TrainingError(
            f"environment: found {env!r}, expected a gymnasium id, or a function that makes an environment. Pass one of these."
        )


def _is_piece(value: object) -> bool:
    return isinstance(value, ConnectorV2)


def made_env(env: str | MakeEnv) -> Any:
    """Return a new environment.

    Raises:
        TrainingError: If it cannot be made.
    """
    try:
        return gym.make(env) if isinstance(env, str) else env()
    except Exception as error:  # whatever a constructor of someone else raises
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = (
            "Pass the id of one that is registered and installed, or a function that makes it with what it needs."
            if isinstance(env, str)
            else "Correct the function that makes it."
        )
        raise TrainingError(
            f"environment: found that {env!r} cannot be made ({reason}), expected an environment. {remedy}"
        ) from error


def _unnamed(part: Any) -> dict[str, str]:
    """Return what is known of something that cannot be saved: what it is called.

    >>> _unnamed(len)
    {'unnamed': 'len'}
    """
    return {_UNNAMED: getattr(part, "__qualname__", type(part).__qualname__)}


def _unnamed_parts(data: Any, path: str = "") -> Iterator[str]:
    """Yield which parts of a setup's data, at this `path` in it, cannot be made again.

    >>> list(_unnamed_parts({"env": {"unnamed": "make"}, "options": {"gamma": 0.9, "optimizers": [{"unnamed": "Mine"}]}}))
    ['env (make)', 'options.optimizers[0] (Mine)']
    """
    if isinstance(data, Mapping):
        if _UNNAMED in data:
            yield f"{path} ({data[_UNNAMED]})"
            return
        for key, part in data.items():
            yield from _unnamed_parts(part, f"{path}.{key}".removeprefix("."))
    elif isinstance(data, (list, tuple)):
        for place, part in enumerate(data):
            yield from _unnamed_parts(part, f"{path}[{place}]")


def _check_setup_data(data: object) -> None:
    """Check that `data` is that of a setup, as far as its outside goes.

    Raises:
        TrainingError: If it is something else.
    """
    if not isinstance(data, Mapping) or set(data) != _KEYS:
        raise TrainingError(
            f"setup: found {describe(data)}, expected what `Setup.to_dict` returns. It was made by something else."
        )
    options = data["options"]
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TrainingError(f"setup: found the options {options!r}, expected a dict. It was made by something else.")


def check_same_setup(where: str, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check that a training goes on with the setup that it was saved with, but for the device, which may be another one.

    Raises:
        TrainingError: If something else differs.
    """
    _check_setup_data(saved)
    before, now = ({**data, **data["options"]} for data in (saved, given))
    # What a later version has in addition was not there to differ.
    names = [name for name in before if name not in ("device", "options")]
    odd = [name for name in names if before[name] != now.get(name)]
    if odd:
        raise TrainingError(
            f"{where}: found a setup with { ({name: now.get(name) for name in odd}) }, expected that of the training, "
            f"{ ({name: before[name] for name in odd}) }. Pass the same one; to go on with another on purpose, "
            "make `Training.of(setup)`, and `training.set_state(load_state(path))`."
        )
