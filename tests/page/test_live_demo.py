"""The demo's stream on the live page, in a real browser: categories grow, are named and merged, and stay so.

The pipeline is a process of its own, started as a user would start it, and killed as a machine would kill it.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from http import HTTPStatus
from pathlib import Path

import pytest

from browser import check_accessibility
from speciate.cli.demo import _unpack

PATIENCE = 60_000
PACE = 12
"""So slow that the stream lasts longer than the slowest browser takes."""
BORN = 11
"""A category that is born while one watches, and has a second member soon; with one alone it would have no ellipse."""
NAME = "<script>document.title = 'run'</script> pallet jack"


class Demo:
    """`speciate run` on the demo's stream, with a page; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.config = _unpack(folder)
        self.answers = folder / "assignments.jsonl"
        self._said = folder / "said"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> str:
        """Start it, going on where it was left; the address of its page."""
        command = [sys.executable, "-m", "speciate.cli", "run", str(self.config), "--page-address", "127.0.0.1:0"]
        snapshots = ("-s", "commit.snapshot_events=150", "-s", "commit.interval_ms=200")
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [*command, *snapshots, "--pace", str(PACE), *more], stderr=said, env=environment
            )
        deadline = time.monotonic() + PATIENCE / 1000
        while (found := re.search(r"page at (\S+)", self._said.read_text())) is None:
            assert self.process.poll() is None, self._said.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return found[1]

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def finish(self) -> None:
        """Let it stop by itself, with all that it has read answered and saved."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.process = None

    def answered(self) -> list[dict]:
        """What it has answered and committed; behind that it may have written what it will write again."""
        command = [sys.executable, "-m", "speciate.cli", "inspect", str(self.config), "--json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        lines = self.answers.read_text().splitlines()[: found["committed_sequence"]]
        return [json.loads(line) for line in lines]


@pytest.fixture
def demo(tmp_path):
    demo = Demo(tmp_path / "demo")
    yield demo
    demo.kill()


def count(page):
    """How many categories the overview shows."""
    return int(page.locator("#figure-categories").inner_text())


def until_more(page, than):
    page.wait_for_function(
        "than => Number(document.querySelector('#figure-categories')?.textContent) > than", arg=than, timeout=PATIENCE
    )
    return count(page)


def sending(page, act):
    """Do something that is sent, and wait until that, and not what was sent before, has been done by the pipeline."""
    before = page.evaluate("[...document.querySelectorAll('.notice')].map((one) => one.dataset.actionId)")
    act()
    page.wait_for_function(
        """before => [...document.querySelectorAll(".notice[data-state=done]")].some(
             (one) => !before.includes(one.dataset.actionId))""",
        arg=before,
        timeout=PATIENCE,
    )


def rename_born(page, number, name):
    """By way of the feed of births to a category, and give it a name."""
    page.locator(f"#feed li[data-kind=birth] a[href$='/categories/{number}']").click(timeout=PATIENCE)
    page.wait_for_selector("#rename:enabled", timeout=PATIENCE)
    page.click("#rename")
    page.fill("#label", name)
    sending(page, lambda: page.keyboard.press("Enter"))
    page.wait_for_function("name => document.querySelector('#category-name').textContent.includes(name)", arg=name)


def merge_suggested(page, spared):
    """Merge the two that the page suggests first, sparing one; the number that is kept and the one that is gone."""
    from playwright.sync_api import TimeoutError as TooLate

    page.click("#nav-overview")
    first = page.locator(f"#suggestions .suggestion:not([data-absorb='{spared}'])").first
    deadline = time.monotonic() + PATIENCE / 1000
    while True:
        keep, absorb = first.evaluate("one => [Number(one.dataset.keep), Number(one.dataset.absorb)]", timeout=PATIENCE)
        # These two, and not whichever come first by then; if they are no longer suggested, the next ones.
        these = page.locator(f"#suggestions .suggestion[data-keep='{keep}'][data-absorb='{absorb}']")
        try:
            these.get_by_role("button").click(timeout=2000)
            break
        except TooLate:
            if page.locator("dialog").count():
                break  # it was clicked all the same, only not in time
            assert time.monotonic() < deadline
    sending(page, lambda: page.click("dialog [data-dialog=confirm]"))
    return keep, absorb


def until_gone(page, url):
    """Wait for a category not to be there any more; what was not committed before a kill is done again."""
    deadline = time.monotonic() + PATIENCE / 1000
    while page.request.get(url).status != HTTPStatus.NOT_FOUND:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_person_names_and_merges_what_was_found_and_it_stays_so(demo, new_page, troubles):
    page = new_page()
    page.goto(demo.start("--fresh"))
    first = until_more(page, 5)
    assert until_more(page, first) > first, "categories are being born"
    assert page.locator("[data-chart=growth] svg").is_visible()

    rename_born(page, BORN, NAME)
    assert page.title() != "run", "a name is shown, never run"
    page.wait_for_selector("#plane ellipse", timeout=PATIENCE)
    keep, absorb = merge_suggested(page, BORN)

    page.goto(f"{page.url.partition('#')[0]}#/categories/{BORN}")
    page.reload()
    page.wait_for_function("name => document.querySelector('#category-name')?.textContent.includes(name)", arg=NAME)

    demo.kill()
    page.close()
    troubles.clear()  # the connection was lost, as it had to be
    before = demo.answered()

    page = new_page()
    url = demo.start()
    page.goto(f"{url}/#/categories?search=pallet")
    page.wait_for_selector(f".card[data-category='{BORN}']", timeout=PATIENCE)
    assert NAME in page.locator(f".card[data-category='{BORN}'] .card-name").inner_text()
    until_gone(page, f"{url}/api/categories/{absorb}")
    page.goto(f"{url}/#/")
    page.wait_for_selector("#condition")
    page.close()
    demo.finish()

    answers = demo.answered()
    assert answers[: len(before)] == before, "what was committed before the kill is there, and nothing twice"
    assert [one["sequence"] for one in answers] == list(range(len(answers)))
    [merged] = [one for one in answers if one["type"] == "control.v1" and one["control"]["type"] == "merge.v1"]
    assert merged["relabels"] == [{"category": absorb, "becomes": keep, "label": merged["relabels"][0]["label"]}]
    later = [one for one in answers if one["sequence"] > merged["sequence"] and one["type"] == "assignment.v1"]
    assert later
    assert absorb not in {one["category"] for one in later}
    [renamed] = [one for one in answers if one["type"] == "control.v1" and one["control"]["type"] == "rename.v1"]
    named = [one for one in answers if one["sequence"] > renamed["sequence"] and one.get("category") == BORN]
    assert {one["label"] for one in named} <= {NAME}


@pytest.mark.parametrize(("size", "scheme"), [((1920, 1080), "light"), ((360, 780), "dark")], ids=["wall", "phone"])
def test_it_is_accessible_and_fits(demo, new_page, size, scheme):
    url = demo.start("--fresh")
    page = new_page(size=size, scheme=scheme)
    for path, ready in (("", "#feed li"), ("categories", ".card"), ("categories/5", "#exemplars li")):
        page.goto(f"{url}/#/{path}")
        page.wait_for_selector(ready, timeout=PATIENCE)
        check_accessibility(page)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size[0], f"{path or 'overview'} is {wide} pixels wide"
