"""What the journal is: an append-only, gap-free list of facts for each run, and what a front may see of each fact.

Where the facts are kept is journals/; when they are appended is the loop's business. Entry: `Journal`, `read_entry`, `events_of`.

Order of a run: run.started, then for each turn model.requested (one more for each failed attempt), model.responded with the
starts of the calls that start now, tool.finished for each, and in the end run.finished. Two barriers a turn: the response
and the starts are appended before any of those calls begins; every result is appended before the next request uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

import msgspec

from treadle import events
from treadle.errors import AgentError
from treadle.events import ErrorInfo, Event
from treadle.json_text import JsonText, decode_json, encode_json, members, object_of
from treadle.message import Message, ToolCall, ToolResult, decode_message, decode_part
from treadle.model import ModelResponse
from treadle.types import Effect, Limits, Mode, Outcome, StopReason, Time, Usage, Value

SCHEMA = 1
"""Major version of the entries; it stands in run.started, and a reader refuses a higher one."""


class _Entry(Value, frozen=True, kw_only=True, tag_field="type"):
    at: Time


class RunStarted(_Entry, frozen=True, kw_only=True, tag="run.started"):
    run_id: str
    agent: str
    agent_hash: str
    model: str
    mode: Mode
    cwd: str
    input: Message
    """The prompt, as the model will see it."""
    limits: Limits = Limits()
    inputs: JsonText = "{}"
    session_id: str | None = None
    parent_run_id: str | None = None
    user_id: str | None = None
    schema: int = msgspec.field(default_factory=lambda: SCHEMA)
    """Always written: a default that is left out would mean the reader's own number."""


class ModelRequested(_Entry, frozen=True, kw_only=True, tag="model.requested"):
    """An attempt begins. The second and later ones say how the one before failed, and are appended before their wait."""

    turn: int
    attempt: int = 1
    reserved: None = None
    """What the attempt may cost; always null in this version."""
    failed: ErrorInfo | None = None
    wait_s: float = 0.0


class ModelResponded(_Entry, frozen=True, kw_only=True, tag="model.responded"):
    turn: int
    attempt: int
    message: Message
    usage: Usage
    stop_reason: StopReason | None
    """None: the response was cut by the end of the run, and the message holds what there was."""
    raw_stop_reason: str = ""
    response_id: str = ""
    model: str = ""
    provider_data: JsonText | None = None


class ToolStarted(_Entry, frozen=True, kw_only=True, tag="tool.started"):
    call_id: str
    name: str
    arguments_json: JsonText
    effect: Effect
    key: str
    """The idempotency key: the same for every attempt of this call."""
    attempt: int = 1


class ToolFinished(_Entry, frozen=True, kw_only=True, tag="tool.finished"):
    """The one result of a call; also of a call that was refused and never started."""

    status: Literal["ok", "error", "denied", "cancelled", "unknown"]
    result: ToolResult
    duration_ms: float = 0.0
    started: bool = True
    """False: the call was refused before it could start, and has no tool.started."""
    ends_run: bool = False
    """The tool said that the run must end here."""


class ToolLate(_Entry, frozen=True, kw_only=True, tag="tool.late"):
    """A fact that came after `unknown`: told to the model as a message, never in place of the result."""

    call_id: str
    text: str


class ApprovalAsked(_Entry, frozen=True, kw_only=True, tag="approval.asked"):
    call_id: str
    name: str
    arguments_json: JsonText
    reason: str


class ApprovalAnswered(_Entry, frozen=True, kw_only=True, tag="approval.answered"):
    call_id: str
    decision: Literal["allow", "deny"]
    by: str
    reason: str = ""


class InputAdded(_Entry, frozen=True, kw_only=True, tag="input.added"):
    message: Message
    by: Literal["user", "runtime"]


class ModelSwitched(_Entry, frozen=True, kw_only=True, tag="model.switched"):
    model: str


class Compaction(_Entry, frozen=True, kw_only=True, tag="compaction"):
    receipt: JsonText


class CancelAsked(_Entry, frozen=True, kw_only=True, tag="cancel.asked"):
    by: str


