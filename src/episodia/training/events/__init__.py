"""What happens in a training: callbacks, which may stop it, and those that are shipped."""
