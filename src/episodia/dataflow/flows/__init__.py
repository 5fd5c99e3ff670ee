"""Flows: sources that are polled, and stages that their items are pushed through."""
