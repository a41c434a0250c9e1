"""The small parts of the page: rates, kept answers, searching and sorting, pictures, suggestions."""

import asyncio
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import leaping

from speciate.audience import Audience
from speciate.exemplars import Kept
from speciate.instruments import Instruments
from speciate.page import suggestions, thumbnails
from speciate.page.asking import StuckError
from speciate.page.keeping import Keeping
from speciate.page.listing import Listing, Row
from speciate.page.meter import Meter, Sample
from speciate.page.parameters import Search
from speciate.page.subject import Where
from speciate.page.suggestions import MOST_EXAMINED, Suggester, candidates
from speciate.page.thumbnails import Thumbnails, finished

# ---- rates


def sample(time, answered, busy=0.0, idle=0.0, latencies=()):
    instruments = Instruments()
    if busy or idle:
        instruments.value("speciate_stage_seconds_total", "0", "head", "busy").value = busy
        instruments.value("speciate_stage_seconds_total", "0", "head", "idle").value = idle
    instruments.histogram("speciate_latency_seconds", "0").observe_many(np.array(latencies, dtype=np.float64))
    return Sample.of(time, answered, instruments)


def test_rates_are_those_of_the_last_seconds():
    meter = Meter()
    assert meter.rates(sample(0.0, 1000)).events_per_second == 0.0
    for second in range(1, 20):
        rates = meter.rates(sample(float(second), 1000 + 10 * second, busy=second * 0.25, idle=second * 0.75))
        assert rates.events_per_second == pytest.approx(10.0)
        assert rates.stages["head"] == pytest.approx({"busy": 0.25, "idle": 0.75, "backpressured": 0.0})
    for second in range(20, 27):
        rates = meter.rates(sample(float(second), 1190, busy=4.75, idle=14.25 + second - 19))
    assert rates.events_per_second == 0.0
    assert rates.stages["head"]["idle"] == pytest.approx(1.0)
    assert (rates.latency_p50, rates.latency_p99) == (None, None)


def test_a_stage_that_does_nothing_at_all_is_left_out():
    assert Meter().rates(sample(0.0, 0)).stages == {}


