"""Trees of keys and values: read from TOML, overridden one key at a time, checked against the struct they must be."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

import msgspec

from speciate.errors import ConfigError
from speciate.hints import did_you_mean
from speciate_schemas import Strict

StrictT = TypeVar("StrictT", bound=Strict)


def read_toml(file: Traversable, what: str, name: str) -> dict[str, Any]:
    """The contents of a TOML file; `what` and `name` say which it is when it cannot be read, or is none."""
    try:
        return tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} is not valid TOML: {error}") from error


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> None:
    """Set dotted keys of nested mappings, in order."""
    for override in overrides:
        _override(tree, override)


def _override(tree: dict[str, Any], override: str) -> None:
    """Set one dotted key. The value is TOML; what is not valid TOML is taken as the text it is."""
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ConfigError(f"override {override!r} must look like section.key=value")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = {}
    # Text of several lines may be TOML with keys of its own; it is one value all the same.
    value = parsed["value"] if parsed.keys() == {"value"} else text
    node = tree
    for part in path[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {part!r} is a value, not a section")
    node[path[-1]] = value


def checked(tree: Mapping[str, Any], kind: type[StrictT], where: str) -> StrictT:
    """A tree of keys and values as the struct it must be."""
    check_keys(tree, kind, where)
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {readable(error)}") from error


def check_keys(tree: Mapping[str, Any], kind: type[Strict], where: str) -> None:
    """Refuse a key the struct does not have, and suggest the nearest it has."""
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in tree:
        if key not in known:
            raise ConfigError(
                f"{where} has no key {key!r}: {did_you_mean(key, known)}it takes {', '.join(known) or 'none'}"
            )


def readable(error: msgspec.DecodeError) -> str:
    """Msgspec's message with the path as one would write it in the file."""
    return str(error).replace("`$.", "`").replace(" - at `$`", "")
