"""Positions that are one number, and what to tell the operator when the output does not fit them."""

from speciate.errors import StateMismatchError
from speciate_schemas import Position


def number_in(position: Position | None, path: str) -> int:
    """The number a sink wrote into its position; 0 where there is none."""
    match position:
        case None:
            return 0
        case (int(number),):
            return number
        case _:
            raise StateMismatchError(
                f"position {position!r} was not made by the sink of {path}; restore [sink] or start over with --fresh"
            )


def too_short(path: str, now: int, then: int, unit: str) -> StateMismatchError:
    """The output has lost something that was committed."""
    return StateMismatchError(
        f"{path} has {now} {unit} but {then} were committed: the output was changed since; "
        "restore it or start over with --fresh"
    )


def unexpected(path: str) -> StateMismatchError:
    """There is an output, but nothing is known of the run that wrote it."""
    return StateMismatchError(
        f"{path} is not empty and no commit says what is in it; discard it with --fresh or choose another path"
    )
