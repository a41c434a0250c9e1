"""A page before a server that says what a test wants said."""

import pytest
from stub_page import serving


@pytest.fixture
def stub():
    with serving() as stub:
        yield stub


@pytest.fixture
def expect():
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)  # a machine may be slow
    return expect
