"""Pages of a pipeline that stands still."""

import httpx
import pytest
from open_pages import be_patient
from standing_pages import TOKEN, Standing, at_no_cost

from speciate.page import serving


@pytest.fixture
def _patient(monkeypatch):
    be_patient(monkeypatch)


@pytest.fixture
def standing():
    return Standing()


@pytest.fixture
async def page(standing):
    """A client of an open page on this machine."""
    opening = at_no_cost(serving(standing, "127.0.0.1:0"))
    async with opening as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
async def locked(standing):
    """A client, without a token, of a page that wants one."""
    opening = at_no_cost(serving(standing, "127.0.0.1:0", TOKEN))
    async with opening as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        yield client
