"""Plugins: connectors of other packages. Finds them, lists them, and creates new ones."""
