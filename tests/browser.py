"""Pages in a real browser: Debian's Chromium, driven by Playwright.

Tests that use it are plain functions, not asynchronous ones, and what they look at is served by another thread or
process.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
ABORTED = "net::ERR_ABORTED"
"""What becomes of requests under way when a page is left: a stream of events is always under way."""

OpenPage = Callable[..., "Page"]


class Chromium:
    """One process for all tests.

    Playwright waits in an event loop of its own, which asyncio takes for running as long as Playwright is. It is put
    away between the tests that use it, or no asynchronous test could run after them.
    """

    def __init__(self, path: str) -> None:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=path, args=FLAGS)
        self._loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)

    @contextmanager
    def in_use(self) -> "Iterator[Browser]":
        asyncio._set_running_loop(self._loop)
        try:
            yield self._browser
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        asyncio._set_running_loop(self._loop)
        self._browser.close()
        self._playwright.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium to open pages with: apt-get install chromium")
    chromium = Chromium(path)
    yield chromium
    chromium.close()


@pytest.fixture
def troubles() -> list[str]:
    """What went wrong in the pages of a test; one that expects some looks at it and clears it."""
    return []


@pytest.fixture
def new_page(browser: Chromium, troubles: list[str]) -> Iterator[OpenPage]:
    """Opens empty pages, see `pages`."""
    with pages(browser, troubles) as open_page:
        yield open_page


@contextmanager
def pages(browser: Chromium, troubles: list[str]) -> Iterator[OpenPage]:
    """Opens empty pages, each as if in a browser of its own; at the end nothing must have gone wrong in any of them."""
    with browser.in_use() as process:
        contexts = []

        def open_page(*, size: tuple[int, int] = (1280, 800), scheme: str = "light", **more: Any) -> "Page":
            width, height = size
            context = process.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more)
            contexts.append(context)
            page = context.new_page()
            _listen(page, troubles)
            return page

        try:
            yield open_page
        finally:
            for context in contexts:
                context.close()
        assert not troubles, "\n".join(["in the browser:", *troubles])


def _listen(page: "Page", troubles: list[str]) -> None:
    def heard(message: "ConsoleMessage") -> None:
        if message.type == "error":
            troubles.append(f"console: {message.text} ({message.location['url']})")

    def failed(request: "Request") -> None:
        if request.failure != ABORTED:
            troubles.append(f"request: {request.method} {request.url}: {request.failure}")

    page.on("console", heard)
    page.on("requestfailed", failed)
    page.on("pageerror", lambda error: troubles.append(f"uncaught: {error}"))


def check_accessibility(page: "Page") -> None:
    """Fail with what axe-core finds wrong with the page as it is now."""
    from axe_playwright_python.sync_playwright import Axe

    moves = page.evaluate("matchMedia('(prefers-reduced-motion: no-preference)').matches")
    # What is just fading in is pale for a moment, and more may come while axe looks.
    page.emulate_media(reduced_motion="reduce")
    try:
        page.evaluate("Promise.allSettled(document.getAnimations().map(one => one.finished))")
        violations = Axe().run(page).response["violations"]
    finally:
        page.emulate_media(reduced_motion="null" if moves else "reduce")
    assert not violations, "\n".join(["not accessible:", *map(_finding, violations)])


def _finding(violation: dict[str, Any]) -> str:
    """A rule that is broken, and where."""
    lines = [f"{violation['id']} ({violation['impact']}): {violation['help']}"]
    for node in violation["nodes"]:
        reasons = [check["message"] for kind in ("any", "all", "none") for check in node[kind]]
        lines.append(f"  {node['target']}: {node['html']}\n    {'; '.join(reasons)}")
    return "\n".join(lines)
