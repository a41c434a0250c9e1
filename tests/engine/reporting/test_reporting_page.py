"""The page in a real browser: it runs, loads nothing, and says what the runs say."""

import random
import re
from html.parser import HTMLParser
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from made import a_comparison, a_run, with_info, with_metrics
from test_reporting_ellipses import a_category

from browser import pages
from speciate.errors import ConfigError
from speciate.reporting.findings import findings
from speciate.reporting.measures import SHOWN
from speciate.reporting.page import render
from speciate.reporting.tables import aggregate
from speciate_schemas.replay import Shares

HOSTILE = "<script>document.title='broken'</script>\"'&"
VOID = {"meta", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """Elements in order: tag, attributes, text within."""

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": "", "in": [one["tag"] for one in self._open]}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": "", "in": [one["tag"] for one in self._open]})

    def handle_endtag(self, tag):
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, tag=None, **attributes):
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [
            one
            for one in self.elements
            if (tag is None or one["tag"] == tag) and wanted.items() <= one["attrs"].items()
        ]


@pytest.fixture(scope="module")
def runs():
    made = a_comparison(orders=("random", "bursty"), seeds=2, methods=("dp-boa", "spherical", "phe", "dp-boa-l"))
    groups = {"sketch": Shares(all=0.25, known=None, novel=0.5)}
    return [*made, with_metrics(a_run("odd", novel=None, title=HOSTILE), groups=groups)]


