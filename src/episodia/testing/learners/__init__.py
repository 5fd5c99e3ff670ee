"""Laws of learners."""
