"""`/live` and `/ready`: what they say while a run starts, restores, loses its broker, stops, or is stuck."""

import asyncio
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from logs_in_memory import Cluster, Process, until
from prometheus_client.parser import text_string_to_metric_families
from standing_pages import at_no_cost
from worlds import make_pipeline, make_tree, stream

from speciate import endurance
from speciate.page import asking, live, serving
from speciate.readings import refresh
from speciate.running import Unready

READY_SECONDS = live.READY_SECONDS


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Nothing is told twice, and pauses are short."""
    monkeypatch.setattr(asking, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(live, "READY_SECONDS", 0.0)
    monkeypatch.setattr(endurance, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(endurance, "LONGEST_PAUSE", 0.05)


@asynccontextmanager
async def asked(pipeline):
    opening = at_no_cost(serving(pipeline, "127.0.0.1:0"))
    async with opening as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        yield client


async def told(client, code, text):
    """Wait until `/ready` says this."""
    async with asyncio.timeout(20):
        while True:
            answer = await client.get("/ready")
            if (answer.status_code, text in answer.text) == (code, True):
                return
            await asyncio.sleep(0.005)


async def shown(client, condition):
    """Wait until the page has this word for it."""
    async with asyncio.timeout(20):
        while (await client.get("/api/state")).json().get("condition") != condition:  # noqa: ASYNC110  # another's
            await asyncio.sleep(0.05)


class Waiting:
    """A source that waits where it is told to."""

    def __init__(self, source):
        self._source = source
        self.may_open, self.may_read = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._source, name)

    async def open(self, position, sequence):
        await self.may_open.wait()
        return await self._source.open(position, sequence)

    async def read(self, max_events):
        await self.may_read.wait()
        return await self._source.read(max_events)


async def test_ready_is_false_until_all_that_was_answered_is_folded_again(tmp_path):
    tree = make_tree(tmp_path, stream(90), commit={"snapshot_events": 10**6, "events": 10})
    await make_pipeline(tree).run()
    for path in sorted((tmp_path / "out" / "state" / "snapshots").iterdir())[1:]:
        path.unlink()
    tree["source"]["follow"] = True
    pipeline = make_pipeline(tree)
    pipeline.stages.source = source = Waiting(pipeline.stages.source)
    async with asked(pipeline) as client:
        await told(client, 503, "starting")
        await shown(client, "waiting")
        assert (await client.get("/live")).status_code == 200
        running = asyncio.create_task(pipeline.run())
        await told(client, 503, "task 0: restoring: opening its input and outputs")
        await shown(client, "restoring")
        early = await client.get("/api/categories")
        assert (early.status_code, "restoring: opening" in early.json()["error"]) == (503, True)
        counted = pipeline.instruments()
        assert counted.value("speciate_page_refusals_total", "unready").value == 1
        assert counted.value("speciate_page_refusals_total", "unknown").value == 0
        source.may_open.set()
        await told(client, 503, "task 0: restoring: 90 inputs to be folded again")
        await shown(client, "restoring")
        source.may_read.set()
        await told(client, 200, "ready")
        await shown(client, "running")
        assert (await client.get("/api/categories")).status_code == 200
        pipeline.stop()
        await told(client, 503, "stopping")
        await shown(client, "stopping")
        assert (await running).status.answered == 0


async def test_ready_is_false_while_the_encoder_loads(tmp_path):
    may_load = asyncio.Event()
    pipeline = make_pipeline(make_tree(tmp_path, stream(10), encoder={"plugin": "thumbnail"}, source={"follow": True}))
    loop = asyncio.get_running_loop()
    load = pipeline.stages.encoder.load

    def slow():
        asyncio.run_coroutine_threadsafe(may_load.wait(), loop).result(20)
        load()

    pipeline.stages.encoder.load = slow
    async with asked(pipeline) as client:
        running = asyncio.create_task(pipeline.run())
        await told(client, 503, "task 0: loading the encoder")
        await shown(client, "waiting")
        may_load.set()
        await told(client, 200, "ready")
        found = {one.name: one for one in text_string_to_metric_families((await client.get("/metrics")).text)}
        assert found["speciate_encoder_load_seconds"].samples[0].value > 0
        pipeline.stop()
        await running


class Watched:
    """A worker of a group as the page sees it."""

    def __init__(self, process):
        self._worker = process.worker

    def instruments(self):
        refresh(self._worker)
        return self._worker.instruments

    def unready(self):
        return self._worker.unready

    def status(self):
        return None

    def universes(self):
        return []

    def uncontrollable(self):
        return "nobody can"


async def test_ready_is_false_while_the_broker_is_away(tmp_path):
    cluster = Cluster(stream(60), stream(60, seed=1))
    away = {0: False, 1: False}
    cluster.fault = lambda number, operation: "away" if away[number] else None
    process = Process(cluster, tmp_path, commit={"events": 5, "interval_ms": 5.0})
    async with asked(Watched(process)) as client:
        await told(client, 503, "waiting for a share")
        process.share.give(frozenset({0, 1}))
        await told(client, 200, "ready")
        await until(lambda: cluster.done, process)
        away[1] = True
        cluster.partitions[1].events += cluster.partitions[1].events[:1]  # something to fail on
        await told(client, 503, "task 1: away: no answer to ")
        await shown(client, "away")
        # Which says the word beside it.
        assert [one[:21] for one in (await client.get("/api/state")).json()["unready"]] == ["task 1: no answer to "]
        text = (await client.get("/metrics")).text
        assert 'speciate_task_away{task="0"} 0' in text
        assert 'speciate_task_away{task="1"} 1' in text
        assert 'speciate_task_ready{task="1"} 0' in text
        for _ in range(20):
            assert (await client.get("/ready")).status_code == 503
            await asyncio.sleep(0.01)
        away[1] = False
        await told(client, 200, "ready")
        text = (await client.get("/metrics")).text
        assert 'speciate_task_away{task="1"} 0' in text
        assert 'speciate_away_total{task="0"} 0' in text
        assert 'speciate_away_total{task="1"} 0' not in text
        await process.stop()


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([], "running"),
        (["waiting", "restoring"], "restoring"),
        (["restoring", "away", "waiting"], "away"),
        (["stopping"], "stopping"),
    ],
)
async def test_of_several_tasks_the_worst_off_has_the_word(standing, conditions, word):
    standing.reasons = [Unready(condition, f"task {number}: so") for number, condition in enumerate(conditions)]
    async with asked(standing) as client:
        found = (await client.get("/api/state")).json()
    assert (found["condition"], found["unready"]) == (word, [one.reason for one in standing.reasons])


async def test_a_loop_that_does_not_turn_is_not_live(tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE_SECONDS", 0.3)
    pipeline = make_pipeline(make_tree(tmp_path, stream(5)))
    async with asked(pipeline) as client:
        # Made before, for that takes a while.
        another, stuck, done = httpx.Client(base_url=client.base_url, trust_env=False), [], threading.Event()

        def ask():
            with another:
                stuck.extend(another.get(path) for path in ("live", "ready", "metrics"))
            done.set()

        asking_one = threading.Thread(target=ask)
        asking_one.start()
        assert done.wait(60)  # the loop must not turn meanwhile
        asking_one.join()
        assert (stuck[0].status_code, stuck[0].text) == (503, "the event loop has not turned for 0.3 s\n")
        assert {answer.status_code for answer in stuck} == {503}
        counted = pipeline.instruments().value("speciate_page_refusals_total", "stuck").value
        assert counted == 3
        monkeypatch.setattr(asking, "PATIENCE_SECONDS", 30.0)
        assert (await client.get("/live", timeout=60)).text == "live\n"


async def test_many_questions_are_one(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "READY_SECONDS", 60.0)
    pipeline = make_pipeline(make_tree(tmp_path, stream(5)))
    questions = []
    unready = pipeline.unready
    pipeline.unready = lambda: questions.append(1) or unready()
    async with asked(pipeline) as client:
        answers = await asyncio.gather(*(client.get("/ready") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {503}
    assert len(questions) == 1


async def test_that_it_stops_is_told_at_once_whatever_else_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "FRESH_SECONDS", 600.0)
    monkeypatch.setattr(live, "READY_SECONDS", READY_SECONDS)
    pipeline = make_pipeline(make_tree(tmp_path, stream(5)))
    async with asked(pipeline) as client:
        await told(client, 503, "starting")
        pipeline.stop()
        await told(client, 503, "stopping")
