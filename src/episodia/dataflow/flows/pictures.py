"""Pictures of flows: their stages with counts and times, as text and for notebooks."""

from __future__ import annotations

from html import escape
from typing import NamedTuple


class FlowPicture(NamedTuple):
    """The content of a picture of a flow.

    Attributes:
        stages: The name of the source and of each stage, how many items came out, and how long it took in seconds.
        gate: "open", why the gate is shut, or an empty text without a gate.
        inner: The flows that its items come from.
    """

    stages: list[tuple[str, int, float]]
    gate: str
    inner: list[FlowPicture]


def flow_text(drawn: FlowPicture, indent: str = "") -> str:
    """Return a picture as text.

    >>> print(flow_text(FlowPicture([("Items", 3, 0.001), ("for_each double", 3, 0.5)], "open", [])))
    [open] Items (3 items, 1 ms) -> for_each double (3 items, 500 ms)
    """
    gate = f"[{drawn.gate}] " if drawn.gate else ""
    stages = " -> ".join(f"{name} ({count} items, {1e3 * time_s:.3g} ms)" for name, count, time_s in drawn.stages)
    inner = [flow_text(each, indent + "  ") for each in drawn.inner]
    return "\n".join([f"{indent}{gate}{stages}", *inner])


def flow_html(drawn: FlowPicture) -> str:
    """Return a picture as HTML: a table of the stages, and the flows before them below."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{count}</td><td>{1e3 * time_s:.3g}</td></tr>"
        for name, count, time_s in drawn.stages
    )
    gate = f"<p>gate: {escape(drawn.gate)}</p>" if drawn.gate else ""
    inner = "".join(f"<div style='margin-left: 2em'>{flow_html(each)}</div>" for each in drawn.inner)
    return f"{gate}<table><tr><th>stage</th><th>items</th><th>ms</th></tr>{rows}</table>{inner}"
