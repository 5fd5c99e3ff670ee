"""Random actions under the name that runners import them by; they are made one rung below, where modules need them too."""

from episodia.modules.random_actions import Range, random_actions, random_reals, range_of

__all__ = ["Range", "random_actions", "random_reals", "range_of"]
