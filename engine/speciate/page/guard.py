"""The guard: who may ask the page, and how."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from speciate.page.address import Place, host_of
from speciate.page.costs import Counted
from speciate.page.pace import SHARE, SMALL_SHARE, CrowdedError, Pace
from speciate.page.parameters import BODY_BYTES
from speciate.page.protocol import CONNECTION, BoundedProtocol
from speciate.page.refusals import Reason, Refusals, RefusedError
from speciate.page.sessions import Sessions

METHODS = ("GET", "HEAD")
POSTED = ("/api/control", "/session")
"""What is written to; everything else is only read."""
PROBES = ("/live", "/ready", "/metrics")
"""What machines ask for."""
HEADER_BYTES = 16 << 10
"""Of a request: its address and all headers together."""
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


class Guard:
    """Lets a request through to the application, or refuses it."""

    def __init__(self, app: ASGIApp, place: Place, sessions: Sessions, refusals: Refusals) -> None:
        self._app = app
        self._place = place
        self._sessions = sessions
        self._refusals = refusals
        # Apart, so that nobody without the token keeps those waiting who have it, and no browser a probe.
        self._strangers, self._probes, self._others = Pace(SMALL_SHARE), Pace(SMALL_SHARE), Pace(SHARE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        connection: BoundedProtocol = scope["extensions"][CONNECTION]
        with connection.cost:
            pace, refused = self._judged(scope, connection)
        try:
            await pace.take_turn()
        except CrowdedError as error:
            # Not charged: a crowd that is refused would put off the next turn for ever.
            await self._answer(scope, receive, send, _refused(503, "crowded", str(error), {"Retry-After": "2"}))
            connection.cost.take()
            return
        try:
            await Counted(self._answer(scope, receive, send, refused), connection.cost)
        finally:
            pace.charge(connection.cost.take())

    async def _answer(self, scope: Scope, receive: Receive, send: Send, refused: RefusedError | None) -> None:
        connection: BoundedProtocol = scope["extensions"][CONNECTION]
        if refused is not None:
            self._refusals.note(refused.reason, client=(scope.get("client") or ("",))[0])
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
        except ClientDisconnect:
            return  # in the midst of a body: there is nobody to be answered, and nothing has failed here
        except Exception as error:
            self._refusals.failed(error, scope["path"])
            raise

    def _judged(self, scope: Scope, connection: BoundedProtocol) -> tuple[Pace, RefusedError | None]:
        """The pace that a request is taken at, and what is wrong with it, if anything is."""
        try:
            _check_size(scope)
            headers = Headers(scope=scope)
            admitted = self._sessions.admits(headers.get("authorization", ""), headers.get("cookie", ""))
            connection.is_known = admitted and self._sessions.are_needed
            self._check(scope, headers, admitted=admitted)
        except RefusedError as error:
            return self._strangers, error
        if not admitted:
            return self._strangers, None
        return self._probes if scope["path"] in PROBES else self._others, None

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


def _check_size(scope: Scope) -> None:
    """Refuse headers that are too large before anybody reads them; h11 lets pass what comes in one piece."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > HEADER_BYTES:
        raise _refused(431, "headers", f"address and headers are larger than {HEADER_BYTES} bytes")


def _check_body(headers: Headers, method: str) -> None:
    length = headers.get("content-length", "0")
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy in front may have believed the other one, and take the rest for another request.
        raise _refused(400, "malformed", "a body has a Content-Length or a Transfer-Encoding, not both")
    if method != "POST":
        if length != "0" or "transfer-encoding" in headers:
            raise _refused(413, "body", "a request has no body here")
        return
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _refused(415, "type", "the body must be JSON: Content-Type: application/json")
    if not (length.isascii() and length.isdecimal()) or len(length) > len(str(BODY_BYTES)) or int(length) > BODY_BYTES:
        raise _refused(413, "body", f"the body is larger than {BODY_BYTES} bytes")


def _refused(status: int, reason: Reason, text: str, headers: dict[str, str] | None = None) -> RefusedError:
    # Closed behind it: what else the client may be sending is not read.
    return RefusedError(status, reason, text, {"Connection": "close", **(headers or {})})
