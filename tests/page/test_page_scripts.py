"""The page's scripts as they are written: nothing has a name that nobody calls it by."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

STATIC = Path(str(files("speciate.page") / "static"))
SCRIPTS = {path.name: path.read_text() for path in STATIC.glob("*.js")}
STYLES = "\n".join(path.read_text() for path in STATIC.glob("*.css"))
MARKUP = "\n".join([*SCRIPTS.values(), (STATIC / "index.html").read_text()])


def said_in_tests() -> Iterator[str]:
    """Every text in the tests of the page but this one: among them are the selectors."""
    for path in Path(__file__).parent.glob("*.py"):
        nodes = [] if path == Path(__file__) else ast.walk(ast.parse(path.read_text()))
        yield from (one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str))


ASKED = "\n".join([STYLES, *said_in_tests()])


def named(attribute: str) -> set[str]:
    """What is given as an attribute, in a script or in the markup."""
    given = re.findall(rf'\b{attribute}(?:: |=)"([^"]+)"', MARKUP)
    assert given
    return {word for text in given for word in text.split()}


def test_what_a_script_exports_another_imports():
    declared = r"^export (?:async )?(?:function|class|const) (\w+)"
    exported = {(name, one) for name, text in SCRIPTS.items() for one in re.findall(declared, text, re.MULTILINE)}
    wanted = re.findall(r'import \{([^}]*)\} from "\./([\w.]+)"', MARKUP)
    assert exported == {(name, one) for names, name in wanted for one in re.findall(r"\w+", names)}


def test_a_class_is_styled_or_asked_for():
    assert {one for one in named("class") if not re.search(rf"\.{one}(?![\w-])", ASKED)} == set()


def test_an_id_is_asked_for():
    def wanted(one: str) -> re.Match[str] | None:
        called = rf'(?:byId|getElementById)\("{one}"\)|\b(?:for|aria-\w+)"?(?:: |=)"{one}"'
        return re.search(rf"#{one}(?![\w-])|{called}", f"{MARKUP}\n{ASKED}")

    assert {one for one in named("id") if not wanted(one)} == set()


def test_a_data_attribute_is_asked_for():
    given = set(re.findall(r'"data-([\w-]+)"', MARKUP))
    assert given
    camel = {one: re.sub(r"-(\w)", lambda found: found[1].upper(), one) for one in given}
    text = f"{MARKUP}\n{ASKED}"
    assert {one for one in given if f"[data-{one}" not in text and f"dataset.{camel[one]}" not in text} == set()
