"""The guard: who may ask the page, how, and how often."""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from speciate.logs import get_logger
from speciate.page.address import Place, host_of
from speciate.page.parameters import BODY_BYTES
from speciate.page.refusals import Refusals, RefusedError
from speciate.page.sessions import Sessions

METHODS = ("GET", "HEAD")
POSTED = ("/api/control", "/session")
"""What is written to; everything else is only read."""
PACE_SECONDS = 0.005
"""Requests are taken no faster than this, one after another: whoever hammers takes his own time, not the pipeline's."""
BURST_SECONDS = 1.0
"""As many as fit into this time are taken at once, if there were none before: a gallery is many pictures."""
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

log = get_logger(__name__)


class Guard:
    """Lets a request through to the application, or refuses it."""

    def __init__(self, app: ASGIApp, place: Place, sessions: Sessions, refusals: Refusals) -> None:
        self._app = app
        self._place = place
        self._sessions = sessions
        self._refusals = refusals
        self._free_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        await self._take_turn()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
        except RefusedError as error:
            self._refusals.note(error.reason, client=(scope.get("client") or ("",))[0])
            await error.response(scope["path"])(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            log.exception("the page failed to answer", path=scope["path"])
            raise

    async def _take_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(now - BURST_SECONDS, self._free_at + PACE_SECONDS)
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)

    def _check(self, scope: Scope) -> None:
        """Refuse what is wrong with a request; the token comes first, so that a stranger learns nothing else."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        # The page itself says nothing: it must be there for whoever has the token to bring it along.
        public = path in ("/", "/session") or path.startswith("/assets/")
        if not public and not self._sessions.admits(headers.get("authorization", ""), headers.get("cookie", "")):
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
