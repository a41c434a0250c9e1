"""docs/page.md: every route, every refusal's kind and every field of every answer is in it."""

import inspect
from pathlib import Path

import msgspec
import pytest

from speciate.describe import describe
from speciate.instruments import Instruments
from speciate.page.app import Page
from speciate.page.refusals import Refusals
from speciate.page.sessions import Sessions
from speciate.page.stopped import Stopped
from speciate_schemas import page

TEXT = (Path(__file__).parents[2] / "docs" / "page.md").read_text("utf-8")
STRUCTS = [one for one in vars(page).values() if inspect.isclass(one) and one.__module__ == page.__name__]


def routes():
    return Page(Stopped("", []), Sessions(None, 1), Refusals(Instruments())).routes()


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_every_route_is_on_the_page(route):
    (method,) = route.methods - {"HEAD"}
    path = route.path.replace("{name:path}", "NAME").replace("{category}", "ID").replace("{sequence}", "SEQUENCE")
    assert f"| {method} `{path}` |" in TEXT


def rows(struct):
    for key in describe(struct):
        yield f"| `{struct.__name__}` | `{key.name}` | {key.type} | {key.description} |"


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_every_answer_is_on_the_page(struct):
    assert issubclass(struct, msgspec.Struct)
    assert struct.__doc__
    assert [key.name for key in describe(struct) if not key.description] == []
    assert [row for row in rows(struct) if row not in TEXT] == []
