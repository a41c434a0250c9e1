"""Hostile requests over real sockets: refused, counted, told once, and nobody else feels them."""

import asyncio
import logging
import re
from typing import get_args

import pytest
from standing_pages import TOKEN, raw

from speciate.metrics import LABELS
from speciate.page import protocol
from speciate.page.pace import Pace
from speciate.page.refusals import Reason, Refusals

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


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_with_the_token_all_is_told(locked, scheme):
    answer = await locked.get("/metrics", headers={"Authorization": f"{scheme} {TOKEN}"})
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


async def test_whoever_leaves_in_the_midst_of_a_body_has_failed_and_not_we(page, standing, caplog, monkeypatch):
    ended = []
    monkeypatch.setattr(Pace, "charge", lambda *_: ended.append(1))
    for rest in (b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
        _, writer = await asyncio.open_connection(page.base_url.host, page.base_url.port)
        writer.write(POSTING + rest)
        writer.close()
        await writer.wait_closed()
    async with asyncio.timeout(30):
        while len(ended) < 2:  # noqa: ASYNC110  # another thread's
            await asyncio.sleep(0.01)
    assert standing.refused("failed") == 0
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_body_with_two_lengths_is_refused_and_what_follows_is_not_taken(page, standing):
    smuggled = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = POSTING + f"Content-Length: {5 + len(smuggled)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode()
    answer = await raw(page, head + smuggled)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"live\n" not in answer
    assert answer.count(b"HTTP/1.1") == 1
    assert standing.refused("malformed") == 1


@pytest.mark.parametrize(
    "rest",
    [
        b" HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000,
        b" HTTP/1.1\r\nHost: localhost" + b"".join(b"\r\nX-%d: %s" % (n, b"a" * 8) for n in range(1500)),
        b"?" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost",
    ],
    ids=["a long one", "many", "a long address"],
)
async def test_headers_that_are_too_large_are_refused_also_if_they_come_at_once(page, standing, rest):
    answer = await raw(page, b"GET /live" + rest + b"\r\n\r\n")
    # It is for the system in between to say whether they do.
    assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))
    assert standing.refused("headers") + standing.refused("malformed") == 1
    most = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"a" * 16_000
    assert (await raw(page, b"GET /live" + most + b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


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


# ---- told


def test_every_reason_is_in_the_table_of_metrics():
    """Those are all: the type of what is counted says so, and mypy holds the code to it."""
    assert sorted(re.findall(r"`(\w+)`", LABELS["reason"])) == sorted(get_args(Reason))


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
