"""`speciate schema`."""

import json
from typing import get_args

import pytest

from speciate_schemas import Message, StoredRecord

TAGGED = [*get_args(Message), *get_args(StoredRecord)]


def test_all_types(speciate):
    document = json.loads(speciate("schema").output)
    assert document["$schema"].startswith("https://json-schema.org/")
    names = {kind.__name__ for kind in TAGGED} | {
        "PipelineConfig",
        "AlbumOptions",
        "ModelOptions",
        "RunOptions",
        "CommitOptions",
        "Array",
        "Relabel",
    }
    assert set(document["$defs"]) == names
    assert len(document["anyOf"]) == 3


@pytest.mark.parametrize("kind", TAGGED)
def test_a_type_by_name_or_tag(speciate, kind):
    by_name = speciate("schema", kind.__name__)
    assert by_name.exit_code == 0
    assert by_name.output == speciate("schema", kind.__struct_config__.tag).output
    assert by_name.output == speciate("schema", kind.__name__.lower()).output
    assert json.loads(by_name.output)["$ref"] == f"#/$defs/{kind.__name__}"


def test_a_union(speciate):
    document = json.loads(speciate("schema", "Message").output)
    assert len(document["anyOf"]) == len(get_args(Message))


def test_an_unknown_type_gets_a_suggestion(speciate):
    result = speciate("schema", "FeatureEvnt")
    assert result.exit_code == 2
    assert "unknown type 'FeatureEvnt': did you mean 'FeatureEvent'?" in result.stderr
    assert "did you mean" not in speciate("schema", "zzzzzzzz").stderr
