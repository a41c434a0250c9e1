"""Where the page listens, and the names it is called by there."""

import socket

import httpx
import pytest
from standing_pages import TOKEN, at_no_cost

from speciate.errors import ConfigError, PluginError
from speciate.page import serving


async def test_where_all_addresses_are_listened_at_any_address_is_taken_and_no_name(standing):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with at_no_cost(serving(standing, "0.0.0.0:0", TOKEN)) as url:
        here = f"http://127.0.0.1:{url.rpartition(':')[2]}"
        async with httpx.AsyncClient(base_url=here, trust_env=False, timeout=60, headers=headers) as client:
            assert (await client.get("/live", headers={"Host": "10.1.2.3:8600"})).status_code == 200
            assert (await client.get("/live", headers={"Host": "evil.example"})).status_code == 421


async def test_a_page_at_a_name_is_called_by_it(standing, monkeypatch):
    """As a monitor does that knows its targets by name."""
    real = socket.getaddrinfo

    def resolve(host, *given, **more):
        return real("127.0.0.1" if host == "worker-1" else host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    opening = at_no_cost(serving(standing, "worker-1:0"))
    async with opening as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        for host in ("worker-1:8600", "Worker-1", "127.0.0.1:8600"):
            assert (await client.get("/live", headers={"Host": host})).status_code == 200
        assert (await client.get("/live", headers={"Host": "worker-2:8600"})).status_code == 421


@pytest.mark.parametrize(
    ("address", "token", "told"),
    [
        ("nowhere", None, "must be HOST:PORT"),
        ("127.0.0.1:", None, "must be HOST:PORT"),
        (":8600", None, "must be HOST:PORT"),
        ("127.0.0.1:65536", None, "must be HOST:PORT"),
        ("127.0.0.1:-1", None, "must be HOST:PORT"),
        ("192.0.2.1:8600", TOKEN, "--page-address 192.0.2.1:8600: "),
        ("..:8600", None, "--page-address ..:8600: '..' is no name of a host"),
        (f"{'a' * 64}:8600", None, "a' is no name of a host"),
        ("0.0.0.0:0", None, "set SPECIATE_PAGE_TOKEN"),
        ("[::]:0", None, "set SPECIATE_PAGE_TOKEN"),
        ("0.0.0.0:0", "", "SPECIATE_PAGE_TOKEN is empty"),
        ("0.0.0.0:0", "a-short-secret1", "has 15 characters and needs 16 or more"),
        ("127.0.0.1:0", "two words", "no header can carry"),
    ],
)
async def test_an_address_that_cannot_or_must_not_be_is_one_clear_line(standing, address, token, told):
    with pytest.raises(ConfigError, match=r"\A[^\n]*\Z") as error:
        async with serving(standing, address, token):
            pass
    assert told in str(error.value)


async def test_an_address_in_use_is_told(standing):
    async with serving(standing, "127.0.0.1:0") as url:
        with pytest.raises(ConfigError, match="already in use"):
            async with serving(standing, url.removeprefix("http://")):
                pass


async def test_an_address_is_free_again_at_once(standing):
    async with serving(standing, "127.0.0.1:0") as url:
        holding = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
    async with serving(standing, url.removeprefix("http://")) as again:
        assert again == url
    holding.close()


async def test_a_missing_extra_is_one_clear_line(standing, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("speciate.page.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(PluginError, match=r"^the page needs uvicorn: pip install 'speciate\[page\]'$"):
        async with serving(standing, "127.0.0.1:0"):
            pass
