"""Type aliases of the library: each has one name here, and signatures use that name.

Importing this module imports nothing heavy.

>>> from episodia.types import AgentID, Item
>>> def last_seen(observations: dict[AgentID, list[Item]]) -> dict[AgentID, Item]:
...     return {agent: seen[-1] for agent, seen in observations.items()}
>>> last_seen({"red": [1, 2]})
{'red': 2}
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

Item: TypeAlias = Any
"""One observation, action, reward or model output, or several of them in the same nesting.

An array or tensor, a Python or NumPy scalar, or a dict, list or tuple of items. Its space decides which one it is, at run
time, so that a type checker lets you index and compute with an item freely.
"""

Info: TypeAlias = dict[str, Any]
"""What an environment reports beside an observation: values of any type by name."""

AgentID: TypeAlias = Hashable
"""The name of an agent in a multi-agent environment: most often a string or an integer."""

ModuleID: TypeAlias = Hashable
"""The name of a module among several: most often a string."""

Batch: TypeAlias = dict[str, Item]
"""The columns of one module: `{column: array}`."""

# The keys of dicts by module are `Any`, because key types are invariant: a `dict[str, ...]`, which is what most users have,
# would not pass as a `dict[Hashable, ...]`.
ModuleBatch: TypeAlias = dict[Any, Batch]
"""The columns of each module: `{module_id: {column: array}}`."""

AnyBatch: TypeAlias = dict[Any, Any]
"""A batch inside a pipeline: a `Batch`, a `ModuleBatch`, or columns whose items are still collected by episode.

The pipeline decides at run time which one it is. A connector that knows may annotate `Batch` or `ModuleBatch` instead.
"""

State: TypeAlias = dict[str, Any]
"""What `get_state` returns and `set_state` takes: JSON values and NumPy arrays, nested in dicts and lists."""
