"""Stages and sources that learn: from episodes, from gradients, from replay, and in a thread."""
