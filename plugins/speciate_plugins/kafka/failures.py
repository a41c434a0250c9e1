"""From an error of aiokafka, however deep it lies, to one of ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from speciate.errors import SpeciateError, WorldError
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.meanings import RULES, Attempt, away


def told(error: BaseException, doing: str, options: KafkaConnection, topic: str | None = None) -> SpeciateError:
    """The error as the engine and the operator understand it.

    `doing` completes "cannot …", such as "read topic 'events'"; `topic` is the one that is meant where aiokafka does
    not say which.
    """
    if isinstance(error, SpeciateError):
        return error
    attempt = Attempt(doing, options, topic)
    for link in _links(error):
        for kind in type(link).__mro__:
            rule = RULES.get(kind.__name__)
            found = rule(link, attempt) if rule else None
            if found is not None:
                return found
    # What is left comes from a broker or a network in trouble, or from a client that must be made anew.
    if _is_kafkas(error):
        return away(error, attempt)
    return WorldError(f"cannot {doing}: {type(error).__name__}: {error}")


@contextmanager
def telling(doing: str, options: KafkaConnection, topic: str | None = None) -> Iterator[None]:
    """Translate what aiokafka and the network raise inside the block, as `told` does; let bugs pass."""
    try:
        yield
    except Exception as error:
        if not _is_kafkas(error):
            raise
        raise told(error, doing, options, topic) from error


def _is_kafkas(error: BaseException) -> bool:
    """Whether it comes from aiokafka or the network. A dead producer of aiokafka answers with failed assertions."""
    if isinstance(error, AssertionError | NotImplementedError):
        return str(error).startswith(("Invalid state transition", "Unrecognized partition", "Support for "))
    if isinstance(error, OSError | EOFError | UnicodeDecodeError):
        return True
    return any(kind.__module__.startswith("aiokafka") for kind in type(error).__mro__)


def _links(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, what caused that …; aiokafka wraps most errors of its background tasks."""
    link: BaseException | None = error
    while link is not None:
        yield link
        if type(link).__name__ == "KafkaError":
            yield from _quoted(str(link))
        link = link.__cause__


def _quoted(text: str) -> Iterator[BaseException]:
    """The error whose `repr` is all that is left in the text of another: a copied exception loses its cause."""
    import aiokafka.errors  # noqa: PLC0415 - an extra; there, since the error is one of its own

    for name, argument in re.findall(r"(\w+)\((?:'([^']*)')?", text):
        kind = getattr(aiokafka.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, aiokafka.errors.BrokerResponseError):
            yield kind(*([argument] if argument else []))
