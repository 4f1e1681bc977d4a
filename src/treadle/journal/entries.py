"""The facts of a run: what an append-only, gap-free list of them holds, and how each becomes bytes
and back.

Where they are kept is journal.py's and journals/; when they are appended is the loop's business.
Entry: `Entry`, `read_entry`.

Order of a run: run.started, then for each turn model.requested (one more for each failed attempt),
model.responded with the starts of the calls that start now, tool.finished for each, and in the end
run.finished. Two barriers a turn: the response and the starts are appended before any of those
calls begins; every result is appended before the next request uses it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

import msgspec

from treadle._internal.json_text import (
    JsonText,
    decode_json,
    encode_json,
    items,
    members,
    object_of,
)
from treadle.errors import AgentError
from treadle.messages.events import ErrorInfo
from treadle.messages.message import Message, ToolResult, decode_message, decode_part
from treadle.messages.metrics import RunTotals
from treadle.messages.response_details import ResponseDetails
from treadle.models.model import ModelResponse, Switch
from treadle.types import (
    Effect,
    Limits,
    Mode,
    OnAsk,
    OnUnknown,
    Outcome,
    Reserved,
    Settings,
    Spending,
    StopReason,
    Time,
    Usage,
    Value,
    is_temperature,
    now,
)

SCHEMA = 1
"""Major version of the entries; it stands in run.started, and a reader refuses a higher one."""


class _Entry(Value, frozen=True, kw_only=True, tag_field="type"):
    at: Time
    idle_s: float = 0.0
    """Seconds before it in which the run's time stood still, because people were asked."""


class Fork(Value, frozen=True, kw_only=True):
    """A run that goes on from inside another one, whose entries it reads and never copies."""

    run_id: str
    turn: int
    """Closed turns of the other run that are kept; 0: only what came before its prompt."""
    seq: int
    """The other run's entries up to this one."""
    asks: bool = True
    """The run's own prompt follows; False: it goes on where the other stood."""
    results: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Call id -> what stands in place of that call's result."""


class RunStarted(_Entry, frozen=True, kw_only=True, tag="run.started"):
    run_id: str
    agent: str
    agent_hash: str
    model: str
    mode: Mode
    cwd: str
    input: Message
    """The prompt, as the model will see it."""
    messages: tuple[Message, ...] = ()
    """The agent's own first messages, before the prompt."""
    settings: Settings = Settings()
    limits: Limits = Limits()
    inputs: JsonText = "{}"
    output: JsonText | None = None
    """The schema of its answer as it was given, where that is not what `settings` ask of the model:
    of what is no object, and of what a tool takes.
    """
    session_id: str | None = None
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    user_id: str | None = None
    past: int | None = None
    """Written by older versions: how many of the session's messages it found.

    None: all that were in view at its place in the session.
    """
    late: dict[str, int] | None = None
    """Late results known when the run began, as `SessionView.late`; None if an older version wrote
    this, and the clock decides.
    """
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    fork: Fork | None = None
    """Origin of a forked run."""
    imported: Time | None = None
    """When it was imported from a file without a valid signature (importing.py); None for a run of
    this installation.
    """
    passing: tuple[str, ...] = ()
    """Passing blocks of its system prompt, in a session: the session's next runs send the same."""
    schema: int = msgspec.field(default_factory=lambda: SCHEMA)
    """Always written: a default that is left out would mean the reader's own number."""


class ModelRequested(_Entry, frozen=True, kw_only=True, tag="model.requested"):
    """An attempt begins.

    The second and later ones are appended before their wait, and void what came of the one before.
    """

    turn: int
    attempt: int = 1
    reserved: Reserved | None = None
    """Maximum cost of the attempt; None without a limit."""
    last: Outcome | None = None
    """The limit that makes this turn the last one."""
    failed: ErrorInfo | None = None
    """How; None where the attempt before was lost with its process."""
    wait_s: float = 0.0
    max_tokens: int | None = None
    """Bound on the response, if the run's budget leaves less than its settings ask for."""
    clamped_by: Outcome | None = None
    """The limit that leaves less; where `max_tokens` is set without it, that of tokens."""
    spent: Usage | None = None
    """Known usage of the failed attempt before this one, by the model asked then."""
    spent_usd: float | None = None
    """Cost of that usage; None if its price was unknown."""
    free: bool = False
    """The failed attempt before this one surely cost nothing: the provider refused it, or never had
    it.
    """
    without: str | None = None
    """Setting that the provider refused by name in the failed attempt before this one; the run goes
    on without it.
    """


