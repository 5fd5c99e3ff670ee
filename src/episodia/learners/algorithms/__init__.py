"""Algorithms: each is a frozen config with a loss."""
