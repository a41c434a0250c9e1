"""Data written by earlier versions stays readable, and is written the same way again."""

from pathlib import Path
from typing import get_args

import pytest

from golden.expected import EXPECTED
from speciate_schemas import Message, StoredRecord, decode, encode
from speciate_schemas.codec import Format
from speciate_schemas.events import tag_of

FOLDER = Path(__file__).parents[1] / "golden"
FORMATS = get_args(Format)
KINDS = {tag_of(kind): union for union in (Message, StoredRecord) for kind in get_args(union)}


def test_every_type_has_its_golden_files_and_every_file_its_type() -> None:
    present = {path.name for path in FOLDER.iterdir() if path.suffix in {".json", ".msgpack"}}
    wanted = {f"{tag}.{form}" for tag in KINDS for form in FORMATS}
    assert present == wanted, "for a new type run tests/golden/write.py; a file without a type is data nobody can read"


def test_every_tagged_type_is_expected() -> None:
    assert set(EXPECTED) == set(KINDS)


def holds(later: object, earlier: object) -> bool:
    """Everything that was written is still written; a field added since may stand beside it."""
    if isinstance(later, dict) and isinstance(earlier, dict):
        return all(key in later and holds(later[key], value) for key, value in earlier.items())
    if isinstance(later, list) and isinstance(earlier, list):
        return len(later) == len(earlier) and all(map(holds, later, earlier))
    return later == earlier


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("tag", sorted(KINDS))
def test_golden_file_is_read_and_written_as_ever(tag: str, form: Format) -> None:
    stored = (FOLDER / f"{tag}.{form}").read_bytes()
    decoded = decode(stored, KINDS[tag], form)
    assert decoded == EXPECTED[tag]
    assert holds(decode(encode(decoded, form), dict, form), decode(stored, dict, form))


def test_what_holds_means() -> None:
    assert holds({"a": [{"b": 1, "new": 2}]}, {"a": [{"b": 1}]})
    assert not holds({"a": [{"b": 1}]}, {"a": [{"b": 1, "gone": 2}]})
    assert not holds({"a": 1}, {"a": 2})


@pytest.mark.parametrize("tag", sorted(KINDS))
def test_golden_values_leave_no_field_at_its_default(tag: str) -> None:
    """A field left at its default would not notice that its encoding changed."""
    value, stored = EXPECTED[tag], decode((FOLDER / f"{tag}.json").read_bytes(), dict, "json")
    for name, default in zip(reversed(value.__struct_fields__), reversed(value.__struct_defaults__), strict=False):
        assert name not in stored or getattr(value, name) != default