class RunResumed(_Entry, frozen=True, kw_only=True, tag="run.resumed"):
    """A new driver took the run over: appends of the one before are refused from here on."""

    fence: int


class RunFinished(_Entry, frozen=True, kw_only=True, tag="run.finished"):
    outcome: Outcome
    turns: int
    tool_calls: int
    usage: Usage
    duration_s: float
    text: str = ""
    output: JsonText = "null"
    validated: bool = False
    open_turn: int | None = None
    """The turn that the end cut or closed."""
    error: ErrorInfo | None = None


Entry: TypeAlias = (
    RunStarted
    | ModelRequested
    | ModelResponded
    | ToolStarted
    | ToolFinished
    | ToolLate
    | ApprovalAsked
    | ApprovalAnswered
    | InputAdded
    | ModelSwitched
    | Compaction
    | CancelAsked
    | RunResumed
    | RunFinished
)


class Record(Value, frozen=True, kw_only=True):
    """An entry and its place."""

    seq: int
    """From 1, without gaps."""
    entry: Entry


_TYPES = {str(kind.__struct_config__.tag): kind for kind in get_args(Entry)}
_MESSAGES = ("input", "message")


def read_entry(data: bytes) -> Entry:
    """The inverse of `to_json`; what a newer version wrote into a message is kept with it.

    Raises AgentError(invalid) where the bytes are no entry, one of an unknown type, or one of a higher major schema.
    """
    try:
        entry = decode_json(data, cast("type[Entry]", Entry))
    except ValueError:
        entry = _read_strange(data)
    if isinstance(entry, RunStarted):
        _check_schema(entry.schema)
    return entry


def _read_strange(data: bytes) -> Entry:
    """Words of a newer version inside: the messages are read by their own rules, and the rest by this version's."""
    try:
        fields = members(data.decode())
        _check_schema(decode_json(fields.get("schema", "1").encode(), int))
        tag = decode_json(fields.get("type", "null").encode(), str)
        if (kind := _TYPES.get(tag)) is None:
            raise AgentError("invalid", f"an entry of type {tag!r} is unknown here: where a newer Treadle wrote it, upgrade to read it")
        for name in fields.keys() & _MESSAGES:
            fields[name] = encode_json(decode_message(fields[name].encode())).decode()
        if "result" in fields:
            fields["result"] = encode_json(decode_part(fields["result"])).decode()
        known = {"type", *kind.__struct_encode_fields__}
        return decode_json(object_of({name: value for name, value in fields.items() if name in known}).encode(), kind)
    except ValueError as e:
        raise AgentError("invalid", f"this is no entry that can be read: {e}") from e


def _check_schema(schema: int) -> None:
    if schema > SCHEMA:
        raise AgentError("invalid", f"this run was written by a newer Treadle (schema {schema}; this version reads {SCHEMA}): upgrade to read it")


def responded(message: Message, response: ModelResponse | None, usage: Usage, *, turn: int, attempt: int) -> ModelResponded:
    """`response`: None where it was cut by the end of the run, and `message` holds what there was."""
    if response is None:
        return ModelResponded(at=message.created_at, turn=turn, attempt=attempt, message=message, usage=usage, stop_reason=None)
    return ModelResponded(
        at=message.created_at,
        turn=turn,
        attempt=attempt,
        message=message,
        usage=usage,
        stop_reason=response.stop_reason,
        raw_stop_reason=response.raw_stop_reason,
        response_id=response.id,
        model=response.model,
        provider_data=response.provider_data,
    )


# ---------------------------------------------------------------- the contract


class RunWriter(Protocol):
    """The one driver of one run: as long as it holds the run, only it can append."""

    @property
    def run_id(self) -> str: ...

    async def append(self, entries: Sequence[Entry]) -> int:
        """All or nothing, in order; gives the sequence of the first. When it returns, they are durable.

        Raises AgentError(busy) where another driver has taken the run over; then nothing was appended. Cancellation: none. An
        append that began is finished, also while its caller is being cancelled; the journal shields it where it waits.
        """
        ...

    async def release(self) -> None:
        """Lets go of the run. Idempotent."""
        ...


