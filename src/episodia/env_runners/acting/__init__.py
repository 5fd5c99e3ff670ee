"""From running episodes to the next actions: pipelines with the module between them."""
