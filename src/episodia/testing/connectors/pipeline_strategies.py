"""Hypothesis strategies for pipelines of shipped pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import Space
from gymnasium import spaces as gym_spaces
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from episodia.connectors import (
    AddLossMask,
    AddViews,
    ClipRewards,
    ComputeReturnsToGo,
    ConnectorPipelineV2,
    ConnectorV2,
    FlattenObservations,
    FrameStacking,
    Kind,
    MeanStdFilter,
    NStepReturns,
    ScaleRewards,
    SignRewards,
    Standardize,
    View,
    defaults,
)
from episodia.testing.connectors.connector_subject import ACTIONS, OBSERVATIONS

_SHIFTS = st.lists(st.integers(-3, 0), min_size=1, max_size=3, unique=True).map(sorted)


def _views() -> SearchStrategy[ConnectorV2]:
    sources = st.sampled_from(["obs", "actions", "rewards"])
    views = st.builds(
        lambda source, shifts: View(source, shift=[t - (source != "obs") for t in shifts]), sources, _SHIFTS
    )
    return st.builds(lambda view: AddViews({"seen_before": view}), views)


def _observation_pieces(space: Space[Any]) -> list[SearchStrategy[ConnectorV2]]:
    """Return strategies for pieces that change observations of this space; a pipeline has each piece at most once."""
    found: list[SearchStrategy[ConnectorV2]] = [st.builds(FlattenObservations)]
    if isinstance(space, gym_spaces.Box):
        found.append(st.builds(FrameStacking, num_frames=st.integers(1, 4)))
        if space.dtype.kind == "f":
            found.append(st.builds(MeanStdFilter))
    return found


def _reward_pieces() -> list[SearchStrategy[ConnectorV2]]:
    return [
        st.builds(ClipRewards, low=st.just(-0.5), high=st.sampled_from([0.25, 1.0])),
        st.builds(ScaleRewards, factor=st.sampled_from([0.5, 3.0])),
        st.builds(SignRewards),
    ]


def _targets() -> SearchStrategy[list[ConnectorV2]]:
    """Draw pieces that compute targets, which look ahead or over the whole batch."""
    choices: list[Callable[[], list[ConnectorV2]]] = [
        list,
        lambda: [ComputeReturnsToGo(gamma=0.9)],
        lambda: [NStepReturns(n=2)],
        lambda: [Standardize(column="rewards")],
        lambda: [ComputeReturnsToGo(gamma=0.9), Standardize(column="returns_to_go")],
    ]
    return st.sampled_from(choices).map(lambda make: make())


def pipelines(
    *,
    learner: bool | None = None,
    causal: bool = False,
    multi_agent: bool = False,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
) -> SearchStrategy[ConnectorPipelineV2]:
    """Draw a default pipeline with pieces that change observations and rewards, look back, and compute targets.

    Args:
        learner: Whether to draw learner pipelines or env-to-module pipelines; None draws both.
        causal: Whether to draw causal pieces only, so that chunks have the rows of the whole.
        multi_agent: Whether env-to-module pipelines group rows by module; learner pipelines always do.
        observation_space: The space of the episodes; two numbers by default, as in `sample_episodes`.
        action_space: The action space of the episodes.

    >>> from hypothesis import given, settings
    >>> from episodia.testing import sample_episodes
    >>> @settings(max_examples=5)
    ... @given(pipeline=pipelines(learner=True))
    ... def a_learner_has_a_row_for_each_step(pipeline):
    ...     batch = pipeline(rl_module=None, episodes=sample_episodes())
    ...     assert len(batch["default_policy"]["rewards"]) == 3 + 1 + 5 + 2
    >>> a_learner_has_a_row_for_each_step()
    """
    spaces = observation_space or OBSERVATIONS, action_space or ACTIONS
    places = st.booleans() if learner is None else st.just(learner)
    return _pipelines(places, causal, multi_agent, spaces)


@st.composite
def _pipelines(
    draw: DrawFn,
    places: SearchStrategy[bool],
    causal: bool,
    multi_agent: bool,
    spaces: tuple[Space[Any], Space[Any]],
) -> ConnectorPipelineV2:
    chosen = draw(_some_of([*_observation_pieces(spaces[0]), _views()]))
    # It reads frames from the episodes, so it must come before pieces that change observations.
    chosen.sort(key=lambda piece: not isinstance(piece, FrameStacking))
    if not draw(places):
        return defaults.env_to_module(*spaces, custom=_fitting(chosen, causal), multi_agent=multi_agent)
    targets = [*draw(_some_of(_reward_pieces())), *draw(_targets()), *draw(_some_of([st.builds(AddLossMask)]))]
    return defaults.learner(*spaces, custom=_fitting(chosen, causal), targets=_fitting(targets, causal))


@st.composite
def _some_of(draw: DrawFn, choices: list[SearchStrategy[ConnectorV2]]) -> list[ConnectorV2]:
    """Draw some of the pieces, in any order."""
    places = draw(st.lists(st.integers(0, len(choices) - 1), unique=True))
    return [draw(choices[place]) for place in places]


def _fitting(pieces: list[ConnectorV2], causal: bool) -> list[ConnectorV2]:
    return [piece for piece in pieces if not causal or (piece.kind is Kind.CAUSAL and not piece.is_stateful)]
