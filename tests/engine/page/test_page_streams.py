"""The event stream: one message a second for all who listen, and nobody who does not read is felt by anybody."""

import asyncio
import contextlib
import socket
import time

import httpx
import msgspec
import pytest
from open_pages import RunningPage, ShownPage, feature_tree, stopped_of
from starlette.requests import Request
from worlds import json_lines, stream

from speciate.page import feed, pace, protocol, server
from speciate.page.asking import StuckError
from speciate.page.feed import Feed
from speciate.page.overview import Overview
from speciate.page.pace import Pace
from speciate.page.protocol import CONNECTION
from speciate.page.stopped import Stopped
from speciate_schemas import ControlApplied, Rejection
from speciate_schemas.page import Refused, StateView, Tidings

EVENTS = 120
LISTEN = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    """Ten messages a second, and no waiting for a turn."""
    monkeypatch.setattr(feed, "SECONDS", 0.1)
    monkeypatch.setattr(pace, "PACE_SECONDS", 0.0001)
    monkeypatch.setattr(Pace, "charge", lambda *_: None)


@contextlib.contextmanager
def listening(page):
    """Messages, as they come."""
    with page.client.stream("GET", "/api/events") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"

        def messages():
            kind = None
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    assert kind == "tidings"
                    yield msgspec.json.decode(value, type=Tidings, strict=True)

        yield messages()


def test_whoever_comes_late_is_told_what_was_born_and_then_what_is_new(tmp_path):
    with RunningPage(feature_tree(tmp_path, EVENTS)) as live:
        before = live.answered(EVENTS)
        with listening(live) as messages:
            greeting = next(messages)
            assert greeting.state.answered == EVENTS
            assert len(greeting.births) == before["births"]
            assert _done(greeting.controls) == ["RenameCategory", "MergeCategories"]
            assert [one.answer.id for one in greeting.controls if isinstance(one.answer, Rejection)] == ["f"]
            assert (greeting.assignments, greeting.skipped) == ([], 0)
            with (tmp_path / "in.jsonl").open("ab") as file:
                file.write(json_lines([*stream(60, seed=5, start=1000), b"{"]))
            found, born = [], 0
            while not found or found[-1].state.answered < EVENTS + 61:
                found.append(next(messages))
            while sum(_told(one) + one.skipped for one in found) < 61:
                found.append(next(messages))
            born = sum(len(one.births) for one in found)
            assert sum(_told(one) + one.skipped for one in found) == 61
            assert sum(len(one.rejections) for one in found) == 1
            assert {told.task for one in found for told in (*one.births, *one.rejections, *one.assignments)} == {0}
            assert found[-1].state.births == before["births"] + born
            assert all(len(one.assignments) <= 20 for one in found)


def test_the_last_that_is_told_is_that_it_ends(tmp_path):
    with RunningPage(feature_tree(tmp_path, EVENTS)) as live:
        live.answered(EVENTS)
        with listening(live) as messages:
            found = [next(messages)]
            live.loop.call_soon_threadsafe(live.pipeline.stop)
            with contextlib.suppress(httpx.RemoteProtocolError, httpx.ReadError):
                found.extend(messages)
        assert (found[-1].state.condition, found[-1].state.unready) == ("stopping", ["stopping"])
        assert found[-1].state.universes


def _done(controls):
    return [type(one.answer.control).__name__ for one in controls if isinstance(one.answer, ControlApplied)]


def _told(one):
    return len(one.births) + len(one.controls) + len(one.rejections) + len(one.assignments)


def test_a_state_that_does_not_change_is_told_all_the_same(tmp_path):
    tree = feature_tree(tmp_path, 50)
    with RunningPage(tree) as live:
        live.answered(50)
    with ShownPage(stopped_of(tree)) as shown, listening(shown) as messages:
        first, second = next(messages), next(messages)
        assert not first.state.running
        assert second.state.time > first.state.time
        assert (second.births, second.skipped) == ([], 0)


def test_one_listener_too_many_is_refused_and_told_when_to_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr(feed, "MOST_STREAMS", 2)
    with RunningPage(feature_tree(tmp_path, 50)) as live, listening(live) as one, listening(live) as two:
        assert next(one).state.title == next(two).state.title == "a test"
        answer = live.client.get("/api/events")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert "2 listen" in msgspec.json.decode(answer.content, type=Refused).error
        assert live.refused("streams") == 1
        assert live.client.head("/api/events").status_code == 200


def test_a_place_is_free_again_when_a_listener_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr(feed, "MOST_STREAMS", 1)
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        for _ in range(3):
            with listening(live) as messages:
                next(messages)
            live.client.close()
            live.client = httpx.Client(base_url=live.url, trust_env=False, timeout=20)
            live.until(lambda: live.client.head("/api/events").status_code == 200)
            time.sleep(0.3)
        assert live.refused("streams") == 0


