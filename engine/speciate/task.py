"""A task: the fold of one partition's inputs into state and answers.

The state after the first N inputs depends on those N inputs alone: not on how they were batched, nor on how often
the process was stopped on the way.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Self

import msgspec

from speciate.admission import Admission
from speciate.chronicle import Album, Chronicle, Library
from speciate.errors import EncodeError, EventError, ForwardedError, StateMismatchError
from speciate.head import Decision, Head
from speciate.naming import check_name
from speciate.outcomes import Locate, Outcome, assignment, dead_letter, passed_on, rejected, stage_of
from speciate.plugins import Plugins
from speciate.recent import RecentIds
from speciate.stages import Output, Record
from speciate.universe import Universe
from speciate_schemas import (
    Answer,
    Assignment,
    ChronicleState,
    Control,
    ControlApplied,
    ForgetCategory,
    MergeCategories,
    Observation,
    Rejection,
    Relabel,
    RenameCategory,
    Tally,
    TaskState,
    UndoLast,
)


class Task:
    """Folds records, in order; the only place where the head changes."""

    def __init__(
        self,
        universe: Universe,
        *,
        duplicate_window: int,
        locate: Locate,
        sequence: int = 0,
        recent: RecentIds | None = None,
        tally: Tally | None = None,
        album: Album | None = None,
        chronicles: Mapping[str, ChronicleState] | None = None,
    ) -> None:
        self.universe = universe
        self.sequence = sequence
        """Number of the next input."""
        self.tally = tally or Tally()
        self._recent = recent or RecentIds(duplicate_window)
        self._remembers = duplicate_window > 0
        self._locate = locate
        self._admission = Admission(universe.head.dimension)
        self._library = Library(universe, album or Album(), chronicles or {})

    @classmethod
    def from_state(
        cls,
        state: TaskState,
        *,
        plugins: Plugins,
        per_stream: bool,
        duplicate_window: int,
        locate: Locate,
        tally: Tally,
        album: Album | None = None,
    ) -> Self:
        """A task that goes on where `state` was taken."""
        return cls(
            Universe.from_state(state.head, state.streams, per_stream=per_stream, plugins=plugins),
            duplicate_window=duplicate_window,
            locate=locate,
            sequence=state.sequence,
            recent=RecentIds.from_state(duplicate_window, state.recent),
            tally=tally,
            album=album,
            chronicles=state.chronicles,
        )

    def state(self) -> TaskState:
        """Everything needed to go on exactly here."""
        head, streams = self.universe.states()
        return TaskState(
            sequence=self.sequence,
            head=head,
            recent=self._recent.state(),
            streams=streams,
            chronicles=self._library.states(),
        )

    def chronicle(self, stream: str) -> Chronicle:
        """What the categories of a stream's events have left for people to see."""
        return self._library.of(stream)

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
        points = self.universe.head.embed(batch)
        for record, answer, point, refusal in zip(records, answers, points, refusals, strict=True):
            if isinstance(answer, Rejection) and _answers(answer, record, object):
                if answer.stage == "head" and record.event is not None:
                    # Its stream was given a head to be refused by, if it had none.
                    self.universe.of(record.event.stream)
                    self._remember(record)
            elif isinstance(answer, ControlApplied) and _answers(answer, record, type(answer.control)):
                self._reapply(answer.control, record.sequence)
                self._remember(record)
            elif isinstance(answer, Assignment) and refusal is None and _answers(answer, record, Observation):
                self.universe.of(answer.stream).learn(point, answer.category, birth=answer.birth)
                self._note(record, answer)
                self._remember(record)
            elif isinstance(refusal, EncodeError) and _answers(answer, record, Observation):
                raise StateMismatchError(
                    f"record {record.sequence} ({record.origin}) was answered, and now cannot be encoded any more: "
                    f"{refusal}; mend the encoder and run again"
                )
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
        # Streams with heads of their own do not touch each other, so each head decides its part of the batch at once.
        parts: dict[Head, list[int]] = {}
        for place, record in enumerate(records):
            if refusals[place] is None and record.event is not None:
                parts.setdefault(self.universe.of(record.event.stream), []).append(place)
        outcomes: list[Outcome | None] = [None] * len(records)
        for head, places in parts.items():
            version = head.version
            decisions = head.deciding(batch if len(places) == len(batch) else batch[places])
            for place, decision in zip(places, decisions, strict=True):
                if isinstance(decision, EventError):
                    letter = dead_letter(records[place], decision, "head")
                    outcomes[place] = rejected(records[place], letter, self._locate)
                else:
                    outcomes[place] = Outcome(assignment(records[place], decision, version))
                    self._note(records[place], decision)
                    version += 1
        return [
            outcome or self._refuse(record, refusal)
            for outcome, record, refusal in zip(outcomes, records, refusals, strict=True)
        ]

    def _note(self, record: Record, decided: Decision | Assignment) -> None:
        """Enter an event into the chronicle, while the head is as it is right behind it."""
        assert record.event is not None  # noqa: S101  # it was learnt
        chronicle = self._library.of(record.event.stream)
        chronicle.note(record, decided.category, birth=decided.birth, margin=decided.margin)

    def _refuse(self, record: Record, refusal: EventError | None) -> Outcome:
        assert refusal is not None  # noqa: S101  # whatever was not refused was decided
        if isinstance(refusal, ForwardedError):
            return rejected(record, passed_on(refusal.letter, record.sequence), self._locate)
        return rejected(record, dead_letter(record, refusal, stage_of(record, refusal)), self._locate)

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
        control = record.event
        assert isinstance(control, Control)  # noqa: S101  # fold() groups by it
        try:
            self._recent.check(control.stream, control.id)
            check_name(control)
            version, relabels = self._apply(control, record.sequence)
        except EventError as error:
            return rejected(record, dead_letter(record, error, "control"), self._locate)
        self._remember(record)
        return Outcome(
            ControlApplied(
                id=control.id,
                stream=control.stream,
                sequence=record.sequence,
                control=control,
                head_version=version,
                origin=record.origin,
                relabels=relabels,
            )
        )

    def _apply(self, control: Control, sequence: int) -> tuple[int, list[Relabel]]:
        """Change the categories; the head's version before, and what it means for answers given before."""
        head = self.universe.existing(control.stream)
        version, chronicle = head.version, self._library.of(control.stream)
        match control:
            case RenameCategory(category=category, label=label):
                relabels = head.rename(category, label)
                chronicle.rename()
            case MergeCategories(keep=keep, absorb=absorb):
                relabels = head.merge(keep, absorb)
                chronicle.merge(keep, absorb, sequence)
            case ForgetCategory(category=category):
                relabels = head.forget(category)
                chronicle.forget(category, sequence)
            case UndoLast():
                relabels, shares = head.take_back()
                chronicle.undo(shares, sequence)
        return version, relabels

    def _reapply(self, control: Control, sequence: int) -> None:
        try:
            self._apply(control, sequence)
        except EventError as error:
            raise StateMismatchError(f"the outputs belong to another state: {error}") from error

    def skip_to(self, sequence: int) -> None:
        """Go on at a later input: those between were dropped in front of the head."""
        dropped = self.tally.dropped + sequence - self.sequence
        self.sequence, self.tally = sequence, msgspec.structs.replace(self.tally, dropped=dropped)

    def _advance(self, records: Sequence[Record], answers: Sequence[Output]) -> None:
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


def _is_control(record: Record) -> bool:
    return isinstance(record.event, Control) and record.error is None


def _answers(answer: Answer, record: Record, kind: Any) -> bool:
    """Whether the record can be what was answered: of that kind, with that id of that stream."""
    event = record.event
    if isinstance(record.error, ForwardedError):
        named = (record.error.letter.id, record.error.letter.stream)
    else:
        named = (None, None) if event is None else (event.id, event.stream)
    return isinstance(event, kind) and named == (answer.id, answer.stream)
