"""Columns of episodes: index translation, storage, and the lookback buffer."""
