"""Laws of env runners."""
