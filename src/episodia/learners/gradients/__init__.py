"""Gradients: computed, processed, averaged and applied."""
