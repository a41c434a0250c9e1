"""The application: the page and its files, the API, metrics and health."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from speciate.errors import SpeciateError, UnknownCategoryError
from speciate.exposition import CONTENT_TYPE
from speciate.page.api import Api
from speciate.page.asking import StuckError, UnreadyError
from speciate.page.assets import INDEX, load_assets
from speciate.page.feed import Feed
from speciate.page.overview import Overview
from speciate.page.parameters import body, plain
from speciate.page.refusals import Refusals, RefusedError
from speciate.page.sessions import Sessions
from speciate.page.subject import Subject
from speciate_schemas.page import SessionRequest


class Page:
    """Asks what the page is about and tells the answers."""

    def __init__(self, subject: Subject, sessions: Sessions, refusals: Refusals) -> None:
        self._subject = subject
        self._sessions = sessions
        self._refusals = refusals
        self._assets = load_assets()
        self.feed = Feed(subject, Overview(subject))
        """To be run on the page's loop."""
        self._api = Api(subject, self.feed)

    def application(self) -> Starlette:
        """The application, unguarded."""
        handlers = {
            StuckError: self._stuck,
            RefusedError: self._refused,
            SpeciateError: self._failed,
            HTTPException: self._unknown,
        }
        app = Starlette(routes=self.routes(), exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    def routes(self) -> list[Route]:
        """Where everything is."""
        return [
            Route("/", plain(self.index)),
            Route("/assets/{name:path}", plain(self.asset)),
            Route("/session", plain(self.session), methods=["POST"]),
            *self._api.routes(),
            Route("/metrics", plain(self.metrics)),
            Route("/live", plain(self.live)),
            Route("/ready", plain(self.ready)),
        ]

    async def index(self, request: Request) -> Response:
        """The page."""
        return self._file(INDEX, request)

    async def asset(self, request: Request) -> Response:
        """One of its files."""
        return self._file(request.path_params["name"], request)

    async def session(self, request: Request) -> Response:
        """Know somebody who has the token by a cookie from now on."""
        given = await body(request, SessionRequest)
        cookie = self._sessions.open(given.token)
        if cookie is None and self._sessions.are_needed:
            raise RefusedError(401, "token", "this is not the token")
        return Response(status_code=204, headers={} if cookie is None else {"Set-Cookie": cookie})

    async def metrics(self, _: Request) -> Response:
        """Every metric, for Prometheus."""
        return Response(await self._subject.metrics(), media_type=CONTENT_TYPE)

    async def live(self, _: Request) -> Response:
        """Whether the process turns; one that does not is best started again."""
        await self._subject.turn()
        return PlainTextResponse("live\n")

    async def ready(self, _: Request) -> Response:
        """Whether every task is restored and connected, or why not."""
        reasons = await self._subject.unready()
        return PlainTextResponse("".join(f"{reason}\n" for reason in reasons or ["ready"]), 503 if reasons else 200)

    def _file(self, name: str, request: Request) -> Response:
        found = self._assets.get(name)
        if found is None:
            raise RefusedError(404, "unknown", "there is no such file")
        return found.answer(request)

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)  # noqa: S101  # registered for it
        self._refusals.note(error.reason, path=request.url.path[:256], error=str(error))
        return error.response(request.url.path)

    async def _unknown(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  # registered for it
        return await self._refused(request, RefusedError(error.status_code, "unknown", "there is nothing here"))

    async def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, UnknownCategoryError):
            return await self._refused(request, RefusedError(404, "unknown", str(error)))
        return await self._refused(request, RefusedError(503, "failed", str(error)))

    async def _stuck(self, request: Request, error: Exception) -> Response:
        refused = RefusedError(503, "unready" if isinstance(error, UnreadyError) else "stuck", str(error))
        return await self._refused(request, refused)
