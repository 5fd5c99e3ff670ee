"""Connectors of learner pipelines: targets, masks and columns of episodes."""
