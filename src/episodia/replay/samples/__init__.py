"""Samples: drawn rows as lists of episodes, which gather a column when it is asked for."""
