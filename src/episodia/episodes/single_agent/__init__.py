"""The episode of one agent: its steps, columns, chunks and state."""
