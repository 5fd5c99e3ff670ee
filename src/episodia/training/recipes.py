"""Recipes (how much to collect per update, and how to learn from it), and the algorithms that have a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple, final

from episodia.arguments import checked_whole
from episodia.errors import TrainingError
from episodia.learners import A2CConfig, AlgorithmConfig, PPOConfig, ReinforceConfig


@final
@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The amounts of one update.

    Args:
        num_envs: The number of environments that run at once.
        num_timesteps: The number of steps to collect, over all environments.
        num_episodes: The number of whole episodes to collect instead; None collects `num_timesteps`.
        num_epochs: The number of passes over the collected data.
        minibatch_size: The approximate number of steps per gradient step; None takes all steps at once.

    Raises:
        TrainingError: If a value is not a positive integer.

    >>> Recipe(num_timesteps=256).wanted, Recipe(num_episodes=4).wanted
    ({'num_timesteps': 256}, {'num_episodes': 4})
    """

    num_envs: int = 8
    num_timesteps: int = 1024
    num_episodes: int | None = None
    num_epochs: int = 1
    minibatch_size: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            may_be_none = each.name in ("num_episodes", "minibatch_size")
            if not (value is None and may_be_none):
                # JSON has no NumPy numbers.
                object.__setattr__(self, each.name, checked_whole(TrainingError, "Recipe", each.name, value, 1))

    @property
    def wanted(self) -> dict[str, int]:
        """The arguments of `sample` of the runner."""
        if self.num_episodes is not None:
            return {"num_episodes": self.num_episodes}
        return {"num_timesteps": self.num_timesteps}


class Named(NamedTuple):
    """The config class and the recipe of an algorithm that has a name."""

    config: type[AlgorithmConfig]
    recipe: Recipe


# Settings that solve CartPole fast; tests/learning says how fast. PPO solved it with each of 65 seeds. Of 20 seeds each, A2C
# stayed below its level with two, and REINFORCE with one, which had reached the target by chance.
ALGORITHMS: Mapping[str, Named] = MappingProxyType(
    {
        "ppo": Named(PPOConfig, Recipe(num_epochs=10, minibatch_size=128)),
        "a2c": Named(A2CConfig, Recipe(num_timesteps=512)),
        "reinforce": Named(ReinforceConfig, Recipe(num_envs=4, num_episodes=4)),
    }
)


def named(name: object) -> Named:
    """Return the algorithm called `name`.

    Raises:
        TrainingError: If there is no such algorithm.
    """
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise TrainingError(
            f"algorithm: found {name!r}, expected one of {list(ALGORITHMS)}. Choose one of these, or pass a config."
        )
    return ALGORITHMS[name]


def name_of(config: AlgorithmConfig) -> str | None:
    """Return the name of the algorithm of `config`; None if it has no name."""
    return next((name for name, known in ALGORITHMS.items() if known.config is type(config)), None)


def chosen(
    algorithm: str | AlgorithmConfig, options: Mapping[str, Any]
) -> tuple[AlgorithmConfig, Recipe, dict[str, Any]]:
    """Return the config and the recipe of an algorithm with `options` applied, and the options that belong to neither.

    >>> config, recipe, others = chosen("ppo", {"gamma": 0.9, "num_envs": 2, "hidden": (8,)})
    >>> config.gamma, recipe.num_envs, others
    (0.9, 2, {'hidden': (8,)})
    """
    config_names = config_options(algorithm)
    recipe_names = {each.name for each in fields(Recipe)}
    of_config = {name: value for name, value in options.items() if name in config_names}
    of_recipe = {name: value for name, value in options.items() if name in recipe_names}
    others = {name: value for name, value in options.items() if name not in {*of_config, *of_recipe}}
    if isinstance(algorithm, str):
        config: AlgorithmConfig = named(algorithm).config(**of_config)
    else:
        config = algorithm
    usual = ALGORITHMS.get(name_of(config) or "")
    recipe = usual.recipe if usual else Recipe()
    _check_amounts(of_recipe, recipe)
    return config, Recipe(**{**_as_dict(recipe), **of_recipe}), others


def _check_amounts(given: Mapping[str, Any], usual: Recipe) -> None:
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
        f"algorithm: found {algorithm!r}, expected a config such as `PPOConfig()`, or one of {list(ALGORITHMS)}. Pass one of "
        "these."
    )


def _as_dict(recipe: Recipe) -> dict[str, Any]:
    return {each.name: getattr(recipe, each.name) for each in fields(recipe)}
