"""By hand: what is sent from the page takes effect in its turn, is told, and survives; what is hostile does nothing."""

import asyncio
import contextlib
import shutil
import threading

import httpx
import msgspec
import pytest
from open_pages import RunningPage, ShownPage, feature_tree, stopped_of
from worlds import make_pipeline, outputs

from speciate.errors import AwayError
from speciate.page import api
from speciate.page import live as live_page
from speciate_schemas.page import ControlSent, Refused

pytestmark = pytest.mark.usefixtures("_patient")

EVENTS = 120
RENAME = {"type": "rename.v1", "id": "page-1", "category": 0, "label": "pallet jack"}
ASKED = {"control": RENAME}
FORGET = {"type": "forget.v1", "id": "page-2", "category": 0}


def label_of(page, category):
    return page.client.get(f"/api/categories/{category}").json().get("card", {}).get("label")


def test_a_category_is_renamed_merged_and_brought_back_by_hand(tmp_path):
    tree = feature_tree(tmp_path, EVENTS)
    hostile = "<script>alert('x')</script>"
    with RunningPage(tree) as live:
        live.answered(EVENTS)

        def sent(**control):
            answer = live.client.post("/api/control", json={"control": control, "task": 0})
            assert answer.status_code == 202, answer.text
            place = msgspec.json.decode(answer.content, type=ControlSent)
            assert place.id == control["id"]
            assert str(tmp_path) in place.place

        sent(**RENAME | {"label": hostile})
        live.until(lambda: label_of(live, 0) == hostile)
        card = live.client.get("/api/categories", params={"search": "<SCRIPT>"})
        assert card.headers["content-type"] == "application/json"
        assert [one["id"] for one in card.json()["categories"]] == [0]
        sent(type="merge.v1", id="page-m", keep=0, absorb=1)
        live.until(lambda: live.client.get("/api/categories/1").status_code == 404)
        answer = live.client.post("/api/control", json={"control": RENAME | {"id": "page-9", "category": 1}})
        assert answer.status_code == 404
        sent(type="undo.v1", id="page-u")
        live.until(lambda: live.client.get("/api/categories/1").status_code == 200)
    with ShownPage(stopped_of(tree)) as shown:
        assert (label_of(shown, 0), label_of(shown, 1)) == (hostile, "bee")
    answers = [msgspec.json.decode(line) for line in (tmp_path / "out" / "answers.jsonl").read_bytes().splitlines()]
    applied = [one["id"] for one in answers if one["type"] == "control.v1" and one["id"].startswith("page")]
    assert applied == ["page-1", "page-m", "page-u"]


HOSTILE = {
    "no JSON": (400, {"content": b"{", "headers": {"Content-Type": "application/json"}}),
    "nothing": (400, {"content": b"", "headers": {"Content-Type": "application/json"}}),
    "no text": (400, {"content": b'{"control": "\xff\xfe"}', "headers": {"Content-Type": "application/json"}}),
    "deep": (400, {"content": b"[" * 10_000, "headers": {"Content-Type": "application/json"}}),
    "a list": (400, {"json": [RENAME]}),
    "no control": (400, {"json": {"task": 0}}),
    "another type": (400, {"json": {"control": {**RENAME, "type": "assignment.v1"}}}),
    "a wrong type": (400, {"json": {"control": {**RENAME, "category": "0"}}}),
    "a negative one": (400, {"json": {"control": {**RENAME, "category": -1}}}),
    "one field more": (400, {"json": {"control": RENAME, "admin": True}}),
    "a long label": (400, {"json": {"control": {**RENAME, "label": "x" * 10_000}}}),
    "no label": (400, {"json": {"control": {**RENAME, "label": ""}}}),
    "with itself": (400, {"json": {"control": {"type": "merge.v1", "id": "m", "keep": 1, "absorb": 1}}}),
    "an unknown category": (404, {"json": {"control": {**RENAME, "category": 99}}}),
    "an unknown task": (404, {"json": {"control": RENAME, "task": 7}}),
    "a form": (415, {"data": {"control": "x"}}),
    "plain text": (
        415,
        {"content": msgspec.json.encode({"control": FORGET}), "headers": {"Content-Type": "text/plain"}},
    ),
    "another site": (403, {"json": {"control": FORGET}, "headers": {"Origin": "http://evil.example"}}),
    "no site at all": (403, {"json": {"control": FORGET}, "headers": {"Origin": "null"}}),
    "another port": (403, {"json": {"control": FORGET}, "headers": {"Origin": "http://127.0.0.1:1"}}),
    "cross-site": (403, {"json": {"control": FORGET}, "headers": {"Sec-Fetch-Site": "cross-site"}}),
    "same-site": (403, {"json": {"control": FORGET}, "headers": {"Sec-Fetch-Site": "same-site"}}),
    "another host": (421, {"json": {"control": FORGET}, "headers": {"Host": "evil.example"}}),
    "ten megabytes": (413, {"content": bytes(10_000_000), "headers": {"Content-Type": "application/json"}}),
    "a little too much": (413, {"content": b" " * 16_385, "headers": {"Content-Type": "application/json"}}),
    "too much in pieces": (
        413,
        {"content": (b" " * 1000 for _ in range(10_000)), "headers": {"Content-Type": "application/json"}},
    ),
}