class Gone:
    """A connection whose other side has left."""

    is_gone = True


async def test_whoever_has_left_is_no_listener():
    stopped = Stopped("a test", [])
    told = Feed(stopped, Overview(stopped))
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "extensions": {CONNECTION: Gone()}})
    sent = []

    async def send(message):
        sent.append(message["type"])

    async def receive():
        assert told.streams == set()
        return {"type": "http.disconnect"}

    await (await told.answer(request))(request.scope, receive, send)
    assert sent == ["http.response.start", "http.response.body"]


async def test_a_feed_that_fails_again_after_it_went_says_so_again(caplog):
    stopped, left = Stopped("a test", []), ["fail", "fail", "go", "fail"]
    view = await stopped.state()

    class Failing:
        async def state(self):
            if left and left.pop(0) == "fail":
                raise ValueError
            return view

    telling = asyncio.create_task(Feed(stopped, Failing()).run())
    while left:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.02)
    telling.cancel()
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2


async def test_of_a_pipeline_that_is_not_come_to_the_last_state_is_told_and_that_it_waits(monkeypatch):
    monkeypatch.setattr(feed, "SECONDS", 0.02)
    stopped = Stopped("a test", [])
    views = [msgspec.structs.replace(await stopped.state(), condition="running", events_per_second=9.0, answered=7)]

    class Stuck:
        async def state(self):
            if not views:
                raise StuckError("it does not turn")
            return views.pop()

    told = Feed(stopped, Stuck())
    telling = asyncio.create_task(told.run())
    async with asyncio.timeout(20):
        while (state := await told.state()).condition == "running":  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)
    telling.cancel()
    assert (state.condition, state.unready, state.events_per_second, state.answered) == (
        "waiting",
        ["it does not turn"],
        0.0,
        7,
    )


def test_listeners_outlast_the_deadline_of_a_request_and_any_crowd(tmp_path, monkeypatch):
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.answered(50)  # from here on nobody who begins to listen waits for anything
        monkeypatch.setattr(protocol, "PATIENCE_SECONDS", 3.0)
        monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 4)
        with listening(live) as messages:
            began = time.monotonic()
            crowd = [socket.create_connection(("127.0.0.1", httpx.URL(live.url).port)) for _ in range(20)]
            while time.monotonic() - began < 6.0:
                assert next(messages).state.running
            live.until(lambda: next(messages).state.running and live.refused("crowded") > 0)
            for one in crowd:
                one.close()


def test_a_thousand_who_never_read_are_given_up_and_felt_by_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(feed, "SECONDS", 0.02)
    monkeypatch.setattr(protocol, "STREAM_BYTES", 8 << 10)
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.answered(50)
        with listening(live) as messages:
            next(messages)
            holding = asyncio.run(_held(httpx.URL(live.url).port, 1000))
            try:
                # Who is given up makes room for another: how many are refused at once depends on who is quicker.
                ways = ("streams", "crowded", "slow")
                live.until(lambda: next(messages).state.running and sum(map(live.refused, ways)) >= 980)
                live.until(lambda: next(messages) and live.refused("slow") >= feed.MOST_STREAMS - 20)
                state = live.client.get("/api/state")
                assert msgspec.json.decode(state.content, type=StateView).unready == []
                with (tmp_path / "in.jsonl").open("ab") as file:
                    file.write(json_lines(stream(30, seed=5, start=1000)))
                live.until(lambda: next(messages).state.answered == 80)
            finally:
                for one in holding:
                    one.close()


async def _held(port, count):
    """So many who ask for the stream and never read."""
    holding = []
    for _ in range(count):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.connect(("127.0.0.1", port))
        one.setblocking(False)
        with contextlib.suppress(OSError):
            one.send(LISTEN)
        holding.append(one)
        await asyncio.sleep(0.001)
    return holding


def test_a_run_ends_at_once_whoever_listens(tmp_path, monkeypatch):
    # Whoever is waited for is waited for longer than any machine stands still.
    monkeypatch.setattr(server, "LEAVING_SECONDS", 60)
    monkeypatch.setattr(server, "STOP_SECONDS", 120.0)
    live = RunningPage(feature_tree(tmp_path, 50))
    with live:
        streams = [socket.create_connection(("127.0.0.1", httpx.URL(live.url).port)) for _ in range(5)]
        for one in streams:
            one.sendall(LISTEN)
            one.settimeout(30)
            assert b"200 OK" in one.recv(4096)
        began = time.monotonic()
    assert time.monotonic() - began < 30.0
    for one in streams:
        with contextlib.suppress(ConnectionError):
            while one.recv(65536):
                pass
        one.close()
