"""The page of a worker on Kafka: each task's categories are its own, and what is changed by hand goes by the topic."""

from pathlib import Path

import httpx
from broker import Broker
from pipelines import DECIDE, Bench, assignments, controls, events, messages, write_support
from test_page_away import page_of

EACH = 60
STEERED = DECIDE.replace("session_timeout_ms", 'control = "{topic}-control"\nsession_timeout_ms')


def test_a_category_of_one_task_is_named_and_the_others_are_not(broker: Broker, tmp_path: Path) -> None:
    with Bench(broker, tmp_path, "page-named") as bench:
        write_support(bench.folder)
        config = bench.make(STEERED, 2)
        worker = bench.start(config, "--page-address", "127.0.0.1:0")
        for partition in range(2):
            bench.feed(messages(events(partition, EACH), partition))
        bench.until_answered(EACH, EACH)
        with httpx.Client(base_url=page_of(bench, worker), trust_env=False, timeout=60) as client:
            both = [{"task": 0, "stream": None}, {"task": 1, "stream": None}]
            bench.until(
                lambda: (
                    [
                        {name: one[name] for name in ("task", "stream")}
                        for one in client.get("/api/state").json()["universes"]
                    ]
                    == both
                ),
                "both tasks are on the page",
            )
            control = {"type": "rename.v1", "id": "by-hand", "category": 0, "label": "pallet jack"}
            sent = client.post("/api/control", json={"control": control, "task": 1})
            assert sent.status_code == 202, sent.text
            assert "control" in sent.json()["place"]
            bench.until_answered(EACH, EACH + 1)

            def label(task: int) -> str | None:
                return client.get("/api/categories/0", params={"task": task}).json()["card"]["label"]

            bench.until(lambda: label(1) == "pallet jack", "the page shows it")
            assert label(0) != "pallet jack"
        bench.feed(messages(events(1, EACH, first=EACH), 1))
        answers = bench.until_answered(EACH, 2 * EACH + 1)
        assert not controls(answers[0])
        [applied] = controls(answers[1])
        assert applied.id == "by-hand"
        assert [(one.category, one.becomes, one.label) for one in applied.relabels] == [(0, 0, "pallet jack")]
        later = [one for one in assignments(answers[1]) if one.category == 0 and one.sequence > applied.sequence]
        assert later
        assert {one.label for one in later} == {"pallet jack"}
        assert worker.stop() == 0, worker.tail()


def test_without_a_control_topic_nothing_can_be_changed_and_the_page_says_so(broker: Broker, tmp_path: Path) -> None:
    with Bench(broker, tmp_path, "page-barred") as bench:
        write_support(bench.folder)
        worker = bench.start(bench.make(DECIDE), "--page-address", "127.0.0.1:0")
        with httpx.Client(base_url=page_of(bench, worker), trust_env=False, timeout=60) as client:
            assert "name the topic" in client.get("/api/state").json()["uncontrollable"]
            bench.until(lambda: client.get("/ready").status_code == 200, "it is ready")
            control = {"type": "undo.v1", "id": "by-hand"}
            refused = client.post("/api/control", json={"control": control, "task": 0})
            assert refused.status_code == 409
            assert "name the topic" in refused.json()["error"]
        assert worker.stop() == 0, worker.tail()
