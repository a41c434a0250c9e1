"""The stages of one task, made from the configuration and not yet opened."""

from collections.abc import Iterator
from dataclasses import dataclass

from speciate.config import Resolved
from speciate.errors import ConfigError
from speciate.outcomes import Locate
from speciate.stages import Encoder, Seat, Sink, Source, StateStore
from speciate_schemas import CommitOptions

LONGEST_TRANSACTION_MS = 30_000


@dataclass
class Parts:
    """The stages of one task, made and not yet opened."""

    source: Source
    encoder: Encoder | None
    answers: Sink
    dead_letters: Sink | None
    store: StateStore | None

    @classmethod
    def of(cls, resolved: Resolved, seat: Seat | None = None, encoder: Encoder | None = None) -> "Parts":
        """Make every stage the configuration names; an encoder may serve several tasks."""
        made = {
            name: resolved[name].create(seat)
            for name in ("source", "sink", "dead_letters", "store")
            if name in resolved.sections
        }
        parts = cls(made["source"], encoder, made["sink"], made.get("dead_letters"), made.get("store"))
        _check_together(parts)
        _check_interval(parts, resolved.config.commit)
        return parts

    @property
    def sinks(self) -> Iterator[Sink]:
        """The answers' and, if inputs can be rejected, the dead letters'."""
        yield self.answers
        if self.dead_letters is not None:
            yield self.dead_letters

    @property
    def needed_store(self) -> StateStore:
        """The store of a pipeline that cannot do without one; `of` has checked that it is there."""
        assert self.store is not None  # noqa: S101
        return self.store

    @property
    def needed_dead_letters(self) -> Sink:
        """The dead letters of a pipeline that decides; the configuration has them."""
        assert self.dead_letters is not None  # noqa: S101
        return self.dead_letters

    @property
    def locate(self) -> Locate:
        """Tells where the dead letter of an input is to be found."""
        return self.needed_dead_letters.locate


def _check_together(parts: Parts) -> None:
    """What must become visible together must be able to."""
    if parts.dead_letters is not None and parts.dead_letters.transactional != parts.answers.transactional:
        raise ConfigError(
            f"[sink] {parts.answers.describe()} and [dead_letters] {parts.dead_letters.describe()} cannot be committed "
            "together: use the same kind of sink for both"
        )
    if parts.store is None and not parts.answers.transactional:
        raise ConfigError(f"the configuration has no [store]: with [sink] {parts.answers.describe()} it needs one")


def _check_interval(parts: Parts, commit: CommitOptions) -> None:
    """A transaction that stays open too long is ended by those who keep it."""
    if parts.answers.transactional and commit.interval_ms > LONGEST_TRANSACTION_MS:
        raise ConfigError(
            f"commit.interval_ms is {commit.interval_ms:g}: with [sink] {parts.answers.describe()} a commit is a "
            f"transaction, which is not kept open for so long; choose at most {LONGEST_TRANSACTION_MS}"
        )
