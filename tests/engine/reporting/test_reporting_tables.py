"""Tables say what the runs say."""

import csv
import io
import math
import random
import statistics

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import a_comparison, a_run, with_info, with_metrics

from speciate.cli.output import print_table
from speciate.reporting.grouping import in_order
from speciate.reporting.measures import BY_KEY, MEASURES, NONE, percent, plain, plural, size, whole
from speciate.reporting.tables import aggregate, aggregates_csv, as_json, for_terminal, runs_csv
from speciate_schemas.replay import CategoryPurity, Run, Shares

fractions = st.floats(0, 1)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@given(st.lists(fractions, min_size=2, max_size=6))
def test_an_aggregate_is_the_mean_and_sample_deviation_over_seeds(values):
    (row,) = aggregate([a_run(seed=seed, all=value) for seed, value in enumerate(values)])
    assert math.isclose(row.measures["all"].mean, statistics.fmean(values), abs_tol=1e-12)
    assert math.isclose(row.measures["all"].std, statistics.stdev(values), abs_tol=1e-12)
    assert row.runs == len(values)


def test_one_run_has_no_deviation_and_what_is_missing_has_no_mean():
    (row,) = aggregate([a_run(all=0.25, novel=None)])
    assert (row.measures["all"].mean, row.measures["all"].std) == (0.25, None)
    assert row.measures["novel"].mean is None
    (_, (texts,)) = for_terminal([a_run(novel=None)])
    assert texts[6] == NONE


@given(st.lists(fractions, min_size=1, max_size=8, unique=True))
def test_rows_of_a_setting_are_sorted_by_strict_accuracy(values):
    rows = aggregate([a_run(f"m{place}", all=value) for place, value in enumerate(values)])
    assert [row.measures["all"].mean for row in rows] == sorted(values, reverse=True)


def test_a_method_without_accuracy_comes_last():
    assert [row.method for row in aggregate([a_run("a", all=None), a_run("b", all=0.0)])] == ["b", "a"]


@settings(max_examples=40)
@given(st.lists(st.tuples(fractions, st.integers(0, 100), fractions), min_size=2, max_size=6))
def test_the_best_of_a_column_is_the_highest_the_lowest_or_the_closest(values):
    runs = [
        a_run(f"m{place}", all=one, categories=count, false_births=births)
        for place, (one, count, births) in enumerate(values)
    ]
    best = {key: {row.method for row in aggregate(runs) if row.measures[key].best} for key in BY_KEY}
    alls, counts, births = zip(*values, strict=True)
    offs = [abs(count - 40) for count in counts]

    def holders(column, wanted):
        return {f"m{n}" for n, value in enumerate(column) if value == wanted} if len(set(column)) > 1 else set()

    assert best["all"] == holders(alls, max(alls))
    assert best["categories"] == holders(offs, min(offs))
    assert best["false_birth_rate"] == holders(births, min(births))
    assert best["classes"] == set()


def test_the_best_is_looked_for_within_a_setting():
    runs = [a_run("a", "x", all=0.9), a_run("b", "x", all=0.8), a_run("a", "y", all=0.1), a_run("b", "y", all=0.2)]
    assert {(r.benchmark, r.method) for r in aggregate(runs) if r.measures["all"].best} == {("x", "a"), ("y", "b")}


def test_the_table_of_runs_holds_every_measure_exactly():
    runs = a_comparison(orders=("random",))
    rows = rows_of(runs_csv(runs))
    assert len(rows) == len(runs)
    found = {(row["benchmark"], row["method"], row["seed"]): row for row in rows}
    for run in runs:
        row = found[run.info.benchmark, run.info.method, str(run.info.seed)]
        assert {m.key: float(row[m.key]) for m in MEASURES} == {m.key: m.read(run) for m in MEASURES}
        assert row["decisions_sha256"] == run.info.decisions_sha256