def test_hostile_requests_are_refused_counted_told_once_and_change_nothing(tmp_path, caplog):
    tree = feature_tree(tmp_path, EVENTS)
    asyncio.run(make_pipeline({**tree, "source": {**tree["source"], "follow": False}}).run())
    undisturbed = outputs(tmp_path)
    shutil.rmtree(tmp_path / "out")
    with RunningPage(tree) as live:
        live.answered(EVENTS)
        for name, (status, request) in HOSTILE.items():
            try:
                answer = live.client.post("/api/control", **request)
            except httpx.TransportError:
                assert status == 413, name  # hung up on in the midst of it
                continue
            assert answer.status_code == status, (name, answer.text)
            assert msgspec.json.decode(answer.content, type=Refused).error, name
        for method in ("GET", "PUT", "DELETE"):
            assert live.client.request(method, "/api/control").status_code == 405
        kinds = ("invalid", "unknown", "type", "origin", "host", "body", "method")
        counted = {kind: live.refused(kind) for kind in kinds}
    assert counted == {"invalid": 13, "unknown": 2, "type": 2, "origin": 5, "host": 1, "body": 3, "method": 3}
    told = [record.reason for record in caplog.records if "refused" in record.message and hasattr(record, "reason")]
    assert sorted(told) == sorted(kinds)
    assert not (tmp_path / "out" / "state" / "controls.log").exists()
    assert outputs(tmp_path) == undisturbed


@contextlib.contextmanager
def busy(live):
    """Within it the head does something else."""
    begun, may_end = threading.Event(), threading.Event()
    look = live.pipeline.look_into(0, None, lambda _: begun.set() or may_end.wait(60))
    looking = asyncio.run_coroutine_threadsafe(look, live.loop)
    assert begun.wait(30)
    try:
        yield
    finally:
        may_end.set()
        assert looking.result(30)


def test_a_head_that_is_busy_is_not_waited_for(tmp_path, monkeypatch):
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.until(lambda: live.client.get("/api/state").json().get("universes"))
        monkeypatch.setattr(live_page, "PATIENCE_SECONDS", 0.2)
        live.pipeline.send = lambda *_: asyncio.sleep(20.0)
        # A slow machine may not even come to the check in so short a time.
        answer = live.until(lambda: "sent it" in (one := live.client.post("/api/control", json=ASKED)).text and one)
        assert (answer.status_code, "look before you send it again" in answer.json()["error"]) == (503, True)
        with busy(live):
            answer = live.client.get("/api/categories")
            assert answer.status_code == 503
            assert answer.json() == {"error": "for 0.2 s the pipeline has not come to it: try again"}
            assert live.refused("stuck") >= 2
            assert live.client.get("/api/state").json()["running"]
            assert live.client.get("/ready").status_code == 200
        live.until(lambda: live.client.get("/api/categories").status_code == 200)


def test_an_answer_that_takes_too_long_is_given_up_while_somebody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "ANSWER_SECONDS", 0.2)
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.until(lambda: live.client.get("/ready").status_code == 200)
        with busy(live):
            answer = live.client.get("/api/categories/1")
            assert answer.status_code == 503
            assert answer.json() == {"error": "for 0.2 s the pipeline has not answered: try again"}


def test_what_the_world_refuses_us_is_told_and_counted(tmp_path, caplog):
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.until(lambda: live.client.get("/api/state").json().get("universes"))

        async def fail(*_):
            raise AwayError("no answer from the broker")

        live.pipeline.send = fail
        answer = live.until(lambda: "broker" in (one := live.client.post("/api/control", json=ASKED)).text and one)
        assert (answer.status_code, answer.json()) == (503, {"error": "no answer from the broker"})
        assert live.refused("failed") == 1
    told = [record.error for record in caplog.records if getattr(record, "reason", "") == "failed"]
    assert told == ["no answer from the broker"]


def test_what_a_browser_says_of_our_own_page_is_taken(tmp_path):
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.until(lambda: live.client.get("/api/state").json().get("universes"))
        for number, site in enumerate(("same-origin", "none")):
            control, own = {**RENAME, "id": f"page-{number}"}, {"Origin": live.url, "Sec-Fetch-Site": site}
            assert live.client.post("/api/control", json={"control": control}, headers=own).status_code == 202
