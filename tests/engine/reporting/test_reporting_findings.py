"""Findings hold where the runs say so, and only there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import CATALOGUE, a_comparison, a_run

from speciate.reporting.findings import Paper, Rule, findings, paper
from speciate.reporting.measures import BY_KEY


def finding(name, runs):
    (one,) = [one for one in findings(runs) if one.name == name]
    return one


def verdict(name, **methods):
    """Of one setting: what each method came to."""
    return finding(
        name, [a_run(method.replace("_", "-"), **values) for method, values in methods.items()]
    ).overall.verdict


GOOD = {"all": 0.6, "novel": 0.5}
BAD = {"all": 0.5, "novel": 0.4}
MIXED = {"all": 0.5, "novel": 0.55}
ABLATIONS = {
    name: {"novel": 0.4} for name in ("no_prior_mean", "no_prior_shape", "kappa_one", "no_dp_prior", "spherical")
}
HASHING = {name: {"false_births": 0.08} for name in ("smile", "phe", "phe_16", "rankstat", "wta")}
OTHERS = {
    name: {"categories": 43}
    for name in (
        *("mahalanobis_threshold", "posterior_threshold", "slc", "rankstat", "wta", "smile", "phe", "phe_16"),
        *("sync", "diffgre", "nearest_mean", "dbstream"),
    )
}


def but(methods, name):
    return {key: value for key, value in methods.items() if key != name}


@pytest.mark.parametrize(
    ("name", "methods", "expected"),
    [
        ("ahead-of-thresholds", {"dp_boa": GOOD, "mahalanobis_threshold": BAD, "posterior_threshold": BAD}, "held"),
        ("ahead-of-thresholds", {"dp_boa": GOOD, "mahalanobis_threshold": BAD}, "not tested"),
        (
            "ahead-of-thresholds",
            {"dp_boa": GOOD, "mahalanobis_threshold": BAD, "posterior_threshold": GOOD},
            "not held",
        ),
        ("ahead-of-thresholds", {"dp_boa": GOOD, "posterior_threshold": MIXED}, "not held"),
        ("ahead-of-thresholds", {"dp_boa": GOOD, "spherical": BAD}, "not tested"),
        ("ahead-of-thresholds", {"posterior_threshold": BAD}, "not tested"),
        ("ahead-of-thresholds", {"dp_boa": {"all": 0.6, "novel": None}, "posterior_threshold": BAD}, "not tested"),
        (
            "frozen-hurts-novel-most",
            {"dp_boa": {"novel": 0.5}, "frozen": {"novel": 0.3}, **ABLATIONS},
            "held",
        ),
        *(
            (
                "frozen-hurts-novel-most",
                {"dp_boa": {"novel": 0.5}, "frozen": {"novel": 0.3}, **but(ABLATIONS, name)},
                "not tested",
            )
            for name in ABLATIONS
        ),
        ("frozen-hurts-novel-most", {"dp_boa": {"novel": 0.5}, "frozen": {"novel": 0.5}}, "not held"),
        (
            "frozen-hurts-novel-most",
            {"dp_boa": {"novel": 0.5}, "frozen": {"novel": 0.3}, "spherical": {"novel": 0.2}},
            "not held",
        ),
        (
            "frozen-hurts-novel-most",
            {"dp_boa": {"novel": 0.5}, "frozen": {"novel": 0.6}, "kappa_one": {"novel": 0.7}},
            "not held",
        ),
        ("frozen-hurts-novel-most", {"dp_boa": {"novel": 0.5}, "frozen": {"novel": 0.3}}, "not tested"),
        ("frozen-hurts-novel-most", {"dp_boa": {"novel": 0.5}, "kappa_one": {"novel": 0.3}}, "not tested"),
        ("identity-shape-hurts", {"dp_boa": {"all": 0.5}, "no_prior_shape": {"all": 0.4}}, "held"),
        ("identity-shape-hurts", {"dp_boa": {"all": 0.5}, "no_prior_shape": {"all": 0.5}}, "not held"),
        ("spherical-trails", {"dp_boa": GOOD, "spherical": BAD}, "held"),
        ("spherical-trails", {"dp_boa": GOOD, "spherical": MIXED}, "not held"),
        (
            "low-rank-is-close",
            {"dp_boa_l": {"all": 0.492, "head_bytes": 40e6}, "dp_boa": {"all": 0.507, "head_bytes": 299e6}},
            "held",
        ),
        (
            "low-rank-is-close",
            {"dp_boa_l": {"all": 0.48, "head_bytes": 40e6}, "dp_boa": {"all": 0.507, "head_bytes": 299e6}},
            "not held",
        ),
        (
            "low-rank-is-close",
            {"dp_boa_l": {"all": 0.52, "head_bytes": 40e6}, "dp_boa": {"all": 0.507, "head_bytes": 299e6}},
            "held",
        ),
        (
            "low-rank-is-close",
            {"dp_boa_l": {"all": 0.5, "head_bytes": 200e6}, "dp_boa": {"all": 0.507, "head_bytes": 299e6}},
            "not held",
        ),
        ("low-rank-is-close", {"dp_boa_l": {"all": 0.5}}, "not tested"),
        ("count-closest", {"dp_boa": {"categories": 38}, **OTHERS}, "held"),
        *(("count-closest", {"dp_boa": {"categories": 38}, **but(OTHERS, name)}, "not tested") for name in OTHERS),
        ("count-closest", {"dp_boa": {"categories": 38}, "smile": {"categories": 41}}, "not held"),
        ("count-closest", {"dp_boa": {"categories": 38}, "kappa_one": {"categories": 40}}, "not tested"),
        ("fewer-false-births", {"dp_boa": {"false_births": 0.01}, **HASHING}, "held"),
        *(
            ("fewer-false-births", {"dp_boa": {"false_births": 0.01}, **but(HASHING, name)}, "not tested")
            for name in HASHING
        ),
        ("fewer-false-births", {"dp_boa": {"false_births": 0.01}, "wta": {"false_births": 0.005}}, "not held"),
        ("fewer-false-births", {"dp_boa": {"false_births": 0.01}, "sync": {"false_births": 0.08}}, "not tested"),
    ],
)
def test_a_finding_is_held_not_held_or_not_tested_as_the_runs_say(name, methods, expected):
    assert verdict(name, **methods) == expected


@given(st.data())
def test_what_is_said_of_some_of_the_methods_stays_said_when_all_are_run(data):
    numbers = st.sampled_from([0.1, 0.3, 0.5])
    runs = [
        a_run(
            method,
            all=data.draw(numbers),
            novel=data.draw(numbers),
            categories=data.draw(st.integers(38, 42)),
            false_births=data.draw(numbers),
            head_bytes=data.draw(st.sampled_from([1e6, 9e6])),
        )
        for method in CATALOGUE
    ]
    some = data.draw(st.lists(st.sampled_from(runs), unique_by=id))
    for part, whole in zip(findings(some), findings(runs), strict=True):
        assert part.overall.verdict in ("not tested", whole.overall.verdict)
        assert whole.overall.verdict != "not tested"
        assert part.overall.verdict != "held" or not part.overall.missing


def test_what_keeps_a_finding_from_being_tested_is_named():
    one = finding("frozen-hurts-novel-most", [a_run("dp-boa"), a_run("frozen", novel=0.1), a_run("spherical")])
    assert one.overall.missing == ["no-prior-mean", "no-prior-shape", "kappa-one", "no-dp-prior"]
    apart = [a_run("dp-boa", "pets"), a_run("spherical", "cub", all=0.1, novel=0.1)]
    one = finding("spherical-trails", apart)
    assert (one.overall.verdict, one.overall.missing) == ("not tested", ["spherical"])
    assert {check.benchmark: check.missing for check in one.checks} == {"pets": ["spherical"], "cub": ["dp-boa"]}
    one = finding("spherical-trails", [a_run("dp-boa", novel=None), a_run("spherical", all=0.1)])
    assert (one.overall.verdict, one.overall.missing, one.overall.valueless) == ("not tested", [], ["novel"])


def test_overall_a_finding_holds_where_each_other_was_run_beside_the_subject_somewhere():
    pets = [a_run("dp-boa", "pets", **GOOD), a_run("mahalanobis-threshold", "pets", **BAD)]
    cub = [a_run("dp-boa", "cub", **GOOD), a_run("posterior-threshold", "cub", **BAD)]
    one = finding("ahead-of-thresholds", [*pets, *cub])
    assert (one.overall.verdict, one.tested) == ("held", 0)


def test_the_methods_the_ellipses_are_true_of_are_named():
    assert paper().drawn == ("dp-boa", "dp-boa-auto")


PAPER_TABLES = {
    "animalia": {
        "dp-boa": (50.7, 43.7),
        "no-prior-mean": (50.1, 43.7),
        "no-prior-shape": (47.9, 38.4),
        "kappa-one": (45.2, 39.4),
        "no-dp-prior": (48.0, 38.4),
        "frozen": (40.2, 30.5),
        "spherical": (41.7, 33.5),
        "mahalanobis-threshold": (44.4, 32.5),
        "posterior-threshold": (48.6, 41.5),
    },
    "cub": {
        "dp-boa": (53.4, 51.6),
        "no-prior-mean": (52.9, 53.8),
        "no-prior-shape": (40.8, 41.3),
        "kappa-one": (52.2, 52.4),
        "no-dp-prior": (52.3, 49.8),
        "frozen": (35.9, 27.0),
        "spherical": (40.4, 36.1),
        "mahalanobis-threshold": (36.8, 32.6),
        "posterior-threshold": (50.8, 48.8),
    },
    "pets": {
        "dp-boa": (59.0, 56.6),
        "no-prior-mean": (58.1, 55.5),
        "no-prior-shape": (56.0, 58.2),
        "kappa-one": (57.5, 56.2),
        "no-dp-prior": (57.1, 54.2),
        "frozen": (54.7, 54.2),
        "spherical": (47.1, 47.9),
        "mahalanobis-threshold": (45.2, 45.6),
        "posterior-threshold": (57.8, 54.0),
    },
}
"""All and Novel, as the paper prints them."""


def test_on_the_papers_own_figures_its_findings_hold_overall():
    runs = [
        a_run(method, benchmark, all=strict / 100, novel=novel / 100)
        for benchmark, methods in PAPER_TABLES.items()
        for method, (strict, novel) in methods.items()
    ]
    for name in ("ahead-of-thresholds", "identity-shape-hurts", "spherical-trails"):
        one = finding(name, runs)
        assert (one.overall.verdict, one.held, one.tested) == ("held", 3, 3)
    # On the pets its spherical row loses more than its frozen one.
    frozen = finding("frozen-hurts-novel-most", runs)
    assert frozen.overall.verdict == "held"
    assert [(check.benchmark, check.verdict) for check in frozen.checks] == [
        ("animalia", "held"),
        ("cub", "held"),
        ("pets", "not held"),
    ]
    assert "Novel % 50.6 against 37.2 (frozen)" in frozen.overall.text()


def test_overall_compares_two_methods_where_both_were_run():
    runs = [
        a_run("dp-boa", "easy", all=0.9, novel=0.9),
        a_run("dp-boa", "hard", all=0.3, novel=0.3),
        a_run("spherical", "hard", all=0.2, novel=0.2),
    ]
    one = finding("spherical-trails", runs)
    assert one.overall.figures[0].subject == pytest.approx(0.3)
    assert one.overall.figures[0].lead == pytest.approx(0.1)
    assert [check.verdict for check in one.checks] == ["not tested", "held"]
    assert one.checks[0].missing == ["spherical"]


def test_all_findings_hold_in_the_made_comparison_and_figures_name_titles_if_given():
    found = findings(a_comparison())
    assert [one.overall.verdict for one in found] == ["held"] * len(paper().findings)
    assert all((one.held, one.tested) == (6, 6) for one in found)
    assert "(SMILE)" in found[-1].overall.text({"smile": "SMILE"})


def test_the_data_file_speaks_of_measures_there_are():
    for rule in paper().findings:
        assert {*rule.measures, *([rule.cost] if rule.cost else [])} <= BY_KEY.keys()
        assert rule.others
        assert (rule.rule == "largest-drop") == bool(rule.suspect)


def test_another_papers_findings_can_be_checked():
    rule = Rule(name="x", statement="X", place="1", rule="ahead", subject="a", others=("b",), measures=("nmi",))
    (one,) = findings([a_run("a"), a_run("b")], Paper(title="T", subject="a", findings=(rule,)))
    assert one.overall.verdict == "not held"
