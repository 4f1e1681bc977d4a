"""A run's entries in reading order, grouped into turns, calls, breaks and notes.

Story.of builds it; timeline.py draws it. Entry points: `Story.of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle._internal.json_text import JsonText
from treadle._internal.units import count
from treadle.errors import AgentError
from treadle.journal.entries import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    CancelAsked,
    Compaction,
    Entry,
    InputAdded,
    ModelBatched,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    Record,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.receipts import Cleared, Summary, Withdrawn, read_receipt
from treadle.journal.view import View
from treadle.types import Time


@dataclass(slots=True)
class StoryCall:
    """Entries about one call, within the part of the run that one driver did."""

    call_id: str
    name: str
    arguments_json: JsonText
    asked: ApprovalAsked | None = None
    answered: ApprovalAnswered | None = None
    started: ToolStarted | None = None
    finished: ToolFinished | None = None

    @property
    def runs_with(self) -> JsonText:
        """Arguments with which the call ran or will run, which a person or a hook may have
        edited.
        """
        if self.started is not None:
            return self.started.arguments_json
        if self.answered is not None and self.answered.arguments_json is not None:
            return self.answered.arguments_json
        return self.arguments_json if self.asked is None else self.asked.arguments_json

    @property
    def edited_by(self) -> str | None:
        """Author of changes to the arguments; None if they are the model's."""
        if self.runs_with == self.arguments_json:
            return None
        edited = self.answered is not None and self.answered.arguments_json is not None
        return self.answered.by if edited and self.answered is not None else "a hook"


@dataclass(slots=True)
class Turn:
    number: int
    at: Time
    again: bool
    """True if another driver continues the turn."""
    requested_at: Time | None = None
    """Time at which the last attempt was requested."""
    failed: list[ModelRequested] = field(default_factory=list[ModelRequested])
    """Requests of failed attempts, each with its error."""
    response: ModelResponded | None = None
    calls: dict[str, StoryCall] = field(default_factory=dict[str, StoryCall])


@dataclass(frozen=True, slots=True)
class Break:
    """Period in which no process drove the run."""

    stopped_at: Time
    """Time of the last entry before the break."""
    resumed: RunResumed
    waited: bool
    """True if the run waited for a person; False if its process stopped, or if it had none yet."""
    changes: tuple[str, ...]
    """Settings that the new driver changed."""

    @property
    def is_first(self) -> bool:
        """True if the run waited in a queue for its first driver. A run that was not queued has a
        driver from the start.
        """
        return self.resumed.fence == 1


@dataclass(frozen=True, slots=True)
class Note:
    at: Time
    kind: Literal["person", "runtime", "late", "cancel", "view", "model", "agent", "batch"]
    text: str


Item: TypeAlias = Turn | Break | Note


