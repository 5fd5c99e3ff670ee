"""Policies: a module with its pipelines as one thing that acts, and all of it as plain data."""
