"""Draws: what a sample is made of."""
