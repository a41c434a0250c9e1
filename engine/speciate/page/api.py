"""The API: every answer is a struct of `speciate_schemas.page`, whatever the page is about."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from speciate.errors import LabelError, OperatorError
from speciate.exemplars import Kept
from speciate.naming import check_name
from speciate.page import parameters
from speciate.page.asking import patience
from speciate.page.cards import Traced, card, copy_traces
from speciate.page.category import category_view
from speciate.page.feed import Feed
from speciate.page.keeping import Keeping
from speciate.page.listing import Listing, copy_rows, listing_of
from speciate.page.parameters import body, number, plain
from speciate.page.refusals import RefusedError
from speciate.page.subject import Subject, Where, no_category
from speciate.page.suggestions import Suggester
from speciate.page.thumbnails import Thumbnail, Thumbnails, finished
from speciate.page.timelines import copy_timeline, timeline_view
from speciate.pipeline import Inside
from speciate_schemas import Control, ForgetCategory, MergeCategories, RenameCategory
from speciate_schemas.page import CategoryPage, ControlRequest, ControlSent, Suggestions

FRESH_SECONDS = 1.0
PICTURE_SECONDS = 86_400
ANSWER_SECONDS = 7.0
"""However much an answer is made of: with the time until its turn, it is less than the connection has."""
CHECK_SECONDS = 2.0
"""For the checking of a control event; the sending has a time of its own."""


class Api:
    """Answers what the page's own script asks, and anybody else."""

    def __init__(self, subject: Subject, feed: Feed) -> None:
        self._subject = subject
        self._feed = feed
        self._thumbnails = Thumbnails()
        self._suggester = Suggester(subject)
        self._listings: Keeping[Listing] = Keeping(FRESH_SECONDS, 8)
        self._answers: Keeping[bytes] = Keeping(FRESH_SECONDS, 32)

    def routes(self) -> list[Route]:
        """Where everything is."""
        get: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/api/state": plain(self.state),
            "/api/timeline": self.timeline,
            "/api/categories": self.categories,
            "/api/categories/{category}": self.category,
            "/api/thumbnails/{category}/{sequence}": self.thumbnail,
            "/api/suggestions": self.suggestions,
        }
        return [
            *(Route(path, _in_time(function), methods=["GET"]) for path, function in get.items()),
            Route("/api/events", plain(self._feed.answer), methods=["GET"]),
            Route("/api/control", plain(self.control), methods=["POST"]),
        ]

    async def state(self, _: Request) -> Response:
        """How the pipeline is."""
        return _json(await self._feed.state())

    async def timeline(self, request: Request) -> Response:
        """The stream so far in equal parts."""
        where = _where(parameters.parameters(request, parameters.Asked))

        async def make() -> bytes:
            state, sequence = await self._subject.look(where, copy_timeline)
            listing = await self._listing(where)
            return await self._encoded(lambda: timeline_view(state, sequence, listing))

        return _answer(await self._answers.get(("timeline", self._now(where)), make))

    async def categories(self, request: Request) -> Response:
        """Some categories of many."""
        wanted = parameters.parameters(request, parameters.Search)
        where = _where(wanted)

        async def make() -> bytes:
            listing = await self._listing(where)
            matching = await self._subject.work(partial(listing.find, wanted))
            rows = matching[wanted.offset : wanted.offset + wanted.limit]
            copy = partial(copy_traces, numbers=[row.id for row in rows])
            traces: dict[int, Traced] = await self._subject.look(where, copy) if rows else {}
            await finished(one for traced in traces.values() for one in traced.exemplars)

            def page() -> CategoryPage:
                cards = [card(where, row, traces[row.id], self._thumbnails) for row in rows if row.id in traces]
                return CategoryPage(
                    total=len(listing.rows), matching=len(matching), offset=wanted.offset, categories=cards
                )

            return await self._encoded(page)

        return _answer(await self._answers.get((wanted, self._now(where)), make))

    async def category(self, request: Request) -> Response:
        """One category."""
        where = _where(parameters.parameters(request, parameters.Asked))
        wanted = number(request, "category")

        async def make() -> bytes:
            view = await category_view(self._subject, where, wanted, await self._listing(where), self._thumbnails)
            return await self._encoded(lambda: view)

        return _answer(await self._answers.get((wanted, self._now(where)), make))

    async def thumbnail(self, request: Request) -> Response:
        """A picture of an exemplar."""
        given = parameters.parameters(request, parameters.Picture)
        where, category, sequence = _where(given), number(request, "category"), number(request, "sequence")
        if category not in (await self._listing(where)).rows:
            raise no_category(category)
        found = self._thumbnails.find(where, category, sequence)
        if found is None or given.v != found.version:
            found = await self._look_for(where, category, sequence)
        # Its address is its own as long as that names the version: the browser need not ask again.
        lasting = f"private, max-age={PICTURE_SECONDS}, immutable" if given.v == found.version else "no-store"
        return Response(found.content, media_type="image/jpeg", headers={"Cache-Control": lasting})

    async def suggestions(self, request: Request) -> Response:
        """Merges that the events speak for."""
        where = _where(parameters.parameters(request, parameters.Asked))
        if not await self._subject.look(where, _suggests):
            return _json(Suggestions(suggestions=[], examined=0))
        return _json(await self._suggester.suggest(where, await self._listing(where)))

    async def control(self, request: Request) -> Response:
        """Have something changed by hand."""
        sent = await body(request, ControlRequest)
        async with patience(CHECK_SECONDS, "come to it, and nothing was sent: try again"):
            state = await self._feed.state()
            if state.uncontrollable:
                raise RefusedError(409, "uncontrollable", state.uncontrollable)
            await self._check(sent.task, sent.control)
        try:
            place = await self._subject.send(sent.task, sent.control)
        except OperatorError as error:
            raise RefusedError(409, "uncontrollable", str(error)) from error
        return _json(ControlSent(id=sent.control.id, place=place), 202)

    async def _check(self, task: int, control: Control) -> None:
        """Refuse what would be rejected anyway: the stream is spared it."""
        try:
            check_name(control)
        except LabelError as error:
            raise RefusedError(400, "invalid", str(error)) from error
        there = await self._subject.universes()
        shared = Where(task, None) in there
        where = Where(task, None if shared else control.stream)
        if isinstance(control, MergeCategories):
            meant = [control.keep, control.absorb]
            if control.keep == control.absorb:
                raise RefusedError(400, "invalid", f"category {control.keep} cannot be merged with itself")
        else:
            meant = [control.category] if isinstance(control, RenameCategory | ForgetCategory) else []

        def missing(inside: Inside) -> list[int]:
            return [one for one in meant if one not in inside.chronicle.traces]

        gone = await self._subject.look(where, missing)
        if gone:
            raise no_category(gone[0])

    async def _listing(self, where: Where) -> Listing:
        async def make() -> Listing:
            copied = await self._subject.look(where, copy_rows)
            return await self._subject.work(partial(listing_of, copied))

        return await self._listings.get(self._now(where), make)

    async def _encoded(self, make: Callable[[], Any]) -> bytes:
        return await self._subject.work(lambda: msgspec.json.encode(make()))

    async def _look_for(self, where: Where, category: int, sequence: int) -> Thumbnail:
        def exemplar(inside: Inside) -> Kept | None:
            trace = inside.chronicle.traces.get(category)
            return next((one for one in trace.exemplars if one.sequence == sequence), None) if trace else None

        one: Kept | None = await self._subject.look(where, exemplar)
        await finished([] if one is None else [one])
        found = None if one is None else self._thumbnails.keep(where, category, one)
        if found is None:
            raise RefusedError(404, "unknown", f"category {category} has no picture of record {sequence}")
        return found

    def _now(self, where: Where) -> tuple[Where, int]:
        """What answers are kept by: behind a control event categories have other names and numbers."""
        return where, self._subject.audience.controls


def _where(given: parameters.Asked) -> Where:
    return Where(given.task, given.stream)


def _suggests(inside: Inside) -> bool:
    return inside.head.suggests


def _in_time(function: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The same function, which gives up while there is somebody to be told so."""

    async def answer(request: Request) -> Response:
        async with patience(ANSWER_SECONDS, "answered: try again"):
            return await function(request)

    return answer


def _json(value: Any, status: int = 200) -> Response:
    return _answer(msgspec.json.encode(value), status)


def _answer(encoded: bytes, status: int = 200) -> Response:
    return Response(encoded, status, media_type="application/json")
