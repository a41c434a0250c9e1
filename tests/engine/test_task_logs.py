"""Warnings about a task say which: its number, and where known the stream, the record and the place."""

import logging

from logs_in_memory import Cluster, Process, until
from worlds import make_pipeline, make_tree, stream

from speciate import endurance
from speciate.logs import get_logger
from speciate.threads import in_thread


def warnings(caplog):
    return [record for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_damaged_snapshot_is_told_with_its_task_and_store(tmp_path, caplog):
    tree = make_tree(tmp_path, stream(120))
    await make_pipeline(tree).run()
    newest = max((tmp_path / "out" / "state" / "snapshots").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    await make_pipeline(tree).run()
    (told,) = warnings(caplog)
    assert told.message == "snapshot is damaged, trying the one before it"
    assert (told.task, told.sequence) == (0, 120)
    assert told.store == str(tmp_path / "out" / "state")


async def test_what_threads_say_carries_the_task_of_whoever_started_them(tmp_path, caplog):
    pipeline = make_pipeline(make_tree(tmp_path, stream(5)))
    opened = pipeline.stages.store.open

    def warn(*, fresh):
        get_logger("speciate.test").warning("hello")
        opened(fresh=fresh)

    pipeline.stages.store.open = warn
    await pipeline.run()
    assert [told.task for told in warnings(caplog)] == [0]
    await in_thread(None, get_logger("speciate.test").warning, "behind it")
    assert not hasattr(warnings(caplog)[-1], "task")


async def test_one_who_stops_while_the_log_is_away_says_which_task(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(endurance, "FIRST_PAUSE", 0.002)
    cluster = Cluster(stream(5), stream(5))
    cluster.fault = lambda number, operation: "away" if number == 1 else None
    process = Process(cluster, tmp_path, commit={"events": 5, "interval_ms": 5.0})
    process.share.give(frozenset({0, 1}))
    await until(lambda: cluster.partitions[0].done and len(warnings(caplog)) > 2, process)
    await process.stop()
    assert {told.task for told in warnings(caplog)} == {1}
