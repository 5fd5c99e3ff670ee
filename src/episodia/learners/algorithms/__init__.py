"""Algorithms: a frozen config and a loss each."""
