"""What an entry is, how it is read back whatever wrote it, and which events a front sees of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from dirty_equals import IsPartialDict
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples_of, values_of
from treadle.errors import AgentError
from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    CancelAsked,
    Compaction,
    Entry,
    InputAdded,
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
from treadle.journal.entry_codec import read_entry
from treadle.journal.journal import read_run
from treadle.journal.projection import events_of, shown_arguments
from treadle.journal.run_info import UnknownRun
from treadle.journal.run_messages import late_message
from treadle.messages import events
from treadle.messages.events import ErrorInfo
from treadle.messages.message import Message, TextPart, ToolCall, ToolResult, UnknownPart
from treadle.types import Outcome, Settings, StopReason, Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)
DEEP = "[" * 10_000 + "]" * 10_000
PROMPT = Message(id="msg_1", role="user", parts=(TextPart(text="hi"),), created_at=AT)
STARTED = RunStarted(
    at=AT, run_id="run_1", agent="a", agent_hash="h", model="m", mode="full", cwd="/", input=PROMPT
)


def responded(message: Message) -> ModelResponded:
    return ModelResponded(
        at=AT, turn=1, attempt=1, message=message, usage=Usage(), stop_reason=StopReason.COMPLETE
    )


def finished(**more: Any) -> RunFinished:
    return RunFinished(
        **{
            "at": AT,
            "outcome": Outcome.COMPLETED,
            "turns": 2,
            "tool_calls": 1,
            "usage": Usage(),
            "duration_s": 1.5,
        }
        | more
    )


# ---------------------------------------------------------------- stored and read


@pytest.mark.parametrize("kind", get_args(Entry), ids=lambda kind: kind.__name__)
def test_every_entry_survives_storage(kind: type[RunStarted]) -> None:
    @settings(max_examples=40)
    @given(values_of(kind))
    def holds(entry: Any) -> None:
        assert read_entry(entry.to_json()) == entry
        assert Record.from_json(Record(seq=1, entry=entry).to_json()).entry == entry

    holds()


def test_an_entry_says_its_type_first() -> None:
    for kind in get_args(Entry):
        entry = examples_of(kind)[0]
        assert entry.to_json().startswith(f'{{"type":"{kind.__struct_config__.tag}","at":'.encode())


def test_types_of_entries_are_their_words() -> None:
    assert {kind.__struct_config__.tag for kind in get_args(Entry)} == {
        *(
            "run.started",
            "run.resumed",
            "run.finished",
            "model.requested",
            "model.batched",
            "model.responded",
            "model.switched",
            "agent.switched",
            "tool.started",
            "tool.finished",
        ),
        *(
            "tool.late",
            "approval.asked",
            "approval.answered",
            "input.added",
            "compaction",
            "cancel.asked",
            "agent.switched",
        ),
    }


@pytest.mark.parametrize("temperature", ["-1", "7.5"])
def test_a_temperature_that_older_versions_took_does_not_make_a_run_unreadable(
    temperature: str,
) -> None:
    started = msgspec.structs.replace(STARTED, settings=Settings(max_tokens=10, temperature=0.5))
    stored = started.to_json().decode().replace('"temperature":0.5', f'"temperature":{temperature}')
    read = read_entry(stored.encode())
    assert isinstance(read, RunStarted)
    assert read.settings == Settings(max_tokens=10)


def test_a_run_always_says_which_schema_its_entries_have() -> None:
    """Left out as a default, the number of a later version would be taken for that of an earlier
    one.
    """
    assert json.loads(STARTED.to_json())["schema"] == 1


def test_a_reserve_is_null_and_takes_no_room() -> None:
    assert json.loads(ModelRequested(at=AT, turn=1).to_json()) == {
        "type": "model.requested",
        "at": "2026-11-20T10:00:00Z",
        "turn": 1,
    }


@pytest.mark.parametrize(
    "change",
    [{}, {"input": {"another": "shape"}}, {"mode": "other"}],
    ids=["same shape", "another message", "another mode"],
)
def test_entries_of_a_higher_schema_are_refused_clearly(change: dict[str, Any]) -> None:
    data = json.dumps(json.loads(STARTED.to_json()) | {"schema": 2} | change).encode()
    with pytest.raises(
        AgentError, match=r"written by a newer Treadle \(schema 2; this version reads 1\): upgrade"
    ) as caught:
        read_entry(data)
    assert caught.value.kind == "invalid"


def test_an_entry_of_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(AgentError, match=r"'tool\.dreamt'.*newer Treadle.*upgrade") as caught:
        read_entry(b'{"type":"tool.dreamt","at":"2026-11-20T10:00:00Z"}')
    assert caught.value.kind == "invalid"


def test_an_unknown_field_of_an_entry_does_not_keep_it_from_being_read() -> None:
    """Entries are never written again, so that nothing of them is lost."""
    assert read_entry(
        b'{"type":"cancel.asked","at":"2026-11-20T10:00:00Z","by":"user","mood":'
        + DEEP.encode()
        + b"}"
    ) == CancelAsked(at=AT, by="user")


HOLOGRAM = '{"type":"hologram","x":1e400}'
NEWER = {
    "an unknown part": (
        f'[{HOLOGRAM}, {{"type":"text","text":"hi"}}]',
        "",
        (UnknownPart(type="hologram", raw=HOLOGRAM), TextPart(text="hi")),
    ),
    "an unknown field of a part": (
        '[{"type":"text","text":"hi","mood":1.50}]',
        "",
        (TextPart(text="hi"),),
    ),
    "an unknown field of the message": (
        '[{"type":"text","text":"hi"}]',
        ', "mood":1.50',
        (TextPart(text="hi"),),
    ),
}
"""Parts, more fields, and the parts that this version sees."""


@pytest.mark.parametrize("what", NEWER)
@pytest.mark.parametrize(
    "entry",
    [STARTED, responded(PROMPT), InputAdded(at=AT, message=PROMPT, by="user")],
    ids=lambda entry: type(entry).__name__,
)
def test_messages_of_a_newer_version_survive_inside_entries(entry: Any, what: str) -> None:
    parts, more, seen = NEWER[what]
    newer = (
        f'{{"id":"msg_1", "role":"user","parts":{parts},"created_at":"2026-11-20T10:00:00Z"{more}}}'
    )
    name = "input" if isinstance(entry, RunStarted) else "message"
    stored = (
        entry.to_json()
        .decode()
        .replace(f'"{name}":{PROMPT.to_json().decode()}', f'"{name}": {newer} ')
    )
    message = getattr(read_entry(stored.encode()), name)
    assert message.parts == seen
    assert message.to_json() == newer.encode()
    again = msgspec.structs.replace(entry, **{name: message})
    assert read_entry(again.to_json()) == again


def test_the_first_messages_of_a_newer_version_survive_too() -> None:
    newer = (
        f'{{"id":"msg_1","role":"user","parts":[{HOLOGRAM}],"created_at":"2026-11-20T10:00:00Z"}}'
    )
    stored = (
        msgspec.structs.replace(STARTED, messages=(PROMPT,))
        .to_json()
        .decode()
        .replace(f'"messages":[{PROMPT.to_json().decode()}]', f'"messages":[{newer}]')
    )
    started = read_entry(stored.encode())
    assert isinstance(started, RunStarted)
    assert started.messages[0].parts == (UnknownPart(type="hologram", raw=HOLOGRAM),)
    assert read_entry(started.to_json()) == started


def test_messages_of_a_newer_version_survive_in_a_view() -> None:
    newer = (
        f'{{"id":"msg_1","role":"user","parts":[{HOLOGRAM}],"created_at":"2026-11-20T10:00:00Z"}}'
    )
    stored = (
        '{"type":"model.requested","at":"2026-11-20T10:00:00Z","turn":1,'
        f'"view":{{"parts":[[0,2],{newer}]}}}}'
    )
    requested = read_entry(stored.encode())
    assert isinstance(requested, ModelRequested)
    assert requested.view is not None
    kept, message = requested.view.parts
    assert isinstance(message, Message)
    assert (kept, message.parts) == ((0, 2), (UnknownPart(type="hologram", raw=HOLOGRAM),))


def test_a_result_of_a_newer_version_is_still_a_result() -> None:
    stored = (
        '{"type":"tool.finished","at":"2026-11-20T10:00:00Z","status":"ok","result":{"type":"tool_result","call_id":"c","name":"f","mood":1,'
        '"content":[{"type":"hologram"},{"type":"text","text":"hi"}]}}'
    )
    entry = read_entry(stored.encode())
    assert isinstance(entry, ToolFinished)
    assert entry.result.call_id == "c"
    assert entry.result.text == "[a part of type 'hologram', which this version cannot show]\nhi"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"type":5}',
        b'{"type":"cancel.asked"}',
        b'{"type":"cancel.asked","at":"yesterday","by":"u"}',
        STARTED.to_json().replace(b'"schema":1', b'"schema":"one"'),
        STARTED.to_json().replace(b'"role":"user"', b'"role":"robot"'),
        b'{"type":"tool.finished","at":"2026-11-20T10:00:00Z","status":"ok","result":{"type":"text","text":"no result"}}',
        DEEP.encode(),
    ],
    ids=range(12),
)
def test_what_is_no_entry_is_refused_as_invalid(data: bytes) -> None:
    with pytest.raises(AgentError) as caught:
        read_entry(data)
    assert caught.value.kind == "invalid"


# ---------------------------------------------------------------- a whole run


def test_a_run_is_read_from_the_bytes_of_its_entries() -> None:
    entries = [STARTED, InputAdded(at=AT, message=PROMPT, by="user"), finished()]
    assert read_run([entry.to_json() for entry in entries]) == entries


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "there is no entry"),
        ([b"{"], "entry 1: this entry cannot be read"),
        (
            [b'{"type":"cancel.asked","at":"2026-11-20T10:00:00Z","by":"u"}'],
            "entry 1: a run must begin with run.started",
        ),
        (
            [STARTED.to_json(), STARTED.to_json()],
            "entry 2: a run must begin with run.started, and have only one",
        ),
        (
            [STARTED.to_json(), b'{"type":"tool.dreamt"}'],
            "entry 2: an entry of type 'tool.dreamt' is unknown",
        ),
    ],
)
def test_the_first_entry_that_is_broken_or_out_of_place_is_named_by_its_number(
    entries: list[bytes], words: str
) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        read_run(entries)
    assert caught.value.kind == "invalid"


def asking(call_id: str) -> ModelResponded:
    return responded(
        Message(
            id="msg_2",
            role="assistant",
            parts=(ToolCall(id=call_id, name="t", arguments_json="{}"),),
            created_at=AT,
        )
    )


def began(call_id: str) -> ToolStarted:
    return ToolStarted(
        at=AT, call_id=call_id, name="t", arguments_json="{}", effect="once", key="k"
    )


def gave(call_id: str) -> ToolFinished:
    return ToolFinished(
        at=AT,
        status="ok",
        result=ToolResult(call_id=call_id, name="t", content="x"),
        duration_ms=1.0,
    )


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (
            [STARTED, asking("a"), began("a"), gave("b")],
            "entry 4: no call 'b' is requested before it",
        ),
        ([STARTED, gave("a")], "entry 2: no call 'a'"),
        ([STARTED, began("a")], "entry 2: no call 'a'"),
        (
            [STARTED, asking("a"), began("a"), gave("a"), gave("a")],
            "entry 5: the call 'a' already has a result",
        ),
        ([STARTED, finished(), finished()], "entry 3: only late results may follow run.finished"),
        (
            [STARTED, finished(), ModelRequested(at=AT, turn=1)],
            "entry 3: only late results may follow run.finished",
        ),
        ([STARTED, Compaction(at=AT, receipt="{")], "entry 2: "),
        (
            [msgspec.structs.replace(STARTED, run_id="../../up")],
            "entry 1: '../../up' is not a valid id",
        ),
        ([msgspec.structs.replace(STARTED, run_id="\x1b[31mred")], "entry 1: .* is not a valid id"),
        ([msgspec.structs.replace(STARTED, session_id="a\nb")], "entry 1: .* is not a valid id"),
    ],
)
def test_what_no_run_comes_to_is_refused_by_its_number(entries: list[Entry], words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        read_run([entry.to_json() for entry in entries])
    assert caught.value.kind == "invalid"


def test_a_result_that_was_late_may_follow_the_end() -> None:
    entries = [
        STARTED,
        asking("a"),
        began("a"),
        gave("a"),
        finished(),
        ToolLate(at=AT, call_id="a", text="x"),
    ]
    assert read_run([entry.to_json() for entry in entries]) == entries


# ---------------------------------------------------------------- what a front sees


def shown(entry: Entry) -> list[dict[str, Any]]:
    """The events of an entry as JSON, without what all events share."""
    shared = {"run_id": "r", "session_id": None, "seq": 1, "at": AT}
    made = [json.loads(kind(**shared, **fields).to_json()) for kind, fields in events_of(entry)]  # type: ignore[arg-type]
    return [{name: value for name, value in event.items() if name not in shared} for event in made]


def test_a_run_starts_with_its_agent_and_model() -> None:
    assert shown(STARTED) == [{"type": "run_start", "agent": "a", "model": "m"}]


def test_a_request_ends_the_turn_before_and_starts_its_own() -> None:
    assert shown(ModelRequested(at=AT, turn=1)) == [{"type": "turn_start", "turn": 1}]
    assert shown(ModelRequested(at=AT, turn=3)) == [
        {"type": "turn_end", "turn": 2},
        {"type": "turn_start", "turn": 3},
    ]


def test_another_attempt_is_a_retry_of_the_one_before() -> None:
    failed = ErrorInfo(kind="rate_limit", message="later", status=429)
    assert shown(ModelRequested(at=AT, turn=2, attempt=3, failed=failed, wait_s=1.5)) == [
        {"type": "retry", "attempt": 2, "wait_s": 1.5, "kind": "rate_limit"}
    ]
    assert shown(ModelRequested(at=AT, turn=2, attempt=2)) == [
        {"type": "retry", "attempt": 1, "wait_s": 0.0, "kind": "lost"}
    ]


def test_a_response_is_its_usage_its_message_and_what_it_asks_for() -> None:
    message = Message.assistant(
        [
            TextPart(text="hm"),
            ToolCall(id="c1", name="f", arguments_json='{"a": 1}'),
            ToolCall(id="c2", name="g", arguments_json="{"),
        ]
    )
    entry = msgspec.structs.replace(
        responded(message), usage=Usage(input_tokens=5, reasoning_tokens=1)
    )
    assert shown(entry) == [
        IsPartialDict(
            type="usage",
            input_tokens=5,
            output_tokens=0,
            cache_read_tokens=0,
            cache_write_tokens=0,
            reasoning_tokens=1,
        ),
        {"type": "message", "message": json.loads(message.to_json())},
        {
            "type": "tool_call",
            "message_id": message.id,
            "call_id": "c1",
            "name": "f",
            "arguments": {"a": 1},
        },
        {
            "type": "tool_call",
            "message_id": message.id,
            "call_id": "c2",
            "name": "g",
            "arguments": "{",
        },
    ]


def test_an_empty_response_is_no_message() -> None:
    assert [event["type"] for event in shown(responded(Message.assistant([])))] == ["usage"]


def test_a_call_starts_and_ends() -> None:
    assert shown(
        ToolStarted(at=AT, call_id="c", name="f", arguments_json="{}", effect="once", key="k")
    ) == [
        {"type": "tool_call_start", "call_id": "c", "name": "f", "effect": "once", "message_id": ""}
    ]
    result = ToolResult(
        call_id="c",
        name="f",
        content=(TextPart(text="a"), TextPart(text="b")),
        is_error=True,
        unknown=True,
    )
    assert shown(ToolFinished(at=AT, status="unknown", result=result, duration_ms=1.5)) == [
        {
            "type": "tool_call_end",
            "call_id": "c",
            "name": "f",
            "result": "a\nb",
            "is_error": True,
            "unknown": True,
            "duration_ms": 1.5,
            "message_id": "",
            "refused": False,
        }
    ]


def test_a_call_that_never_started_has_a_warning_and_an_end_with_the_reason() -> None:
    result = ToolResult(call_id="c", name="f", content="no such tool", is_error=True)
    assert shown(ToolFinished(at=AT, status="error", result=result, started=False)) == [
        {"type": "warning", "text": "f was not run: no such tool", "call_id": "c"},
        {
            "type": "tool_call_end",
            "call_id": "c",
            "name": "f",
            "result": "no such tool",
            "is_error": True,
            "unknown": False,
            "duration_ms": 0.0,
            "message_id": "",
            "refused": True,
            "reason": "no such tool",
        },
    ]


def test_a_result_that_a_person_gave_for_a_call_that_never_started_is_told_as_that() -> None:
    result = ToolResult(call_id="c", name="f", content="paid by hand")
    told = "f was not run, and has a result that was given: paid by hand"
    assert shown(ToolFinished(at=AT, status="ok", result=result, started=False)) == [
        {"type": "warning", "text": told, "call_id": "c"},
        {
            "type": "tool_call_end",
            "call_id": "c",
            "name": "f",
            "result": "paid by hand",
            "is_error": False,
            "unknown": False,
            "duration_ms": 0.0,
            "message_id": "",
            "refused": True,
            "reason": "paid by hand",
        },
    ]


def test_an_approval_is_asked_for_and_resolved() -> None:
    asked = ApprovalAsked(at=AT, call_id="c", name="f", arguments_json='{"a":1}', reason="why")
    assert shown(asked) == [
        {
            "type": "approval_requested",
            "call_id": "c",
            "name": "f",
            "arguments": {"a": 1},
            "reason": "why",
        }
    ]
    answered = ApprovalAnswered(at=AT, call_id="c", decision="deny", by="nobody", reason="no")
    assert shown(answered) == [
        {"type": "approval_resolved", "call_id": "c", "decision": "deny", "by": "nobody"}
    ]


def test_added_input_is_its_text() -> None:
    assert shown(InputAdded(at=AT, message=PROMPT, by="user")) == [
        {"type": "input_added", "text": "hi"}
    ]


def test_a_run_ends_with_its_turn_its_output_and_its_outcome() -> None:
    used = {"usage": json.loads(Usage().to_json()), "turns": 2, "tool_calls": 1}
    end = {"outcome": "completed", "text": "hi", "output": "hi", "validated": True, **used}
    assert shown(finished(text="hi", output='"hi"', validated=True, open_turn=2)) == [
        {"type": "turn_end", "turn": 2},
        {"type": "output", "value": "hi", "validated": True},
        {
            "type": "run_end",
            **end,
            "duration_s": 1.5,
            "total": {"runs": 1, **used, "cost_usd": None, "unpriced": 0},
        },
    ]


def test_an_error_is_told_by_itself_and_in_the_end() -> None:
    error = ErrorInfo(kind="auth", message="no key", status=401, request_id="req_1")
    told = {"kind": "auth", "message": "no key", "status": 401, "request_id": "req_1"}
    assert shown(finished(outcome=Outcome.ERROR, error=error)) == [
        {"type": "error", **told},
        IsPartialDict(type="run_end", outcome="error", output=None, validated=False, error=told),
    ]
    assert shown(finished(outcome=Outcome.ERROR, error=ErrorInfo(kind="agent", message="used up")))[
        0
    ] == {
        "type": "error",
        "kind": "agent",
        "message": "used up",
    }


def test_an_output_survives_whatever_it_holds() -> None:
    assert shown(finished(output='"\\ud800"'))[0] == {
        "type": "output",
        "value": "\ud800",
        "validated": False,
    }
    assert shown(finished(output='{"n": 123456789012345678901234567890}'))[0]["value"] == {
        "n": 123456789012345678901234567890
    }


def test_a_further_driver_starts_the_run_for_those_who_listen_to_it() -> None:
    resumed = RunResumed(at=AT, fence=2, agent="a", agent_hash="h", model="m", mode="full", cwd="/")
    assert shown(resumed) == shown(STARTED)


def test_a_result_that_came_late_is_shown_in_the_words_that_the_model_reads() -> None:
    late = ToolLate(at=AT, call_id="c", text="sent")
    assert shown(late) == [{"type": "input_added", "text": late_message(late).text}]
    assert late_message(late).text.endswith("the call c, whose outcome was not known before: sent")


def test_a_compaction_shows_its_receipt() -> None:
    assert shown(Compaction(at=AT, receipt='{"kind":"window","dropped":51}')) == [
        {"type": "compaction", "receipt": {"kind": "window", "dropped": 51}}
    ]


def test_a_switch_to_another_model_is_a_warning() -> None:
    (told,) = shown(ModelSwitched(at=AT, model="b:2", before="a:1", why="rate_limit: full"))
    assert told == {
        "type": "warning",
        "text": "a:1 did not answer (rate_limit: full): b:2 is asked from here on",
    }


@pytest.mark.parametrize("entry", examples_of(CancelAsked))
def test_some_entries_are_for_the_journal_alone(entry: Entry) -> None:
    assert shown(entry) == []


@given(values_of(Entry))
def test_the_events_of_an_entry_are_always_the_same_and_can_be_shown(entry: Entry) -> None:
    if isinstance(entry, RunFinished):
        entry = msgspec.structs.replace(entry, output=json.dumps(entry.output))
    if isinstance(entry, Compaction):
        entry = msgspec.structs.replace(entry, receipt=json.dumps(entry.receipt))
    assert shown(entry) == shown(read_entry(entry.to_json()))


def test_events_say_their_type_first() -> None:
    for kind in get_args(events.Event):
        assert (
            examples_of(kind)[0]
            .to_json()
            .startswith(f'{{"type":"{kind.__struct_config__.tag}","run_id":'.encode())
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("", {}),
        ("[1]", "[1]"),
        ('{"a":', '{"a":'),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        ('{"a":"\ud800"}', {"a": "\ud800"}),
        (DEEP, DEEP),
        ('{"a":' + DEEP + "}", '{"a":' + DEEP + "}"),
        ('{"a":' + "[" * 300 + "]" * 300 + "}", '{"a":' + "[" * 300 + "]" * 300 + "}"),
    ],
    ids=range(10),
)
def test_arguments_are_shown_as_an_object_where_they_are_one(text: str, expected: object) -> None:
    assert shown_arguments(text) == expected


def test_a_number_that_none_can_hold_is_no_entry() -> None:
    whole = CancelAsked(at=STARTED.at, by="user", idle_s=1.5).to_json()
    assert b'"idle_s":1.5' in whole
    with pytest.raises(AgentError, match="is too large for a number"):
        read_entry(whole.replace(b"1.5", b"1.5e999"))


@given(values_of(Entry), st.integers(0, 10_000), st.binary(max_size=5), st.integers(0, 5))
def test_a_damaged_entry_is_an_entry_or_an_invalid_one(
    entry: Entry, place: int, new: bytes, gone: int
) -> None:
    data = entry.to_json()
    place %= len(data) + 1
    _reads_or_refuses(data[:place] + new + data[place + gone :])


@pytest.mark.parametrize("name", ["type", "at", "schema", "message", "result", "mood"])
@pytest.mark.parametrize(
    "hard", [DEEP, "1e400", "NaN", '"\\ud800"', "9" * 5_000, "[1", "null", "{}"], ids=range(8)
)
def test_whatever_stands_in_a_field_it_is_an_entry_or_an_invalid_one(name: str, hard: str) -> None:
    for kind in get_args(Entry):
        data = examples_of(kind)[0].to_json().removesuffix(b"}")
        _reads_or_refuses(data + f',"{name}":{hard}}}'.encode())


def _reads_or_refuses(data: bytes) -> None:
    try:
        entry = read_entry(data)
    except AgentError as refused:
        error = refused
    else:
        assert read_entry(entry.to_json()) == entry
        return
    assert error.kind == "invalid"


def test_at_most_three_ids_are_named_that_may_have_been_meant() -> None:
    alike = [f"run_{n}" for n in range(9)]
    assert "Did you mean run_0 or run_1 or run_2?" in UnknownRun("run_", alike).message
    assert UnknownRun("rum_4", alike).message.count("run_") == 3
    assert UnknownRun("", alike).message == "unknown run ''. List the runs with `treadle runs list`"
    newest = UnknownRun("rum_4", ["run_4", *(f"x{n}" for n in range(100)), "run_5"]).message
    assert newest.endswith("Did you mean run_5?"), "only the last hundred are compared"
