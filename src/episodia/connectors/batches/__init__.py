"""What is in a batch: columns in all their forms, their rows and items, and to whose episode each belongs."""
