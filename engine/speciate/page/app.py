"""What the page answers: `/metrics`, `/live` and `/ready`."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from speciate.exposition import CONTENT_TYPE, expose
from speciate.page.asking import Question, StuckError
from speciate.pipeline import Pipeline


class Page:
    """Asks a pipeline and tells the answers."""

    def __init__(self, pipeline: Pipeline, loop: asyncio.AbstractEventLoop) -> None:
        self._metrics = Question(loop, pipeline.instruments, expose)
        self._unready = Question(loop, pipeline.unready, list[str])
        self._turn = Question(loop, lambda: None, bool)

    def application(self) -> Starlette:
        """The application, unguarded."""
        routes = [Route("/metrics", self.metrics), Route("/live", self.live), Route("/ready", self.ready)]
        return Starlette(routes=routes, exception_handlers={StuckError: _stuck})

    async def metrics(self, _: Request) -> Response:
        """Every metric, for Prometheus."""
        return Response(await self._metrics.ask(), media_type=CONTENT_TYPE)

    async def live(self, _: Request) -> Response:
        """Whether the process turns; one that does not is best started again."""
        await self._turn.ask()
        return PlainTextResponse("live\n")

    async def ready(self, _: Request) -> Response:
        """Whether every task is restored and connected, or why not."""
        reasons = await self._unready.ask()
        return PlainTextResponse("".join(f"{reason}\n" for reason in reasons or ["ready"]), 503 if reasons else 200)


async def _stuck(_: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 503)
