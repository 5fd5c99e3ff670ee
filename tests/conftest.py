"""Interrupts are on; Hypothesis has two profiles: `ci` is the same on every run, `fuzz` searches further each time.

The environment variable `HYPOTHESIS_PROFILE` chooses; `HYPOTHESIS_MAX_EXAMPLES` sets how far `fuzz` goes.
"""

import os
import signal

from hypothesis import HealthCheck, settings

# A shell that starts the tests in the background has switched interrupts off, and those who wait for one wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_MAX_EXAMPLES", "2000")),
    print_blob=True,
    # Large generated episodes are the point of a long search.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
