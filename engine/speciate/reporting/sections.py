"""The tables and lists of the page."""

from collections.abc import Iterable, Mapping, Sequence

from speciate.reporting.findings import Check, Finding, paper
from speciate.reporting.grouping import Group
from speciate.reporting.markup import Content, Markup, join, tag
from speciate.reporting.measures import BY_KEY, NONE, SHOWN, plain, plural
from speciate.reporting.orders import OrderEffect
from speciate.reporting.tables import Aggregate, Spread, spread
from speciate.reporting.temporal import panels

WITH_SPREAD = frozenset({"all", "known", "novel", "categories", "false_birth_rate", "nmi"})
"""Measures whose standard deviation is written out."""


def table(
    caption: Content, headings: Sequence[Content], rows: Iterable[Content], *, kind: str = "", sortable: bool = False
) -> Markup:
    """A table with a caption, whose rows can be sorted by a click on a heading if they are worth it."""
    heads = [
        tag("th", tag("button", heading, type="button") if sortable else heading, scope="col") for heading in headings
    ]
    body = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        class_=kind or None,
    )
    # It may be wider than a phone: a keyboard must be able to scroll it.
    return tag("div", body, class_="scroll", tabindex="0", role="region", aria_label="table")


def comparison(rows: Sequence[Aggregate]) -> Markup:
    """All methods in one setting."""
    headings = [tag("span", "Method"), *(tag("span", BY_KEY[key].heading, title=BY_KEY[key].about) for key in SHOWN)]
    classes = rows[0].measures["classes"].mean
    truth = "" if classes is None else f" Classes in the stream: {BY_KEY['classes'].text(classes)}."
    caption = (
        "Mean ± standard deviation over seeds. ★ marks the best of a column; for categories that is the closest to the "
        f"classes there are.{truth}"
    )
    return table(caption, headings, (_comparison_row(row) for row in rows), sortable=True)


def _comparison_row(row: Aggregate) -> Markup:
    cells = [_cell(row, key, row.measures[key]) for key in SHOWN]
    return tag("tr", method_cell(row.method, row.method_title), *cells, class_=_subject(row.method))


def method_cell(method: str, title: str) -> Markup:
    """A method at the head of its row."""
    return tag("th", title, scope="row", title=method)


def _subject(method: str) -> str | None:
    return "subject" if method == paper().subject else None


def _cell(row: Aggregate, key: str, value: Spread) -> Markup:
    measure = BY_KEY[key]
    beside = f" ± {measure.text(value.std)}" if value.std is not None else ""
    # Beside a number with a unit there is no room for another: it is shown on pointing there.
    short = key in WITH_SPREAD and beside
    return tag(
        "td",
        measure.text(value.mean),
        *([tag("span", beside, class_="std")] if short else []),
        title=measure.text(value.mean) + beside if beside and not short else None,
        class_="best" if value.best else None,
        data_metric=key,
        data_method=row.method,
        data_benchmark=row.benchmark,
        data_order=row.order,
        data_value=value.mean,
        data_std=value.std,
    )


def overview(rows: Sequence[Aggregate]) -> Markup:
    """Strict accuracy of every method on every benchmark, in one order."""
    titles = {row.benchmark: row.benchmark_title for row in rows}
    found: dict[tuple[str, str], dict[str, Aggregate]] = {}
    for row in rows:
        found.setdefault((row.method, row.method_title), {})[row.benchmark] = row
    # A mean over some of the benchmarks cannot be compared with one over all.
    means = {
        who: spread(row.measures["all"].mean for row in some.values()).mean if len(some) == len(titles) else None
        for who, some in found.items()
    }
    top = max((mean for mean in means.values() if mean is not None), default=None)
    lines = []
    for who in sorted(found, key=lambda who: (means[who] is None, -(means[who] or 0.0), who)):
        cells = [_overview_cell(found[who].get(benchmark)) for benchmark in titles]
        best = "best" if means[who] is not None and means[who] == top and len(found) > 1 else None
        cells.append(tag("td", BY_KEY["all"].text(means[who]), class_=best, data_value=means[who]))
        lines.append(tag("tr", method_cell(*who), *cells, class_=_subject(who[0])))
    headings = ["Method", *titles.values(), "Mean"]
    return table("Strict accuracy over all events, in percent.", headings, lines, sortable=True)


def _overview_cell(row: Aggregate | None) -> Markup:
    if row is None:
        return tag("td", NONE)
    value = row.measures["all"]
    return tag("td", BY_KEY["all"].text(value.mean), class_="best" if value.best else None, data_value=value.mean)


def by_group(rows: Sequence[Aggregate]) -> Markup:
    """Strict accuracy of each group of events, such as a domain."""
    names = list(dict.fromkeys(name for row in rows for name in row.groups))
    lines = []
    for row in rows:
        values = [row.groups.get(name, {}).get("all", Spread(None, None)) for name in names]
        cells = [
            tag("td", BY_KEY["all"].text(value.mean), data_group=name, data_method=row.method, data_value=value.mean)
            for name, value in zip(names, values, strict=True)
        ]
        lines.append(tag("tr", method_cell(row.method, row.method_title), *cells, class_=_subject(row.method)))
    caption = "Strict accuracy of each group of events, in percent, by the one match over all events."
    return table(caption, ["Method", *names], lines, kind="plain", sortable=True)


def findings_list(found: Sequence[Finding], titles: Mapping[str, str], benchmarks: Mapping[str, str]) -> Markup:
    """Every finding with its verdict, its figures, and both for each setting."""
    return tag("ul", *(_finding(one, titles, benchmarks) for one in found), class_="findings")


