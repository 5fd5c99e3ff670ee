"""Episodes on their way into a buffer, and where they come from."""
