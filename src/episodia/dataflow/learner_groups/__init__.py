"""Several learners, or several workers of one learner, that learn together."""
