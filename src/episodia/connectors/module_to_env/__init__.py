"""Connectors between a module and environments: actions after the forward pass."""
