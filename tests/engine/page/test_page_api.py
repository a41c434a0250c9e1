"""Every route, of a pipeline that runs and of the state that it left: the same answers, and each just its struct."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from open_pages import RunningPage, ShownPage, be_patient, feature_tree, stopped_of, told
from worlds import json_lines, stream

from speciate.page import meter
from speciate.page.overview import Overview
from speciate.page.stopped import Stopped
from speciate_schemas.page import (
    CategoryPage,
    CategoryView,
    Refused,
    StateView,
    Suggestions,
    TimelineView,
)

EVENTS = 120


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What a live page said of a stream, and the page of the state behind it."""
    tree = feature_tree(tmp_path_factory.mktemp("features"), EVENTS)
    with _patient(), RunningPage(tree) as live:
        # What is known of the categories is brought up to date after the count of what was answered.
        live.until(lambda: [one["sequence"] for one in live.answered(EVENTS)["universes"]] == [EVENTS])
        said = {kind: told(live, path, kind) for kind, path in ROUTES.items()}
    with _patient(), ShownPage(stopped_of(tree)) as page:
        yield said, page


@contextmanager
def _patient():
    """However slow the machine is, all was answered in the last seconds, and all that is asked for is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meter, "WINDOW_SECONDS", 600.0)
        be_patient(patch)
        yield


ROUTES = {
    StateView: "/api/state",
    TimelineView: "/api/timeline",
    CategoryPage: "/api/categories",
    CategoryView: "/api/categories/1",
    Suggestions: "/api/suggestions",
}


@pytest.mark.parametrize("kind", [TimelineView, CategoryPage, CategoryView, Suggestions])
def test_a_state_is_shown_as_it_was_when_it_ran(kept, kind):
    said, page = kept
    assert told(page, ROUTES[kind], kind) == said[kind]


def test_the_state_says_how_it_is(kept):
    said, page = kept
    live, stopped = said[StateView], told(page, "/api/state", StateView)
    assert (live.running, live.uncontrollable, live.unready) == (True, "", [])
    assert (stopped.running, stopped.lag, stopped.stages) == (False, None, {})
    assert (live.condition, stopped.condition) == ("running", "stopped")
    assert "--page" in stopped.uncontrollable
    assert list(live.stages) == ["source", "head", "sink"]
    for shares in live.stages.values():
        assert sum(shares.values()) == pytest.approx(1.0)
    assert live.suggests
    assert live.answered == stopped.answered == EVENTS
    for name in ("assigned", "births", "rejected", "controls", "universes"):
        assert getattr(live, name) == getattr(stopped, name), name
    assert live.rejected == 5
    assert live.controls == 2
    assert live.lag == 0
    assert live.latency_p99 >= live.latency_p50 > 0
    (universe,) = live.universes
    assert (universe.task, universe.stream, universe.known, universe.sequence) == (0, None, 2, EVENTS)


def test_the_timeline_adds_up(kept):
    said, _ = kept
    timeline, state = said[TimelineView], said[StateView]
    parts = -(-timeline.sequence // timeline.width)
    for name in ("events", "births", "categories", "margin_low", "margin_middle", "margin_high", "times"):
        assert len(getattr(timeline, name)) == parts, name
    assert sum(timeline.events) == state.assigned
    assert sum(timeline.births) == state.births
    assert timeline.categories[-1] == state.universes[0].categories
    for low, middle, high in zip(timeline.margin_low, timeline.margin_middle, timeline.margin_high, strict=True):
        assert low is None or low <= middle <= high
    assert [mark.sequence for mark in timeline.marks] == sorted(mark.sequence for mark in timeline.marks)


def test_categories_are_told_with_what_they_are(kept):
    said, _ = kept
    page = said[CategoryPage]
    assert page.total == page.matching == len(page.categories)
    renamed = next(one for one in page.categories if one.id == 1)
    assert (renamed.label, renamed.known, renamed.born) == ("bee", True, None)
    assert sum(one.seen for one in page.categories) == said[StateView].assigned
    for one in page.categories:
        assert sum(one.activity) == one.seen
        assert one.spread > 0
        assert len(one.exemplars) == min(8, one.seen)
        assert all(exemplar.thumbnail is None for exemplar in one.exemplars)
    assert [one.count for one in page.categories] == sorted((one.count for one in page.categories), reverse=True)


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"kind": "known"}, lambda one: one["known"]),
        ({"kind": "born"}, lambda one: not one["known"]),
        ({"search": "BE"}, lambda one: one["label"] == "bee"),
        ({"search": "1"}, lambda one: one["id"] == 1),
        ({"search": "#1"}, lambda one: one["id"] == 1),
        ({"search": "no such"}, lambda _: False),
    ],
)
def test_categories_are_found(kept, parameters, wanted):
    _, page = kept
    everything = page.client.get("/api/categories").json()["categories"]
    found = told(page, "/api/categories", CategoryPage, **parameters)
    assert {one.id for one in found.categories} == {one["id"] for one in everything if wanted(one)}
    assert found.matching == len(found.categories)
    assert found.total == len(everything)


def test_pages_follow_one_another(kept):
    _, page = kept
    whole = [one.id for one in told(page, "/api/categories", CategoryPage, sort="id", order="asc").categories]
    assert whole == sorted(whole)
    pieces = [
        [
            one.id
            for one in told(page, "/api/categories", CategoryPage, sort="id", order="asc", limit=1, offset=n).categories
        ]
        for n in range(len(whole) + 1)
    ]
    assert pieces == [*([one] for one in whole), []]


def test_a_category_is_drawn_on_one_plane_with_all_it_has(kept):
    said, _ = kept
    view = said[CategoryView]
    assert view.card.id == 1
    assert len(view.members) == min(32, view.card.seen)
    places = np.array([(one.x, one.y) for one in view.members])
    assert np.allclose(places.mean(axis=0), 0.0, atol=1e-5)
    assert 0 < view.explained[1] <= view.explained[0] <= 1
    assert view.ellipse.major >= view.ellipse.minor > 0
    inside = [_within(view.ellipse, x, y) for x, y in places]
    assert np.mean(inside) > 0.6
    assert view.ellipse_before.major > 0
    assert [spot.sequence for spot in view.trail] == sorted(spot.sequence for spot in view.trail)
    assert _within(view.ellipse, view.trail[-1].x, view.trail[-1].y)
    assert 1 not in [one.category for one in view.nearest]
    assert [one.log_density for one in view.nearest] == sorted((one.log_density for one in view.nearest), reverse=True)
    assert all(1 in (one.keep, one.absorb) for one in view.suggestions)


def _within(ellipse, x, y):
    along = (x - ellipse.x) * np.cos(ellipse.angle) + (y - ellipse.y) * np.sin(ellipse.angle)
    across = (y - ellipse.y) * np.cos(ellipse.angle) - (x - ellipse.x) * np.sin(ellipse.angle)
    return (along / ellipse.major) ** 2 + (across / ellipse.minor) ** 2 <= 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/categories/99", 404),
        ("/api/categories/x", 404),
        ("/api/categories/-1", 404),
        (f"/api/categories/{'9' * 5000}", 404),
        ("/api/thumbnails/1/1", 404),
        ("/api/thumbnails/1/x", 404),
        ("/api/nothing", 404),
        ("/api/timeline?task=1", 404),
        ("/api/timeline?stream=cam", 404),
        ("/api/categories?task=-1", 400),
        ("/api/categories?task=x", 400),
        (f"/api/categories?task={'9' * 5000}", 400),
        ("/api/categories?limit=0", 400),
        ("/api/categories?limit=201", 400),
        ("/api/categories?limit=1e3", 400),
        ("/api/categories?offset=-1", 400),
        ("/api/categories?sort=size", 400),
        ("/api/categories?kind=any", 400),
        ("/api/categories?order=up", 400),
        ("/api/categories?colour=red", 400),
        (f"/api/categories?search={'x' * 1000}", 400),
        ("/api/categories?task=1e3", 400),
        ("/api/categories?task=%200", 400),
        ("/api/categories?task=0.0", 400),
        ("/api/categories?task=%D9%A1", 400),
        ("/api/categories?task=0&task=0", 400),
        ("/api/categories?sort=id&sort=count", 400),
        ("/api/state?x=1", 400),
        ("/api/events?x=1", 400),
        ("/api/state?stream=x", 400),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(kept, path, status):
    _, page = kept
    refused = told(page, path, Refused, status)
    assert refused.error
    assert "\n" not in refused.error


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/metrics", "/live", "/ready"])
def test_a_parameter_is_refused_where_there_is_none(kept, path):
    _, page = kept
    assert page.client.get(path).status_code == 200
    assert page.client.get(path, params={"x": "1"}).status_code == 400


def test_a_set_that_has_no_stream_of_its_own_is_not_asked_for_by_one(tmp_path):
    with RunningPage(feature_tree(tmp_path, 50)) as live:
        live.answered(50)
        told(live, "/api/categories", CategoryPage)
        for path in ("/api/categories", "/api/timeline", "/api/categories/1", "/api/suggestions"):
            for stream in ("", "cam", "made up"):
                assert told(live, path, Refused, 404, stream=stream).error


def test_a_page_far_behind_the_end_is_empty(kept):
    _, page = kept
    found = told(page, "/api/categories", CategoryPage, offset=10**12)
    assert (found.categories, found.matching > 0) == ([], True)


def test_nothing_of_a_state_can_be_changed(kept):
    _, page = kept
    before = page.client.get("/api/categories").content
    answer = page.client.post("/api/control", json={"control": {"type": "forget.v1", "id": "f", "category": 1}})
    assert answer.status_code == 409
    assert "--page" in msgspec.json.decode(answer.content, type=Refused).error
    assert page.client.get("/api/categories").content == before


def test_a_state_is_live_ready_and_has_metrics(kept):
    _, page = kept
    assert page.client.get("/ready").text == "ready\n"
    assert page.client.get("/live").text == "live\n"
    assert "speciate_build_info" in page.client.get("/metrics").text


def test_what_does_not_run_is_looked_at_once(tmp_path, monkeypatch):
    be_patient(monkeypatch)
    tree = feature_tree(tmp_path, run={"universe": "stream"})
    with RunningPage(tree) as live:
        live.answered(120)
    stopped, looks = stopped_of(tree), []
    look = stopped.look
    stopped.look = lambda where, function: looks.append(where) or look(where, function)

    async def asked():
        one = Overview(stopped)
        return [await one.state() for _ in range(4)][-1]

    assert sorted(one.stream for one in asyncio.run(asked()).universes) == sorted(where.stream for where in looks)


def test_known_categories_are_counted_also_where_nothing_else_is_known_of_them(tmp_path, monkeypatch):
    be_patient(monkeypatch)
    tree = feature_tree(tmp_path, EVENTS)
    with RunningPage(tree) as live:
        live.answered(EVENTS)
    stopped = stopped_of(tree)
    (task,) = stopped._tasks.values()
    state = msgspec.structs.replace(task.snapshot.state, chronicles={})
    bare = Stopped("a test", [task._replace(snapshot=replace(task.snapshot, state=state))])
    (universe,) = asyncio.run(Overview(bare).state()).universes
    assert (universe.known, universe.categories > 2) == (2, True)


def test_a_universe_a_stream_is_asked_for_by_its_name(tmp_path):
    events = [msgspec.structs.replace(one, stream=("a", "b & c")[place % 2]) for place, one in enumerate(stream(60))]
    tree = feature_tree(tmp_path, run={"universe": "stream"})
    (tmp_path / "in.jsonl").write_bytes(json_lines(events))
    with RunningPage(tree) as live:
        live.answered(60)
        state = live.until(lambda: len((one := told(live, "/api/state", StateView)).universes) == 2 and one)
        assert {one.stream for one in state.universes} == {"a", "b & c"}
        assert told(live, "/api/categories", Refused, 404).error
        seen = [
            sum(one.seen for one in told(live, "/api/categories", CategoryPage, stream=name).categories)
            for name in ("a", "b & c")
        ]
        assert seen == [30, 30]
    with ShownPage(stopped_of(tree)) as stopped:
        assert told(stopped, "/api/timeline", TimelineView, stream="b & c").sequence == 60
        assert told(stopped, "/api/categories", Refused, 404).error
