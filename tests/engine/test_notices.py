"""Rejections and changes by hand are logged with their place, and a flood of them with few lines."""

import pytest
from worlds import make_pipeline, make_tree, stream

from speciate.logs import LINES_A_SECOND, MOST_AT_ONCE
from speciate.notices import Notices
from speciate.outcomes import Outcome
from speciate_schemas import ControlApplied, Rejection, RenameCategory

CONTROL = RenameCategory(id="c", category=1, label="bee", stream="cam")


def rejection(number):
    return Outcome(
        Rejection(
            id=f"e{number}",
            stream="cam",
            sequence=number,
            stage="encoder",
            error="EncodeError",
            message="no image",
            origin=f"frames/3@{number}",
            dead_letter=f"dead/3#{number}",
        )
    )


@pytest.fixture(autouse=True)
def _heard(caplog):
    caplog.set_level("INFO")


def said(caplog):
    return [one for one in caplog.records if one.name == "speciate.notices"]


def test_each_has_its_stream_and_place(caplog):
    applied = ControlApplied(id="c", stream="cam", sequence=8, control=CONTROL, head_version=4, origin="control/3@1")
    Notices().note([rejection(7), Outcome(applied)])
    rejected, changed = said(caplog)
    assert (rejected.id, rejected.stream, rejected.sequence, rejected.origin) == ("e7", "cam", 7, "frames/3@7")
    assert (rejected.stage, rejected.error, rejected.reason) == ("encoder", "EncodeError", "no image")
    assert rejected.dead_letter == "dead/3#7"
    assert (changed.change, changed.stream, changed.origin) == ("rename.v1", "cam", "control/3@1")


def test_a_flood_has_few_lines_which_say_for_how_many_they_stand(caplog):
    now = 100.0
    notices = Notices(lambda: now)
    for number in range(1000):
        notices.note([rejection(number)])
    assert len(said(caplog)) == MOST_AT_ONCE
    now += 2 / LINES_A_SECOND
    for number in range(1000, 1010):
        notices.note([rejection(number)])
    assert len(said(caplog)) == MOST_AT_ONCE + 2
    assert said(caplog)[-2].others == 1000 - MOST_AT_ONCE
    assert not hasattr(said(caplog)[-1], "others")


def test_what_was_not_said_by_the_end_is_said_then(caplog):
    notices = Notices(lambda: 7.0)
    for number in range(9):
        notices.note([rejection(number)])
    notices.close()
    notices.close()
    assert [getattr(one, "others", 0) for one in said(caplog)] == [0] * int(MOST_AT_ONCE) + [9 - MOST_AT_ONCE]


def test_a_flood_of_one_kind_does_not_hide_the_other(caplog):
    notices = Notices(lambda: 7.0)
    applied = ControlApplied(id="c", stream="cam", sequence=8, control=CONTROL, head_version=4, origin="control/3@1")
    for number in range(9):
        notices.note([rejection(number)])
    notices.note([Outcome(applied)])
    assert said(caplog)[-1].change == "rename.v1"


async def test_a_pipeline_tells_with_its_task(tmp_path, caplog):
    await make_pipeline(make_tree(tmp_path, [*stream(3), b"no event"])).run()
    (told,) = said(caplog)
    assert (told.task, told.sequence, told.error) == (0, 3, "DecodeError")
