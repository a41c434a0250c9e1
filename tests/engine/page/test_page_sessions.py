"""Sessions: the token once, a cookie from then on; the page itself says nothing and is there for everybody."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_pages import RunningPage, feature_tree

from speciate.page.sessions import MOST_SESSIONS, Sessions
from speciate_schemas.page import Refused, StateView

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with RunningPage(feature_tree(tmp_path_factory.mktemp("locked"), 50), TOKEN) as page:
        yield page


@pytest.fixture(autouse=True)
def _no_cookies(locked):
    locked.client.cookies.clear()


@pytest.mark.parametrize("path", ["/api/state", "/api/events", "/api/control", "/metrics", "/live", "/ready", "/x"])
def test_without_a_session_nothing_is_told(locked, path):
    before = locked.refused("token")
    answer = locked.client.get(path)
    assert answer.status_code == 401
    if path.startswith("/api/"):
        assert "token" in msgspec.json.decode(answer.content, type=Refused).error
    assert locked.refused("token") == before + 1


def test_the_page_itself_is_there_and_says_nothing(locked):
    page = locked.client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "a test" not in page.text
    assert locked.client.get("/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
    assert locked.client.get("/assets/nothing.js").status_code == 404


def test_whoever_has_the_token_gets_a_cookie_that_opens_all(locked):
    answer = locked.client.post("/session", json={"token": TOKEN})
    assert (answer.status_code, answer.content) == (204, b"")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    state = locked.client.get("/api/state")
    assert msgspec.json.decode(state.content, type=StateView).title == "a test"
    assert locked.client.get("/metrics").status_code == 200
    name, _, value = cookie.partition(";")[0].partition("=")
    for wrong in ("", value[:-1], value + "x", value.swapcase(), "ä"):
        locked.client.cookies.clear()
        assert locked.client.get("/live", headers={"Cookie": f"{name}={wrong}".encode()}).status_code == 401
    others = {"Cookie": f'theme="dark; {{"a": 1}}"; {name}={value}; x=y'}
    assert locked.client.get("/live", headers=others).status_code == 200


@pytest.mark.parametrize("body", [{"token": "wrong"}, {"token": ""}, {"token": TOKEN + "x"}, {"token": "ä"}])
def test_anybody_else_gets_none(locked, body):
    answer = locked.client.post("/session", json=body)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("body", [{}, {"token": 1}, {"token": TOKEN, "more": 1}, {"token": "x" * 2000}])
def test_what_is_no_request_for_a_session_is_refused(locked, body):
    assert locked.client.post("/session", json=body).status_code == 400


def test_a_bearer_needs_no_session(locked):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert locked.client.get("/api/state", headers=headers).status_code == 200
    assert "set-cookie" not in locked.client.get("/api/state", headers=headers).headers


def test_a_request_from_another_site_opens_no_session(locked):
    answer = locked.client.post("/session", json={"token": TOKEN}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


def test_there_are_so_many_sessions_and_no_more():
    sessions = Sessions(TOKEN, 1)
    cookies = [sessions.open(TOKEN).partition(";")[0] for _ in range(MOST_SESSIONS + 1)]
    assert len(set(cookies)) == len(cookies)
    assert not sessions.admits("", cookies[0])
    assert all(sessions.admits("", one) for one in cookies[1:])


@given(st.text(max_size=40).filter(lambda text: text != TOKEN), st.text(st.characters(max_codepoint=255), max_size=60))
def test_nothing_but_the_token_or_a_session_is_admitted(token, header):
    sessions = Sessions(TOKEN, 1)
    sessions.open(TOKEN)
    assert sessions.open(token) is None
    if header != f"Bearer {TOKEN}":
        assert not sessions.admits(header, header)


def test_where_no_token_is_set_nobody_needs_one():
    sessions = Sessions(None, 1)
    assert sessions.admits("", "")
    assert sessions.open("anything") is None
    assert not sessions.are_needed
