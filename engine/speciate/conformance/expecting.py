"""Saying which law was broken, and how."""

from typing import Any


def expect(holds: bool, law: str) -> None:  # noqa: FBT001 - reads like an assertion
    """Raise `AssertionError` with the law unless it holds."""
    if not holds:
        raise AssertionError(law)


def expect_equal(got: Any, wanted: Any, law: str) -> None:
    """Raise `AssertionError` with the law, what was got and what was wanted, unless they are equal."""
    expect(got == wanted, f"{law}: got {_short(got)}, expected {_short(wanted)}")


def _short(value: Any, limit: int = 600) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
