"""What a training with one module is made of, as plain data that a checkpoint can hold."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias, cast, final

import gymnasium as gym
import torch
from gymnasium import Space

from episodia.arguments import checked_each, checked_whole
from episodia.connectors import ConnectorV2, defaults
from episodia.connectors.policies.piece_codec import decoded_pieces, encoded_piece
from episodia.dataflow.recipes import Recipe, chosen, config_options, name_of, named
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import LearnerError, PipelineError, TrainingError
from episodia.learners import AlgorithmConfig, Learner, default_pipeline
from episodia.learners.algorithm import check_algorithm
from episodia.learners.config_codec import decoded, encoded
from episodia.modules import default_module
from episodia.modules.devices import usable_device
from episodia.trees import describe

MakeEnv: TypeAlias = Callable[[], Any]

_KEYS = {"algorithm", "env", "connectors", "seed", "device", "options"}
_MODULE_OPTIONS = ("hidden", "recurrent", "shared", "squashed")


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """An algorithm, an environment, a recipe, a network, a seed: everything that a training follows from.

    Args:
        algorithm: The algorithm.
        env: A gymnasium id, or a function that makes an environment.
        recipe: How much is collected at a time, and how it is learned from.
        network: Arguments of `default_module`.
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
        recipe, network = cast("object", self.recipe), cast("object", self.network)
        if not isinstance(recipe, Recipe) or not isinstance(network, Mapping) or set(network) - set(_MODULE_OPTIONS):
            raise TrainingError(
                f"training: found `recipe={recipe!r}` and `network={network!r}`, expected a `Recipe` and a dict with some of "
                f"{list(_MODULE_OPTIONS)}. Use `Setup.of`, which makes both."
            )
        sizes = {name: tuple(value) if isinstance(value, list) else value for name, value in network.items()}
        object.__setattr__(self, "network", sizes)

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
                `default_module`.

        Raises:
            TrainingError: If there is no such algorithm or option.
            LearnerError: If a number of the algorithm is out of its range.
        """
        config, recipe, network = chosen(algorithm, options)
        unknown = sorted(set(network) - set(_MODULE_OPTIONS))
        if unknown:
            known = sorted({*config_options(algorithm), *(each.name for each in fields(recipe)), *_MODULE_OPTIONS})
            raise TrainingError(
                f"training: found the options {unknown}, expected some of {known}. Correct their names, or put them into the "
                "config if you pass one."
            )
        return cls(
            algorithm=config,
            env=env,
            recipe=recipe,
            network=network,
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
        )
        return runner, learner

    def _pieces(self) -> list[ConnectorV2]:
        return [copy.deepcopy(piece) for piece in self.connectors]

    # --- As plain data ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any] | None:
        """Return JSON values that `from_dict` understands; None if something is no plain value, as a function is none."""
        name = name_of(self.algorithm)
        if name is None or not isinstance(self.env, str):
            return None
        try:
            config = {field: encoded(value) for field, value in _changed(self.algorithm).items()}
            pieces = [encoded_piece(piece) for piece in self.connectors]
        except (LearnerError, PipelineError):  # Something in them is no plain value, or not registered.
            return None
        recipe = {each.name: getattr(self.recipe, each.name) for each in fields(self.recipe)}
        network = {key: list(value) if key == "hidden" else value for key, value in self.network.items()}
        return {
            "algorithm": name,
            "env": self.env,
            "connectors": pieces,
            "seed": self.seed,
            "device": self.device,
            "options": {**config, **recipe, **network},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Setup:
        """Return the setup that `to_dict` turned into `data`.

        Raises:
            TrainingError: If it is something else.
        """
        given: object = data
        if not isinstance(given, Mapping) or set(given) != _KEYS or not isinstance(given["env"], str):
            raise TrainingError(
                f"setup: found {describe(given)}, expected what `Setup.to_dict` returns. It was made by something else."
            )
        options = data["options"]
        if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
            raise TrainingError(
                f"setup: found the options {options!r}, expected a dict. It was made by something else."
            )
        named(data["algorithm"])
        pieces = decoded_pieces(data["connectors"], torch.device("cpu"))
        others = {key: data[key] for key in ("algorithm", "env", "seed", "device")}
        return cls.of(**others, connectors=pieces, **{name: decoded(value) for name, value in options.items()})


def _changed(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the fields of `config` that are not as usual."""
    usual = {
        each.name: each.default_factory() if each.default_factory is not MISSING else each.default
        for each in fields(config)
    }
    return {name: getattr(config, name) for name in usual if getattr(config, name) != usual[name]}


def _spaces(env: str | MakeEnv) -> tuple[Space[Any], Space[Any]]:
    made = _made(env)
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


def _made(env: str | MakeEnv) -> Any:
    try:
        return gym.make(env) if isinstance(env, str) else env()
    except Exception as error:  # whatever a constructor of someone else raises
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = (
            "Pass the id of one that is registered and installed."
            if isinstance(env, str)
            else "Correct the function that makes it."
        )
        raise TrainingError(
            f"environment: found that {env!r} cannot be made ({reason}), expected an environment. {remedy}"
        ) from error