class ModelResponded(_Entry, frozen=True, kw_only=True, tag="model.responded"):
    turn: int
    attempt: int
    message: Message
    usage: Usage
    cost_usd: float | None = None
    """Cost by the price of that day; None if no price was known."""
    stop_reason: StopReason | None
    """Stop reason, or None if the end of the run cut the response, and the message holds its
    beginning.
    """
    raw_stop_reason: str = ""
    response_id: str = ""
    model: str = ""
    provider_data: JsonText | None = None
    context_tokens: int | None = None
    """Tokens of the conversation after it, where `usage` sums several passes of a server's own
    tools; None: as `usage` says; 0: not known.
    """
    results_only: bool = False
    """True if nothing but the results of its calls may follow: a program that the provider runs
    waits for them.
    """
    withdraws: bool = False
    """True for a refusal after which the provider refuses all that follows: the exchange has to
    leave the conversation.
    """
    hook: str | None = None
    """The one that answered in the model's place; no model was asked."""
    details: ResponseDetails | None = None


class ToolStarted(_Entry, frozen=True, kw_only=True, tag="tool.started"):
    call_id: str
    name: str
    arguments_json: JsonText
    effect: Effect
    key: str
    """The idempotency key: the same for every attempt of this call."""
    attempt: int = 1
    polls: bool = False
    """The tool only looks at something that goes on, so equal calls with equal results are no loop.
    """


class ToolFinished(_Entry, frozen=True, kw_only=True, tag="tool.finished"):
    """The one result of a call; also of a call that was refused and never started."""

    status: Literal["ok", "error", "denied", "cancelled", "unknown"]
    result: ToolResult
    duration_ms: float = 0.0
    started: bool = True
    """False: the call was refused before it could start, and has no tool.started."""
    ends_run: bool = False
    """The tool said that the run must end here."""
    cut_by: Outcome | None = None
    """The limit that refused the call."""
    completes: bool = False
    """The run is done, and its output is what the call was given."""


class ToolLate(_Entry, frozen=True, kw_only=True, tag="tool.late"):
    """A fact that arrived after `unknown`: it becomes a message to the model and never replaces the
    result.
    """

    call_id: str
    text: str


class ApprovalAsked(_Entry, frozen=True, kw_only=True, tag="approval.asked"):
    call_id: str
    name: str
    arguments_json: JsonText
    reason: str
    deferred: bool = False
    """True if no approval is needed: the call has started, and its result comes from outside."""


class ApprovalAnswered(_Entry, frozen=True, kw_only=True, tag="approval.answered"):
    call_id: str
    decision: Literal["allow", "deny"]
    by: str
    reason: str = ""
    arguments_json: JsonText | None = None
    """Arguments that a person put in place of the model's."""


class InputAdded(_Entry, frozen=True, kw_only=True, tag="input.added"):
    message: Message
    by: Literal["user", "runtime", "hook"]
    mends: bool = False
    """True if the message lists errors of the answer before it, which has to be given again."""


class ModelSwitched(_Entry, frozen=True, kw_only=True, tag="model.switched"):
    """Another model is asked from here on; it comes right before the attempt that asks it."""

    model: str
    before: str = ""
    why: str = ""


class Compaction(_Entry, frozen=True, kw_only=True, tag="compaction"):
    receipt: JsonText


class CancelAsked(_Entry, frozen=True, kw_only=True, tag="cancel.asked"):
    by: str


class RunResumed(_Entry, frozen=True, kw_only=True, tag="run.resumed"):
    """A new driver took the run over: appends of the one before are refused from here on."""

    fence: int
    agent: str
    agent_hash: str
    model: str
    asked: str | None = None
    """The model asked from here on, if this driver cannot ask the one that answered last."""
    mode: Mode
    cwd: str
    limits: Limits | None = None
    """These hold from here on, as in run.started; None: the limits stay."""


class RunFinished(_Entry, frozen=True, kw_only=True, tag="run.finished"):
    outcome: Outcome
    turns: int
    tool_calls: int
    usage: Usage
    cost_usd: float | None = None
    spending: tuple[Spending, ...] = ()
    """Breakdown of `usage` and `cost_usd`."""
    total: RunTotals | None = None
    """Totals of the run and every run below it.

    None: it started none, or an older version wrote this.
    """
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
    """Sequence number from 1, without gaps."""
    entry: Entry


