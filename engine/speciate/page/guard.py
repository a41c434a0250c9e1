"""The guard: who may ask the page, how, and how often."""

import asyncio
import hmac

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from speciate.logs import get_logger
from speciate.page.address import Place, host_of
from speciate.page.refusals import Refusals

METHODS = ("GET", "HEAD")
PACE_SECONDS = 0.005
"""Requests are taken no faster than this, one after another: whoever hammers takes his own time, not the pipeline's."""

log = get_logger(__name__)


class Guard:
    """Lets a request through to the application, or refuses it."""

    def __init__(self, app: ASGIApp, place: Place, token: str | None, refusals: Refusals) -> None:
        self._app = app
        self._place = place
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._refusals = refusals
        self._free_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        await self._take_turn()
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except Exception:
            log.exception("the page failed to answer", path=scope["path"])
            raise

    async def _take_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(now, self._free_at + PACE_SECONDS)
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        """What is wrong with a request; the token comes first, so that a stranger learns nothing else."""
        headers = Headers(scope=scope)
        given = headers.get("authorization", "").encode("latin-1")
        if self._expected is not None and not hmac.compare_digest(given, self._expected):
            return self._refused(
                "token", scope, 401, "a token is needed: Authorization: Bearer …", "WWW-Authenticate: Bearer"
            )
        if not self._place.is_called(host_of(headers.get("host", ""))):
            return self._refused("host", scope, 421, "this is not the host you asked for")
        if scope["method"] not in METHODS:
            return self._refused("method", scope, 405, "only GET and HEAD", "Allow: GET, HEAD")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return self._refused("body", scope, 413, "a request has no body here")
        return None

    def _refused(self, reason: str, scope: Scope, status: int, text: str, header: str = "") -> PlainTextResponse:
        self._refusals.note(reason, client=(scope.get("client") or ("",))[0])
        # Closed behind it: what else the client may be sending is not read.
        headers = {"Connection": "close"}
        if header:
            name, _, value = header.partition(": ")
            headers[name] = value
        return PlainTextResponse(f"{text}\n", status, headers)
