"""Laws of connectors and pipelines."""
