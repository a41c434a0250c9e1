"""Where runs come from is said in full, and where they disagree, all of it."""

import pytest
from made import a_run
from test_reporting_page import HOSTILE, Page

from speciate.reporting.provenance import how_it_was_run, methods_list, support_text, times_text
from speciate_schemas.benchmark import SupportRule


def cells(runs, key, benchmark="pets"):
    (cell,) = Page(how_it_was_run(runs)).all("td", data_stream=key, data_benchmark=benchmark)
    return cell["text"]


def test_every_method_stands_with_whom_it_follows_and_its_options():
    runs = [
        a_run("phe", title="PHE", method_about=f"Zheng et al. {HOSTILE}", density={"plugin": "phe", "bits": 12}),
        a_run("dp", title="DP", method_about="The paper."),
    ]
    page = Page(methods_list(runs))
    assert [one["text"] for one in page.all("dt")] == ["DP dp", "PHE phe"]
    (phe,) = page.all("dd", data_about="phe")
    assert f"Zheng et al. {HOSTILE}" in phe["text"]
    assert "density plugin=phe, bits=12, policy plugin=dp, alpha=1e-9" in phe["text"]
    assert "<script>" not in methods_list(runs)


def test_a_swept_method_is_told_once_with_every_way_it_was_run():
    runs = [a_run(policy={"plugin": "dp", "alpha": alpha}, method_about="The paper.") for alpha in (1.0, 0.5)]
    page = Page(methods_list(runs))
    (told,) = page.all("dd")
    assert told["text"].count("The paper.") == 1
    names = [one["attrs"]["data-options"] for one in page.all("p") if "data-options" in one["attrs"]]
    assert names == ["dp-boa policy.alpha=0.5", "dp-boa policy.alpha=1.0"]


def test_a_word_on_a_method_that_changed_between_runs_is_there_twice():
    told = methods_list([a_run(method_about="Now."), a_run(seed=1, method_about="Then.")])
    assert "Now." in told
    assert "Then." in told


@pytest.mark.parametrize(
    ("support", "expected"),
    [
        (SupportRule(), "pooled: 50 % from all known events at once, of all groups, drawn with the run's seed"),
        (
            SupportRule(rule="per-class", share=0.25, seed=0, groups=("real", "sketch")),
            "per-class: 25 % from each known class, of the groups real, sketch, drawn with seed 0",
        ),
    ],
)
def test_how_a_support_set_was_drawn_is_said_in_full(support, expected):
    assert support_text(support) == expected
    assert cells([a_run(support=support)], "drawn") == expected


def test_counts_and_rules_that_differ_between_runs_are_all_told():
    runs = [a_run(support_events=10), a_run(seed=1, support_events=9, support=SupportRule(seed=3))]
    assert cells(runs, "support") == "9, 10"
    assert cells(runs, "drawn").count("drawn with") == 2


def test_the_length_of_bursts_stands_with_the_order_it_belongs_to():
    assert cells([a_run(burst=7)], "orders") == "random"
    runs = [a_run(), a_run(order="bursty", burst=7), a_run(order="bursty", burst=20)]
    expected = "random; bursty, up to 7 of a class in a row; bursty, up to 20 of a class in a row"
    assert cells(runs, "orders") == expected


def test_times_of_runs_done_side_by_side_come_with_a_warning():
    alone, beside = a_run(), a_run(seed=1, workers=4)
    assert times_text([alone]) == ""
    assert times_text([beside]).startswith("4 runs were done side by side")
    assert "cannot be compared with those of a run alone" in times_text([beside])
    assert "1 or 4 were done at the same time" in times_text([alone, beside])
    assert "cannot be compared with each other" in times_text([alone, beside])
    assert times_text([beside]) in how_it_was_run([beside])
    (fact,) = Page(how_it_was_run([alone, beside])).all("td", data_fact="runs at the same time")
    assert fact["text"] == "1, 4"
