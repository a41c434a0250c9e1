"""How a run went, for people and programs."""

import json

import msgspec
import pytest
from worlds import make_pipeline, make_tree, with_trouble

from speciate.report import Report, Status
from speciate.stages import Progress
from speciate.timing import StageTimes
from speciate_schemas import Tally


def status(**changes) -> Status:
    fields = {
        "tally": Tally(assigned=7, births=2, rejected=1),
        "sequence": 8,
        "tasks": {0: 8},
        "categories": 4,
        "head_bytes": 100,
        "progress": Progress(8, 10, "rows"),
        "stages": {"head": StageTimes(busy=1.5)},
        "answered": 8,
        "seconds": 2.0,
    }
    return Status(**{**fields, **changes})


@pytest.mark.parametrize(
    ("progress", "lag"),
    [
        (Progress(3, 10, "rows"), 7),
        (Progress(10, 10, "rows"), 0),
        (Progress(12, 10, "bytes"), 0),
        (Progress(3, None, "bytes"), None),
    ],
)
def test_the_lag_is_what_the_source_still_holds(progress, lag):
    assert status(progress=progress).lag == lag


def test_the_rate_is_of_this_run_and_zero_before_it_began():
    assert status().events_per_second == 4.0
    assert status(answered=0, seconds=0.0).events_per_second == 0.0


async def test_a_report_says_all_of_a_run_and_is_json(tmp_path):
    report = await make_pipeline(make_tree(tmp_path, with_trouble(100))).run()
    told = report.as_json()
    assert json.loads(json.dumps(told)) == told
    assert told["tally"] == {
        "assigned": 93,
        "births": report.status.tally.births,
        "rejected": 5,
        "controls": 2,
        "dropped": 0,
        "forwarded": 0,
    }
    size = (tmp_path / "in.jsonl").stat().st_size
    assert told["progress"] == {"done": size, "total": size, "unit": "bytes"}
    assert told["lag"] == 0
    assert told["sequence"] == told["answered"] == 100
    assert told["events_per_second"] == pytest.approx(100 / told["seconds"])
    assert set(told["stages"]) == {"source", "decoder", "encoder", "head", "sink"}
    assert set(told) == {
        *Status.__struct_fields__,
        *(name for name in Report.__struct_fields__ if name != "status"),
        "events_per_second",
        "lag",
    }


def test_a_status_does_not_change_under_the_reader():
    with pytest.raises(AttributeError):
        status().sequence = 3
    assert msgspec.structs.asdict(status())["sequence"] == 8
