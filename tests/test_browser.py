"""The browser of the tests notices what goes wrong in a page, and leaves other tests alone."""

import asyncio
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from browser import check_accessibility, pages

PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8"><title>A page</title>
  <link rel="icon" href="data:,">
  <style>@media (prefers-color-scheme: dark) {{ body {{ background: #000; color: #fff }} }}</style>
</head>
<body><main><h1>Hello</h1>{}</main></body>
</html>"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def serve(tmp_path):
    """Serves a page with something in it: its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def put(content=""):
            (tmp_path / "index.html").write_text(PAGE.format(content), "utf-8")
            return f"http://127.0.0.1:{server.server_port}/"

        yield put
        server.shutdown()
        thread.join()


def test_a_page_is_shown_in_the_size_and_the_colours_asked_for(new_page, serve):
    url = serve()
    for size, scheme, ground in (((800, 600), "dark", "rgb(0, 0, 0)"), ((390, 844), "light", "rgba(0, 0, 0, 0)")):
        page = new_page(size=size, scheme=scheme)
        page.goto(url)
        assert page.locator("h1").inner_text() == "Hello"
        assert page.evaluate("[innerWidth, innerHeight]") == list(size)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        check_accessibility(page)


async def test_an_asynchronous_test_can_follow():
    assert await asyncio.to_thread(lambda: "done") == "done"


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        ("<script>console.error('odd')</script>", "console: odd"),
        ("<script>nothing.there</script>", "uncaught: nothing is not defined"),
        ("<img src='gone.png' alt=''>", r"console: Failed to load resource: .* 404 .*/gone.png\)"),
        ("<img src='http://127.0.0.1:1/' alt=''>", r"request: GET http://127.0.0.1:1/: net::ERR_"),
    ],
    ids=["console", "exception", "missing", "unreachable"],
)
def test_what_goes_wrong_in_a_page_is_told_at_the_end(browser, serve, content, trouble):
    url = serve(content)
    with pytest.raises(AssertionError, match=trouble), pages(browser, []) as open_page:
        open_page().goto(url)


def test_what_is_under_way_when_a_page_is_left_is_no_trouble(new_page, serve):
    page = new_page()
    page.goto(serve("<script>fetch('/').then(() => fetch('/?again'))</script>"))
    page.goto("about:blank")
    assert page.url == "about:blank"


def test_a_test_can_expect_trouble(new_page, serve, troubles):
    new_page().goto(serve("<script>console.error('odd')</script>"))
    assert [one.partition(" (")[0] for one in troubles] == ["console: odd"]
    troubles.clear()


def test_what_is_not_accessible_is_named(new_page, serve):
    page = new_page()
    page.goto(serve("<img src='data:,' id='mute'><p style='color:#ccc;background:#fff'>pale</p>"))
    with pytest.raises(AssertionError) as caught:
        check_accessibility(page)
    told = str(caught.value)
    assert "image-alt (critical): Images must have alternative text" in told
    assert "['#mute']" in told
    assert "color-contrast (serious)" in told
    assert "Element has insufficient color contrast of 1.6" in told
