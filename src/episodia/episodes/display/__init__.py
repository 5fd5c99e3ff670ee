"""Episodes as text, notebook tables and plots."""
