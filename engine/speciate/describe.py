"""What a configuration struct says of its keys: name, type, default and description, in words.

One telling for the generated configuration, the documentation and the tests that miss nothing.
"""

import json
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

MANY = 10_000
"""From here on a number is written in groups of three digits."""


PLAIN_WORDS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "text",
    inspect.DictType: "table",
    inspect.StructType: "table",
}


class Key(NamedTuple):
    """One key of a configuration section."""

    name: str
    type: str
    default: str | None
    """The default as TOML; None where there is none: a required key, or one that is simply not set."""
    description: str
    required: bool


def describe(struct: type[msgspec.Struct]) -> list[Key]:
    """The keys of a struct, in order; a key that nobody described has an empty description."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)  # noqa: S101  # what msgspec answers for a struct
    return [_key(field) for field in info.fields]


def toml_text(value: Any) -> str:
    """A value as one writes it in TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:_}" if abs(value) >= MANY else str(value)
        case str():
            # JSON's escapes are TOML's, but for DEL, which TOML wants escaped too.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            pairs = (f"{_toml_key(key)} = {toml_text(item)}" for key, item in value.items() if item is not None)
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(toml_text(item) for item in value) + "]"
        case _:
            return str(value)  # floats, inf and nan, dates: Python and TOML agree


def _toml_key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else toml_text(key)


def _key(field: inspect.Field) -> Key:
    kind, description = _unwrap(field.type)
    return Key(field.encode_name, _words(kind), _default(field), description, field.required)


def _unwrap(kind: inspect.Type) -> tuple[inspect.Type, str]:
    """The type inside its annotations, and the outermost description; a section describes itself."""
    description = ""
    while isinstance(kind, inspect.Metadata):
        description = description or (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    if not description and isinstance(kind, inspect.StructType):
        description = (kind.cls.__doc__ or "").partition("\n")[0]
    return kind, description


def _default(field: inspect.Field) -> str | None:
    if field.default_factory is not msgspec.NODEFAULT:
        value = msgspec.to_builtins(field.default_factory())
    elif field.default is not msgspec.NODEFAULT:
        value = msgspec.to_builtins(field.default)
    else:
        return None
    # A section with defaults of its own describes them key by key.
    is_section = isinstance(_unwrap(field.type)[0], inspect.StructType)
    return None if value is None or is_section else toml_text(value)


def _words(kind: inspect.Type) -> str:  # noqa: PLR0911  # one return a kind of type reads best
    kind = _unwrap(kind)[0]
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return ("integer" if isinstance(kind, inspect.IntType) else "number") + _bounds(kind)
        case inspect.LiteralType():
            return " or ".join(toml_text(value) for value in kind.values)
        case inspect.EnumType():
            return " or ".join(toml_text(member.value) for member in kind.cls)
        case inspect.UnionType():
            # TOML has no null: what may be None may be left out, which the missing default says.
            return " or ".join(_words(one) for one in kind.types if not isinstance(one, inspect.NoneType))
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return f"list of {_words(kind.item_type)}"
        case inspect.TupleType():
            return f"[{', '.join(_words(item) for item in kind.item_types)}]"
        case _:
            return PLAIN_WORDS.get(type(kind), type(kind).__name__.removesuffix("Type").lower())


def _bounds(number: inspect.IntType | inspect.FloatType) -> str:
    signs = {">": number.gt, "≥": number.ge, "<": number.lt, "≤": number.le}
    bounds = [f"{sign} {toml_text(bound)}" for sign, bound in signs.items() if bound is not None]
    return " " + " and ".join(bounds) if bounds else ""
