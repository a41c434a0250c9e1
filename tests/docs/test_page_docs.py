"""docs/page.md: every route, every refusal's kind and status and every field of every answer is in it."""

import ast
import inspect
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from speciate.describe import describe
from speciate.instruments import Instruments
from speciate.page.address import LOOPBACK_NAMES
from speciate.page.app import Page
from speciate.page.refusals import Reason, Refusals
from speciate.page.sessions import Sessions
from speciate.page.stopped import Stopped
from speciate_schemas import page

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "docs" / "page.md").read_text("utf-8")
STRUCTS = [one for one in vars(page).values() if inspect.isclass(one) and one.__module__ == page.__name__]


def routes():
    return Page(Stopped("", []), Sessions(None, 1), Refusals(Instruments())).routes()


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_every_route_is_on_the_page(route):
    (method,) = route.methods - {"HEAD"}
    path = route.path.replace("{name:path}", "NAME").replace("{category}", "ID").replace("{sequence}", "SEQUENCE")
    assert f"| {method} `{path}` |" in TEXT


def refusals():
    """Every kind that the code refuses with, and the status it is answered with there."""
    for path in (REPOSITORY / "engine" / "speciate" / "page").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("RefusedError", "_refused"):
                status, reason, *_ = node.args
                kinds = [reason.body, reason.orelse] if isinstance(reason, ast.IfExp) else [reason]
                yield from ((kind.value, status.value) for kind in kinds if _are_literal(kind, status))


def _are_literal(*nodes):
    return all(isinstance(node, ast.Constant) for node in nodes)


def test_every_refusal_s_kind_is_on_the_page_with_its_status():
    found = re.findall(r"^\| `(\w+)` \| (none|\d{3}(?:, \d{3})*) \| [^|]+ \|$", TEXT, re.MULTILINE)
    assert [kind for kind, _ in found] == list(get_args(Reason))
    told = {(kind, int(status)) for kind, statuses in found for status in re.findall(r"\d+", statuses)}
    # What nobody foresaw is the framework's to answer.
    assert told == {*refusals(), ("failed", 500)}


def test_every_name_that_is_always_taken_is_on_the_page():
    assert [name for name in LOOPBACK_NAMES if f"`{name}`" not in TEXT] == []


def rows(struct):
    for key in describe(struct):
        yield f"| `{struct.__name__}` | `{key.name}` | {key.type} | {key.description} |"


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_every_answer_is_on_the_page(struct):
    assert issubclass(struct, msgspec.Struct)
    assert struct.__doc__
    assert [key.name for key in describe(struct) if not key.description] == []
    assert [row for row in rows(struct) if row not in TEXT] == []
