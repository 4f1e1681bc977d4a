"""Base of all events of a run. Entry points: `RunEvent`."""

from __future__ import annotations

import msgspec

from treadle.types import Time, Value


class RunEvent(Value, frozen=True, kw_only=True, omit_defaults=False, tag_field="type"):
    """Base of all events of a run.

    Attributes:
        run_id: Id of the run.
        session_id: Session of the run, or None.
        seq: Sequence number, which increases by one with each event of the run in this process.
        at: Time of the event, in UTC.
        id: `ENTRY.K`: sequence number of the journal entry, and index of the event within it. Only
            durable events have one.
        parent_run_id: Id of the parent run. Absent for a run without a parent.
    """

    run_id: str
    session_id: str | None
    seq: int
    at: Time
    id: str | msgspec.UnsetType = msgspec.UNSET
    parent_run_id: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def type(self) -> str:
        """Kind of the event, as in its JSON: "text_delta", "run_end"."""
        return str(self.__struct_config__.tag)

    def to_sse(self) -> bytes:
        """Return the event as a server-sent event: `event:` with the type, `data:` with the JSON,
        and `id:` for a durable event.
        """
        head = b"id: %s\n" % self.id.encode() if isinstance(self.id, str) else b""
        return b"%sevent: %s\ndata: %s\n\n" % (head, self.type.encode(), self.to_json())


class DeltaEvent(RunEvent, frozen=True, kw_only=True):
    """Base of the events of a streamed fragment.

    Attributes:
        message_id: Id of the message that the deltas form.
        attempt: Number of the attempt, from 1. A `retry` voids the attempt's deltas, and so does a
            `run_end` that no `message` precedes.
    """

    message_id: str
    attempt: int
