"""A stand-in for the page's server, which says what a test wants said.

What it says is made of the structs of the schema, under the headers of the real page.
"""

import threading
import time
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import urlsplit

import msgspec

from speciate.page.guard import HEADERS
from speciate_schemas.events import (
    Assignment,
    ControlApplied,
    MergeCategories,
    Rejection,
    Relabel,
    RenameCategory,
    UndoLast,
)
from speciate_schemas.page import (
    CategoryCard,
    CategoryPage,
    CategoryView,
    ControlRequest,
    ControlSent,
    Ellipse,
    ExemplarView,
    MemberView,
    Neighbour,
    Refused,
    StateView,
    Suggestions,
    SuggestionView,
    Tidings,
    TimelineView,
    Told,
    UniverseSummary,
)

STATIC = files("speciate.page") / "static"
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
STATE = StateView(
    version="1",
    title="stub",
    running=True,
    condition="running",
    uncontrollable="",
    suggests=True,
    unready=[],
    time=0.0,
    seconds=1.0,
    events_per_second=1.0,
    answered=9,
    assigned=9,
    births=1,
    rejected=0,
    controls=0,
    dropped=0,
    lag=3,
    lag_unit="records",
    latency_p50=None,
    latency_p99=None,
    head_bytes=1,
    stages={},
    universes=[UniverseSummary(task=0, stream=None, categories=3, known=1, sequence=9)],
)


def event(number):
    return ExemplarView(id=f"e{number}", stream="", sequence=number, time=None, thumbnail=None)


def card(number, label=None, events=2):
    return CategoryCard(
        id=number,
        label=label,
        known=False,
        count=events,
        seen=events,
        born=number,
        born_time=None,
        last_sequence=8,
        last_time=None,
        spread=None,
        activity=[],
        exemplars=[event(n) for n in range(events)],
    )


def ellipse(major):
    return Ellipse(x=0.0, y=0.0, major=major, minor=major / 2, angle=0.3, probability=0.9)


def category(number, label=None, events=2):
    members = [MemberView(exemplar=event(n), x=2.0 * n - 1, y=0.5 - n) for n in range(events)]
    return CategoryView(
        card=card(number, label, events),
        width=1,
        members=members if events > 1 else [],
        explained=[0.9, 0.1] if events > 1 else [],
        ellipse=ellipse(1.5) if events > 1 else None,
        ellipse_before=ellipse(500.0) if events > 1 else None,
        trail=[],
        nearest=[],
        suggestions=[],
    )


def near(number, count):
    return Neighbour(category=number, label=None, known=False, count=count, log_density=-1.0)


def page_of(*cards):
    return CategoryPage(total=len(cards), matching=len(cards), offset=0, categories=list(cards))


def suggestion(keep=None, absorb=None, gain=3.0):
    return SuggestionView(
        keep=1, absorb=2, keep_label=keep, absorb_label=absorb, keep_count=4, absorb_count=2, log_bayes_factor=gain
    )


def suggested(keep=None, absorb=None):
    return Suggestions(suggestions=[suggestion(keep, absorb)], examined=3)


def timeline(parts, margin=None):
    ones, margins = [1] * parts, [margin] * parts
    return TimelineView(
        width=1,
        sequence=parts,
        events=ones,
        births=ones,
        categories=list(range(1, parts + 1)),
        margin_low=margins,
        margin_middle=margins,
        margin_high=margins,
        times=[None] * parts,
        marks=[],
    )