def _finding(one: Finding, titles: Mapping[str, str], benchmarks: Mapping[str, str]) -> Markup:
    overall = one.overall
    figures = overall.text(titles)
    said = [tag("h3", one.statement), tag("p", figures, class_="quiet") if figures else Markup()]
    if lacking := _lacking(overall, titles):
        said.append(tag("p", lacking, class_="quiet", data_missing=" ".join(overall.missing)))
    if one.tested:
        lines = [
            tag(
                "tr",
                tag("th", f"{benchmarks.get(check.benchmark, check.benchmark)}, {check.order}", scope="row"),
                tag("td", _verdict(check.verdict)),
                tag("td", " ".join(filter(None, (check.text(titles), _lacking(check, titles))))),
                data_finding=one.name,
                data_benchmark=check.benchmark,
                data_order=check.order,
                data_verdict=check.verdict,
            )
            for check in one.checks
        ]
        inside = table("Setting by setting.", ["Setting", "Verdict", "Figures"], lines, kind="text")
        told = f"Held in {one.held} of {plural(one.tested, 'setting')} it was tested in"
        said.append(tag("details", tag("summary", told), inside))
    mark = tag("div", _verdict(overall.verdict), tag("div", one.place, class_="quiet"))
    return tag("li", mark, tag("div", *said), data_finding=one.name, data_verdict=overall.verdict)


def _lacking(check: Check, titles: Mapping[str, str]) -> str:
    """What a finding would need that the runs do not have."""
    said = []
    if check.missing:
        said.append(f"Not run: {'; '.join(titles.get(name, name) for name in check.missing)}.")
    if check.valueless:
        said.append(f"Not every method has a value of: {', '.join(BY_KEY[key].heading for key in check.valueless)}.")
    return " ".join(said)


def _verdict(verdict: str) -> Markup:
    return tag("span", verdict, class_="verdict", data_verdict=verdict)


def order_table(effect: OrderEffect) -> Markup:
    """A benchmark's methods over orders: spread, and gap to the nearest other method."""
    all_text = BY_KEY["all"].text
    lines = [
        tag(
            "tr",
            method_cell(one.method, one.title),
            *(tag("td", all_text(one.by_order[order]), data_value=one.by_order[order]) for order in effect.orders),
            tag("td", all_text(one.spread), data_spread=one.method, data_value=one.spread),
            tag("td", all_text(one.gap), data_gap=one.method, data_value=one.gap),
            tag("td", {None: NONE, True: "spread", False: "gap"}[one.larger]),
            class_=_subject(one.method),
        )
        for one in effect.methods
    ]
    headings = ["Method", *effect.orders, "Spread", "Gap", "Larger"]
    caption = (
        "Strict accuracy in each order, in percent; its spread, largest less smallest; and the gap from a method's "
        "mean to that of the method nearest to it."
    )
    return table(caption, headings, lines, kind="plain", sortable=True)


def order_words(effect: OrderEffect) -> str:
    """What the order does on one benchmark, in a sentence or two."""
    titles = {one.method: one.title for one in effect.methods}
    spread_text = BY_KEY["all"].text(effect.mean_spread)
    if effect.mean_gap is None:
        return f"{effect.title}: the order moves {effect.methods[0].title} by {spread_text} points."
    than = "more" if effect.larger else "not more"
    leaders = list(dict.fromkeys(titles[method] for method in effect.leaders.values()))
    best = f"{leaders[0]} is best in every order." if len(leaders) == 1 else f"The best: {_leaders(effect, titles)}."
    return (
        f"{effect.title}: the order moves a method by {spread_text} points on average, {than} than the "
        f"{BY_KEY['all'].text(effect.mean_gap)} points between neighbours in the ranking. {best}"
    )


def _leaders(effect: OrderEffect, titles: Mapping[str, str]) -> str:
    return ", ".join(f"{titles[method]} ({order})" for order, method in effect.leaders.items())


def problems_list(problems: Sequence[str]) -> Markup:
    """The runs that could not be done, each with why."""
    about = "They are in no table and no figure of this page. A finding or a mean that would need them goes without."
    items = (tag("li", problem, data_problem="") for problem in problems)
    return join(tag("p", about, class_="about"), tag("ul", *items))


def first_fifths(groups: Sequence[Group]) -> Markup:
    """What the lines of the temporal figure are relative to, and whom it leaves out."""
    relative = [panel for panel in panels(groups) if panel.part.normalised]
    lines = []
    for one in groups:
        firsts = [panel.firsts.get(one.variant.method) for panel in relative]
        cells = [
            tag(
                "td",
                NONE if value is None else plain(value),
                data_first=panel.part.key,
                data_method=one.variant.method,
                data_value=value,
            )
            for panel, value in zip(relative, firsts, strict=True)
        ]
        lines.append(tag("tr", method_cell(*one.variant), *cells, class_=_subject(one.variant.method)))
    notes = [
        tag(
            "p",
            f"Not in the panel “{panel.part.title}”, as it is 0 or there is none in the first fifth: "
            f"{'; '.join(variant.title for variant in panel.left_out)}.",
            class_="quiet",
            data_left_out=panel.part.key,
        )
        for panel in relative
        if panel.left_out
    ]
    headings = ["Method", "Mean drift", "Margin, the method's own units"]
    inside = table("The first fifth as measured, mean over seeds.", headings, lines, kind="plain", sortable=True)
    return join(*notes, tag("details", tag("summary", "What the first fifth was"), inside))
