"""Input and output spaces of a piece, for observations and actions."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gymnasium import Space

from episodia.connectors.piece_arguments import checked_keywords, constructor_of
from episodia.errors import PipelineError

MaybeSpace = Space[Any] | None

# Marks an output space that is computed on first access.
_STALE: Final[Any] = object()


def checked_space(piece: str, what: str, space: object) -> MaybeSpace:
    """Return `space` if it is a space or None.

    Raises:
        PipelineError: If it has another type.
    """
    if space is None or isinstance(space, Space):
        return space
    if isinstance(space, Mapping):
        remedy = "Pass `gymnasium.spaces.Dict(...)` of it"
    elif isinstance(space, type) and issubclass(space, Space):
        remedy = f"Make one: `{space.__name__}(...)`"
    else:
        remedy = "Pass that of the environment"
    raise PipelineError(
        f"{piece}: found {space!r} as its {what}, expected a gymnasium space, or None if it is not known. {remedy}."
    )


class CheckedConstruction(ABCMeta):
    """Metaclass of pieces: rejects misspelt arguments, and computes the output spaces after all constructors have run.

    A subclass calls `super().__init__(observation_space, action_space)` first and then sets its own attributes. Its output
    spaces may depend on those attributes, so the base constructor cannot compute them yet.
    """

    if not TYPE_CHECKING:  # type checkers and editors take the signature of the constructor

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Return a new piece, with output spaces if it was given input spaces."""
            piece = super().__call__(*args, **checked_keywords(cls, kwargs))
            if kwargs.get("as_learner_connector") is False:
                piece._acts_on_lists = True
            piece._compute_output_spaces()
            return piece

    @property
    def __signature__(cls) -> inspect.Signature:
        """The signature of the constructor, for `help`, notebooks and `inspect.signature`."""
        return constructor_of(cls)


class SpaceFlow(metaclass=CheckedConstruction):
    """Base class with two input spaces and the two output spaces computed from them."""

    if TYPE_CHECKING:
        # Used in messages; every piece has a name.
        @property
        def name(self) -> str: ...

    # Defaults for plugins that do not call `super().__init__`.
    _own_spaces: tuple[MaybeSpace, MaybeSpace] = (None, None)
    _input_observation_space: MaybeSpace = None
    _input_action_space: MaybeSpace = None
    _observation_space: Any = _STALE
    _action_space: Any = _STALE

    def recompute_output_observation_space(
        self, input_observation_space: Space[Any], input_action_space: MaybeSpace
    ) -> MaybeSpace:
        """Return the output observation space; by default the input space."""
        return input_observation_space

    def recompute_output_action_space(
        self, input_observation_space: MaybeSpace, input_action_space: Space[Any]
    ) -> MaybeSpace:
        """Return the output action space; by default the input space."""
        return input_action_space

    @property
    def input_observation_space(self) -> MaybeSpace:
        """The space of the observations that reach the piece; setting it updates the output space."""
        return self._input_observation_space

    @input_observation_space.setter
    def input_observation_space(self, space: MaybeSpace) -> None:
        checked_space(self.name, "observation space", space)
        self._change_own_spaces((space, self._own_spaces[1]), space, self._input_action_space)

    @property
    def input_action_space(self) -> MaybeSpace:
        """The space of the actions that reach the piece; setting it updates the output space."""
        return self._input_action_space

    @input_action_space.setter
    def input_action_space(self, space: MaybeSpace) -> None:
        checked_space(self.name, "action space", space)
        self._change_own_spaces((self._own_spaces[0], space), self._input_observation_space, space)

    @property
    def observation_space(self) -> MaybeSpace:
        """The space of the observations that leave the piece; None if it is not known."""
        if self._observation_space is _STALE:
            given = self._input_observation_space
            # A method that reads this property while it is computed gets None.
            self._observation_space = None
            try:
                if given is not None:
                    made = self.recompute_output_observation_space(given, self._input_action_space)
                    self._observation_space = checked_space(self.name, "output observation space", made)
            except BaseException:
                self._observation_space = _STALE
                raise
        return self._observation_space  # type: ignore[no-any-return]  # the marker is replaced here

    @property
    def action_space(self) -> MaybeSpace:
        """The space of the actions that leave the piece; None if it is not known."""
        if self._action_space is _STALE:
            given = self._input_action_space
            self._action_space = None
            try:
                if given is not None:
                    made = self.recompute_output_action_space(self._input_observation_space, given)
                    self._action_space = checked_space(self.name, "output action space", made)
            except BaseException:
                self._action_space = _STALE
                raise
        return self._action_space  # type: ignore[no-any-return]  # the marker is replaced here

    def _receive_spaces(self, observation_space: MaybeSpace, action_space: MaybeSpace) -> None:
        """Take the spaces from upstream, or the piece's own spaces where upstream has None; compute the output spaces."""
        own_observation_space, own_action_space = self._own_spaces
        self._input_observation_space = own_observation_space if observation_space is None else observation_space
        self._input_action_space = own_action_space if action_space is None else action_space
        self._observation_space = self._action_space = _STALE
        self._compute_output_spaces()

    def _compute_output_spaces(self) -> None:
        # In the order in which RLlib sets them.
        _ = self.action_space
        _ = self.observation_space

    def _change_own_spaces(
        self, own: tuple[MaybeSpace, MaybeSpace], observation_space: MaybeSpace, action_space: MaybeSpace
    ) -> None:
        before = self._own_spaces, (self._input_observation_space, self._input_action_space)
        self._own_spaces = own
        try:
            self._receive_spaces(observation_space, action_space)
        except BaseException:
            self._own_spaces, inputs = before
            self._input_observation_space, self._input_action_space = inputs
            self._observation_space = self._action_space = _STALE
            raise
