"""The card of a model: everything of note is on it, and nothing on it can be mistaken for something else."""

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bundle import CARD_OF_TESTS

from speciate.card import MOST_CLASSES, card_text
from speciate_schemas import BundleManifest, Epoch, TrainingReport
from strategies import STRATEGIES

MANIFEST = BundleManifest(
    sha256="0" * 64,
    encoder={"plugin": "timm", "model": "some | model", "pooling": None},
    encoder_files={},
    dimension=1280,
    files={},
    fingerprint="0" * 64,
    plugins={},
    card=CARD_OF_TESTS,
)


def with_card(**changes):
    return msgspec.structs.replace(MANIFEST, card=msgspec.structs.replace(CARD_OF_TESTS, **changes))


def with_classes(classes):
    return with_card(support=msgspec.structs.replace(CARD_OF_TESTS.support, classes=classes))


def cells(row):
    """The cells of a row as a reader of Markdown tables finds them: a bar behind a backslash does not end one."""
    found = re.findall(r"\|((?:\\.|[^|\\])*)(?=\|)", row)
    assert row == "|" + "|".join(found) + "|", row
    return [one.strip(" ") for one in found]


def shown(cell):
    """What a cell is displayed as."""
    assert "<" not in cell
    assert re.sub(r"\\.", "", cell).count("`") == 0
    return re.sub(r"\\(.)", r"\1", cell).replace("&lt;", "<").replace("&amp;", "&")


def rows_under(text, heading):
    """The rows of the first table below a heading, without its own two."""
    lines = text.split(heading, 1)[1].split("\n")
    start = next(place for place, line in enumerate(lines) if line.startswith("|"))
    table = lines[start:]
    return table[2 : table.index("") if "" in table else None]


HOSTILE = [
    "a|b",
    "a\nb",
    "a\r| x | y |\r\nb",
    "<script>alert(1)</script>",
    "`code`",
    "\\",
    "\\|",
    "|",
    "&lt;b>",
    "\u2028",
    "é",
]


@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=20) | st.sampled_from(HOSTILE), st.integers(0, 10**9), max_size=6))
def test_a_class_stays_in_its_cell_whatever_it_is_called(classes):
    text = card_text(with_classes(classes))
    rows = rows_under(text, "## Support set")
    assert [[shown(cells(row)[0]), cells(row)[1]] for row in rows] == [
        [" ".join(name.splitlines()).strip(" "), f"{count:,}"] for name, count in classes.items()
    ]
    assert text.splitlines() == text.split("\n")[: len(text.splitlines())], "no other line endings than our own"


@pytest.mark.parametrize("more", [0, 1, 3000])
def test_every_class_is_listed_unless_there_are_too_many_to_read(more):
    classes = {f"class {number}": number + 1 for number in range(MOST_CLASSES + more)}
    rows = rows_under(card_text(with_classes(classes)), "## Support set")
    assert [cells(row)[0] for row in rows[:MOST_CLASSES]] == list(classes)[:MOST_CLASSES]
    assert rows[MOST_CLASSES:] == ([f"| and {more:,} more | |"] if more else [])


def test_the_encoder_or_that_there_is_none():
    text = card_text(MANIFEST)
    assert "Gives 1,280 features an image." in text
    assert "| model | some \\| model |" in rows_under(text, "## Encoder")
    none = card_text(msgspec.structs.replace(MANIFEST, encoder=None))
    assert "None: it takes features of 1,280 numbers." in none
    assert "## Training" not in none


REPORT = TrainingReport(
    options={"epochs": 2, "loss": "ce"},
    epochs=[
        Epoch(number=1, learning_rate=0.1, loss=2.0, held_loss=1.5, held_accuracy=0.25),
        Epoch(number=2, learning_rate=0.05, loss=1.0, held_loss=None, held_accuracy=None),
    ],
    kept_epoch=1,
    stopped_early=True,
    images=900,
    held_out=100,
    classes=19,
    parameters=1_000_000,
    trunk_seconds=12.0,
    training_seconds=3.0,
)


def test_a_training_is_told_epoch_by_epoch_with_what_it_did_to_the_estimates():
    text = card_text(with_card(training=REPORT, estimated={"kappa": 0.5, "tau": 2.0}, estimated_frozen={"kappa": 0.25}))
    assert "1,000,000 parameters trained on 900 images, 100 held out; 2 epochs, stopped early, " in text
    assert "the weights of epoch 1 kept" in text
    assert rows_under(text, "## Training") == ["| epochs | 2 |", "| loss | ce |"]
    assert "| 1 | 0.1 | 2.0000 | 1.5000 | 25.0% |\n| 2 | 0.05 | 1.0000 |  |  |\n" in text
    assert rows_under(text, "## Head") == ["| kappa | 0.25 | 0.5 |", "| tau |  | 2 |"]


def test_without_training_there_is_one_estimate():
    assert rows_under(card_text(MANIFEST), "## Head") == ["| kappa | 0.5 |"]
    assert rows_under(card_text(MANIFEST), "The policy's options") == ["| alpha | 0.01 |"]


@settings(max_examples=60)
@given(STRATEGIES[BundleManifest])
def test_every_manifest_has_a_card_whose_tables_are_tables(manifest):
    lines = card_text(manifest).split("\n")
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|") and before.startswith("|"):
            assert len(cells(line)) == len(cells(before))
