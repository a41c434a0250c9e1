"""The guard: who may ask the page, how, and how often."""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from speciate.page.address import Place, host_of
from speciate.page.parameters import BODY_BYTES
from speciate.page.protocol import CONNECTION, BoundedProtocol
from speciate.page.refusals import Refusals, RefusedError
from speciate.page.sessions import Sessions

METHODS = ("GET", "HEAD")
POSTED = ("/api/control", "/session")
"""What is written to; everything else is only read."""
PROBES = ("/live", "/ready", "/metrics")
"""What machines ask for."""
PACE_SECONDS = 0.005
"""Requests are taken no faster than this, one after another: whoever hammers takes his own time, not the pipeline's."""
BURST_SECONDS = 1.0
"""As many as fit into this time are taken at once, if there were none before: a gallery is many pictures."""
QUEUE_SECONDS = 1.0
"""Nobody is let wait for longer."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Of every answer that does not say otherwise."""


class Pace:
    """Takes requests one after another."""

    def __init__(self) -> None:
        self._free_at = 0.0

    async def take_turn(self) -> None:
        """Wait for it; raises `RefusedError` at once if too many wait already."""
        now = asyncio.get_running_loop().time()
        turn = max(now - BURST_SECONDS, self._free_at + PACE_SECONDS)
        if turn - now > QUEUE_SECONDS:
            raise _refused(503, "crowded", "too many ask at once: try later", {"Retry-After": "2"})
        self._free_at = turn
        if turn > now:
            await asyncio.sleep(turn - now)


class Guard:
    """Lets a request through to the application, or refuses it."""

    def __init__(self, app: ASGIApp, place: Place, sessions: Sessions, refusals: Refusals) -> None:
        self._app = app
        self._place = place
        self._sessions = sessions
        self._refusals = refusals
        # Apart, so that nobody without the token keeps those waiting who have it, and no browser a probe.
        self._strangers, self._probes, self._others = Pace(), Pace(), Pace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        connection: BoundedProtocol = scope["extensions"][CONNECTION]
        refused = await self._refusal(scope, connection)
        if connection.is_gone:
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if refused is not None:
            await refused.response(scope["path"])(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            self._refusals.failed(error, scope["path"])
            raise

    async def _refusal(self, scope: Scope, connection: BoundedProtocol) -> RefusedError | None:
        """What is wrong with a request, if anything is, when its turn has come."""
        headers, found = Headers(scope=scope), None
        admitted = self._sessions.admits(headers.get("authorization", ""), headers.get("cookie", ""))
        connection.is_known = admitted and self._sessions.are_needed
        pace = self._strangers if not admitted else self._probes if scope["path"] in PROBES else self._others
        try:
            self._check(scope, headers, admitted=admitted)
        except RefusedError as error:
            pace, found = self._strangers, error
        try:
            await pace.take_turn()
        except RefusedError as error:
            found = error
        if found is not None:
            self._refusals.note(found.reason, client=(scope.get("client") or ("",))[0])
        return found

    def _check(self, scope: Scope, headers: Headers, *, admitted: bool) -> None:
        """Refuse what is wrong with a request; the token comes first, so that a stranger learns nothing else."""
        path, method = scope["path"], scope["method"]
        # The page itself says nothing: it must be there for whoever has the token to bring it along.
        public = path in ("/", "/session") or path.startswith("/assets/")
        if not public and not admitted:
            text = "a token is needed: Authorization: Bearer …, or a session"
            raise _refused(401, "token", text, {"WWW-Authenticate": "Bearer"})
        host = headers.get("host", "")
        if not self._place.is_called(host_of(host)):
            raise _refused(421, "host", "this is not the host you asked for")
        allowed = ("POST",) if path in POSTED else METHODS
        if method not in allowed:
            raise _refused(405, "method", f"only {' and '.join(allowed)}", {"Allow": ", ".join(allowed)})
        self._check_origin(headers, host, strict=method == "POST" or path.startswith("/api/"))
        _check_body(headers, method)

    def _check_origin(self, headers: Headers, host: str, *, strict: bool) -> None:
        """Refuse what a page of somebody else has sent; whoever is no browser says nothing of all this."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        # Behind a proxy that speaks TLS it is https, of which we see nothing.
        ours = {f"http://{host}".lower(), f"https://{host}".lower()}
        if origin is not None and origin.lower() not in ours:
            raise _refused(403, "origin", "another site's page may not ask this")
        if strict and site is not None and site not in ("same-origin", "none"):
            raise _refused(403, "origin", "another site's page may not ask this")


def _check_body(headers: Headers, method: str) -> None:
    length = headers.get("content-length", "0")
    if method != "POST":
        if length != "0" or "transfer-encoding" in headers:
            raise _refused(413, "body", "a request has no body here")
        return
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _refused(415, "type", "the body must be JSON: Content-Type: application/json")
    if not (length.isascii() and length.isdecimal()) or len(length) > len(str(BODY_BYTES)) or int(length) > BODY_BYTES:
        raise _refused(413, "body", f"the body is larger than {BODY_BYTES} bytes")


def _refused(status: int, reason: str, text: str, headers: dict[str, str] | None = None) -> RefusedError:
    # Closed behind it: what else the client may be sending is not read.
    return RefusedError(status, reason, text, {"Connection": "close", **(headers or {})})