class Stub:
    """What the server says by path, what it refuses, what it was asked to change, and what it tells of itself."""

    def __init__(self):
        self.state = STATE
        self.said = {
            "/api/timeline": timeline(0),
            "/api/categories": page_of(card(7)),
            "/api/suggestions": Suggestions(suggestions=[], examined=3),
            **{f"/api/categories/{number}": category(number) for number in (3, 7)},
        }
        self.failing = {}
        self.token = None
        self.got = []
        self.asked = []
        self.told = []
        self.connection = 0
        self.url = ""

    def answer(self, path):
        """The status and the struct for a GET."""
        self.got.append(path)
        if self.token is not None:
            return HTTPStatus.UNAUTHORIZED, Refused(error="a token is needed")
        for prefix, error in self.failing.items():
            if path.startswith(prefix):
                return HTTPStatus.SERVICE_UNAVAILABLE, Refused(error=error)
        said = self.state if path == "/api/state" else self.said.get(path)
        return (HTTPStatus.OK, said) if said is not None else (HTTPStatus.NOT_FOUND, Refused(error="not there"))

    def take(self, path, body):
        """The status and the struct for a POST."""
        if path == "/session":
            self.token = None
            return HTTPStatus.NO_CONTENT, None
        request = msgspec.json.decode(body, type=ControlRequest)
        self.asked.append(request)
        return HTTPStatus.ACCEPTED, ControlSent(id=request.control.id, place="nowhere")

    def tell(self, task, answer):
        self.told.append(Told(task=task, answer=answer))

    def tidings(self, since):
        """What was told since, and how much there is by now. A state is told together with all from before it."""
        state, told = self.state, self.told[since:]
        births = [one for one in told if isinstance(one.answer, Assignment)]
        controls = [one for one in told if one not in births]
        said = Tidings(state=state, births=births, controls=controls, rejections=[], assignments=[], skipped=0)
        return said, since + len(told)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = urlsplit(self.path).path
        if path == "/api/events":
            self._stream()
        elif path.startswith("/api/"):
            status, said = self.stub.answer(path)
            self._send(status, "application/json", msgspec.json.encode(said))
        else:
            name = "index.html" if path == "/" else path.removeprefix("/assets/")
            self._send(HTTPStatus.OK, TYPES[name.rpartition(".")[2]], (STATIC / name).read_bytes())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, said = self.stub.take(self.path, body)
        self._send(status, "application/json", b"" if said is None else msgspec.json.encode(said))

    def _stream(self):
        self._send(HTTPStatus.OK, "text/event-stream", None)
        connection, since = self.stub.connection, 0
        while connection == self.stub.connection:
            tidings, since = self.stub.tidings(since)
            try:
                self.wfile.write(b"event: tidings\ndata: %s\n\n" % msgspec.json.encode(tidings))
            except OSError:  # nobody listens any more
                return
            time.sleep(0.1)

    def _send(self, status, kind, body):
        self.send_response(status)
        length = {"Connection": "close"} if body is None else {"Content-Length": str(len(body))}
        for name, value in {**HEADERS, "Content-Type": kind, **length}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body or b"")


def merged(keep, absorb, number=1):
    control = MergeCategories(id=f"m{number}", keep=keep, absorb=absorb)
    relabel = Relabel(category=absorb, becomes=keep)
    return ControlApplied(id=control.id, stream="", sequence=10, control=control, head_version=1, relabels=[relabel])


def renamed(number, label):
    control = RenameCategory(id=f"r-{label}", category=number, label=label)
    return ControlApplied(id=control.id, stream="", sequence=10, control=control, head_version=1)


def undone():
    return ControlApplied(id="u", stream="", sequence=11, control=UndoLast(id="u"), head_version=2)


def born(number):
    return Assignment(
        id="b",
        stream="",
        sequence=number,
        category=number,
        label=None,
        birth=True,
        log_evidence=-1.0,
        margin=None,
        probability=1.0,
        drift=None,
        head_version=1,
    )


def refusal(request):
    return Rejection(
        id=request.control.id,
        stream="",
        sequence=11,
        stage="control",
        error="UnknownCategoryError",
        message="there is no category 7",
        dead_letter="",
    )


@contextmanager
def serving():
    """A stub at an address of its own."""
    stub = Stub()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"stub": stub})) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        stub.url = f"http://127.0.0.1:{server.server_port}"
        yield stub
        stub.connection += 1
        server.shutdown()
        thread.join()
