"""`/ready` of a worker whose broker goes and comes back, while events flow and while nothing is going on."""

import re
from pathlib import Path

import httpx
from broker import Broker
from pipelines import DECIDE, Bench, Worker, events, messages, write_support

EACH = 40


def page_of(bench: Bench, worker: Worker) -> str:
    """The address that a worker printed."""
    found = bench.until(lambda: re.search(r"page at (http\S+)", worker.log.read_text()), "the page is there")
    return found[1]


def health(url: str) -> tuple[int, str]:
    answer = httpx.get(f"{url}/ready", trust_env=False, timeout=60)
    return answer.status_code, answer.text


def test_ready_follows_the_broker_even_if_nothing_is_going_on(mortal: Broker, tmp_path: Path) -> None:
    with Bench(mortal, tmp_path, "page-away") as bench:
        write_support(bench.folder)
        config = bench.make(DECIDE, 2)
        worker = bench.start(config, "--page-address", "127.0.0.1:0", "-s", "source.stuck_ms=4000")
        url = page_of(bench, worker)
        bench.until(lambda: health(url)[0] == 200, "it is ready")
        for partition in range(2):
            bench.feed(messages(events(partition, EACH), partition))
        bench.until_answered(EACH, EACH)
        mortal.kill()
        bench.until(lambda: health(url)[0] == 503, "the broker is missed")
        bench.until(lambda: "away" in health(url)[1], "it tells why")
        metrics = httpx.get(f"{url}/metrics", trust_env=False, timeout=60).text
        assert "speciate_ready 0" in metrics
        assert httpx.get(f"{url}/live", trust_env=False, timeout=60).status_code == 200
        mortal.start()
        bench.until(lambda: health(url) == (200, "ready\n"), "it is ready again")
        metrics = httpx.get(f"{url}/metrics", trust_env=False, timeout=60).text
        assert sum(map(int, re.findall(r"speciate_restore_seconds_count{.*} (\d+)", metrics))) >= 1
        assert 'speciate_lag_records{task="0"} 0' in metrics
        assert worker.stop() == 0, worker.tail()
