"""What a request asks for: parameters and bodies, read strictly."""

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from speciate.page.refusals import RefusedError
from speciate.trees import readable
from speciate_schemas import Strict
from speciate_schemas.codec import decode

BODY_BYTES = 16 << 10
MOST = 200
"""Categories on one page."""
_LARGEST = 10**15

StrictT = TypeVar("StrictT", bound=Strict)


class Asked(Strict, frozen=True):
    """Which set of categories is asked for."""

    task: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)] = 0
    stream: Annotated[str, msgspec.Meta(max_length=512)] | None = None


class Search(Asked, frozen=True):
    """Which categories are wanted, and in which order."""

    search: Annotated[str, msgspec.Meta(max_length=512)] = ""
    kind: Literal["all", "known", "born"] = "all"
    sort: Literal["count", "recent", "born", "id", "label"] = "count"
    order: Literal["desc", "asc"] = "desc"
    offset: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 60


class Picture(Asked, frozen=True):
    """A picture; `v` tells pictures apart that had the same address."""

    v: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Nothing(Strict, frozen=True):
    """No parameters."""


def parameters(request: Request, kind: type[StrictT]) -> StrictT:
    """The parameters of a request."""
    given: dict[str, int | str] = {}
    for name, text in request.query_params.multi_items():
        if name in given:
            raise RefusedError(400, "invalid", f"the parameters are wrong: `{name[:64]}` is there twice, name it once")
        given[name] = int(text) if name in _numbers(kind) and _is_number(text) else text
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _invalid("parameters are", error) from error


def number(request: Request, name: str) -> int:
    """A number in the path."""
    text: str = request.path_params[name]
    if not _is_number(text):
        raise RefusedError(404, "unknown", f"there is no {name} {text[:64]!r}: it is a number")
    return int(text)


def plain(function: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The same function, which refuses a request with parameters."""

    async def answer(request: Request) -> Response:
        parameters(request, Nothing)
        return await function(request)

    return answer


async def body(request: Request, kind: type[StrictT]) -> StrictT:
    """The body of a request, which is JSON."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES:
            # Closed behind it: what else is being sent is not read.
            raise RefusedError(413, "body", f"the body is larger than {BODY_BYTES} bytes", {"Connection": "close"})
    try:
        found: StrictT = decode(data, kind, "json")
    except msgspec.DecodeError as error:
        raise _invalid("body is", error) from error
    return found


@functools.cache
def _numbers(kind: type[Strict]) -> frozenset[str]:
    """The parameters that are numbers; those of an address are all text."""
    return frozenset(name for name, type_ in get_type_hints(kind).items() if type_ is int)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(_LARGEST))


def _invalid(what: str, error: msgspec.DecodeError) -> RefusedError:
    return RefusedError(400, "invalid", f"the {what} wrong: {readable(error)[:500]}")
