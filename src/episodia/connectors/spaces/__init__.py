"""What spaces mean for whole columns: rows of several spaces, items as vectors, actions leaf by leaf."""
