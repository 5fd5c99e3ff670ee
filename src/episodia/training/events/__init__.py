"""Events of a training: callbacks, which may stop it, and those that are shipped."""
