"""Figures are drawn from any runs, read on white and black, and are written with text as text."""

import builtins
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from made import CATALOGUE, a_comparison, a_run, with_metrics
from test_reporting_ellipses import a_category

from speciate.errors import ConfigError, OperatorError, OutputError
from speciate.reporting import plots
from speciate.reporting.grouping import Variant, group, variants
from speciate.reporting.looks import ACCENT, PALETTE, looks
from speciate.reporting.orders import order_effects
from speciate.reporting.svg import Sheet, save, standalone
from speciate_schemas.replay import Growth

DRAWN = (plots.growth, plots.temporal, plots.latency, plots.memory)


@pytest.fixture(scope="module")
def runs():
    return a_comparison(benchmarks=("pets",), orders=("random", "bursty"), seeds=2)


@pytest.fixture(scope="module")
def drawn(runs):
    """Every kind of figure."""
    colours = looks(variants(group(runs)))
    one = [run for run in runs if run.info.order == "random"]
    figures = {draw.__name__: draw(one, colours) for draw in DRAWN}
    figures["orders"] = plots.order_spread(order_effects(runs)[0], colours)
    figures["ellipses"] = plots.ellipses([a_category(1, 60, 20), a_category(2, 3)])
    return figures


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [ACCENT, *PALETTE])
def test_every_colour_stands_out_from_a_white_and_a_black_page(colour):
    light, dark = luminance("#fefefe"), luminance("#14171b")
    assert (light + 0.05) / (luminance(colour) + 0.05) >= 3
    assert (luminance(colour) + 0.05) / (dark + 0.05) >= 3


def test_a_method_looks_the_same_in_every_figure_and_like_no_other():
    methods = [Variant(f"m{number:02}", "M") for number in range(25)] + [Variant("dp-boa", "DP-BOA")]
    found = looks(methods)
    assert found == looks(reversed(methods))
    assert found["dp-boa"].colour == ACCENT
    assert len({(look.colour, str(look.dash)) for look in found.values()}) == len(methods)


@pytest.mark.parametrize("name", ["growth", "temporal", "latency", "memory", "orders", "ellipses"])
def test_every_figure_is_written_as_svg_and_png(drawn, name, tmp_path):
    save(drawn[name], tmp_path / "figure.svg")
    save(drawn[name], tmp_path / "figure.png")
    root = ET.fromstring((tmp_path / "figure.svg").read_text("utf-8"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    wanted = {"ellipses": "100 %", "orders": "bursty"}.get(name, "DP-BOA")
    assert any(wanted in (text or "") for text in texts)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_figure_is_the_same_bytes_and_follows_light_and_dark(drawn):
    text = standalone(drawn["growth"])
    assert text == standalone(drawn["growth"])
    assert "prefers-color-scheme:dark" in text
    assert "var(--ink)" in text


def test_parts_of_a_page_have_no_styles_of_their_own_and_no_id_twice(drawn):
    sheet = Sheet()
    text = "".join(sheet.inline(figure, name, 'a "label"') for name, figure in drawn.items())
    assert "style" not in text
    assert "http" not in text
    assert 'aria-label="a &quot;label&quot;"' in text
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', text)) <= set(ids)
    used = set(re.findall(r'class="(\w+)"', text))
    assert used == set(re.findall(r"^\.(\w+)\{", sheet.css(), re.MULTILINE))


def test_dollars_and_tags_in_titles_are_text():
    one = [a_run("x", title="a$b$ <script>alert(1)</script> \\frac")]
    text = standalone(plots.growth(one, looks(variants(group(one)))))
    assert "a$b$ &lt;script&gt;" in text
    assert "<script" not in text


@pytest.mark.parametrize("draw", DRAWN)
def test_runs_with_nothing_to_draw_are_drawn_as_nothing(draw):
    run = a_run(all=None, head_bytes=0)
    timing = type(run.metrics.timing)(
        **{name: 0.0 for name in run.metrics.timing.__struct_fields__ if not name.startswith(("batch", "histogram"))},
        batch=1,
        histogram_ms=[],
        histogram_counts=[],
    )
    empty = with_metrics(run, bins=[], growth=Growth(events=[], categories=[], classes=[]), timing=timing)
    figure = draw([empty], looks(variants(group([empty]))))
    assert standalone(figure).rstrip().endswith("</svg>")


def test_end_labels_keep_their_distance(drawn):
    texts = [text for text in drawn["growth"].axes[0].texts if text.get_text()]
    axes = drawn["growth"].axes[0]
    pixels = sorted(axes.transData.transform((0, text.get_position()[1]))[1] for text in texts)
    points = 72 / drawn["growth"].dpi
    assert len(texts) == len(CATALOGUE) + 1
    assert all((high - low) * points > 8.5 for low, high in pairwise(pixels))


def test_ellipses_have_a_row_a_category_and_a_column_a_checkpoint(drawn):
    figure = drawn["ellipses"]
    assert len(figure.axes) == 2 * 7
    counts = [int(axes.texts[0].get_text().split()[-1]) for axes in figure.axes]
    assert counts[:7] == [21, 22, 24, 30, 40, 50, 60]
    for axes in figure.axes:
        around = axes.lines[-1].get_xydata()
        assert np.allclose(around[0], around[-1])


def test_another_suffix_is_refused_and_so_is_a_folder_that_is_not_there(drawn, tmp_path):
    with pytest.raises(ConfigError, match=r"'figure.jpg': name it .svg or .png"):
        save(drawn["memory"], tmp_path / "figure.jpg")
    with pytest.raises(OutputError, match="cannot write"):
        save(drawn["memory"], tmp_path / "nowhere" / "figure.svg")


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(OperatorError, match=r"pip install 'speciate\[report\]'") as caught:
        plots.growth([a_run()], looks([Variant("dp-boa", "DP-BOA")]))
    assert "\n" not in str(caught.value)
