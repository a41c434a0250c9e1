"""Whether the qualitative findings of a paper hold in the runs at hand, each with the figures that say so.

What the findings are, and of which methods, is data: `paper.toml`. A finding is checked in every setting, and overall
by the leads averaged over the settings two methods share. It holds only where every method it names was compared, by
every measure. One that contradicts it is enough for it not to hold. Else it is not tested, and says what is missing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Literal, NamedTuple, cast

import msgspec

from speciate.reporting.grouping import Setting, group, settings
from speciate.reporting.measures import BY_KEY
from speciate.reporting.tables import spread
from speciate_schemas.config import Strict
from speciate_schemas.replay import Run

Verdict = Literal["held", "not held", "not tested"]
OVERALL = Setting("", "")
ANY_MEASURE = "all"
"""Every run has a cell of every measure, with a value or without."""


class Rule(Strict, frozen=True):
    """One finding as `paper.toml` has it."""

    name: str
    statement: str
    place: str
    rule: Literal["ahead", "largest-drop", "close"]
    subject: str
    others: tuple[str, ...]
    measures: tuple[str, ...]
    suspect: str = ""
    slack: float = 0.0
    cost: str = ""
    share: float = 1.0


class Paper(Strict, frozen=True):
    """A paper's findings, and the method it is about."""

    title: str
    subject: str
    findings: tuple[Rule, ...]
    drawn: tuple[str, ...] = ()
    """Methods whose posterior the ellipses show as it is."""


class Figure(msgspec.Struct, frozen=True):
    """A finding's subject beside another method, by one measure, over the settings both were run in."""

    measure: str
    method: str
    subject: float
    value: float
    lead: float
    """How much better the subject is, by what the measure ranks."""
    ratio: float
    """The subject's value as a share of the other's."""


class Check(msgspec.Struct, frozen=True):
    """A finding in one setting, or overall."""

    benchmark: str
    order: str
    verdict: Verdict
    figures: list[Figure]
    missing: list[str]
    """Methods it names that were not run, or not in a setting with its subject."""
    valueless: list[str]
    """Measures it goes by that a method which was run has no value of."""

    def text(self, titles: Mapping[str, str] | None = None) -> str:
        """The figures in one line: each value of the subject, and what it stands against."""
        against: dict[str, list[str]] = {}
        for figure in self.figures:
            measure = BY_KEY[figure.measure]
            who = (titles or {}).get(figure.method, figure.method)
            ours = f"{measure.heading} {measure.text(figure.subject)}"
            against.setdefault(ours, []).append(f"{measure.text(figure.value)} ({who})")
        return "; ".join(f"{ours} against {', '.join(theirs)}" for ours, theirs in against.items())


class Finding(msgspec.Struct, frozen=True):
    """A finding, whether it held, and where."""

    name: str
    statement: str
    place: str
    overall: Check
    checks: list[Check]

    @property
    def held(self) -> int:
        """In how many settings it held."""
        return sum(check.verdict == "held" for check in self.checks)

    @property
    def tested(self) -> int:
        """In how many settings it could be tested."""
        return sum(check.verdict != "not tested" for check in self.checks)


class _Cell(NamedTuple):
    """What the runs of one method came to in one setting, by one measure."""

    value: float | None
    rank: float | None


_Cells = dict[tuple[Setting, str, str], _Cell]


@cache
def paper() -> Paper:
    """The findings that are checked."""
    text = files("speciate.reporting").joinpath("paper.toml").read_bytes()
    return msgspec.toml.decode(text, type=Paper)


def findings(runs: Iterable[Run], source: Paper | None = None) -> list[Finding]:
    """Every finding, checked in every setting and overall."""
    cells, where = _cells(runs)
    return [_finding(rule, cells, where) for rule in (source or paper()).findings]


