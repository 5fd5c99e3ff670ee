"""Connectors that runner and learner pipelines share."""
