"""Connectors of other packages: finding them, listing them, and starting a new one."""
