"""Checks of pipelines: when they are built, when their lists of episodes change, and after they have run."""
