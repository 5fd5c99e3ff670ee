"""episodia: trajectories stay whole, and become batches just before each forward pass.

The names below are imported when they are first used, so that `import episodia` takes no time for torch. All errors are in
`episodia.errors`, type aliases in `episodia.types`.
"""

import typing as _typing
from importlib import import_module as _import_module
from importlib.metadata import version as _version

from episodia.columns import Columns
from episodia.errors import EpisodiaError

if _typing.TYPE_CHECKING:
    from episodia.connectors import ConnectorV2, EnvToModulePipeline, LearnerConnectorPipeline, ModuleToEnvPipeline
    from episodia.env_runners import EnvRunner, MultiAgentEnvRunner, SingleAgentEnvRunner
    from episodia.env_runners.collect import collect
    from episodia.episodes import (
        EpisodeList,
        InfiniteLookbackBuffer,
        LookbackBuffer,
        MultiAgentEpisode,
        Recorder,
        SingleAgentEpisode,
    )
    from episodia.learners import Learner
    from episodia.policies import MultiAgentPolicy, Policy
    from episodia.training import resume, train

__version__ = _version("episodia")

__all__ = [
    "Columns",
    "ConnectorV2",
    "EnvRunner",
    "EnvToModulePipeline",
    "EpisodeList",
    "EpisodiaError",
    "InfiniteLookbackBuffer",
    "Learner",
    "LearnerConnectorPipeline",
    "LookbackBuffer",
    "ModuleToEnvPipeline",
    "MultiAgentEnvRunner",
    "MultiAgentEpisode",
    "MultiAgentPolicy",
    "Policy",
    "Recorder",
    "SingleAgentEnvRunner",
    "SingleAgentEpisode",
    "collect",
    "resume",
    "train",
]

# The same as above, for `__getattr__`; a test compares the two.
_PACKAGE_OF = {
    name: package
    for package, names in {
        "connectors": ("ConnectorV2", "EnvToModulePipeline", "LearnerConnectorPipeline", "ModuleToEnvPipeline"),
        "env_runners": ("EnvRunner", "MultiAgentEnvRunner", "SingleAgentEnvRunner"),
        "env_runners.collect": ("collect",),
        "episodes": (
            "EpisodeList",
            "InfiniteLookbackBuffer",
            "LookbackBuffer",
            "MultiAgentEpisode",
            "Recorder",
            "SingleAgentEpisode",
        ),
        "learners": ("Learner",),
        "policies": ("MultiAgentPolicy", "Policy"),
        "training": ("resume", "train"),
    }.items()
    for name in names
}
_PUBLIC_MODULES = (
    "checkpoints",
    "connectors",
    "dataflow",
    "env_runners",
    "episodes",
    "errors",
    "learners",
    "modules",
    "policies",
    "replay",
    "returns",
    "rllib",
    "schedules",
    "testing",
    "training",
    "types",
)


if not _typing.TYPE_CHECKING:  # a type checker would take every name for one of ours

    def __getattr__(name: str) -> _typing.Any:
        if name in _PACKAGE_OF:
            found = getattr(_import_module(f"episodia.{_PACKAGE_OF[name]}"), name)
        elif name in _PUBLIC_MODULES:
            found = _import_module(f"episodia.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_PUBLIC_MODULES, "__version__"})
