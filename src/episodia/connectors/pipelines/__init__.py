"""Pipelines: how pieces are put in a row, checked, edited, run, explained and shown."""
