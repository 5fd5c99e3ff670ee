import pytest

from episodia.dataflow import RayEngine
from ray_objects import Subject


@pytest.fixture(scope="session", autouse=True)
def one_ray():
    """Keep Ray running for all tests here, because it takes seconds to start."""
    with RayEngine(shows_output=False) as engine:
        engine.share("something")
        yield


@pytest.fixture
def engine():
    with RayEngine(shows_output=False) as engine:
        yield engine


@pytest.fixture(scope="module")
def shared_engine():
    """An engine for tests that leave its workers alive."""
    with RayEngine(shows_output=False) as engine:
        yield engine


@pytest.fixture(scope="module")
def subject(shared_engine):
    return shared_engine.start(Subject)
