"""The default learner pipeline of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium import Space

from episodia.connectors import ConnectorV2, LearnerConnectorPipeline, defaults
from episodia.connectors.learner.add_action_masks_from_episodes import AddActionMasksFromEpisodes
from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig, check_algorithm
from episodia.modules import Module
from episodia.modules.devices import usable_device


def default_pipeline(
    config: AlgorithmConfig,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    *,
    custom: Sequence[ConnectorV2] = (),
    stateful: bool = False,
    device: torch.device | None = None,
    module: Module | Mapping[str, Module] | None = None,
) -> LearnerConnectorPipeline:
    """Return the default learner pipeline with the targets of `config`; its batches stay on the CPU.

    Args:
        config: The algorithm.
        observation_space: The observation space of the environment.
        action_space: The action space of the environment.
        custom: Pieces to put in front: the pieces that the runner has in front of the module.
        stateful: Whether a module is recurrent.
        device: The device of the modules, for pieces that call them.
        module: The module, or modules by their ids, whose `views` are added.

    >>> from episodia.learners import ReinforceConfig
    >>> [piece.name for piece in default_pipeline(ReinforceConfig())][3:6]
    ['AddActionMasksFromEpisodes', 'ComputeReturnsToGo', 'Standardize']
    """
    check_algorithm(config)
    targets = config.targets(usable_device(LearnerError, device))
    max_seq_len, burn_in = config.sequences()
    return defaults.learner(
        observation_space,
        action_space,
        custom=custom,
        targets=[AddActionMasksFromEpisodes(), *targets],
        stateful=stateful,
        max_seq_len=max_seq_len,
        burn_in=burn_in,
        module=module,
    )
