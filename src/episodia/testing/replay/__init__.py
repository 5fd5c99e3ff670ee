"""Checks of selectors."""
