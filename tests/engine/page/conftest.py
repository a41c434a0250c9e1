"""Pages of a pipeline that stands still."""

import httpx
import pytest
from standing_pages import TOKEN, Standing

from speciate.page import serving


@pytest.fixture
def standing():
    return Standing()


@pytest.fixture
async def page(standing):
    """A client of an open page on this machine."""
    async with serving(standing, "127.0.0.1:0") as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture
async def locked(standing):
    """A client, without a token, of a page that wants one."""
    async with serving(standing, "127.0.0.1:0", TOKEN) as url, httpx.AsyncClient(base_url=url, trust_env=False) as one:
        yield one
