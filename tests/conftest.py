"""Interrupts are on; Hypothesis has three profiles.

`ci` is the same in every run. `slow` has ten times as many examples: `pytest -m slow` runs each property test with it, along
with the tests that are marked as slow. `fuzz` searches further in each run; the environment variable `HYPOTHESIS_PROFILE`
chooses it, and `HYPOTHESIS_MAX_EXAMPLES` sets the number of its examples.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# A shell that starts the tests in the background has switched interrupts off, and those who wait for one wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=40)
settings.register_profile("slow", settings.get_profile("ci"), max_examples=400)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_MAX_EXAMPLES", "2000")),
    print_blob=True,
    # Large generated episodes are the point of a long search.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def _is_slow_lane(config):
    return config.getoption("markexpr") == "slow"


def pytest_configure(config):
    if _is_slow_lane(config) and "HYPOTHESIS_PROFILE" not in os.environ:
        settings.load_profile("slow")


# Before pytest selects by markers.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if _is_slow_lane(config):
        for item in items:
            if is_hypothesis_test(getattr(item, "obj", None)):
                item.add_marker("slow")
