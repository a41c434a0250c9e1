"""`speciate schema`: what Speciate reads and writes, as JSON Schema."""

from typing import Any, get_args

import click

from speciate.cli.output import print_json

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command(name="schema")
@click.argument("kind", metavar="[TYPE]", required=False)
def command(*, kind: str | None) -> None:
    """Print the JSON Schema of what Speciate reads and writes.

    TYPE is the name of one type (FeatureEvent), its tag (feature.v1), or one of the unions Message and
    StoredRecord; without it all are printed: the messages, the stored records and the configuration.
    """
    import msgspec

    if kind is None:
        print_json({"$schema": DIALECT, "title": "Speciate", **_all()})
    else:
        print_json({"$schema": DIALECT, **msgspec.json.schema(_named(kind))})


def _all() -> dict[str, Any]:
    import msgspec

    from speciate_schemas import Message, PipelineConfig, StoredRecord

    roots, components = msgspec.json.schema_components(
        (Message, StoredRecord, PipelineConfig), ref_template="#/$defs/{name}"
    )
    return {"anyOf": list(roots), "$defs": components}


def _named(name: str) -> Any:
    """The type of this name or tag; a slip of the keyboard gets a suggestion."""
    from speciate.hints import did_you_mean

    types = _types()
    by_folded = {known.casefold(): known for known in types}
    if name.casefold() in by_folded:
        return types[by_folded[name.casefold()]]
    hint = did_you_mean(name, types)
    raise click.BadParameter(f"unknown type {name!r}: {hint}known are {', '.join(types)}", param_hint="TYPE")


def _types() -> dict[str, Any]:
    from speciate_schemas import AlbumOptions, Array, CommitOptions, Message, PipelineConfig, RunOptions, StoredRecord

    tagged = (*get_args(Message), *get_args(StoredRecord))
    types: dict[str, Any] = {"Message": Message, "StoredRecord": StoredRecord}
    types |= {kind.__name__: kind for kind in (*tagged, Array, PipelineConfig, RunOptions, CommitOptions, AlbumOptions)}
    return types | {kind.__struct_config__.tag: kind for kind in tagged}
