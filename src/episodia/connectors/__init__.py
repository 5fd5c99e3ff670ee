"""Connectors: pieces and pipelines that make batches of episodes right before a module needs them."""

from episodia.connectors.base import ConnectorV2
from episodia.connectors.batch_items import BatchedNdArray
from episodia.connectors.explaining import Explanation
from episodia.connectors.kinds import Kind
from episodia.connectors.pipeline import (
    ConnectorPipelineV2,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
)
from episodia.connectors.state_keeping import check_state

__all__ = [
    "BatchedNdArray",
    "ConnectorPipelineV2",
    "ConnectorV2",
    "EnvToModulePipeline",
    "Explanation",
    "Kind",
    "LearnerConnectorPipeline",
    "ModuleToEnvPipeline",
    "check_state",
]
