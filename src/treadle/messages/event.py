"""Base of all events of a run. Entry points: `RunEvent`."""

from __future__ import annotations

import msgspec

from treadle.types import Time, Value


class RunEvent(Value, frozen=True, kw_only=True, omit_defaults=False, tag_field="type"):
    """Fields of every event.

    Attributes:
        run_id: Id of the run.
        session_id: Session of the run, or None.
        seq: Number of the event, which increases by one with each event of the run in this process.
        at: Time of the event, in UTC.
        id: `ENTRY.K`: the journal's number of the entry, and the number of the event within that
            entry. Only durable events have one.
        parent_run_id: Run that started this one. Absent for a run that no other run started.
    """

    run_id: str
    session_id: str | None
    seq: int
    at: Time
    id: str | msgspec.UnsetType = msgspec.UNSET
    parent_run_id: str | msgspec.UnsetType = msgspec.UNSET


class DeltaEvent(RunEvent, frozen=True, kw_only=True):
    """Fields of every piece of a response.

    Attributes:
        message_id: Id that the message will have.
        attempt: Number of the attempt, from 1. `retry`, or `run_end` without the message, voids the
            pieces of an attempt.
    """

    message_id: str
    attempt: int
