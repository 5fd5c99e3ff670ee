"""Catalogues, strategies and comparisons of episodes."""