@pytest.fixture(scope="module")
def text(runs):
    return render(
        runs,
        f"A title {HOSTILE}",
        [a_category(1, 40, 10)],
        drawn=f"Of a run {HOSTILE}",
        problems=["pets/random/slc/0: no memory", HOSTILE],
    )


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.fixture(scope="module")
def address(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    path.write_text(text, "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def opened(browser, address):
    """The page as a browser has it when all has run."""
    with pages(browser, []) as open_page:
        shown = open_page()
        shown.goto(address)
        return Page(shown.content())


def cell_of(page, row, key):
    (cell,) = page.all(
        "td", data_metric=key, data_method=row.method, data_benchmark=row.benchmark, data_order=row.order
    )
    return cell


def test_the_browser_runs_the_script_under_the_policy_without_an_error(opened):
    root = opened.all("html")[0]["attrs"]
    assert root["data-script"] == "ready"
    assert "data-errors" not in root


def test_values_read_off_the_browsers_page_are_those_of_the_runs(opened, runs):
    rows = aggregate(runs)
    assert len(opened.all("td", data_metric="all")) == len(rows)
    for row in rows:
        for key in SHOWN:
            cell, value = cell_of(opened, row, key)["attrs"], row.measures[key]
            assert (cell.get("data-value"), cell.get("data-std")) == tuple(
                None if number is None else repr(number) for number in (value.mean, value.std)
            )
            assert ("best" in (cell.get("class") or "")) == value.best
    pets = {row.method: row for row in rows if (row.benchmark, row.order) == ("pets", "random")}
    assert cell_of(opened, pets["dp-boa"], "all")["text"].startswith("59.")
    assert cell_of(opened, pets["odd"], "novel")["text"] == "–"


def test_only_the_chosen_setting_is_shown_and_another_can_be_chosen(opened, new_page, address):
    def visible(page):
        panels = page.all("div", class_="panel")
        return {
            (one["attrs"].get("data-benchmark"), one["attrs"].get("data-order"))
            for one in panels
            if "hidden" not in one["attrs"]
        }

    assert visible(opened) == {("cub", "random"), ("cub", None), (None, "random")}
    shown = new_page()
    shown.goto(address)
    shown.select_option("#pick-benchmark", "pets")
    shown.select_option("#pick-order", "bursty")
    heading = shown.locator("#summary .panel:not([hidden]) th button", has_text="Memory").first
    heading.click()
    heading.click()
    shown.click("#theme")
    changed = Page(shown.content())
    assert visible(changed) == {("pets", "bursty"), ("pets", None), (None, "bursty")}
    cells = changed.all("td", data_metric="head_bytes", data_benchmark="pets", data_order="bursty")
    sizes = [float(one["attrs"]["data-value"]) for one in cells]
    assert sizes == sorted(sizes)
    assert len(sizes) == 4
    assert changed.all("html")[0]["attrs"]["data-theme"] == "dark"


@pytest.mark.parametrize(("scheme", "darkest", "brightest"), [("dark", 0, 40), ("light", 230, 255)])
def test_a_screen_is_painted_light_and_dark(new_page, address, scheme, darkest, brightest):
    image = pytest.importorskip("PIL.Image")
    shown = new_page(size=(800, 900), scheme=scheme)
    shown.goto(address)
    with image.open(BytesIO(shown.screenshot())) as screen:
        assert darkest <= screen.convert("L").getpixel((3, 3)) <= brightest
        assert len(screen.convert("RGB").getcolors(1 << 24)) > 50


def test_a_hostile_title_is_text_everywhere(opened, text):
    assert opened.all("title")[0]["text"] == f"A title {HOSTILE}"
    assert opened.all("h1")[0]["text"] == f"A title {HOSTILE}"
    assert any(one["text"] == HOSTILE for one in opened.all("th", scope="row"))
    assert any(HOSTILE in one["text"] for one in opened.all("text"))
    assert len(opened.all("script")) == 1
    assert "<script>document" not in text


def test_nothing_is_loaded_from_anywhere(text, page):
    assert not re.search(r"(?:https?:)?//[\w.-]+\.\w+", text)
    assert not page.all("link") + page.all("img") + page.all("iframe")
    for element in page.elements:
        assert not {"src", "style", "onclick", "onload"} & element["attrs"].keys()
        assert element["attrs"].get("href", "#").startswith("#")


def test_the_policy_allows_one_style_and_one_script_by_their_hashes(page):
    (meta,) = page.all("meta", http_equiv="Content-Security-Policy")
    policy = dict(part.strip().split(" ", 1) for part in meta["attrs"]["content"].split(";"))
    assert policy.keys() == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    for directive in ("style-src", "script-src"):
        assert re.fullmatch(r"'sha256-[\w+/]{43}='", policy[directive])


def test_what_is_not_its_own_would_be_blocked_with_a_word_on_the_console(new_page, troubles, text, tmp_path):
    path = tmp_path / "strange.html"
    path.write_text(text.replace("</body>", '<img src="nothing.png"><b style="color:red">x</b></body>'), "utf-8")
    new_page().goto(path.as_uri())
    assert sum("Content Security Policy" in one for one in troubles) == 2
    troubles.clear()


def test_every_section_and_figure_is_there(page, text):
    names = [one["attrs"]["id"] for one in page.all("section")]
    figures = ["orders", "growth", "temporal", "latency", "memory", "ellipses"]
    assert names == ["problems", "summary", "findings", *figures, "methods", "run"]
    figures = page.all("svg", role="img")
    assert len(figures) == 4 * 4 + 2 + 1
    assert all(one["attrs"]["aria-label"] for one in figures)
    assert len(page.all("figcaption")) == len(figures)
    ids = [one["attrs"]["id"] for one in page.elements if "id" in one["attrs"]]
    assert len(ids) == len(set(ids))


def test_headings_go_down_one_step_at_a_time_and_tables_say_what_they_are(page):
    levels = [int(one["tag"][1]) for one in page.elements if re.fullmatch("h[1-6]", one["tag"])]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(one["attrs"].get("scope") in ("col", "row") for one in page.all("th"))


def test_findings_stand_with_their_verdicts(page, runs):
    for one in findings(runs):
        (item,) = page.all("li", data_finding=one.name)
        assert item["attrs"]["data-verdict"] == one.overall.verdict
        assert one.statement in item["text"]
        rows = page.all("tr", data_finding=one.name)
        assert [row["attrs"]["data-verdict"] for row in rows] == (
            [check.verdict for check in one.checks] if one.tested else []
        )


def test_how_it_was_run_is_told_and_disagreement_is_too():
    runs = [a_run(), with_info(a_run(seed=5), versions={"speciate": "0.2.0", "numpy": "2.4.6"})]
    page = Page(render(runs))
    facts = {one["attrs"]["data-fact"]: one["text"] for one in page.all("td") if "data-fact" in one["attrs"]}
    assert facts["seeds"] == "0, 5"
    assert facts["speciate"] == "0.1.0, 0.2.0"
    assert (facts["machine"], facts["last run finished"]) == ("x86_64", "2025-03-06T10:00:00+00:00")
    assert len(page.all("tr", data_run="pets/random/dp-boa/5")) == 1


def test_the_same_runs_are_the_same_page_whatever_order_they_are_given_in():
    runs = a_comparison(orders=("bursty", "random"), seeds=2, methods=("phe-16", "dp-boa", "phe"))
    runs += [a_run("phe", policy={"plugin": "dp", "alpha": 10.0}, title="PHE", workers=2, seed=7)]
    expected = render(runs)
    for seed in range(2):
        assert render(random.Random(seed).sample(runs, len(runs))) == expected


def test_a_method_run_in_one_way_here_and_two_ways_elsewhere_is_drawn_by_its_full_name():
    alphas = ((order, alpha) for order, alpha in (("random", 1.0), ("random", 2.0), ("bursty", 1.0)))
    text = render([a_run(order=order, policy={"plugin": "dp", "alpha": alpha}) for order, alpha in alphas])
    assert "dp-boa policy.alpha=2.0" in text


def test_the_run_the_ellipses_are_of_is_named_in_the_caption_and_the_label(page):
    (figure,) = [one for one in page.all("svg") if one["attrs"]["aria-label"].startswith("Predictive ellipses")]
    assert f"Of a run {HOSTILE}" in figure["attrs"]["aria-label"]
    (caption,) = [one for one in page.all("figcaption") if "Student-t" in one["text"]]
    assert caption["text"].startswith(f"Of a run {HOSTILE}. A row a category")
    assert "Mahalanobis radius" in render([a_run()], categories=[a_category(1, 40, 10)])


def test_runs_that_could_not_be_done_come_first_and_are_counted(page):
    items = [one["text"] for one in page.elements if "data-problem" in one["attrs"]]
    assert items == ["pets/random/slc/0: no memory", HOSTILE]
    assert "2 runs could not be done." in page.all("header")[0]["text"]
    assert "could not be done" not in render([a_run()])


def test_times_of_runs_side_by_side_are_marked_where_they_are_shown():
    runs = [a_run(order=order, workers=2) for order in ("random", "bursty")]
    marked = [one["in"] for one in Page(render(runs)).elements if "data-times" in one["attrs"]]
    assert len(marked) == 1 + 2 + 1
    assert "data-times" not in render([a_run()])


def test_the_tile_counts_the_findings_that_hold_and_those_not_tested():
    runs = [
        a_run("dp-boa"),
        a_run("spherical", all=0.1, novel=0.1),
        # Worse than one ablation of five, and one hash of five that is worse: neither says anything of all.
        a_run("frozen", novel=0.05),
        a_run("phe", categories=90, false_births=0.5),
        a_run("posterior-threshold", all=0.9, categories=90),
    ]
    (tiles,) = Page(render(runs)).all("ul", class_="tiles")
    assert "1 of 2 findings" in tiles["text"]
    assert "5 not tested" in tiles["text"]


def test_a_finding_names_the_methods_that_were_not_run():
    runs = [a_run("dp-boa"), a_run("frozen", novel=0.1), a_run("spherical", novel=0.3, title="Spherical")]
    (item,) = Page(render(runs)).all("li", data_finding="frozen-hurts-novel-most")
    assert item["attrs"]["data-verdict"] == "not tested"
    assert "Not run: no-prior-mean; no-prior-shape; kappa-one; no-dp-prior." in item["text"]


def test_one_of_a_thing_is_not_many():
    info = {"known_classes": 1, "dimension": 1, "support_events": 1}
    runs = [a_run("dp-boa", **info), a_run("spherical", all=0.1, novel=0.1, **info)]
    pages = [Page(render(runs, problems=["x"])), Page(render(runs[:1]))]
    text = " ".join(page.all("body")[0]["text"] for page in pages)
    many = r"\b(?:1|one) (?:runs|settings|findings|seeds|events|classes|methods|orders|benchmarks|dimensions|groups)\b"
    assert not re.search(many, text)
    assert "1 run could not be done" in text
    assert "The one run" in text


def test_methods_without_drift_or_margin_are_left_out_with_a_note():
    still = [msgspec.structs.replace(one, mean_drift=0.0, mean_margin=None) for one in a_run().metrics.bins]
    runs = [a_run("dp-boa", title="DP-BOA"), with_metrics(a_run("frozen", title="Frozen"), bins=still)]
    text = render(runs)
    page = Page(text)
    for key in ("drift", "margin"):
        (note,) = page.all("p", data_left_out=key)
        assert note["text"].endswith(": Frozen.")
        (none,) = page.all("td", data_first=key, data_method="frozen")
        assert none["text"] == "–"
    (drift,) = page.all("td", data_first="drift", data_method="dp-boa")
    (margin,) = page.all("td", data_first="margin", data_method="dp-boa")
    assert (float(drift["attrs"]["data-value"]), margin["text"]) == (pytest.approx(0.12), "9")
    assert "in the method's own units, relative to the first fifth" in " ".join(
        one["text"] for one in page.all("figcaption")
    )
    assert "nats" not in text
    assert not Page(render(runs[:1])).all("p", data_left_out="drift")


def test_no_runs_are_no_page():
    with pytest.raises(ConfigError, match="no run to report"):
        render([])


def test_the_data_files_are_part_of_the_package():
    folder = Path(render.__code__.co_filename).parent
    assert {"page.css", "page.js", "paper.toml"} <= {path.name for path in folder.iterdir()}
