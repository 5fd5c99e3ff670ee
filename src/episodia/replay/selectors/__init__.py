"""Selectors: which of the stored steps a draw takes."""
