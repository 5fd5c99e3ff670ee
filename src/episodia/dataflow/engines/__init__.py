"""Engines: where workers live, and how calls reach them."""
