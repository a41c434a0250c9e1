"""Hostile requests over real sockets: refused, counted, told once, and nobody else feels them."""

import asyncio
import contextlib
import logging
import socket
import struct

import httpx
import pytest

from speciate.errors import ConfigError, PluginError
from speciate.instruments import Instruments
from speciate.page import guard, protocol, serving
from speciate.page.refusals import Refusals

TOKEN = "correct-horse-battery-staple"


class Standing:
    """A pipeline as the page sees it."""

    def __init__(self) -> None:
        self.counted = Instruments()
        self.reasons: list[str] = []

    def instruments(self):
        return self.counted

    def unready(self):
        return self.reasons

    def status(self):
        return None

    def universes(self):
        return []

    def uncontrollable(self):
        return "nothing runs here"

    def refused(self, reason):
        return self.counted.value("speciate_page_refusals_total", reason).value


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


async def raw(client, data):
    """Send bytes as they are; all that comes back until the other side closes."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
    answer = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(20):
            answer = await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer


# ---- who


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer ä".encode()]
)
@pytest.mark.parametrize("path", ["/metrics", "/live", "/ready", "/nothing"])
async def test_without_the_token_nothing_is_told(locked, standing, path, header):
    answer = await locked.get(path, headers={} if header is None else {"Authorization": header})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "speciate_events" not in answer.text
    assert standing.refused("token") == 1


async def test_with_the_token_all_is_told(locked):
    answer = await locked.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert "speciate_ready" in answer.text or "speciate_build_info" in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8600", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]", "10.0.0.1", ""]
)
async def test_a_foreign_host_is_refused(page, standing, host):
    answer = await page.get("/metrics", headers={"Host": host})
    assert answer.status_code == 421
    assert "speciate" not in answer.text
    assert standing.refused("host") == 1


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8600", "[::1]:8600"])
async def test_this_machine_s_own_names_are_taken(page, host):
    assert (await page.get("/live", headers={"Host": host})).status_code == 200


async def test_where_all_addresses_are_listened_at_any_address_is_taken_and_no_name(standing):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with serving(standing, "0.0.0.0:0", TOKEN) as url:
        port = url.rpartition(":")[2]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, headers=headers) as client:
            assert (await client.get("/live", headers={"Host": "10.1.2.3:8600"})).status_code == 200
            assert (await client.get("/live", headers={"Host": "evil.example"})).status_code == 421


# ---- how


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "WHATEVER"])
async def test_only_reading_is_answered(page, standing, method):
    answer = await page.request(method, "/metrics")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert standing.refused("method") == 1


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_ten_megabytes_are_not_taken(page, standing, method):
    head = f"{method} /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n".encode()
    answer = await raw(page, head + bytes(10_000_000))
    assert answer == b"" or answer.startswith((b"HTTP/1.1 405", b"HTTP/1.1 413"))
    assert standing.refused("method" if method == "POST" else "body") == 1
    assert (await page.get("/live")).status_code == 200


async def test_a_body_in_pieces_is_refused(page, standing):
    answer = await raw(
        page, b"GET /live HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 413")
    assert standing.refused("body") == 1


POSTING = b"POST /api/control HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "rest", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"], ids=["short", "chunks"]
)
async def test_a_body_that_does_not_end_is_not_waited_for(page, standing, monkeypatch, rest):
    monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 0.5)
    assert await raw(page, POSTING + rest) == b""
    assert standing.refused("slow") == 1


@pytest.mark.parametrize("length", ["10000000", "9" * 40, "16385"])
async def test_a_body_that_is_said_to_be_large_is_not_begun_with(page, standing, length):
    answer = await raw(page, POSTING + f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
    assert b"100 Continue" not in answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /live HTTP/1.1\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 200_000,
        b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000,
    ],
    ids=["tls", "short", "no host", "two hosts", "long line", "long header"],
)
async def test_what_is_no_request_is_refused(page, standing, data):
    answer = await raw(page, data + b"\r\n\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert standing.refused("malformed") >= 1
    assert (await page.get("/live")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/metrics/../../x",
        "//etc/passwd",
        "/metrics%00",
        "/static/..\\x",
        "/assets/",
        "/assets/../guard.py",
        "/assets/..%2fguard.py",
        "/assets/%2e%2e/guard.py",
        "/assets/%2e%2e%2f%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/assets//etc/passwd",
        "/assets/app.js%00.css",
        "/metrics/",
        "/api/categories/1/",
    ],
)
async def test_there_is_nothing_but_what_there_is(page, path):
    answer = await raw(page, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/metrics", "/api/state", "/api/nothing", "/nothing"])
async def test_every_answer_keeps_the_browser_from_everything_else(page, path):
    headers = (await page.get(path)).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers.get_list("cache-control") in (["no-store"], ["no-cache"])
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_another_site_s_page_learns_nothing(page, standing, headers):
    answer = await page.get("/api/state", headers=headers)
    assert (answer.status_code, "unready" in answer.text) == (403, False)
    assert standing.refused("origin") == 1


async def test_a_link_from_elsewhere_leads_to_the_page(page):
    assert (await page.get("/", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 200


async def test_answers_are_not_kept_nor_guessed_at(page):
    answer = await page.head("/metrics")
    assert (answer.status_code, answer.text) == (200, "")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers


# ---- how many


async def held(client, count, data):
    """So many connections that send this and never read."""
    holding = []
    for _ in range(count):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect((client.base_url.host, client.base_url.port))
        one.setblocking(False)
        with contextlib.suppress(OSError):
            one.send(data)
        holding.append(one)
        await asyncio.sleep(0)
    return holding


ASKED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("data", [b"", b"GET /metr", ASKED * 50], ids=["silent", "half a request", "never reading"])
async def test_those_who_only_hold_on_do_not_keep_others_out(page, standing, data, monkeypatch):
    monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 48)
    monkeypatch.setattr(guard, "PACE_SECONDS", 0.0005)
    for number in range(64):
        standing.counted.task(number)  # too much for the buffers in between
    holding = await held(page, 200, data)
    try:
        for _ in range(3):
            assert (await page.get("/live", timeout=20)).status_code == 200
        assert standing.refused("crowded") > 0
        assert standing.refused("crowded") + standing.refused("slow") >= 200 - protocol.MOST_CONNECTIONS
        async with asyncio.timeout(20):
            while standing.refused("slow") < protocol.MOST_CONNECTIONS / 2:  # noqa: ASYNC110  # another thread's
                await asyncio.sleep(0.05)
    finally:
        for one in holding:
            one.close()


async def test_hammering_takes_its_own_time(page, monkeypatch):
    monkeypatch.setattr(guard, "PACE_SECONDS", 0.02)
    monkeypatch.setattr(guard, "BURST_SECONDS", 0.0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers = await asyncio.gather(*(page.get("/live") for _ in range(30)))
    assert all(answer.status_code == 200 for answer in answers)
    assert loop.time() - began >= 29 * 0.02 - 0.01


async def test_whoever_would_wait_too_long_is_refused_at_once(page, standing, monkeypatch):
    monkeypatch.setattr(guard, "PACE_SECONDS", 0.4)
    monkeypatch.setattr(guard, "BURST_SECONDS", 0.0)
    answers = await asyncio.gather(*(page.get("/live") for _ in range(6)))
    refused = [one for one in answers if one.status_code == 503]
    assert 6 - len(refused) in (3, 4), "those whose turn comes within a second"
    assert {one.headers["connection"] for one in refused} == {"close"}
    assert standing.refused("crowded") == len(refused)
    assert (await page.get("/api/state")).status_code == 200, "probes and pages wait apart"


def left(port, count):
    """So many who ask without a token and are gone at once."""
    for _ in range(count):
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=5) as one:
            one.sendall(b"GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_strangers_who_have_left_are_waited_for_by_nobody(locked, standing, monkeypatch):
    monkeypatch.setattr(guard, "PACE_SECONDS", 0.1)
    monkeypatch.setattr(guard, "BURST_SECONDS", 0.0)
    loop, headers = asyncio.get_running_loop(), {"Authorization": f"Bearer {TOKEN}"}
    await asyncio.to_thread(left, locked.base_url.port, 200)
    began = loop.time()
    assert (await locked.get("/live", headers=headers)).status_code == 200
    assert loop.time() - began < 3.0, "they would have had their turns for twenty seconds"
    assert standing.refused("failed") == 0


async def test_a_crowd_of_strangers_costs_nobody_his_place_who_has_shown_the_token(locked, standing, monkeypatch):
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 4)
    reader, writer = await asyncio.open_connection("127.0.0.1", locked.base_url.port)
    asked = f"GET /live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    for crowd in (20, 0):
        writer.write(asked)
        assert (await reader.readuntil(b"live\n")).startswith(b"HTTP/1.1 200")
        for one in await held(locked, crowd, b""):
            one.close()
    writer.close()
    assert standing.refused("crowded") > 0


async def test_strangers_who_wait_keep_nobody_waiting_who_has_the_token(locked, standing, monkeypatch):
    monkeypatch.setattr(guard, "PACE_SECONDS", 0.2)
    monkeypatch.setattr(guard, "BURST_SECONDS", 0.0)
    loop, headers = asyncio.get_running_loop(), {"Authorization": f"Bearer {TOKEN}"}
    strangers = [asyncio.create_task(locked.get(path)) for path in ("/live", "/", "/assets/app.js", "/api/state") * 3]
    while not standing.refused("crowded"):  # noqa: ASYNC110  # another thread's
        await asyncio.sleep(0.01)
    began = loop.time()
    for path in ("/live", "/api/state"):
        assert (await locked.get(path, headers=headers)).status_code == 200
    assert loop.time() - began < 0.6
    assert {one.status_code for one in await asyncio.gather(*strangers)} <= {200, 401, 503}


async def test_a_failure_of_ours_is_told_once_a_type(standing, caplog):
    refusals = Refusals(standing.counted)
    for error in (ValueError("one"), ValueError("two"), OSError("three")):
        refusals.failed(error, "/api/state")
    assert [type(record.exc_info[1]).__name__ for record in caplog.records] == ["ValueError", "OSError"]
    assert standing.refused("failed") == 3


async def test_a_refusal_is_told_once_a_kind(page, standing, caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(20):
        await page.post("/metrics")
        await page.get("/live", headers={"Host": "evil.example"})
    told = [record.reason for record in caplog.records]
    assert sorted(told) == ["host", "method"]
    assert (standing.refused("host"), standing.refused("method")) == (20, 20)


# ---- where


@pytest.mark.parametrize(
    ("address", "token", "told"),
    [
        ("nowhere", None, "must be HOST:PORT"),
        ("127.0.0.1:", None, "must be HOST:PORT"),
        (":8600", None, "must be HOST:PORT"),
        ("127.0.0.1:65536", None, "must be HOST:PORT"),
        ("127.0.0.1:-1", None, "must be HOST:PORT"),
        ("192.0.2.1:8600", TOKEN, "--page-address 192.0.2.1:8600: "),
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
