"""Pipelines of pieces: building, checking, editing, running, explaining and displaying them."""