def _cells(runs: Iterable[Run]) -> tuple[_Cells, list[Setting]]:
    groups = group(runs)
    cells = {
        (one.setting, one.variant.method, key): _Cell(
            spread(map(measure.read, one.runs)).mean, spread(map(measure.rank, one.runs)).mean
        )
        for one in groups
        for key, measure in BY_KEY.items()
    }
    return cells, settings(groups)


def _finding(rule: Rule, cells: _Cells, where: Sequence[Setting]) -> Finding:
    return Finding(
        name=rule.name,
        statement=rule.statement,
        place=rule.place,
        overall=_check(rule, cells, OVERALL, where),
        checks=[_check(rule, cells, setting, [setting]) for setting in where],
    )


def _check(rule: Rule, cells: _Cells, shown: Setting, where: Sequence[Setting]) -> Check:
    """Apply a rule to some settings together: to one, or to all."""
    wanted = [*([rule.suspect] if rule.suspect else []), *rule.others]
    keys = [*rule.measures, *([rule.cost] if rule.cost else [])]
    pairs = [(key, other) for key in keys for other in wanted]
    found = {pair: _figure(pair[0], rule.subject, pair[1], cells, where) for pair in pairs}
    figures = [figure for figure in found.values() if figure is not None]
    verdict: Verdict = "held" if len(figures) == len(pairs) else "not tested"
    if _RULES[rule.rule](rule, figures):
        verdict = "not held"
    missing = _missing(rule.subject, wanted, cells, where)
    valueless = [] if rule.subject in missing else [k for k, o in pairs if found[k, o] is None and o not in missing]
    return Check(shown.benchmark, shown.order, verdict, figures, missing, list(dict.fromkeys(valueless)))


def _missing(subject: str, wanted: Sequence[str], cells: _Cells, where: Sequence[Setting]) -> list[str]:
    """The subject if it was not run, and the others that were not run beside it."""
    with_subject = [setting for setting in where if (setting, subject, ANY_MEASURE) in cells]
    beside = with_subject or where
    others = [name for name in wanted if not any((setting, name, ANY_MEASURE) in cells for setting in beside)]
    return others if with_subject else [subject, *others]


def _figure(key: str, subject: str, other: str, cells: _Cells, where: Sequence[Setting]) -> Figure | None:
    """Two methods beside each other, by one measure; none where they share no setting."""
    subjects, values, leads, ratios = [], [], [], []
    for setting in where:
        ours, theirs = cells.get((setting, subject, key)), cells.get((setting, other, key))
        if ours is None or theirs is None or None in (ours.value, theirs.value, ours.rank, theirs.rank):
            continue
        subjects.append(cast(float, ours.value))
        values.append(cast(float, theirs.value))
        leads.append(cast(float, ours.rank) - cast(float, theirs.rank))
        ratios.append(subjects[-1] / values[-1] if values[-1] else math.inf)
    if not leads:
        return None
    return Figure(key, other, fmean(subjects), fmean(values), fmean(leads), fmean(ratios))


def _not_ahead(_rule: Rule, figures: Sequence[Figure]) -> bool:
    return any(figure.lead <= 0 for figure in figures)


def _smaller_drop(rule: Rule, figures: Sequence[Figure]) -> bool:
    """Whether, by some measure, the suspect loses nothing, or no more than another does."""
    for key in rule.measures:
        leads = {figure.method: figure.lead for figure in figures if figure.measure == key}
        suspect = leads.pop(rule.suspect, None)
        if suspect is not None and suspect <= max([0.0, *leads.values()]):
            return True
    return False


def _not_close(rule: Rule, figures: Sequence[Figure]) -> bool:
    dear = any(figure.ratio > rule.share for figure in figures if figure.measure == rule.cost)
    return dear or any(figure.lead < -rule.slack for figure in figures if figure.measure in rule.measures)


_RULES: dict[str, Callable[[Rule, Sequence[Figure]], bool]] = {
    "ahead": _not_ahead,
    "largest-drop": _smaller_drop,
    "close": _not_close,
}
"""Whether figures contradict a finding; more figures never take a contradiction back."""
