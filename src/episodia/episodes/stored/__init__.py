"""Episodes on disk, and the lists that read them."""