class Journal(Protocol):
    """Where runs are kept. Safe from many tasks."""

    async def begin(self, started: RunStarted) -> RunWriter:
        """Makes the run, appends run.started as sequence 1 and holds the run. Raises AgentError(busy) where the id exists."""
        ...

    async def take_over(self, run_id: str) -> RunWriter:
        """Holds a run that nobody drives, and fences its last driver off. Raises AgentError(busy) or AgentError(invalid)."""
        ...

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        """The records above `after`, in order. Raises AgentError(invalid) for an unknown run."""
        ...

    async def runs(self) -> list[RunStarted]:
        """Newest first."""
        ...

    async def aclose(self) -> None: ...


# ---------------------------------------------------------------- what a front may see


def shown_arguments(arguments_json: JsonText) -> dict[str, object] | str:
    """An object where the text is one, else the text."""
    try:
        return ToolCall(id="", name="", arguments_json=arguments_json).arguments
    except ValueError:
        return arguments_json


def events_of(entry: Entry) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    """The durable events of an entry, in order: their types and own fields. The same on every host, whenever it is asked."""
    match entry:
        case RunStarted():
            yield events.RunStart, {"agent": entry.agent, "model": entry.model}
        case ModelRequested(attempt=1):
            if entry.turn > 1:
                yield events.TurnEnd, {"turn": entry.turn - 1}
            yield events.TurnStart, {"turn": entry.turn}
        case ModelRequested():
            kind = entry.failed.kind if entry.failed else "network"
            yield events.Retry, {"attempt": entry.attempt - 1, "wait_s": entry.wait_s, "kind": kind}
        case ModelResponded():
            yield from _events_of_response(entry)
        case ToolStarted():
            yield events.ToolCallStart, {"call_id": entry.call_id, "name": entry.name, "effect": entry.effect}
        case ToolFinished(started=False, result=result):
            yield events.Warned, {"text": f"{result.name} was not run: {result.text}", "call_id": result.call_id}
        case ToolFinished(result=result):
            fields = {"result": result.text, "is_error": result.is_error, "unknown": result.unknown, "duration_ms": entry.duration_ms}
            yield events.ToolCallEnd, {"call_id": result.call_id, "name": result.name, **fields}
        case InputAdded():
            yield events.InputAdded, {"text": entry.message.text}
        case ApprovalAsked():
            arguments = shown_arguments(entry.arguments_json)
            yield events.ApprovalRequested, {"call_id": entry.call_id, "name": entry.name, "arguments": arguments, "reason": entry.reason}
        case ApprovalAnswered():
            yield events.ApprovalResolved, {"call_id": entry.call_id, "decision": entry.decision, "by": entry.by}
        case RunFinished():
            yield from _events_of_end(entry)
        case _:
            return


def _events_of_response(entry: ModelResponded) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    yield events.UsageReported, msgspec.structs.asdict(entry.usage)
    if entry.message.parts:
        yield events.MessageAdded, {"message": entry.message}
    for call in entry.message.tool_calls:
        yield events.ToolCallAsked, {"call_id": call.id, "name": call.name, "arguments": shown_arguments(call.arguments_json)}


def _events_of_end(entry: RunFinished) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    if entry.open_turn is not None:
        yield events.TurnEnd, {"turn": entry.open_turn}
    output = decode_json(entry.output.encode(), object)
    if output is not None:
        yield events.OutputReady, {"value": output, "validated": entry.validated}
    error: dict[str, Any] = {}
    if (info := entry.error) is not None:
        error = {"error": info}
        known = {k: v for k, v in (("status", info.status), ("request_id", info.request_id)) if v is not None}
        yield events.ErrorRaised, {"kind": info.kind, "message": info.message, **known}
    yield (
        events.RunEnd,
        {
            "outcome": entry.outcome,
            "text": entry.text,
            "output": output,
            "validated": entry.validated,
            "usage": entry.usage,
            "turns": entry.turns,
            "tool_calls": entry.tool_calls,
            "duration_s": entry.duration_s,
            **error,
        },
    )
