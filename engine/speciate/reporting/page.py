"""The page of a comparison: one HTML file that needs nothing else, no network, no server, no second file.

Its policy lets nothing in but its own style and script, each named by its hash. Values in the tables carry themselves
as data attributes, so that a script can read the page as well as a person can.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from speciate.errors import ConfigError
from speciate.reporting import plots, temporal
from speciate.reporting.ellipses import Category
from speciate.reporting.findings import Finding, findings, paper
from speciate.reporting.grouping import Setting, benchmark_titles, group, in_order, settings, variants
from speciate.reporting.looks import looks
from speciate.reporting.markup import Markup, join, tag
from speciate.reporting.measures import BY_KEY, plural
from speciate.reporting.orders import OrderEffect, order_effects
from speciate.reporting.provenance import how_it_was_run, methods_list, times_text
from speciate.reporting.sections import (
    by_group,
    comparison,
    findings_list,
    first_fifths,
    order_table,
    order_words,
    overview,
    problems_list,
)
from speciate.reporting.svg import Sheet
from speciate.reporting.tables import Aggregate, aggregate
from speciate_schemas.replay import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Draw = Callable[[plots.Shown, plots.Looks], "Figure"]

SETTING_FIGURES: tuple[tuple[str, str, str, _Draw], ...] = (
    (
        "growth",
        "Categories along the stream",
        "Categories there were, mean over seeds with the range behind it, beside the classes the stream had shown.",
        plots.growth,
    ),
    (
        "temporal",
        "Temporal diagnostics",
        temporal.ABOUT,
        plots.temporal,
    ),
    (
        "latency",
        "Latency",
        "Time an event, its batch's time divided by the events in it. Each histogram is as high as the next.",
        plots.latency,
    ),
    (
        "memory",
        "Accuracy against memory",
        "Strict accuracy over all events against the memory of the head, with standard deviations over seeds.",
        plots.memory,
    ),
)


def render(
    runs: Sequence[Run],
    title: str = "Comparison",
    categories: Sequence[Category] = (),
    *,
    drawn: str = "",
    problems: Sequence[str] = (),
) -> str:
    """The whole page, whatever order the runs are given in.

    Args:
        runs: All of the comparison that were finished.
        title: Of the page.
        categories: With some it also shows how evidence shapes them.
        drawn: Of which run the categories are, in words.
        problems: Runs that could not be done, each in a line with why.
    """
    if not runs:
        raise ConfigError("there is no run to report: name a folder with finished runs")
    page = _Page(in_order(runs), title)
    return page.render(page.ellipses(categories, drawn) if categories else None, problems)


class _Page:
    """What all parts of one page look at."""

    def __init__(self, runs: Sequence[Run], title: str) -> None:
        self._runs, self._title = runs, title
        self._groups = group(runs)
        self._settings = settings(self._groups)
        self._rows = aggregate(runs)
        self._benchmarks = benchmark_titles(runs)
        self._methods = variants(self._groups)
        self._looks = looks(self._methods)
        self._sheet = Sheet()

    def render(self, ellipses: Markup | None, problems: Sequence[str]) -> str:
        """All of it, the parts before the head: the head holds their styles."""
        found, effects = findings(self._runs), order_effects(self._runs)
        parts = [
            *([("problems", "Runs that could not be done", problems_list(problems))] if problems else []),
            ("summary", "Summary", self._summary()),
            ("findings", "Findings", self._findings(found)),
            *([("orders", "Order effect", self._orders(effects))] if effects else []),
            *(
                (key, heading, self._figures(key, heading, about, draw))
                for key, heading, about, draw in SETTING_FIGURES
            ),
            *([("ellipses", "How evidence shapes categories", ellipses)] if ellipses else []),
            ("methods", "Methods", methods_list(self._runs)),
            ("run", "How it was run", how_it_was_run(self._runs)),
        ]
        links = (tag("a", heading, href=f"#{key}") for key, heading, _ in parts)
        sections = (tag("section", tag("h2", heading), content, id=key) for key, heading, content in parts)
        words, nav = tag("p", self._words(problems), class_="quiet"), tag("nav", *links, aria_label="sections")
        header = tag("header", tag("h1", self._title), words, nav, self._tiles(found))
        footer = tag("footer", tag("p", "Written by Speciate from the runs named above. It loads nothing."))
        body = tag("body", header, self._controls(), tag("main", *sections), footer)
        return f'<!doctype html>\n<html lang="en">{self._head()}{body}</html>\n'

    def _head(self) -> Markup:
        style = _read("page.css") + self._sheet.css()
        script = _read("page.js")
        policy = (
            f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        return tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
            tag("title", self._title),
            tag("style", Markup(style)),
            tag("script", Markup(script), type="module"),
        )

    def _words(self, problems: Sequence[str]) -> str:
        orders = dict.fromkeys(setting.order for setting in self._settings)
        seeds = {run.info.seed for run in self._runs}
        counts = (
            (len(self._methods), "method"),
            (len(self._benchmarks), "benchmark"),
            (len(orders), "order"),
            (len(seeds), "seed"),
            (len(self._runs), "run"),
        )
        undone = f" {plural(len(problems), 'run')} could not be done." if problems else ""
        return ", ".join(plural(count, what) for count, what in counts) + "." + undone

    def _tiles(self, found: Sequence[Finding]) -> Markup:
        first = self._settings[0]
        best = next(row for row in self._rows if (row.benchmark, row.order) == first)
        untested = sum(one.overall.verdict == "not tested" for one in found)
        tested = [one for one in found if one.overall.verdict != "not tested"]
        held = sum(one.overall.verdict == "held" for one in tested)
        leads = [self._first_in(setting) for setting in self._settings]
        most = max(dict.fromkeys(leads), key=leads.count)
        all_text = BY_KEY["all"].text
        tiles = (
            (f"{all_text(best.measures['all'].mean)} %", f"{best.method_title}, the best All on {self._where(first)}"),
            (most, f"most often best: in {leads.count(most)} of {plural(len(leads), 'setting')}"),
            (
                f"{held} of {plural(len(tested), 'finding')}",
                f"of the {paper().title} paper held; {untested} not tested",
            ),
        )
        return tag("ul", *(tag("li", tag("b", big), tag("span", small)) for big, small in tiles), class_="tiles")

    def _first_in(self, setting: Setting) -> str:
        return next(row.method_title for row in self._rows if (row.benchmark, row.order) == setting)

    def _where(self, setting: Setting) -> str:
        return f"{self._benchmarks[setting.benchmark]}, {setting.order}"

    def _controls(self) -> Markup:
        orders = dict.fromkeys(setting.order for setting in self._settings)
        picks = (
            ("benchmark", "Benchmark", self._benchmarks),
            ("order", "Order", {order: order for order in orders}),
        )
        labels = (
            tag("label", name, tag("select", *_options(choices), id=f"pick-{key}", autocomplete="off"))
            for key, name, choices in picks
        )
        toggle = tag("button", "Light / dark", type="button", id="theme")
        return tag("div", tag("form", *labels, toggle), class_="controls")

    def _panel(self, content: Markup, benchmark: str | None = None, order: str | None = None) -> Markup:
        return tag("div", content, class_="panel", data_benchmark=benchmark, data_order=order)

    def _in(self, setting: Setting) -> list[Aggregate]:
        return [row for row in self._rows if (row.benchmark, row.order) == setting]

    def _summary(self) -> Markup:
        times = times_text(self._runs)
        parts = [_nothing(), tag("p", times, class_="about", data_times="") if times else Markup()]
        for setting in self._settings:
            rows = self._in(setting)
            groups = by_group(rows) if any(row.groups for row in rows) else Markup()
            content = join(tag("h3", self._where(setting)), comparison(rows), groups)
            parts.append(self._panel(content, *setting))
        if len(self._benchmarks) > 1:
            for order in dict.fromkeys(setting.order for setting in self._settings):
                rows = [row for row in self._rows if row.order == order]
                content = join(tag("h3", f"All benchmarks, {order}"), overview(rows))
                parts.append(self._panel(content, order=order))
        return join(*parts)

    def _findings(self, found: Sequence[Finding]) -> Markup:
        titles = {variant.method: variant.title for variant in self._methods}
        about = (
            f"What the {paper().title} paper says of its methods, checked against these runs. Overall is by the leads "
            "averaged over the settings two methods share. A finding holds only where every method it names was run. "
            "One that contradicts it is enough for it not to hold. Else it is not tested."
        )
        return join(tag("p", about, class_="about"), findings_list(found, titles, self._benchmarks))

    def _orders(self, effects: Sequence[OrderEffect]) -> Markup:
        parts = []
        for effect in effects:
            figure = plots.order_spread(effect, self._looks)
            label = f"Strict accuracy of each method in each order on {effect.title}"
            drawn = self._draw(figure, f"orders {effect.benchmark}", label, "Each method in each order.")
            words = tag("p", order_words(effect), data_order_effect=effect.benchmark, data_larger=str(effect.larger))
            content = join(tag("h3", effect.title), words, drawn, order_table(effect))
            parts.append(self._panel(content, benchmark=effect.benchmark))
        return join(_nothing(), *parts)

    def _figures(self, key: str, heading: str, about: str, draw: _Draw) -> Markup:
        parts = []
        for setting in self._settings:
            groups = [one for one in self._groups if one.setting == setting]
            label = f"{heading}: {self._where(setting)}"
            drawn = self._draw(draw(groups, self._looks), f"{key} {' '.join(setting)}", label, about)
            more = first_fifths(groups) if draw is plots.temporal else Markup()
            if draw is plots.latency and (times := times_text(run for one in groups for run in one.runs)):
                more = tag("p", times, class_="about", data_times="")
            parts.append(self._panel(join(tag("h3", self._where(setting)), drawn, more), *setting))
        return join(_nothing(), *parts)

    def ellipses(self, categories: Sequence[Category], drawn: str) -> Markup:
        """The figure of categories, with the run they are of."""
        of_run = f"{drawn}. " if drawn else ""
        about = (
            f"{of_run}A row a category, in the plane of its first two principal components; a column the share of its "
            "events seen. Gray: events of all categories. Green: its support set. Blue: its events so far. Red: where "
            "the Student-t predictive expects the next, at a Mahalanobis radius of 2."
        )
        label = f"Predictive ellipses of {', '.join(one.title for one in categories)}"
        label += f": {drawn}" if drawn else ""
        return self._draw(plots.ellipses(categories), "ellipses", label, about)

    def _draw(self, figure: "Figure", name: str, label: str, about: str) -> Markup:
        drawn = Markup(self._sheet.inline(figure, name, label))
        inside = tag("div", drawn, class_="scroll", tabindex="0", role="region", aria_label="figure")
        return tag("figure", inside, tag("figcaption", about))


def _options(choices: dict[str, str]) -> list[Markup]:
    return [tag("option", text, value=value) for value, text in choices.items()]


def _nothing() -> Markup:
    return tag("p", "Nothing was run with this benchmark in this order.", class_="nothing quiet", hidden=True)


def _read(name: str) -> str:
    return files("speciate.reporting").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """How a policy names the one style or script it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
