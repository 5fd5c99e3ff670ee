"""Small networks are slower with several threads, and the other tests need the cores."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
