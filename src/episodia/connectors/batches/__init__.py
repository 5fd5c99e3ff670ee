"""Contents of a batch: columns in all their forms, their rows and items, and the episodes that these belong to."""
