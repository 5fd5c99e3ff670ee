"""`Setup`, the settings of a training with one module, which a checkpoint holds as plain data."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias, cast, final

import gymnasium as gym
import torch
from gymnasium import Space

from episodia.arguments import checked_each, checked_whole, proposal
from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors import ConnectorV2, defaults
from episodia.connectors.plugins.piece_codec import decoded_pieces, encoded_piece
from episodia.dataflow import LearnerGroup
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import LearnerError, PipelineError, TrainingError
from episodia.learners import AlgorithmConfig, Learner, LearnerHook, OffPolicyConfig, default_pipeline
from episodia.learners.algorithms.algorithm import check_algorithm
from episodia.learners.config_codec import decoded, encoded
from episodia.modules import default_module
from episodia.modules.devices import usable_device
from episodia.modules.networks.default_module import settings_of
from episodia.training.recipes.named_algorithms import chosen, config_options, name_of, named
from episodia.training.recipes.recipe import BaseRecipe, Recipe
from episodia.training.recipes.workers import Workers
from episodia.training.setups_in_files import check_asks_for_little
from episodia.trees import describe, shown

# The keys of a setup as plain data, and of a part in it that has no name.
_KEYS = {"algorithm", "env", "connectors", "seed", "device", "options"}
_UNNAMED = "unnamed"
# The argument of `default_module` that only an algorithm chooses.
_KIND = "kind"

_SPACES = ("observation", "action")

MakeEnv: TypeAlias = Callable[[], Any]
Spaces: TypeAlias = tuple[Space[Any], Space[Any]]

# Options of a training that are fields of `Workers`; a training may go on with other ones.
WORKER_OPTIONS = tuple(each.name for each in fields(Workers))

# Options of a training that are arguments of `SingleAgentEnvRunner`.
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
    """An algorithm, an environment, a recipe, a network and a seed: all that determines a training.

    Args:
        algorithm: The config of the algorithm.
        env: A gymnasium id, or a function that makes an environment.
        recipe: How much to collect per update, and how to learn from it.
        network: Arguments of `default_module`, beside those that the algorithm asks for.
        runner: Arguments of `SingleAgentEnvRunner`; see `RUNNER_OPTIONS`.
        connectors: Connectors that process observations in front of the network, in the runner and in the learner.
        hooks: Called by the learner before and after each part of an update, see `LearnerHook`.
        seed: The seed of all randomness.
        device: The device of the learner.
        workers: The number of runners, and where they live.

    Raises:
        TrainingError: If an argument is invalid.
        LearnerError: If `algorithm` is not a config.

    >>> setup = Setup.of("ppo", "CartPole-v1", num_envs=2, gamma=0.98, hidden=(32,))
    >>> setup.recipe.num_envs, setup.algorithm.gamma, setup.network
    (2, 0.98, {'hidden': (32,)})
    """

    algorithm: AlgorithmConfig
    env: str | MakeEnv
    recipe: BaseRecipe
    network: Mapping[str, Any] = field(default_factory=dict)
    runner: Mapping[str, Any] = field(default_factory=dict)
    connectors: Sequence[ConnectorV2] = ()
    hooks: Sequence[LearnerHook] = ()
    seed: int = 0
    device: str = "cpu"
    workers: Workers = field(default_factory=Workers)

    def __post_init__(self) -> None:
        check_algorithm(self.algorithm)
        _check_env(self.env)
        pieces = checked_each(TrainingError, "training", "connectors", self.connectors, _is_piece, "connectors")
        seed = checked_whole(TrainingError, "training", "seed", self.seed, 0, below=2**63)
        # Lists are mutable, and JSON has no NumPy numbers.
        object.__setattr__(self, "connectors", tuple(pieces))
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "device", _device_name(self.device))
        if not isinstance(cast("object", self.recipe), BaseRecipe):
            raise TrainingError(
                f"training: found `recipe={shown(self.recipe)}`, expected a `Recipe` or a `ReplayRecipe`. Use `Setup.of`, "
                "which makes one."
            )
        if not isinstance(cast("object", self.workers), Workers):
            raise TrainingError(
                f"training: found `workers={shown(self.workers)}`, expected `Workers`. Use `Setup.of`, which makes them."
            )
        object.__setattr__(self, "network", _plain_options("network", self.network, module_options(self.algorithm)))
        object.__setattr__(self, "runner", _plain_options("runner", self.runner, RUNNER_OPTIONS))

    @classmethod
    def of(
        cls,
        algorithm: str | AlgorithmConfig,
        env: str | MakeEnv,
        *,
        connectors: Sequence[ConnectorV2] = (),
        hooks: Sequence[LearnerHook] = (),
        seed: int = 0,
        device: str = "cpu",
        **options: Any,
    ) -> Setup:
        """Return the default setup of an algorithm with `options` applied.

        Args:
            algorithm: The name or the config of the algorithm.
            env: A gymnasium id, or a function that makes an environment.
            connectors: Connectors in front of the network, such as `MeanStdFilter()`; they are copied.
            hooks: Hooks of the learner; to resume such a run, pass its `setup=`.
            seed: The seed of all randomness.
            device: The device of the learner.
            **options: Fields of the config if `algorithm` is a name, fields of the recipe, arguments of `default_module`,
                arguments of the runner that are in `RUNNER_OPTIONS`, and fields of `Workers`, such as `num_runners=2`.

        Raises:
            TrainingError: If there is no such algorithm or option.
            LearnerError: If a setting of the algorithm is out of range.
        """
        config, recipe, others = chosen(algorithm, options)
        of_module = module_options(config)
        workers = Workers(**{name: others.pop(name) for name in WORKER_OPTIONS if name in others})
        unknown = sorted(set(others) - {*of_module, *RUNNER_OPTIONS})
        if unknown:
            own = {*config_options(algorithm), *(each.name for each in fields(recipe))}
            known = sorted({*own, *of_module, *RUNNER_OPTIONS, *WORKER_OPTIONS})
            raise TrainingError(
                f"training: found the options {unknown}, expected some of {known}. "
                f"{proposal(unknown, known) or 'Correct the names.'} Settings of the algorithm belong into the config if you "
                "pass one."
            )
        network = {name: value for name, value in others.items() if name in of_module}
        _check_remembers(config, {**config.network(), **network}, options)
        return cls(
            algorithm=config,
            env=env,
            recipe=recipe,
            network=network,
            runner={name: value for name, value in others.items() if name in RUNNER_OPTIONS},
            connectors=connectors,
            hooks=hooks,
            seed=seed,
            device=device,
            workers=workers,
        )

    def _check_learners(self) -> None:
        if self.workers.num_learners > 1 and (self.recipe.plan != "loop" or not isinstance(self.recipe, Recipe)):
            raise TrainingError(
                f"training: found `num_learners={self.workers.num_learners}` with {shown(self.recipe)}, expected a recipe that "
                'learns from new episodes in the plan "loop", such as that of PPO. Use one learner.'
            )

    def build(self) -> tuple[Any, Learner | LearnerGroup]:
        """Return a runner or a group of them, and a learner or a group of them; all networks have the same weights.

        Raises:
            TrainingError: If the environment cannot be made.
            LearnerError: If the device does not exist.
        """
        spaces = _spaces(self.env)
        self._check_learners()
        learner = self.workers.learner(partial(self._new_learner, spaces))
        learning: Any = learner.modules[DEFAULT_MODULE_ID]
        make = partial(_new_runner, self, spaces, learner.pipeline.lookback)
        runner = self.workers.runner(make, self.seed, needs_group=self.recipe.plan != "loop")
        if isinstance(runner, SingleAgentEnvRunner):
            acting: Any = runner.module
            acting.views = learning.views  # a view that is added to one network is a view of both
        return runner, learner

    def new_learner(self) -> Learner:
        """Return another learner, such as one beside each runner, which computes gradients there."""
        return self._new_learner(_spaces(self.env))

    def _new_learner(self, spaces: Spaces) -> Learner:
        network = self.new_network(spaces)
        device = usable_device(LearnerError, self.device)
        pipeline = default_pipeline(
            self.algorithm,
            *spaces,
            custom=self.new_pieces(),
            stateful=network.is_stateful(),
            device=device,
            module=network,
        )
        return Learner(
            network, self.algorithm, learner_pipeline=pipeline, hooks=self.hooks, seed=self.seed, device=device
        )

    def new_network(self, spaces: Spaces) -> Any:
        """Return another network for an environment with these spaces, with the same weights as all others."""
        space = defaults.env_to_module(*spaces, custom=self.new_pieces()).observation_space
        return default_module(
            spaces[0] if space is None else space,
            spaces[1],
            **self._network(),
            generator=torch.Generator().manual_seed(self.seed),
        )

    def _network(self) -> dict[str, Any]:
        return {**self.algorithm.network(), **self.network}

    def new_pieces(self) -> list[ConnectorV2]:
        """Return copies of the connectors."""
        return [copy.deepcopy(piece) for piece in self.connectors]

    # --- As plain data ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the setup as JSON values, which `from_dict` reads.

        Default values are included, because they may differ in later versions. Of a part without a name, such as a function
        that makes environments, only its `__qualname__` is kept.
        """
        recipe = {each.name: encoded(getattr(self.recipe, each.name), _unnamed) for each in fields(self.recipe)}
        config = {each.name: encoded(getattr(self.algorithm, each.name), _unnamed) for each in fields(self.algorithm)}
        network = {**module_options(self.algorithm), **self._network()}
        network.pop(_KIND, None)
        runner = {**_usual(SingleAgentEnvRunner.__init__, RUNNER_OPTIONS), **self.runner, **asdict(self.workers)}
        hooks = {"hooks": [_unnamed(type(hook)) for hook in self.hooks]} if self.hooks else {}
        return {
            "algorithm": name_of(self.algorithm) or _unnamed(type(self.algorithm)),
            "env": self.env if isinstance(self.env, str) else _unnamed(self.env),
            "connectors": [_encoded_or_unnamed(piece) for piece in self.connectors],
            "seed": self.seed,
            "device": self.device,
            "options": {
                **config,
                **recipe,
                **{name: encoded(value) for name, value in (network | runner).items()},
                **hooks,
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], workers: Mapping[str, Any] = MappingProxyType({})) -> Setup:
        """Return the setup that `to_dict` turned into `data`.

        Args:
            data: The setup as plain data, which may come from a file that is not trusted.
            workers: Fields of `Workers` that replace those in `data`. With an `engine`, the address in `data` has no effect.

        Raises:
            TrainingError: If `data` is not from `to_dict`, if a part of the setup has no name, if the environment is in a
                module that is not imported yet, or if the data names the address of a cluster, or asks for too many
                environments or processes.
        """
        _check_setup_data(data)
        nameless = sorted(_unnamed_parts(data))
        if nameless:
            raise TrainingError(
                f"setup: found {', '.join(nameless)} without a name, expected named parts. Pass the original setup as `setup=`."
            )
        named(data["algorithm"])
        elsewhere = {"address": None} if "engine" in workers else {}
        found = {**data["options"], **elsewhere, **workers}
        check_asks_for_little(data["env"], found, workers)
        pieces = decoded_pieces(data["connectors"], torch.device("cpu"))
        others = {key: data[key] for key in ("algorithm", "env", "seed", "device")}
        options = {name: decoded(value) for name, value in found.items()}
        if options.get("num_episodes") is not None:
            # Both amounts are saved; the number of steps has no effect beside a number of episodes.
            options.pop("num_timesteps", None)
        return cls.of(**others, connectors=pieces, **options)


