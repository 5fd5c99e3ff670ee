"""Laws of engines and groups of runners, and an engine that simulates disasters."""
