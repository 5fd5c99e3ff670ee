"""The loop of a runner: steps, faults, chunks, and the episodes that it returns."""
