"""A task: the fold of one partition's inputs into state and answers.

The state after the first N inputs depends on those N inputs alone: not on how they were batched, nor on how often
the process was stopped on the way.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

import msgspec

from speciate.admission import Admission
from speciate.errors import EventError, SpeciateError, StateMismatchError, TooLargeError
from speciate.head import Decision, Head
from speciate.plugins import Plugins
from speciate.recent import RecentIds
from speciate.stages import Record
from speciate_schemas import (
    Answer,
    Assignment,
    Control,
    ControlApplied,
    DeadLetter,
    ForgetCategory,
    MergeCategories,
    Observation,
    Rejection,
    RenameCategory,
    Tally,
    TaskState,
    encode,
)

MESSAGE_CHARACTERS = 500


class Outcome(NamedTuple):
    """The answer to one input and, for a rejection, the dead letter that goes with it."""

    answer: Answer
    dead_letter: DeadLetter | None = None


class Task:
    """Folds records, in order; the only place where the head changes."""

    def __init__(
        self,
        head: Head,
        *,
        duplicate_window: int,
        locate: Callable[[int], str],
        sequence: int = 0,
        recent: RecentIds | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.head = head
        self.sequence = sequence
        """Number of the next input."""
        self.tally = tally or Tally()
        self._recent = recent or RecentIds(duplicate_window)
        self._remembers = duplicate_window > 0
        self._locate = locate
        self._admission = Admission(head.dimension)

    @classmethod
    def from_state(
        cls,
        state: TaskState,
        *,
        plugins: Plugins,
        duplicate_window: int,
        locate: Callable[[int], str],
        tally: Tally,
    ) -> Self:
        """A task that goes on where `state` was taken."""
        return cls(
            Head.from_state(state.head, plugins),
            duplicate_window=duplicate_window,
            locate=locate,
            sequence=state.sequence,
            recent=RecentIds.from_state(duplicate_window, state.recent),
            tally=tally,
        )

    def state(self) -> TaskState:
        """Everything needed to go on exactly here."""
        return TaskState(sequence=self.sequence, head=self.head.state(), recent=self._recent.state())

    def fold(self, records: Sequence[Record]) -> list[Outcome]:
        """Decide and learn, in order; one outcome a record."""
        outcomes: list[Outcome] = []
        # A control event changes the categories, so what stands before it is decided before it.
        for is_control, group in groupby(records, _is_control):
            if is_control:
                outcomes += [self._control(record) for record in group]
            else:
                outcomes += self._observe(list(group))
        self._advance(records, [outcome.answer for outcome in outcomes])
        return outcomes

    def refold(self, records: Sequence[Record], answers: Sequence[Answer]) -> None:
        """Learn from inputs answered before, with those very answers; decide and emit nothing."""
        batch, refusals = self._admission.admit(records)
        for record, answer, vector, refusal in zip(records, answers, batch, refusals, strict=True):
            if isinstance(answer, Rejection) and _answers(answer, record, object):
                if answer.stage == "head":
                    self._remember(record)
            elif isinstance(answer, ControlApplied) and _answers(answer, record, type(answer.control)):
                self._reapply(answer.control)
                self._remember(record)
            elif isinstance(answer, Assignment) and refusal is None and _answers(answer, record, Observation):
                self.head.learn(vector, answer.category, birth=answer.birth)
                self._remember(record)
            else:
                raise StateMismatchError(
                    f"record {record.sequence} ({record.origin}) is not the input that was answered as "
                    f"{answer.id!r}: the input was changed since; restore it or start over with --fresh"
                )
        self._advance(records, answers)

    def _observe(self, records: list[Record]) -> list[Outcome]:
        batch, refusals = self._admission.admit(records)
        for place, record in enumerate(records):
            refusals[place] = refusals[place] or self._duplicate(record)
        admitted = [place for place, refusal in enumerate(refusals) if refusal is None]
        version = self.head.version
        decisions = iter(self.head.decide(batch if len(admitted) == len(batch) else batch[admitted]))
        outcomes = []
        for record, refusal in zip(records, refusals, strict=True):
            decision = refusal or next(decisions)
            if isinstance(decision, EventError):
                outcomes.append(self._reject(record, decision, _stage(record, refusal)))
            else:
                outcomes.append(Outcome(_assignment(record, decision, version)))
                version += 1
        return outcomes

    def _duplicate(self, record: Record) -> EventError | None:
        """Refuse a known id; remember a new one, even if the head cannot decide on it later."""
        if not self._remembers or record.event is None:
            return None
        try:
            self._recent.check(record.event.stream, record.event.id)
        except EventError as error:
            return error
        self._remember(record)
        return None

    def _remember(self, record: Record) -> None:
        if self._remembers and record.event is not None:
            self._recent.add(record.event.stream, record.event.id, record.sequence)

    def _control(self, record: Record) -> Outcome:
        control, version = record.event, self.head.version
        assert isinstance(control, Control)  # noqa: S101  # fold() groups by it
        try:
            self._recent.check(control.stream, control.id)
            self._apply(control)
        except EventError as error:
            return self._reject(record, error, "control")
        self._remember(record)
        return Outcome(
            ControlApplied(
                id=control.id, stream=control.stream, sequence=record.sequence, control=control, head_version=version
            )
        )

    def _apply(self, control: Control) -> None:
        match control:
            case RenameCategory(category=category, label=label):
                self.head.rename(category, label)
            case MergeCategories(keep=keep, absorb=absorb):
                self.head.merge(keep, absorb)
            case ForgetCategory(category=category):
                self.head.forget(category)

    def _reapply(self, control: Control) -> None:
        try:
            self._apply(control)
        except EventError as error:
            raise StateMismatchError(f"the outputs belong to another state: {error}") from error

    def _reject(self, record: Record, error: SpeciateError, stage: str) -> Outcome:
        event = record.event
        common: dict[str, Any] = {
            "id": event.id if event else None,
            "stream": event.stream if event else None,
            "sequence": record.sequence,
            "stage": stage,
            "error": type(error).__name__,
            "message": _bounded(str(error)),
        }
        original = record.original if record.original is not None else encode(event)
        return Outcome(
            Rejection(**common, dead_letter=self._locate(record.sequence)),
            DeadLetter(**common, origin=record.origin, original=memoryview(original)),
        )

    def skip_to(self, sequence: int) -> None:
        """Go on at a later input: those between were dropped in front of the head."""
        dropped = self.tally.dropped + sequence - self.sequence
        self.sequence, self.tally = sequence, msgspec.structs.replace(self.tally, dropped=dropped)

    def _advance(self, records: Sequence[Record], answers: Sequence[Answer]) -> None:
        if not records:
            return
        # Numbers are given by the source without gaps: one that is missing was dropped in front of the head.
        dropped = records[-1].sequence + 1 - self.sequence - len(records)
        self.sequence = records[-1].sequence + 1
        assigned = births = rejected = 0
        for answer in answers:
            if isinstance(answer, Assignment):
                assigned += 1
                births += answer.birth
            elif isinstance(answer, Rejection):
                rejected += 1
        before = self.tally
        self.tally = Tally(
            assigned=before.assigned + assigned,
            births=before.births + births,
            rejected=before.rejected + rejected,
            controls=before.controls + len(answers) - assigned - rejected,
            dropped=before.dropped + dropped,
        )


def _assignment(record: Record, decision: Decision, version: int) -> Assignment:
    event = record.event
    assert event is not None  # noqa: S101  # admission refuses a record without an event
    return Assignment(
        id=event.id,
        stream=event.stream,
        sequence=record.sequence,
        category=decision.category,
        label=decision.label,
        birth=decision.birth,
        log_evidence=decision.log_evidence,
        margin=decision.margin,
        probability=decision.probability,
        drift=decision.drift,
        head_version=version,
    )


def _bounded(message: str) -> str:
    """A message that quotes a hostile input must not be as large as the input; the dead letter has all of it."""
    return message if len(message) <= MESSAGE_CHARACTERS else f"{message[:MESSAGE_CHARACTERS]}…"


def _is_control(record: Record) -> bool:
    return isinstance(record.event, Control) and record.error is None


def _answers(answer: Answer, record: Record, kind: Any) -> bool:
    """Whether the record can be what was answered: of that kind, with that id of that stream."""
    event = record.event
    named = (None, None) if event is None else (event.id, event.stream)
    return isinstance(event, kind) and named == (answer.id, answer.stream)


def _stage(record: Record, refusal: EventError | None) -> str:
    """Where an input failed: a refused record with an error of its own failed before it came here."""
    if refusal is None:
        return "head"
    if refusal is not record.error:
        return "admission"
    # A whole event that is too large was refused where it was read.
    return "source" if record.event is None or isinstance(refusal, TooLargeError) else "encoder"