def test_the_table_of_aggregates_agrees_with_them_and_leaves_empty_what_there_is_not():
    runs = [a_run(novel=None, seed=seed, all=0.5 + seed / 10) for seed in range(3)]
    (row,) = rows_of(aggregates_csv(runs))
    assert float(row["all"]) == pytest.approx(0.6)
    assert float(row["all_std"]) == pytest.approx(0.1)
    assert (row["novel"], row["novel_std"], row["runs"]) == ("", "", "3")


def test_groups_have_columns_of_their_own():
    shares = {"sketch": Shares(all=0.25, known=None, novel=0.5)}
    (row,) = rows_of(runs_csv([with_metrics(a_run(), groups=shares)]))
    assert (row["group.sketch.all"], row["group.sketch.known"]) == ("0.25", "")
    (row,) = rows_of(aggregates_csv([with_metrics(a_run(), groups=shares)]))
    assert row["group.sketch.novel"] == "0.5"


def test_json_survives_a_round_trip_with_all_runs():
    runs = a_comparison(benchmarks=("pets",), orders=("random",))
    plain_values = msgspec.json.decode(msgspec.json.encode(as_json(runs)))
    assert msgspec.convert(plain_values["runs"], list[Run]) == in_order(runs)
    assert plain_values["aggregates"][0]["measures"]["all"]["best"] is True


def test_tables_are_the_same_bytes_whatever_order_the_runs_are_given_in():
    runs = a_comparison(seeds=2, methods=("dp-boa", "phe", "phe-16"))
    runs += [a_run("phe", policy={"plugin": "dp", "alpha": alpha}, title="PHE") for alpha in (10.0, 9.0)]
    runs += [with_metrics(a_run("odd"), groups={"sketch": Shares(all=0.2, known=None, novel=0.5)})]
    # The same thing done twice, which came to something else.
    runs += [with_info(a_run("twice", all=share), finished="2025-03-01T10:00:00+00:00") for share in (0.1, 0.2)]

    def written(some):
        return runs_csv(some), aggregates_csv(some), msgspec.json.encode(as_json(some)), for_terminal(some)

    expected = written(runs)
    for seed in range(5):
        assert written(random.Random(seed).sample(runs, len(runs))) == expected


def test_json_keeps_the_hundred_largest_categories_of_each_run():
    sizes = [*range(1, 151), 1]
    purities = [CategoryPurity(category=n, events=size, majority="x", purity=1.0) for n, size in enumerate(sizes)]
    few, many = with_metrics(a_run(seed=0), purities=purities[:100]), with_metrics(a_run(seed=1), purities=purities)
    first, second = as_json([few, many])["runs"]
    assert len(first["metrics"]["purities"]) == 100
    assert [one["events"] for one in second["metrics"]["purities"]] == list(range(150, 50, -1))
    assert len(many.metrics.purities) == 151


def test_the_table_of_runs_says_how_many_were_done_at_the_same_time():
    assert [row["workers"] for row in rows_of(runs_csv([a_run(), a_run(seed=1, workers=4)]))] == ["1", "4"]


def test_one_is_counted_as_one():
    assert (plural(1, "run"), plural(2, "run"), plural(0, "run")) == ("1 run", "2 runs", "0 runs")


def test_the_terminal_table_prints_with_its_best_marked(capsys):
    columns, rows = for_terminal([a_run("a", all=0.573), a_run("b", all=0.5)])
    print_table(columns, rows)
    printed = capsys.readouterr().out
    assert "57.3 *" in printed
    assert "50.0 *" not in printed
    assert all(len(row) == len(columns) for row in rows)


def test_numbers_are_written_for_people():
    assert (percent(0.5731), whole(38), whole(38.333), size(299.2e6), size(12), size(2.5e15)) == (
        "57.3",
        "38",
        "38.3",
        "299 MB",
        "12 B",
        "2.5e+03 TB",
    )
    assert (plain(1234.5), plain(0.01234)) == ("1,234", "0.0123")
