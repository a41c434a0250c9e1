"""Crowds over real sockets: whoever holds on, hammers, leaves or waits is felt by nobody else."""

import asyncio
import contextlib
import socket
import struct

import httpx
import pytest
from standing_pages import TOKEN

from speciate.page import pace, protocol, serving
from speciate.page.costs import Cost
from speciate.page.pace import Pace

ASKED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def _uncharged(monkeypatch):
    """What requests cost does not matter, however slow the machine."""
    monkeypatch.setattr(Pace, "charge", lambda *_: None)


@pytest.fixture
def _one_by_one(monkeypatch):
    """The first is taken at once, the second after a long time, and there is no room for a third."""
    monkeypatch.setattr(pace, "PACE_SECONDS", 40.0)
    monkeypatch.setattr(pace, "BURST_SECONDS", 0.0)
    monkeypatch.setattr(pace, "QUEUE_SECONDS", 60.0)
    monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 120.0)


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


@pytest.mark.usefixtures("_uncharged")
@pytest.mark.parametrize("data", [b"", b"GET /metr", ASKED * 50], ids=["silent", "half a request", "never reading"])
async def test_those_who_only_hold_on_do_not_keep_others_out(page, standing, data, monkeypatch):
    monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 5.0)  # which we have ourselves as well
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 48)
    monkeypatch.setattr(pace, "PACE_SECONDS", 0.0005)
    for number in range(64):
        standing.counted.task(number)  # too much for the buffers in between
    holding = await held(page, 200, data)
    try:
        for _ in range(3):
            assert (await page.get("/live", timeout=20)).status_code == 200
        assert standing.refused("crowded") > 0
        assert standing.refused("crowded") + standing.refused("slow") >= 200 - protocol.MOST_CONNECTIONS
        await standing.until_refused("slow", protocol.MOST_CONNECTIONS / 2)
    finally:
        for one in holding:
            one.close()


async def test_hammering_takes_its_own_time(page, monkeypatch):
    monkeypatch.setattr(pace, "PACE_SECONDS", 0.02)
    monkeypatch.setattr(pace, "BURST_SECONDS", 0.0)
    monkeypatch.setattr(pace, "QUEUE_SECONDS", 60.0)
    monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 60.0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers = await asyncio.gather(*(page.get("/live", timeout=60) for _ in range(30)))
    assert all(answer.status_code == 200 for answer in answers)
    assert loop.time() - began >= 29 * 0.02 - 0.01


async def test_what_a_request_takes_of_the_processor_s_time_is_made_up_for(page, monkeypatch):
    charged = []
    monkeypatch.setattr(Pace, "charge", lambda _, seconds: charged.append(seconds))
    for path in ("/live", "/", "/nothing"):
        await page.get(path)
    async with asyncio.timeout(20):
        while len(charged) < 3:  # noqa: ASYNC110  # another thread's
            await asyncio.sleep(0.01)
    assert all(0.0 < seconds < 5.0 for seconds in charged)


async def test_whoever_takes_a_lot_of_the_processor_s_time_is_put_off(standing, monkeypatch):
    monkeypatch.setattr(Cost, "take", lambda _: 100.0)
    opening = serving(standing, "127.0.0.1:0", TOKEN)
    async with opening as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        for path, headers in (("/live", KNOWN), ("/api/state", KNOWN), ("/live", {})):
            answers = [(await client.get(path, headers=headers)).status_code]
            async with asyncio.timeout(20):
                while answers[-1] != 503:  # it is charged once it has been answered
                    answers.append((await client.get(path, headers=headers)).status_code)
            assert answers[0] == (200 if headers else 401), "each kind has a share of its own"


@pytest.mark.usefixtures("_one_by_one")
async def test_whoever_would_wait_too_long_is_refused_at_once(page, standing, monkeypatch):
    charged = []
    monkeypatch.setattr(Pace, "charge", lambda _, seconds: charged.append(seconds))
    asking = [asyncio.create_task(page.get("/live")) for _ in range(6)]
    await standing.until_refused("crowded", 4)
    answered, waiting = set(), set(asking)
    async with asyncio.timeout(20):
        while len(waiting) > 1:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answered |= done
    answers = [one.result() for one in answered]
    assert sorted(one.status_code for one in answers) == [200, 503, 503, 503, 503]
    assert {one.headers["connection"] for one in answers if one.status_code == 503} == {"close"}
    assert standing.refused("crowded") == 4
    async with asyncio.timeout(20):
        while not charged:  # noqa: ASYNC110  # another thread's, once it has answered
            await asyncio.sleep(0.01)
    assert len(charged) == 1, "a crowd that is refused does not put off the next turn"
    assert (await page.get("/api/state")).status_code == 200, "probes and pages wait apart"
    waiting.pop().cancel()


def left(port, count):
    """So many who ask without a token and are gone at once."""
    for _ in range(count):
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(b"GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.usefixtures("_one_by_one")
async def test_strangers_who_have_left_are_waited_for_by_nobody(locked, standing):
    await asyncio.to_thread(left, locked.base_url.port, 200)
    assert (await locked.get("/live", headers=KNOWN, timeout=20)).status_code == 200
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
    await standing.until_refused("crowded")


@pytest.mark.usefixtures("_one_by_one")
async def test_strangers_who_wait_keep_nobody_waiting_who_has_the_token(locked, standing):
    strangers = [asyncio.create_task(locked.get(path)) for path in ("/live", "/", "/assets/app.js", "/api/state") * 3]
    await standing.until_refused("crowded", 10)
    for path in ("/live", "/api/state"):
        assert (await locked.get(path, headers=KNOWN, timeout=20)).status_code == 200
    assert sum(not one.done() for one in strangers) >= 1, "their turns are still to come"
    for one in strangers:
        one.cancel()
    assert {
        one.status_code for one in await asyncio.gather(*strangers, return_exceptions=True) if hasattr(one, "url")
    } <= {
        200,
        401,
        503,
    }
