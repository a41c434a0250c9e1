"""`speciate run --page` as a real process: counts that match the answers, and a pipeline that feels no client."""

import re
import socket
import subprocess
import sys
import time
from http import HTTPStatus

import httpx
import pytest
from commands import lines, must, refusal, speciate, started, until, write_stream
from prometheus_client.parser import text_string_to_metric_families

EVENTS = 300


@pytest.fixture
def growing(tmp_path):
    """A configuration of a log that is empty yet, and all that will be in it."""
    config = write_stream(tmp_path, events=EVENTS)
    whole = (tmp_path / "stream.log").read_bytes()
    (tmp_path / "stream.log").write_bytes(b"")
    return config, whole


def url_of(run, path):
    """The address it printed, as soon as it has."""
    until(lambda: b"page at http" in path.read_bytes(), run)
    return re.search(r"^speciate: page at (http\S+)$", path.read_text(), re.MULTILINE)[1]


def answer_of(url, path):
    """What it answers; whoever has asked for too much of its time is put off, be it for a collection of garbage."""
    found = []

    def has_time():
        found.append(httpx.get(f"{url}{path}", trust_env=False, timeout=60))
        return found[-1].status_code != HTTPStatus.SERVICE_UNAVAILABLE

    until(has_time)
    return found[-1].raise_for_status()


def scrape(url):
    text = answer_of(url, "/metrics").text
    return {(s.name, *s.labels.values()): s.value for one in text_string_to_metric_families(text) for s in one.samples}


def answered(found):
    return sum(value for key, value in found.items() if key[0] == "speciate_events_total")


def is_ready(url):
    return httpx.get(f"{url}/ready", trust_env=False, timeout=60).status_code == 200


def test_counts_grow_with_the_answers_and_hostile_clients_change_nothing(growing, tmp_path):
    config, whole = growing
    answers, told = tmp_path / "out" / "answers.jsonl", tmp_path / "stderr"
    with (
        told.open("wb") as stderr,
        started("run", config, "--follow", "--page-address", "127.0.0.1:0", "--json", stderr=stderr) as run,
    ):
        url = url_of(run, told)
        until(lambda: is_ready(url), run)
        assert answered(scrape(url)) == 0
        with (tmp_path / "stream.log").open("ab") as log:
            log.write(whole[: len(whole) // 2])
        until(lambda: lines(answers) > 0 and answered(scrape(url)) == lines(answers), run)
        half = lines(answers)
        assert 0 < half < EVENTS
        port = int(url.rpartition(":")[2])
        holding = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for one in holding:
            one.setblocking(False)
        assert httpx.post(f"{url}/metrics", content=bytes(10_000_000), trust_env=False, timeout=60).status_code == 405
        with (tmp_path / "stream.log").open("ab") as log:
            log.write(whole[len(whole) // 2 :])
        until(lambda: lines(answers) == EVENTS, run)
        until(lambda: answered(scrape(url)) == EVENTS, run)
        found = scrape(url)
        for one in holding:
            one.close()
        run.terminate()
        stdout, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    assert b'"answered":300' in stdout
    assert found["speciate_ready",] == 1
    assert found["speciate_lag_bytes", "0"] == 0
    assert found["speciate_latency_seconds_count", "0"] == EVENTS
    assert found["speciate_births_total", "0"] == answers.read_text().count('"birth":true')
    assert found["speciate_page_refusals_total", "method"] == 1
    assert found["speciate_page_refusals_total", "crowded"] >= 50
    kinds = re.findall(r'"reason": "(\w+)"', told.read_text())
    assert len(kinds) == len(set(kinds)), "each kind is told once"
    assert {"crowded", "method"} <= set(kinds)


def test_a_run_resumed_counts_its_restore(tmp_path):
    config = write_stream(tmp_path, events=EVENTS)
    must("run", config)
    told = tmp_path / "stderr"
    with (
        told.open("wb") as stderr,
        started("run", config, "--follow", "--page-address", "127.0.0.1:0", stderr=stderr) as run,
    ):
        url = url_of(run, told)
        until(lambda: is_ready(url), run)
        found = scrape(url)
        assert found["speciate_restore_seconds_count", "0"] == 1
        assert found["speciate_sequence", "0"] == EVENTS
        assert answered(found) == 0
        run.terminate()
        assert run.wait(timeout=60) == 0


def test_an_address_in_use_is_one_line(tmp_path):
    config = write_stream(tmp_path, events=3)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refusal(2, "run", config, "--page-address", address)
    assert line.startswith(f"--page-address {address}: ")
    assert "in use" in line
    assert not (tmp_path / "out").exists()


def test_beyond_this_machine_a_token_is_wanted(tmp_path):
    config = write_stream(tmp_path, events=3)
    assert "SPECIATE_PAGE_TOKEN" in refusal(2, "run", config, "--page-address", "0.0.0.0:0")
    token = "a-secret-that-is-long"
    done = speciate("run", config, "--page-address", "0.0.0.0:0", SPECIATE_PAGE_TOKEN=token)
    assert done.returncode == 0, done.stderr
    assert token not in done.stderr


def test_a_run_with_a_page_ends_as_soon_as_it_is_done(tmp_path):
    config = write_stream(tmp_path, events=EVENTS)
    began = time.monotonic()
    done = must("run", config, "--page-address", "127.0.0.1:0")
    assert done.stderr.startswith("speciate: page at http://127.0.0.1:")
    assert time.monotonic() - began < 30
    assert lines(tmp_path / "out" / "answers.jsonl") == EVENTS


def test_a_run_without_a_page_imports_nothing_of_it(tmp_path):
    config = write_stream(tmp_path, events=3)
    check = (
        "import sys; from speciate.cli import group; group.main(['run', sys.argv[1]], standalone_mode=False); "
        "sys.exit(bool({'starlette', 'uvicorn', 'speciate.page', 'speciate.exposition'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", check, config], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
