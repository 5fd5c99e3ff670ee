"""Recipes: how much a training collects, how it learns from that, and the algorithms that have a name."""
