"""The algorithms that have a name, each with its recipe; and how options are divided between config and recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from episodia.errors import TrainingError
from episodia.learners import (
    A2CConfig,
    AlgorithmConfig,
    DDPGConfig,
    DiscreteSACConfig,
    DQNConfig,
    IMPALAConfig,
    OffPolicyConfig,
    PPOConfig,
    R2D2Config,
    RainbowConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
)
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training.recipes.recipe import BaseRecipe, Recipe
from episodia.training.recipes.replay_recipe import ReplayRecipe
from episodia.trees import shown


class Named(NamedTuple):
    """The config class and the recipe of an algorithm that has a name."""

    config: type[AlgorithmConfig]
    recipe: BaseRecipe


_FALLING = PiecewiseLinearSchedule([(0, 1.0), (10_000, 0.02)])
_CHOICES = ReplayRecipe(num_envs=4, num_timesteps=32, updates_per_step=0.5)
_REALS = ReplayRecipe(num_envs=4, num_timesteps=32, batch_size=128, random_warm_up=True)

# On-policy, settings that solve CartPole fast; tests/learning says how fast. PPO solved it with each of 65 seeds. Of 20 seeds
# each, A2C stayed below its level with two, and REINFORCE with one, which had reached the target by chance. From replay, the
# amounts with which tests/learning solves CartPole and Pendulum; discounts and learning rates are set there.
ALGORITHMS: Mapping[str, Named] = MappingProxyType(
    {
        "ppo": Named(PPOConfig, Recipe(num_epochs=10, minibatch_size=128)),
        "a2c": Named(A2CConfig, Recipe(num_timesteps=512)),
        "reinforce": Named(ReinforceConfig, Recipe(num_envs=4, num_episodes=4)),
        "dqn": Named(DQNConfig, replace(_CHOICES, epsilon=_FALLING)),
        "rainbow": Named(RainbowConfig, replace(_CHOICES, priority_exponent=0.5, random_warm_up=True)),
        "r2d2": Named(R2D2Config, replace(_CHOICES, priority_exponent=0.6, epsilon=_FALLING)),
        "ddpg": Named(DDPGConfig, replace(_REALS, noise=0.2)),
        "td3": Named(TD3Config, replace(_REALS, noise=0.2)),
        "sac": Named(SACConfig, _REALS),
        "discrete_sac": Named(DiscreteSACConfig, replace(_CHOICES, random_warm_up=True)),
        "a3c": Named(A2CConfig, Recipe(num_timesteps=512, plan="a3c")),
        "appo": Named(PPOConfig, Recipe(num_epochs=4, minibatch_size=128, plan="impala")),
        "impala": Named(IMPALAConfig, Recipe(num_timesteps=512, plan="impala")),
        "apex": Named(DQNConfig, replace(_CHOICES, priority_exponent=0.6, epsilon=_FALLING, num_shards=2, plan="apex")),
    }
)


def named(name: object) -> Named:
    """Return the algorithm called `name`.

    Raises:
        TrainingError: If there is no such algorithm.
    """
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise TrainingError(
            f"algorithm: found {shown(name)}, expected one of {list(ALGORITHMS)}. Choose one of these, or pass a config."
        )
    return ALGORITHMS[name]


def name_of(config: AlgorithmConfig) -> str | None:
    """Return the name of the algorithm of `config`; None if it has no name. Other names differ in their recipe only."""
    return next((name for name, known in ALGORITHMS.items() if known.config is type(config)), None)


def _recipe_for(config: AlgorithmConfig) -> BaseRecipe:
    """Return the recipe that suits the algorithm of `config`, or the algorithm that it extends."""
    known: dict[type[AlgorithmConfig], BaseRecipe] = {}
    for each in ALGORITHMS.values():
        known.setdefault(each.config, each.recipe)  # the first name
    found = next((known[base] for base in type(config).__mro__ if base in known), None)
    if found is not None:
        return found
    return ReplayRecipe() if isinstance(config, OffPolicyConfig) else Recipe()


def chosen(
    algorithm: str | AlgorithmConfig, options: Mapping[str, Any]
) -> tuple[AlgorithmConfig, BaseRecipe, dict[str, Any]]:
    """Return the config and the recipe of an algorithm with `options` applied, and the options that belong to neither.

    >>> config, recipe, others = chosen("ppo", {"gamma": 0.9, "num_envs": 2, "hidden": (8,)})
    >>> config.gamma, recipe.num_envs, others
    (0.9, 2, {'hidden': (8,)})
    """
    config_names = config_options(algorithm)
    of_config = {name: value for name, value in options.items() if name in config_names}
    if isinstance(algorithm, str):
        found = named(algorithm)
        config, recipe = found.config(**of_config), found.recipe
    else:
        config, recipe = algorithm, _recipe_for(algorithm)
    recipe_names = {each.name for each in fields(recipe)}
    of_recipe = {name: value for name, value in options.items() if name in recipe_names}
    others = {name: value for name, value in options.items() if name not in {*of_config, *of_recipe}}
    _check_amounts(of_recipe, recipe)
    return config, replace(recipe, **of_recipe), others


def _check_amounts(given: Mapping[str, Any], usual: BaseRecipe) -> None:
    """Reject a number of steps beside a number of episodes, which would leave the steps without effect."""
    episodes = given.get("num_episodes", usual.num_episodes)
    if "num_timesteps" in given and episodes is not None:
        whose = "" if "num_episodes" in given else ", the default of the algorithm, which learns from whole episodes"
        raise TrainingError(
            f"training: found `num_timesteps={given['num_timesteps']!r}` and `num_episodes={episodes!r}`{whose}; expected one "
            "of the two, because they say in two ways how much to collect. Leave `num_timesteps` out, or "
            "set `num_episodes=None`."
        )


def config_options(algorithm: str | AlgorithmConfig) -> set[str]:
    """Return the fields of the config that options may set: all of them for a name, no field for a ready config.

    Raises:
        TrainingError: If `algorithm` is neither a name nor a config.
    """
    if isinstance(algorithm, str):
        return {each.name for each in fields(named(algorithm).config)}
    if isinstance(algorithm, AlgorithmConfig):
        return set()
    raise TrainingError(
        f"algorithm: found {shown(algorithm)}, expected a config such as `PPOConfig()`, or one of {list(ALGORITHMS)}. Pass one "
        "of these."
    )