def _new_runner(setup: Setup, spaces: Spaces, lookback: int, seed: int) -> SingleAgentEnvRunner:
    """Return the runner of a seed."""
    return SingleAgentEnvRunner(
        setup.env,
        setup.new_network(spaces),
        num_envs=setup.recipe.num_envs,
        seed=seed,
        env_to_module=setup.new_pieces(),
        module_to_env=setup.recipe.connectors(seed),
        lookback=lookback,
        **setup.runner,
    )


def module_options(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the settings of the kind of network that an algorithm needs, each with its default.

    >>> from episodia.learners import PPOConfig
    >>> module_options(PPOConfig())["hidden"]
    (64, 64)
    """
    return settings_of(config.network().get(_KIND, "actor_critic"))


def _check_remembers(config: AlgorithmConfig, network: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Reject settings that only recurrent networks follow where the network is not recurrent."""
    # Learning from replay draws sequences for other networks too.
    of_recurrent = ("cell_size",) if isinstance(config, OffPolicyConfig) else ("cell_size", "max_seq_len", "burn_in")
    idle = {name: given[name] for name in of_recurrent if given.get(name)}
    if idle and not network.get("recurrent"):
        raise TrainingError(
            f"training: found {idle} for a network that is not recurrent, expected them with a recurrent one alone. Set "
            '`recurrent="lstm"` or `recurrent="gru"`, or leave them out.'
        )


def _plain_options(name: str, options: object, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(options, Mapping) or set(options) - set(known):
        raise TrainingError(
            f"training: found `{name}={shown(options)}`, expected a dict with some of {list(known)}. Use `Setup.of`."
        )
    # Lists are mutable.
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def _usual(function: Callable[..., Any], names: Sequence[str]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in names}


def _encoded_or_unnamed(piece: ConnectorV2) -> dict[str, Any]:
    try:
        return encoded_piece(piece)
    except PipelineError:  # It is not registered.
        return _unnamed(piece)


def _spaces(env: str | MakeEnv) -> Spaces:
    made = made_env(env)
    try:
        seen, done = (getattr(made, f"single_{name}_space", getattr(made, f"{name}_space", None)) for name in _SPACES)
    finally:
        if hasattr(made, "close"):
            made.close()
    if isinstance(seen, Space) and isinstance(done, Space):
        return seen, done
    raise TrainingError(
        f"environment: found {made!r}, made by {env!r}, expected a gymnasium environment with spaces. Return one; for several "
        "agents, use `MultiAgentEnvRunner`, with `Training(runner, learner, recipe)`."
    )


def _check_env(env: object) -> None:
    if not isinstance(env, str) and not callable(env):
        raise TrainingError(
            f"environment: found {shown(env)}, expected a gymnasium id, or a function that makes an environment. Pass one of "
            "these."
        )


def _device_name(device: object) -> str:
    if device is not None and not isinstance(device, (str, torch.device)):
        raise TrainingError(
            f"training: found `device={shown(device)}`, expected the name of a device. Pass `'cpu'`, for example."
        )
    return "cpu" if device is None else str(device)


def _is_piece(value: object) -> bool:
    return isinstance(value, ConnectorV2)


def made_env(env: str | MakeEnv) -> Any:
    """Return a new environment.

    Raises:
        TrainingError: If it cannot be made.
    """
    try:
        return gym.make(env) if isinstance(env, str) else env()
    except Exception as error:  # foreign code may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = (
            "Pass the id of an environment that is registered and installed, or a function that makes the environment."
            if isinstance(env, str)
            else "Correct the function."
        )
        raise TrainingError(
            f"environment: found that {shown(env)} cannot be made ({reason}), expected an environment. {remedy}"
        ) from error


def _unnamed(part: Any) -> dict[str, str]:
    """Return the name of a part that cannot be saved, as data.

    >>> _unnamed(len)
    {'unnamed': 'len'}
    """
    return {_UNNAMED: getattr(part, "__qualname__", type(part).__qualname__)}


def _unnamed_parts(data: Any, path: str = "") -> Iterator[str]:
    """Yield the parts of `data`, which lies at `path` in the data of a setup, that cannot be rebuilt.

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
    """Check the keys of the data of a setup.

    Raises:
        TrainingError: If they are wrong.
    """
    if not isinstance(data, Mapping) or set(data) != _KEYS:
        raise TrainingError(
            f"setup: found {describe(data)}, expected the result of `Setup.to_dict`. The data is not that of a setup."
        )
    options = data["options"]
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TrainingError(
            f"setup: found the options {shown(options)}, expected a dict with strings as keys. The data is not "
            "that of a setup."
        )


def check_same_setup(where: str, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check that a training continues with the setup that it was saved with; only the device may differ.

    Raises:
        TrainingError: If another setting differs.
    """
    _check_setup_data(saved)
    before, now = ({**data, **data["options"]} for data in (saved, given))
    # Settings that a later version has added cannot differ.
    names = [name for name in before if name not in ("device", "options", *WORKER_OPTIONS)]
    odd = [name for name in names if before[name] != now.get(name)]
    if odd:
        raise TrainingError(
            f"{where}: found a setup with { ({name: now.get(name) for name in odd}) }, expected the saved "
            f"{ ({name: before[name] for name in odd}) }. Pass the same setup; to continue with another one on purpose, "
            "make `training = Training.of(setup)` and call `training.set_state(load_state(path))`."
        )
