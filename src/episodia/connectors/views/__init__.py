"""Views: items of other steps, as columns of the batch that a module receives."""
