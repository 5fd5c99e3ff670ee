"""Spaces of whole columns: rows of several spaces, items as vectors, actions leaf by leaf."""
