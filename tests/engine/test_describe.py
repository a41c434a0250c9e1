"""What the structs say of themselves, and TOML that reads back as what was written."""

import tomllib
from typing import Annotated, Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from speciate.describe import Key, describe, toml_text
from speciate_schemas import PipelineConfig, RunOptions, Strict

Said = msgspec.Meta(description="Said.")


class Options(Strict, frozen=True):
    needed: Annotated[list[str], Said]
    wide: Annotated[float, msgspec.Meta(gt=0, le=1, description="How wide.")] = 0.5
    big: Annotated[int, Said] = 1_000_000
    mode: Annotated[Literal["a", "b"] | int, Said] = "a"
    left_out: Annotated[str | None, Said] = None
    follow: Annotated[bool, Said] = False
    size: Annotated[tuple[int, int], Said] = (8, 8)
    names: Annotated[tuple[str, ...], Said] = ()
    extra: Annotated[dict[str, int], Said] = msgspec.field(default_factory=dict)
    silent: int = 1


def test_each_key_is_told_in_words():
    assert describe(Options) == [
        Key("needed", "list of text", None, "Said.", required=True),
        Key("wide", "number > 0 and ≤ 1", "0.5", "How wide.", required=False),
        Key("big", "integer", "1_000_000", "Said.", required=False),
        Key("mode", '"a" or "b" or integer', '"a"', "Said.", required=False),
        Key("left_out", "text", None, "Said.", required=False),
        Key("follow", "true or false", "false", "Said.", required=False),
        Key("size", "[integer, integer]", "[8, 8]", "Said.", required=False),
        Key("names", "list of text", "[]", "Said.", required=False),
        Key("extra", "table", "{}", "Said.", required=False),
        Key("silent", "integer", "1", "", required=False),
    ]


def test_a_section_is_described_by_its_struct():
    run = next(key for key in describe(PipelineConfig) if key.name == "run")
    assert run.type == "table"
    assert run.default is None
    assert run.description == RunOptions.__doc__


def test_every_default_of_the_engine_is_what_its_text_says():
    written = "\n".join(f"{key.name} = {key.default}" for key in describe(RunOptions) if key.default is not None)
    assert msgspec.convert(tomllib.loads(written), RunOptions) == RunOptions()


scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(values)
def test_toml_text_reads_back(value):
    assert tomllib.loads(f"value = {toml_text(value)}")["value"] == value
