"""A slip of the keyboard gets the name that was probably meant, and nothing else does."""

import pytest

from speciate.hints import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nearest-maen", "did you mean 'nearest-mean'? "),
        ("NEAREST-MEAN", "did you mean 'nearest-mean'? "),
        ("assignment", "did you mean 'Assignment'? "),
        ("teapot", ""),
        ("", ""),
    ],
)
def test_the_nearest_is_asked_for_as_it_is_written(name: str, hint: str) -> None:
    assert did_you_mean(name, ["full", "nearest-mean", "Assignment"]) == hint


def test_nothing_is_near_to_nothing() -> None:
    assert did_you_mean("full", []) == ""
