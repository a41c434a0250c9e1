"""What travels: limits of the fields, unions, and that an event never changes."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given

from speciate_schemas import (
    Answer,
    Assignment,
    Control,
    ControlApplied,
    DeadLetter,
    Event,
    FeatureEvent,
    ForgetCategory,
    ImageEvent,
    Message,
    Observation,
    Refolded,
    RenameCategory,
    decode,
    encode,
)
from speciate_schemas.events import Wire
from strategies import STRATEGIES


def members(union: Any) -> set[type]:
    return set(get_args(union))


def test_unions_say_who_answers_whom() -> None:
    assert members(Event) == members(Observation) | members(Control)
    assert members(Message) == members(Event) | members(Answer) | {DeadLetter, Refolded}
    assert members(Message) == set(Wire.__subclasses__())


@pytest.mark.parametrize("kind", sorted(members(Message), key=lambda kind: kind.__name__))
def test_every_field_that_is_not_obvious_is_described(kind: type[msgspec.Struct]) -> None:
    """The schemas are the documentation, so a type without a sentence is an undocumented one."""
    assert kind.__doc__
    assert kind.__doc__.strip().endswith(".")


def test_the_shortest_event_needs_only_an_id_and_a_vector() -> None:
    event = decode(b'{"type":"feature.v1","id":"a","features":[1,2.5]}', Event, "json")
    assert event == FeatureEvent(id="a", features=[1.0, 2.5])
    assert (event.stream, event.time, event.label) == ("", None, None)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"id": ""}, "id"),
        ({"id": "x" * 513}, "id"),
        ({"stream": "x" * 513}, "stream"),
        ({"stream": None}, "stream"),
        ({"label": ""}, "label"),
        ({"time": "now"}, "time"),
        ({"features": [1, None]}, "features"),
        ({"features": "AAAA"}, "features"),
        ({"features": {"dtype": "float32", "shape": [1], "data": "AAA="}}, "features"),
        ({"features": {"dtype": "complex64", "shape": [0], "data": ""}}, "features.dtype"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_place(change: dict[str, Any], place: str) -> None:
    tree = {"type": "feature.v1", "id": "a", "features": [1.0], **change}
    with pytest.raises(msgspec.DecodeError, match=rf"`\$\.{place}"):
        decode(encode(tree, "json"), Message, "json")


@pytest.mark.parametrize(("field", "value"), [("probability", 1.5), ("probability", -0.1), ("category", -1)])
def test_an_impossible_answer_is_refused(field: str, value: float) -> None:
    answer = Assignment(
        id="a",
        stream="",
        sequence=0,
        category=0,
        label=None,
        birth=False,
        log_evidence=-1.0,
        margin=None,
        probability=0.5,
        drift=None,
        head_version=0,
    )
    spoilt = msgspec.structs.replace(answer, **{field: value})
    with pytest.raises(msgspec.DecodeError, match=rf"`\$\.{field}`"):
        decode(encode(spoilt), Answer)


@given(STRATEGIES[ImageEvent])
def test_an_image_is_a_view_of_the_bytes_it_came_in(event: ImageEvent) -> None:
    assert decode(encode(event), Event).image.obj is not None
    assert bytes(decode(encode(event), Event).image) == bytes(event.image)


def test_a_stored_record_is_no_message() -> None:
    with pytest.raises(msgspec.DecodeError, match=r"tally\.v1"):
        decode(encode({"type": "tally.v1"}), Message)


def test_an_event_cannot_be_changed() -> None:
    event = ForgetCategory(id="a", category=1)
    with pytest.raises(AttributeError):
        event.category = 2  # type: ignore[misc]


def test_a_control_answer_holds_the_control_event_itself() -> None:
    control = RenameCategory(id="r", category=1, label="cat")
    answer = ControlApplied(id="r", stream="", sequence=3, control=control, head_version=5)
    assert decode(encode(answer, "json"), Answer, "json").control == control
