"""Environments that runners step: made, guarded, vectorised, in other processes."""
