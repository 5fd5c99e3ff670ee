"""Connectors between environments and a module: observations before the forward pass."""
