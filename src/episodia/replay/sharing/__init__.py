"""Buffers that other processes read while one process writes."""