_TYPES = {str(kind.__struct_config__.tag): kind for kind in get_args(Entry)}
_MESSAGES = ("input", "message")


def read_entry(data: bytes) -> Entry:
    """The inverse of `to_json`; what a newer version wrote into a message is kept with it.

    Raises AgentError(invalid) where the bytes are no entry, one of an unknown type, or one of a
    higher major schema.
    """
    try:
        entry = decode_json(data, cast("type[Entry]", Entry))
    except (ValueError, AgentError):
        entry = _read_strange(data)
    if isinstance(entry, RunStarted):
        _check_schema(entry.schema)
    return entry


def _read_strange(data: bytes) -> Entry:
    """Words of a newer version inside: the messages are read by their own rules, and the rest by
    this version's.
    """
    try:
        fields = members(data.decode())
        _check_schema(decode_json(fields.get("schema", "1").encode(), int))
        tag = decode_json(fields.get("type", "null").encode(), str)
        if (kind := _TYPES.get(tag)) is None:
            raise AgentError(
                "invalid",
                (
                    f"an entry of type {tag!r} is unknown here: where a newer Treadle wrote it, "
                    "upgrade to read it"
                ),
            )
        for name in fields.keys() & _MESSAGES:
            fields[name] = _readable(fields[name])
        if "messages" in fields:
            fields["messages"] = "[" + ",".join(map(_readable, items(fields["messages"]))) + "]"
        if "settings" in fields:
            fields["settings"] = _settings(fields["settings"])
        if "result" in fields:
            fields["result"] = encode_json(decode_part(fields["result"])).decode()
        known = {"type", *kind.__struct_encode_fields__}
        return decode_json(
            object_of({name: value for name, value in fields.items() if name in known}).encode(),
            kind,
        )
    except ValueError as e:
        raise AgentError("invalid", f"this is no entry that can be read: {e}") from e


def _settings(stored: JsonText) -> JsonText:
    """Without a temperature that no provider takes: older versions accepted any number."""
    fields = members(stored)
    if not is_temperature(decode_json(fields.get("temperature", "0").encode(), object)):
        del fields["temperature"]
    return object_of(fields)


def _readable(message: JsonText) -> JsonText:
    return encode_json(decode_message(message.encode())).decode()


def _check_schema(schema: int) -> None:
    if schema > SCHEMA:
        raise AgentError(
            "invalid",
            (
                f"this run was written by a newer Treadle (schema {schema}; this version reads "
                f"{SCHEMA}): upgrade to read it"
            ),
        )


def responded(
    message: Message,
    response: ModelResponse | None,
    *,
    turn: int,
    attempt: int,
    cost_usd: float | None = None,
    hook: str | None = None,
) -> ModelResponded:
    """`response`: None where it was cut by the end of the run, and `message` holds what there was."""
    if response is None:
        return ModelResponded(
            at=message.created_at,
            turn=turn,
            attempt=attempt,
            message=message,
            usage=Usage(),
            stop_reason=None,
        )
    return ModelResponded(
        at=message.created_at,
        turn=turn,
        attempt=attempt,
        message=message,
        usage=response.usage,
        cost_usd=cost_usd,
        stop_reason=response.stop_reason,
        raw_stop_reason=response.raw_stop_reason,
        response_id=response.id,
        model=response.model,
        provider_data=response.provider_data,
        context_tokens=response.context_tokens,
        results_only=response.results_only,
        withdraws=response.withdraws,
        hook=hook,
        details=response.details,
    )


def switched(
    asked: ModelRequested,
    switch: Switch,
    failed: ErrorInfo,
    *,
    attempt: int,
    spent_usd: float | None,
    free: bool,
) -> tuple[ModelSwitched, ModelRequested]:
    """`asked` failed, and another model is asked in its place."""
    at, failed = now(), msgspec.structs.replace(failed, kind=switch.kind)
    again = msgspec.structs.replace(
        asked,
        at=at,
        attempt=attempt,
        failed=failed,
        wait_s=0.0,
        spent=switch.usage,
        spent_usd=spent_usd,
        free=free,
    )
    return ModelSwitched(
        at=at, model=switch.model, before=switch.before, why=f"{switch.kind}: {failed.message}"
    ), again
