"""Rows of a buffer: where they lie, to which episodes they belong, and what is stored in them."""
