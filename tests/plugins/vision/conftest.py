"""What the tests of networks have in common."""

import sys

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    """Small work is slower on several, and the bits of a sum may depend on their number."""
    torch = sys.modules.get("torch")  # not every test here needs it
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
