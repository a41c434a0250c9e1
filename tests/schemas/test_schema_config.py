"""The configuration's own structs: sound defaults, named mistakes, and a description for every key."""

from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given

from speciate_schemas import AlbumOptions, CommitOptions, FitConfig, ModelOptions, PipelineConfig, RunOptions, Strict
from strategies import STRATEGIES

SECTIONS = {name: {"plugin": "x"} for name in ("source", "sink")}


def test_defaults_satisfy_their_own_limits() -> None:
    for kind in (RunOptions, CommitOptions):
        assert msgspec.convert(msgspec.to_builtins(kind()), kind) == kind()


def test_the_shortest_configuration_names_two_plugins() -> None:
    """It hands on what it reads; the engine checks that whoever decides has all it takes."""
    config = msgspec.convert(SECTIONS, PipelineConfig)
    assert config.run == RunOptions()
    assert config.commit == CommitOptions()
    assert config.album == AlbumOptions()
    others = set(PipelineConfig.__struct_fields__) - {*SECTIONS, "run", "commit", "album"}
    assert all(getattr(config, name) is None for name in others)


@pytest.mark.parametrize("missing", SECTIONS)
def test_a_missing_section_is_named(missing: str) -> None:
    tree = {name: section for name, section in SECTIONS.items() if name != missing}
    with pytest.raises(msgspec.ValidationError, match=f"`{missing}`"):
        msgspec.convert(tree, PipelineConfig)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("run", "batch_events", 0),
        ("run", "batch_events", "many"),
        ("run", "linger_ms", -1),
        ("run", "queue_events", 1.5),
        ("run", "queue_bytes", 0),
        ("run", "overflow", "explode"),
        ("run", "pace", 0),
        ("run", "pace", "slow"),
        ("run", "decode_workers", 0),
        ("run", "encode_events", 0),
        ("model", "path", ""),
        ("model", "path", 7),
        ("run", "max_event_bytes", 0),
        ("run", "duplicate_window", -1),
        ("run", "universe", "everything"),
        ("run", "standby", -1),
        ("commit", "events", 0),
        ("commit", "interval_ms", -0.5),
        ("commit", "snapshot_events", 0),
        ("commit", "snapshots_kept", 1),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_place(section: str, key: str, value: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match=rf"`\$\.{section}\.{key}`"):
        msgspec.convert({**SECTIONS, section: {key: value}}, PipelineConfig)


@pytest.mark.parametrize("pace", ["max", "original", 1, 0.5, 1e6])
def test_every_kind_of_pace_is_taken(pace: Any) -> None:
    assert msgspec.convert({"pace": pace}, RunOptions).pace == pace


@pytest.mark.parametrize("kind", [RunOptions, CommitOptions, ModelOptions, PipelineConfig, FitConfig])
def test_every_key_is_described(kind: type[Strict]) -> None:
    """The reference of the configuration is made from these descriptions."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        described = any(
            isinstance(meta, msgspec.Meta) and meta.description for meta in getattr(hint, "__metadata__", ())
        )
        nested = isinstance(hint, type) and issubclass(hint, Strict) and hint.__doc__
        assert described or nested, name
        assert get_args(hint) or nested


@pytest.mark.parametrize("missing", ["support", "density", "policy"])
def test_a_section_that_a_fit_cannot_do_without_is_named(missing: str) -> None:
    """What images take is left to the engine: whoever has features needs neither [encoder] nor [training]."""
    sections = {name: {"plugin": "x"} for name in ("support", "density", "policy")}
    config = msgspec.convert(sections, FitConfig)
    assert (config.encoder, config.training) == (None, None)
    del sections[missing]
    with pytest.raises(msgspec.ValidationError, match=f"`{missing}`"):
        msgspec.convert(sections, FitConfig)


@given(STRATEGIES[PipelineConfig])
def test_a_configuration_survives_plain_values(config: PipelineConfig) -> None:
    assert msgspec.convert(msgspec.to_builtins(config), PipelineConfig) == config
