"""The dashboard: what it asks for exists, and it asks for nearly all there is."""

import json
import re
from pathlib import Path

from speciate.metrics import METRICS

FOLDER = Path(__file__).parents[2] / "examples" / "grafana"
SUFFIXES = ("_bucket", "_sum", "_count")


def asked_for(text: str) -> set[str]:
    """The metrics that a text names; those of a histogram by the histogram's name."""
    return {_whole(name) for name in re.findall(r"\bspeciate_[a-z_]+", text)}


def _whole(name: str) -> str:
    for suffix in SUFFIXES:
        whole = name.removesuffix(suffix)
        if name.endswith(suffix) and whole in METRICS and METRICS[whole].kind == "histogram":
            return whole
    return name


def test_the_dashboard_names_only_metrics_that_exist():
    asked = asked_for((FOLDER / "speciate.json").read_text())
    assert asked <= METRICS.keys()
    assert METRICS.keys() - asked == {"speciate_encoder_load_seconds", "speciate_sequence", "speciate_task_ready"}


def test_the_alerts_name_only_metrics_that_exist():
    assert asked_for((FOLDER / "README.md").read_text()) <= METRICS.keys()


def test_panels_do_not_lie_upon_each_other_and_have_one_source_of_data():
    panels = json.loads((FOLDER / "speciate.json").read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_labels_in_queries_and_legends_are_those_of_the_metrics():
    known = {label for metric in METRICS.values() for label in metric.labels} | {"le", "job", "instance"}
    for panel in json.loads((FOLDER / "speciate.json").read_text())["panels"]:
        for target in panel["targets"]:
            grouped = {one.strip() for by in re.findall(r"by \(([^)]*)\)", target["expr"]) for one in by.split(",")}
            assert grouped | set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known, panel["title"]