@given(st.lists(st.floats(1e-4, 59.0), min_size=1, max_size=50))
def test_a_latency_lies_in_the_bucket_of_that_event(latencies):
    rates = Meter().rates(sample(0.0, 0, latencies=latencies))
    ends = [0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]
    median = sorted(latencies)[-(-len(latencies) // 2) - 1]
    place = next(place for place, end in enumerate(ends) if median <= end)
    assert ends[place - 1] <= rates.latency_p50 <= ends[place]
    assert rates.latency_p50 <= rates.latency_p99


# ---- kept answers


def test_many_who_ask_the_same_are_one_until_it_is_old():
    async def main():
        made = []

        async def make():
            made.append(1)
            await asyncio.sleep(0.1)
            return len(made)

        kept = Keeping(1.0, most=2)
        assert await asyncio.gather(*(kept.get("a", make) for _ in range(10))) == [1] * 10
        assert await kept.get("a", make) == 1
        await asyncio.sleep(1.1)
        assert await kept.get("a", make) == 2
        assert [await kept.get(key, make) for key in ("b", "c", "b", "a")] == [3, 4, 3, 5]

    leaping(main())


def test_an_error_is_told_and_not_kept():
    async def main():
        async def fail():
            raise ValueError("no")

        async def succeed():
            return 1

        kept = Keeping(60.0)
        told = await asyncio.gather(kept.get("a", fail), kept.get("a", fail), return_exceptions=True)
        assert [str(one) for one in told] == ["no", "no"]
        assert await kept.get("a", succeed) == 1

    leaping(main())


def test_whoever_leaves_does_not_spoil_it_for_the_others():
    async def main():
        async def make():
            await asyncio.sleep(1.0)
            return 1

        kept = Keeping(60.0)
        impatient = asyncio.create_task(kept.get("a", make))
        patient = asyncio.create_task(kept.get("a", make))
        await asyncio.sleep(0.1)
        impatient.cancel()
        assert await patient == 1

    leaping(main())


# ---- searching and sorting


rows = st.lists(
    st.builds(
        lambda label, known, count, last, born: (label, known, count, last, born),
        st.none() | st.sampled_from(["Ant", "bee", "BEE", "<b>"]),
        st.booleans(),
        st.integers(0, 3),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
    ),
    max_size=12,
).map(
    lambda drawn: [
        Row(place, label, known, count, 0, born, None, last, None)
        for place, (label, known, count, last, born) in enumerate(drawn)
    ]
)
KEY = {"count": "count", "recent": "last_sequence", "born": "born", "id": "id", "label": "label"}


@given(rows, st.sampled_from(sorted(KEY)), st.sampled_from(["asc", "desc"]))
def test_sorting_loses_nobody_and_puts_what_has_no_key_last(drawn, sort, order):
    found = Listing(drawn).find(Search(sort=sort, order=order))
    assert sorted(row.id for row in found) == [row.id for row in drawn]
    keys = [getattr(row, KEY[sort]) for row in found]
    there = [key.lower() if sort == "label" else key for key in keys if key is not None]
    assert keys[len(there) :] == [None] * (len(keys) - len(there))
    assert there == sorted(there, reverse=order == "desc")


@given(rows, st.sampled_from(["", "b", "ee", "<B>", "3", "#3", "zebra"]), st.sampled_from(["all", "known", "born"]))
def test_a_search_finds_all_that_it_should(drawn, text, kind):
    found = Listing(drawn).find(Search(search=text, kind=kind))
    wanted = {
        row.id
        for row in drawn
        if (kind == "all" or row.known == (kind == "known"))
        and (text == "" or text.lower() in (row.label or "\0").lower() or text.lstrip("#") == str(row.id))
    }
    assert {row.id for row in found} == wanted


def test_of_many_categories_those_are_examined_that_events_came_to_last():
    many = [Row(number, None, number < 10, 1, 1, None, None, number, None) for number in range(MOST_EXAMINED + 50)]
    assert candidates(many) == [row.id for row in many[::-1]][:MOST_EXAMINED]
    assert candidates(many[:MOST_EXAMINED]) == [row.id for row in many[:MOST_EXAMINED]]


# ---- pictures


def test_pictures_are_kept_up_to_so_many_bytes_and_tell_versions_apart(monkeypatch):
    monkeypatch.setattr(thumbnails, "MOST_BYTES", 1000)
    kept, where = Thumbnails(), Where(0, "a & b")
    views = [kept.view(where, 7, exemplar(number, bytes([number]) * 300)) for number in range(5)]
    assert [kept.find(where, 7, number) is not None for number in range(5)] == [False, False, True, True, True]
    assert len({view.thumbnail for view in views}) == 5
    assert views[0].thumbnail.startswith("/api/thumbnails/7/0?task=0&stream=a+%26+b&v=")
    again = kept.view(where, 7, exemplar(4, b"another"))
    assert again.thumbnail != views[4].thumbnail
    assert kept.find(where, 7, 4).content == b"another"
    assert kept.find(where, 8, 4) is None
    assert kept.view(where, 7, exemplar(9, None)).thumbnail is None


async def test_a_picture_that_is_being_made_is_waited_for_by_nobody_else():
    one = exemplar(1, Future())
    waiting = asyncio.create_task(finished([exemplar(0, b"made"), one]))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    one.picture.set_result(b"made too")
    await waiting
    assert one.thumbnail == b"made too"


# ---- suggestions


class Slow:
    """A subject that takes its time."""

    def __init__(self):
        self.audience, self.may_look, self.looks = Audience(), asyncio.Event(), []

    async def look(self, where, _, *, leaving):
        await self.may_look.wait()
        self.looks.append((where.stream, leaving > 0.0))
        return []


async def test_people_who_look_at_different_sets_do_not_keep_each_other_from_their_suggestions(monkeypatch):
    monkeypatch.setattr(suggestions, "PATIENCE_SECONDS", 0.01)
    subject, listing = Slow(), Listing([Row(number, None, False, 1, 1, None, None, 0, None) for number in range(3)])
    suggester, sets = Suggester(subject), [Where(0, "a"), Where(0, "b")]
    for where in sets * 3:
        assert (await suggester.suggest(where, listing)).examined == 0
    subject.may_look.set()
    assert [(await suggester.suggest(where, listing)).examined for where in sets] == [3, 3]
    assert sorted(subject.looks) == [("a", True)] * 3 + [("b", True)] * 3
    for number in range(100):
        await suggester.suggest(Where(1, str(number)), listing)
    assert (await suggester.suggest(sets[0], listing)).examined == 3
    assert subject.looks.count(("a", True)) == 6, "forgotten for newer ones, and begun anew"


class Busy:
    """A subject that does not come to the first looks at each category."""

    def __init__(self):
        self.audience, self.looks = Audience(), 0

    async def look(self, *_, leaving):
        self.looks += 1
        if self.looks % 3:
            raise StuckError
        return []


def test_what_the_pipeline_does_not_come_to_is_examined_later():
    async def main():
        listing = Listing([Row(number, None, False, 1, 1, None, None, 0, None) for number in range(3)])
        suggester = Suggester(Busy())
        await suggester.suggest(Where(0, None), listing)
        await asyncio.sleep(20.0)
        assert (await suggester.suggest(Where(0, None), listing)).examined == 3

    leaping(main())


def exemplar(sequence, picture):
    return Kept(0, sequence, str(sequence), "", None, np.zeros(2, np.float32), picture)
