import os

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Repeatable bit for bit, and as fast for models this small; child processes inherit it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    torch.set_num_threads(before)
