"""What differs between two reports, and nothing else, is told."""

from made import a_comparison, a_run, a_timing, with_info, with_metrics

from speciate.reporting.difference import COLUMNS, as_table, compare


def test_a_report_does_not_differ_from_itself():
    runs = a_comparison(orders=("random",))
    assert compare(runs, list(reversed(runs))) == []


def test_runs_only_one_has_are_told_with_the_side():
    changes = compare([a_run("a"), a_run("b")], [a_run("b"), a_run("c", seed=7)])
    assert [(one.method, one.seed, one.kind) for one in changes] == [
        ("a", 0, "only in the first"),
        ("c", 7, "only in the second"),
    ]


def test_the_order_of_the_runs_does_not_matter():
    first, second = [a_run("a"), a_run("b"), a_run("c", all=0.1)], [a_run("c"), a_run("d"), a_run("e")]
    assert compare(first, second) == compare(first[::-1], second[::-1])


def test_other_options_are_another_run():
    changes = compare([a_run()], [a_run(policy={"plugin": "dp", "alpha": 2.0})])
    assert [one.kind for one in changes] == ["only in the first", "only in the second"]


def test_other_decisions_are_told_even_where_no_figure_moved():
    (change,) = compare([a_run()], [with_info(a_run(), decisions_sha256="f" * 64)])
    assert (change.kind, change.second) == ("other decisions", "f" * 12)


def test_other_data_are_told():
    (change,) = compare([a_run()], [with_info(a_run(), data_sha256="0" * 64)])
    assert change.kind == "other data"


def test_figures_that_moved_are_told_with_both_values():
    changes = compare([a_run(all=0.5, novel=None)], [a_run(all=0.625, novel=0.1)])
    moved = {one.measure: (one.first, one.second) for one in changes if one.kind == "moved"}
    assert moved["all"] == ("50.0", "62.5")
    assert moved["novel"] == ("–", "10.0")
    assert not any(one.timing for one in changes)


def test_times_move_only_when_they_move_far():
    run = a_run(ms=1.0)
    assert compare([run], [with_metrics(run, timing=a_timing(1.2))]) == []
    changes = compare([run], [with_metrics(run, timing=a_timing(2.0))])
    assert {one.measure for one in changes} == {"events_per_second", "mean_ms", "p50_ms", "p99_ms", "max_ms"}
    assert all(one.timing for one in changes)


def test_the_table_has_a_cell_for_every_column():
    columns, rows = as_table(compare([a_run(all=0.5)], [a_run(all=0.6), a_run("b")]))
    assert columns == COLUMNS
    assert rows
    assert all(len(row) == len(columns) for row in rows)