@dataclass(slots=True)
class Story:
    started: RunStarted
    items: list[Item] = field(default_factory=list[Item])
    finished: RunFinished | None = None
    last_at: Time | None = None
    """Time of the last entry before the end."""
    results: dict[str, ToolFinished] = field(default_factory=dict[str, ToolFinished])
    """Results of the calls by id."""
    late: set[str] = field(default_factory=set[str])
    """Ids of calls whose result arrived late."""
    _asked: dict[str, tuple[str, JsonText]] = field(default_factory=dict[str, tuple[str, JsonText]])
    """Name and arguments of each call by id."""
    _waiting: set[str] = field(default_factory=set[str])
    _held: tuple[str, str, str] = ("", "", "")
    """Model, mode and directory of the last driver."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> Story:
        """Build the story of one run from all of its records."""
        started = records[0].entry
        assert isinstance(started, RunStarted), "a run begins with run.started"
        story = cls(started, last_at=started.at, _held=(started.model, started.mode, started.cwd))
        for record in records[1:]:
            story._take(record.entry)
        return story

    @property
    def last_turn(self) -> Turn | None:
        return next((item for item in reversed(self.items) if isinstance(item, Turn)), None)

    @property
    def unknown(self) -> list[ToolFinished]:
        """Results with status `unknown` for which no late result arrived."""
        return [
            finished
            for call_id, finished in self.results.items()
            if finished.status == "unknown" and call_id not in self.late
        ]

    def _take(self, entry: Entry) -> None:
        match entry:
            case RunStarted():
                return
            case RunFinished():
                self.finished = entry
                return
            case RunResumed():
                self._resumed(entry)
            case ModelRequested():
                self._requested(entry)
            case ModelResponded():
                self._responded(entry)
            case ToolStarted() | ToolFinished() | ApprovalAsked() | ApprovalAnswered():
                self._of_call(entry)
            case _:
                self.items.append(self._note(entry))
        if self.finished is None:
            self.last_at = entry.at

    def _resumed(self, entry: RunResumed) -> None:
        assert self.last_at is not None, "run.started has a time"
        left = set(self._asked) - set(self.results)
        holds = (entry.model, entry.mode, entry.cwd)
        names = ("model", "mode", "directory")
        changes = tuple(
            f"{name} {new}"
            for name, old, new in zip(names, self._held, holds, strict=True)
            if new != old
        )
        self._held = holds
        self.items.append(Break(self.last_at, entry, bool(left) and left <= self._waiting, changes))

    def _requested(self, entry: ModelRequested) -> None:
        turn = self.items[-1] if self.items and isinstance(self.items[-1], Turn) else None
        if turn is None or turn.number != entry.turn:
            if entry.view is not None:
                self.items.append(Note(entry.at, "view", _processed(entry.view)))
            turn = Turn(entry.turn, entry.at, again=entry.attempt > 1)
            self.items.append(turn)
        if entry.attempt > 1:
            turn.failed.append(entry)
        turn.requested_at = entry.at

    def _responded(self, entry: ModelResponded) -> None:
        turn = self._turn(entry.turn, entry.at)
        turn.response = entry
        if entry.stop_reason is None:
            return
        for call in entry.message.tool_calls:
            self._asked[call.id] = (call.name, call.arguments_json)
            turn.calls[call.id] = StoryCall(call.id, call.name, call.arguments_json)

    def _of_call(
        self, entry: ToolStarted | ToolFinished | ApprovalAsked | ApprovalAnswered
    ) -> None:
        call_id = entry.result.call_id if isinstance(entry, ToolFinished) else entry.call_id
        turn = self._turn(
            next((item.number for item in reversed(self.items) if isinstance(item, Turn)), 0),
            entry.at,
        )
        call = turn.calls.setdefault(
            call_id, StoryCall(call_id, *self._asked.get(call_id, ("?", "{}")))
        )
        match entry:
            case ToolStarted():
                call.started = entry
            case ToolFinished():
                call.finished = self.results[call_id] = entry
            case ApprovalAsked():
                call.asked = entry
                self._waiting.add(call_id)
            case ApprovalAnswered():
                call.answered = entry
                self._waiting.discard(call_id)

    def _turn(self, number: int, at: Time) -> Turn:
        """Return the current turn of that number. After a break, it is a new part of the turn."""
        for item in reversed(self.items):
            if isinstance(item, Turn) and item.number == number:
                return item
            if isinstance(item, Break):
                break
        self.items.append(turn := Turn(number, at, again=True))
        return turn

    def _note(
        self,
        entry: InputAdded
        | ToolLate
        | CancelAsked
        | Compaction
        | ModelSwitched
        | AgentSwitched
        | ModelBatched,
    ) -> Note:
        match entry:
            case InputAdded():
                return Note(
                    entry.at, "person" if entry.by == "user" else "runtime", entry.message.text
                )
            case ToolLate():
                self.late.add(entry.call_id)
                name = self._asked.get(entry.call_id, ("a call before this run", ""))[0]
                return Note(
                    entry.at,
                    "late",
                    f"{name} ({entry.call_id}) returned its result late: {entry.text}",
                )
            case CancelAsked():
                return Note(entry.at, "cancel", f"cancellation requested by {entry.by}")
            case Compaction():
                return Note(entry.at, "view", _view(entry))
            case ModelSwitched():
                return Note(entry.at, "model", f"switched to the model {entry.model}")
            case ModelBatched():
                place = entry.batch_id or "to be submitted"
                return Note(
                    entry.at, "batch", f"the request {entry.custom_id} waits in a batch: {place}"
                )
            case AgentSwitched():
                text = f"{entry.before} handed over to {entry.agent}, with the model {entry.model}"
                return Note(entry.at, "agent", text)


def _processed(view: View) -> str:
    ranges = [part for part in view.parts if isinstance(part, tuple)]
    kept, own = sum(last - first for first, last in ranges), len(view.parts) - len(ranges)
    return f"history= shows the model {count(kept, 'message')} of the conversation" + (
        f" and {count(own, 'message')} of its own" if own else ""
    )


def _view(entry: Compaction) -> str:
    try:
        receipt = read_receipt(entry.receipt)
    except AgentError:  # written by a newer version
        return "older messages left the model's view"
    match receipt:
        case Cleared() if receipt.unseen:
            return f"images of {_messages(len(receipt.unseen))} left out: the provider refused one"
        case Withdrawn():
            return (
                f"{_messages(receipt.dropped)} removed from the conversation, because the "
                "provider refused to continue"
            )
        case Cleared() if receipt.is_note:
            return (
                "a summary is requested"
                if receipt.reserved is not None
                else "a summary attempt failed" + (f": {receipt.failed}" if receipt.failed else "")
            )
        case Cleared():
            cleared = (
                f"{len(receipt.cuts)} old result{'' if len(receipt.cuts) == 1 else 's'} cleared "
                "to make room"
            )
            failed = f"; no summary could be made: {receipt.failed}" if receipt.failed else ""
            return f"{cleared}{_tokens(receipt)}{failed}"
        case Summary():
            return (
                f"{_messages(receipt.dropped)} {'compacted' if receipt.native else 'summarised'} "
                f"by {receipt.spent.model}{_tokens(receipt)}"
            )
        case _:
            return f"{_messages(receipt.dropped)} left the model's view"


def _messages(dropped: int) -> str:
    return f"{dropped} older message{'' if dropped == 1 else 's'} of the conversation"


def _tokens(receipt: Cleared | Summary) -> str:
    return f" (about {receipt.tokens_before:,} tokens before, {receipt.tokens_after:,} after)"
