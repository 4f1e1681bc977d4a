"""The events of the Responses API as deltas, also where a server sends them in a way of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.providers.loopback import sse
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import (
    MediaPart,
    Message,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
)
from treadle.models.model import Delta, Fold, ModelNotice, ModelResponse, Restart
from treadle.models.providers.openai_responses.messages import MessageEncoder
from treadle.models.providers.openai_responses.stream import ResponsesDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason, Usage

Json = dict[str, Any]

CREATED = {
    "type": "response.created",
    "response": {"id": "resp_1", "model": "gpt-test-1", "status": "in_progress", "output": []},
}


def message(text: str, *more: Json, id: str = "msg_1", **fields: object) -> Json:
    return {
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": "completed",
        "content": [said(text), *more],
        **fields,
    }


def said(text: str, **fields: object) -> Json:
    return {"type": "output_text", "annotations": [], "text": text, **fields}


def call(
    arguments: str = '{"a":1}', *, id: str = "fc_1", call_id: str = "call_1", **fields: object
) -> Json:
    return {
        "type": "function_call",
        "id": id,
        "call_id": call_id,
        "name": "look",
        "arguments": arguments,
        "status": "completed",
        **fields,
    }


def thought(text: str = "Hm.", encrypted: str = "enc") -> Json:
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": encrypted,
    }


def added(item: Json, index: int | None = 0) -> Json:
    empty = {
        **item,
        **{
            name: value
            for name, value in (("content", []), ("arguments", ""), ("summary", []), ("input", ""))
            if name in item
        },
    }
    return {
        "type": "response.output_item.added",
        "item": empty,
        **({} if index is None else {"output_index": index}),
    }


def done(item: Json, index: int | None = 0) -> Json:
    return {
        "type": "response.output_item.done",
        "item": item,
        **({} if index is None else {"output_index": index}),
    }


def delta(text: str, index: int | None = 0, *, kind: str = "output_text", **fields: object) -> Json:
    return {
        "type": f"response.{kind}.delta",
        "delta": text,
        **({} if index is None else {"output_index": index}),
        **fields,
    }


def completed(*output: Json, status: str = "completed", **fields: object) -> Json:
    response = {
        "id": "resp_1",
        "model": "gpt-test-1",
        "status": status,
        "output": list(output),
        **fields,
    }
    return {"type": f"response.{status}", "response": response}


def deltas_of(*events: Json | bytes) -> tuple[list[Delta], ResponsesDecoder]:
    decoder = ResponsesDecoder(Refusals("the key").in_stream)
    deltas = decoder.feed(
        b"".join(event if isinstance(event, bytes) else sse(event) for event in events)
    )
    if decoder.end is None:
        deltas += decoder.finish()
    return deltas, decoder


def folded(*events: Json | bytes) -> ModelResponse:
    deltas, decoder = deltas_of(*events)
    assert decoder.failure is None
    assert decoder.end is not None
    fold = Fold()
    for one in (*deltas, decoder.end):
        fold.add(one)
    return fold.response()


def failed(*events: Json | bytes) -> AgentError:
    _, decoder = deltas_of(*events)
    assert decoder.end is None
    assert decoder.failure is not None
    return decoder.failure


# ---------------------------------------------------------------- what an answer is made of


def test_the_reasoning_keeps_all_that_its_provider_wants_back() -> None:
    parts = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": t} for t in ("One.", "Two.")],
        "encrypted_content": "enc",
    }
    pieces = [
        delta(t, kind="reasoning_summary_text", summary_index=i)
        for i, t in ((0, "On"), (0, "e."), (1, "Two."))
    ]
    streamed = folded(CREATED, added(parts), *pieces, done(parts), completed(parts))
    (part,) = streamed.parts
    assert isinstance(part, ReasoningPart)
    assert part.text == "One.\n\nTwo."
    assert json.loads(part.provider_data or "") == {k: v for k, v in parts.items() if k != "type"}
    assert folded(CREATED, completed(parts)) == streamed


def test_what_was_encrypted_when_the_item_was_done_is_kept() -> None:
    (part,) = folded(
        CREATED,
        added(thought(encrypted="half")),
        done(thought(encrypted="whole")),
        completed(thought(encrypted="again")),
    ).parts
    assert isinstance(part, ReasoningPart)
    assert '"whole"' in (part.provider_data or "")


def test_reasoning_in_the_open_is_kept_as_such() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": "",
    }
    (part,) = folded(
        CREATED,
        added(item),
        delta("Hm.", kind="reasoning_text", content_index=0),
        done(item),
        completed(item),
    ).parts
    assert isinstance(part, ReasoningPart)
    assert part.text == "Hm."
    assert "reasoning_text" in (part.provider_data or "")


def test_phases_and_citations_ride_on_their_text() -> None:
    cited = [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}]
    first, last = (
        message("Looking.", phase="commentary"),
        message("Found.", id="msg_2", phase="final_answer"),
    )
    last["content"][0]["annotations"] = cited
    response = folded(
        CREATED,
        added(first),
        delta("Looking."),
        done(first),
        added(last, 1),
        delta("Found.", 1),
        done(last, 1),
        completed(first, last),
    )
    assert response.parts[0] == TextPart(
        text="Looking.", provider="openai", provider_data='{"phase":"commentary"}'
    )
    assert json.loads(response.parts[1].provider_data or "") == {
        "phase": "final_answer",
        "annotations": cited,
    }  # pyright: ignore[reportAttributeAccessIssue]  it is a text


def test_a_message_of_several_parts_is_several_texts() -> None:
    item = message("One.", said("Two."))
    item["content"][0]["annotations"] = [{"type": "file_path", "file_id": "f", "index": 0}]
    part_done = {
        "type": "response.content_part.done",
        "output_index": 0,
        "content_index": 0,
        "part": item["content"][0],
    }
    streamed = folded(
        CREATED,
        added(item),
        delta("One.", content_index=0),
        part_done,
        delta("Two.", content_index=1),
        done(item),
        completed(item),
    )
    assert [part.text for part in streamed.parts if isinstance(part, TextPart)] == ["One.", "Two."]
    assert "file_path" in (streamed.parts[0].provider_data or "")  # pyright: ignore[reportAttributeAccessIssue]  it is a text
    assert folded(CREATED, completed(item)) == streamed


def test_a_call_keeps_what_is_not_ours() -> None:
    item = call(namespace="crm", caller={"type": "program", "caller_id": "p"})
    response = folded(
        CREATED,
        added(item),
        delta('{"a":', kind="function_call_arguments"),
        delta("1}", kind="function_call_arguments"),
        done(item),
        completed(item),
    )
    (part,) = response.parts
    assert isinstance(part, ToolCall)
    assert (part.id, part.name, part.arguments_json) == ("call_1", "look", '{"a":1}')
    assert json.loads(part.provider_data or "") == {
        "namespace": "crm",
        "caller": {"type": "program", "caller_id": "p"},
    }
    assert response.stop_reason is StopReason.TOOL_USE


def test_a_custom_tools_text_is_the_argument_of_a_call() -> None:
    text = 'say "hi"\n\\o/ é'
    item = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_1",
        "name": "look",
        "input": text,
    }
    pieces = [
        delta(text[:5], kind="custom_tool_call_input"),
        delta(text[5:], kind="custom_tool_call_input"),
    ]
    streamed = folded(CREATED, added(item), *pieces, done(item), completed(item))
    (part,) = streamed.parts
    assert isinstance(part, ToolCall)
    assert part.arguments == {"input": text}
    assert part.provider_data == '{"type":"custom_tool_call"}'
    assert streamed.stop_reason is StopReason.TOOL_USE
    assert folded(CREATED, completed(item)) == streamed


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_call",
        "mcp_call",
        "mcp_list_tools",
        "tool_search_call",
        "local_shell_call",
        "code_interpreter_call",
        "image_generation_call",
        "of_2027",
    ],
)
def test_items_of_hosted_tools_and_of_later_versions_are_kept_whole(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", "n": 12345678901234567890}
    events = (
        CREATED,
        added({**item, "status": "in_progress"}),
        {"type": f"response.{kind}.in_progress", "output_index": 0},
        done(item),
        completed(item),
    )
    (part,) = folded(*events).parts
    shown = {"web_search_call": "web_search", "code_interpreter_call": "code_execution"}.get(
        kind, ""
    )
    assert part == ProviderPart(
        provider="openai", data=json.dumps(item, separators=(",", ":")), shown=shown
    )


def test_a_generated_image_is_media_and_goes_back_unchanged() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}
    item |= {"output_format": "webp", "revised_prompt": "A loom.", "result": "QUJD"}
    partial = {"type": "response.image_generation_call.partial_image", "output_index": 0}
    events = (CREATED, added({**item, "result": None}), partial, done(item), completed(item))
    (part,) = folded(*events).parts
    assert isinstance(part, MediaPart)
    assert (part.media_type, part.data) == ("image/webp", "QUJD")
    encoded = MessageEncoder().encode(Message.assistant([part]), settled=True)
    assert json.loads(encoded) == item


def test_containers_and_file_searches_are_counted_for_their_fees() -> None:
    def ran(container: str) -> Json:
        return {"type": "code_interpreter_call", "id": "ci", "container_id": container}

    search = {"type": "file_search_call", "id": "fs", "status": "completed"}
    events = (CREATED, completed(ran("cntr_1"), search, ran("cntr_1"), ran("cntr_2"), search))
    details = folded(*events).details
    assert details is not None
    assert (details.containers, details.file_searches) == (2, 2)
    before = [Message.assistant([ProviderPart(provider="openai", data=json.dumps(ran("cntr_1")))])]
    decoder = ResponsesDecoder(lambda data: AgentError("network", "unexpected"), before)
    decoder.feed(b"".join(sse(event) for event in events))
    assert decoder.end is not None
    assert decoder.end.details is not None
    assert decoder.end.details.containers == 1, "the other one runs already"


def test_a_refusal_is_text_a_notice_and_an_end() -> None:
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I cannot."}],
    }
    for events in (
        [added(item), delta("I can", kind="refusal"), delta("not.", kind="refusal"), done(item)],
        [],
    ):
        deltas, _ = deltas_of(CREATED, *events, completed(item))
        response = folded(CREATED, *events, completed(item))
        assert response.parts == (
            TextPart(text="I cannot.", provider="openai", provider_data='{"type":"refusal"}'),
        )
        assert (response.stop_reason, response.raw_stop_reason) == (StopReason.REFUSAL, "refusal")
        assert ModelNotice("the model refused to answer") in deltas


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("of_2027", StopReason.MAX_TOKENS),
        (None, StopReason.MAX_TOKENS),
    ],
)
def test_an_incomplete_answer_says_why(reason: str | None, stop: StopReason) -> None:
    details = {"reason": reason} if reason else None
    response = folded(
        CREATED,
        added(message("")),
        delta("Half"),
        completed(message("Half"), status="incomplete", incomplete_details=details),
    )
    assert (response.text, response.stop_reason, response.raw_stop_reason) == (
        "Half",
        stop,
        reason or "incomplete",
    )


def test_usage_is_taken_apart() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    assert folded(CREATED, completed(message("x"), usage=usage)).usage == Usage(
        input_tokens=10,
        output_tokens=9,
        cache_read_tokens=60,
        cache_write_tokens=30,
        reasoning_tokens=4,
    )
    assert folded(CREATED, completed(message("x"))).usage == Usage()
    assert folded(
        CREATED, completed(message("x"), usage={"input_tokens": 5, "input_tokens_details": None})
    ).usage == Usage(input_tokens=5)


@pytest.mark.parametrize(
    "usage",
    [
        [],
        "free",
        {"input_tokens": {}},
        {"input_tokens": 5, "input_tokens_details": []},
        {"output_tokens": 1.5},
    ],
)
def test_odd_counts_do_not_cost_the_answer(usage: object) -> None:
    assert folded(CREATED, completed(message("Good day"), usage=usage)).text == "Good day"


def test_what_is_less_than_nothing_is_counted_as_nothing() -> None:
    odd = {
        "input_tokens": -5,
        "output_tokens": -1,
        "input_tokens_details": {"cached_tokens": -9},
        "output_tokens_details": {"reasoning_tokens": -1},
    }
    assert folded(CREATED, completed(message("Good day"), usage=odd)).usage == Usage()


@pytest.mark.parametrize("details", ["max_output_tokens", [], {"reason": 7}])
def test_an_answer_that_is_cut_for_an_odd_reason_is_still_cut(details: object) -> None:
    event = completed(message("Half"), status="incomplete", incomplete_details=details)
    assert (folded(CREATED, event).text, folded(CREATED, event).stop_reason) == (
        "Half",
        StopReason.MAX_TOKENS,
    )


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            {"type": "error", "code": "server_is_overloaded", "message": "Busy."},
            ErrorKind.RATE_LIMIT,
        ),
        (
            {
                "type": "error",
                "error": {
                    "type": "server_error",
                    "code": "rate_limit_exceeded",
                    "message": "Busy.",
                },
            },
            ErrorKind.RATE_LIMIT,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "server_error", "message": "Busy."},
                },
            },
            ErrorKind.NETWORK,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "rate_limit_exceeded", "message": "Busy."},
                },
            },
            ErrorKind.RATE_LIMIT,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "context_length_exceeded", "message": "Busy."},
                },
            },
            ErrorKind.CONTEXT_OVERFLOW,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "invalid_prompt", "message": "Busy."},
                },
            },
            ErrorKind.INVALID,
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "invalid_image", "message": "Busy."},
                },
            },
            ErrorKind.INVALID,
        ),
        ({"type": "response.failed", "response": {"status": "failed"}}, ErrorKind.NETWORK),
    ],
)
def test_a_failure_inside_an_answer_is_of_its_kind(error: Json, kind: ErrorKind) -> None:
    failure = failed(CREATED, added(message("")), delta("Half"), error)
    assert failure.kind is kind
    assert "Busy." in failure.message or "no reason" in failure.message


def test_an_error_of_a_gateway_that_knows_no_events_is_one_too() -> None:
    assert (
        failed(CREATED, b'data: {"error": {"message": "Overloaded", "code": 529}}\n\n').kind
        is ErrorKind.RATE_LIMIT
    )
    assert (
        failed(CREATED, b'data: {"message": "Slow down", "code": 429}\n\n').kind
        is ErrorKind.RATE_LIMIT
    )
    assert (
        failed(
            CREATED,
            {"type": "response.error", "error": {"code": "rate_limit_exceeded", "message": "Slow"}},
        ).kind
        is ErrorKind.RATE_LIMIT
    )
    assert "Not today" in failed(CREATED, b'data: {"detail": "Not today"}\n\n').message


@pytest.mark.parametrize(
    "code", ["bio_policy", "misalignment_policy_violation", "image_content_policy_violation"]
)
def test_an_answer_that_a_policy_forbids_is_a_refusal(code: str) -> None:
    event = {
        "type": "response.failed",
        "response": {
            "id": "resp_1",
            "status": "failed",
            "error": {"code": code, "message": "Not this."},
        },
    }
    deltas, decoder = deltas_of(CREATED, added(message("")), delta("Half"), event)
    assert ModelNotice(f"the provider refused to continue: {code}: Not this.") in deltas
    assert decoder.end is not None
    assert (decoder.end.stop_reason, decoder.end.raw_stop_reason, decoder.end.id) == (
        StopReason.REFUSAL,
        code,
        "resp_1",
    )


def test_a_response_that_somebody_cancelled_is_not_whole() -> None:
    assert (
        failed(
            CREATED, completed(message("Half"), status="cancelled") | {"type": "response.completed"}
        ).kind
        is ErrorKind.NETWORK
    )


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_answer_that_is_made_in_the_background_says_what_to_do(status: str) -> None:
    decoder = ResponsesDecoder(Refusals("the key").in_stream)
    decoder.take_body(json.dumps({"id": "resp_1", "status": status, "output": []}).encode())
    assert decoder.failure is not None
    assert decoder.failure.kind is ErrorKind.INVALID
    assert "background" in decoder.failure.message


def test_a_piece_of_a_call_that_nobody_announced_is_an_error() -> None:
    assert (
        failed(CREATED, delta("{", kind="function_call_arguments"), completed(call())).kind
        is ErrorKind.NETWORK
    )


# ---------------------------------------------------------------- servers with ways of their own


def test_places_and_ids_may_be_missing() -> None:
    """llama.cpp's events: neither places nor numbers, and the end of every item only after all of
    them have begun.
    """
    open_thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": "",
    }
    items = (
        open_thought,
        message("Let me see."),
        call(id="fc_1"),
        call('{"a":2}', id="fc_2", call_id="call_2"),
    )
    response = folded(
        CREATED,
        added(open_thought, None),
        delta("Hm.", None, kind="reasoning_text", item_id="rs_1"),
        added(items[1], None),
        delta("Let me ", None, item_id="msg_1"),
        delta("see.", None, item_id="msg_1"),
        added(items[2], None),
        delta('{"a":1}', None, kind="function_call_arguments", item_id="fc_1"),
        added(items[3], None),
        delta('{"a":2}', None, kind="function_call_arguments", item_id="fc_2"),
        *(done(item, None) for item in items),
        completed(*items),
    )
    assert [type(part).__name__ for part in response.parts] == [
        "ReasoningPart",
        "TextPart",
        "ToolCall",
        "ToolCall",
    ]
    assert [(c.id, c.arguments) for c in response.tool_calls] == [
        ("call_1", {"a": 1}),
        ("call_2", {"a": 2}),
    ]
    assert "reasoning_text" in (response.parts[0].provider_data or "")  # pyright: ignore[reportAttributeAccessIssue]  it is reasoning
    assert not any(
        isinstance(one, Restart)
        for one in deltas_of(
            CREATED, added(items[1], None), delta("Let me see.", None), completed(items[1])
        )[0]
    )


def test_reasoning_may_end_after_what_it_led_to_and_have_another_id_in_the_end() -> None:
    """OpenRouter's events."""
    item = {
        "type": "reasoning",
        "id": "rs_tmp_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    answer = message("4")
    streamed = (
        added(item),
        delta("Hm.", kind="reasoning_text"),
        added(answer, 1),
        delta("4", 1),
        done(answer, 1),
        done(item, 0),
    )
    deltas, _ = deltas_of(CREATED, *streamed, completed({**item, "id": "rs_tmp_2"}, answer))
    assert not any(isinstance(one, Restart) for one in deltas)
    response = folded(CREATED, *streamed, completed({**item, "id": "rs_tmp_2"}, answer))
    assert [type(part).__name__ for part in response.parts] == ["ReasoningPart", "TextPart"]
    assert "reasoning_text" in (response.parts[0].provider_data or "")  # pyright: ignore[reportAttributeAccessIssue]  it is reasoning


def test_an_answer_may_be_deltas_alone() -> None:
    assert folded(CREATED, delta("Good "), delta("day"), completed()).text == "Good day"
    assert (
        folded(delta("Good day", None), {"type": "response.completed", "response": {}}).text
        == "Good day"
    )


def test_an_answer_may_be_its_end_alone() -> None:
    response = folded(CREATED, completed(thought(), message("Good day"), call()))
    assert [type(part).__name__ for part in response.parts] == [
        "ReasoningPart",
        "TextPart",
        "ToolCall",
    ]


def test_the_mark_of_another_wires_end_is_passed_over() -> None:
    assert folded(CREATED, completed(message("Good day")), b"data: [DONE]\n\n").text == "Good day"
    assert failed(CREATED, delta("Good "), b"data: [DONE]\n\n").kind is ErrorKind.NETWORK


def test_what_the_deltas_left_out_is_added_once() -> None:
    item = message("Good day")
    for events in (
        [added(item), delta("Good "), done(item)],
        [added(item), done(item)],
        [delta("Good ")],
        [
            added(item),
            delta("Good day"),
            {"type": "response.output_text.done", "output_index": 0, "text": "Good day"},
            done(item),
        ],
        [done(item)],
    ):
        assert folded(CREATED, *events, completed(item)).parts == (TextPart(text="Good day"),)


@pytest.mark.parametrize(
    "events",
    [
        [added(message("")), delta("day"), done(message("Good day"))],
        [added(message("")), delta("Gööd ")],
        [
            added(message("")),
            delta("Bad "),
            added(call(), 1),
            delta("Good day", 0),
            done(call(), 1),
        ],
        [added(message("", id="msg_0")), done(message("lost", id="msg_0"))],
    ],
    ids=["the beginning", "other words", "too late", "another message"],
)
def test_what_the_deltas_got_wrong_is_said_anew(events: list[Json]) -> None:
    output = [message("Good day"), call()]
    response = folded(CREATED, *events, completed(*output))
    assert response.text == "Good day"
    assert [c.id for c in response.tool_calls] == ["call_1"]


def test_items_that_take_turns_are_put_together_in_the_end() -> None:
    first, second = (
        call('{"a":1}', id="fc_1", call_id="c1"),
        call('{"a":2}', id="fc_2", call_id="c2"),
    )
    pieces = [
        delta(text, index, kind="function_call_arguments")
        for text, index in (('{"a"', 0), ('{"a"', 1), (":1}", 0), (":2}", 1))
    ]
    response = folded(
        CREATED,
        added(first),
        added(second, 1),
        *pieces,
        done(first),
        done(second, 1),
        completed(first, second),
    )
    assert [(c.id, c.arguments) for c in response.tool_calls] == [
        ("c1", {"a": 1}),
        ("c2", {"a": 2}),
    ]
    unended = failed(
        CREATED,
        added(first),
        added(second, 1),
        *pieces,
        {"type": "response.completed", "response": {}},
    )
    assert unended.kind is ErrorKind.NETWORK


def test_a_second_beginning_voids_the_first() -> None:
    item = message("Good day")
    assert (
        folded(
            CREATED,
            added(item),
            delta("Bad"),
            CREATED,
            added(item),
            delta("Good day"),
            done(item),
            completed(item),
        ).text
        == "Good day"
    )


def test_a_call_whose_name_comes_late_is_told_with_it() -> None:
    nameless = {**call(), "name": ""}
    response = folded(
        CREATED,
        added(nameless),
        delta('{"a":1}', kind="function_call_arguments"),
        done(call()),
        completed(call()),
    )
    assert [(c.name, c.arguments) for c in response.tool_calls] == [("look", {"a": 1})]


def test_arguments_that_are_an_object_are_its_text() -> None:
    item = {**call(), "arguments": {"a": 1}}
    assert folded(CREATED, completed(item)).tool_calls[0].arguments == {"a": 1}
    assert folded(CREATED, completed({**call(), "arguments": None})).tool_calls[0].arguments == {}


@pytest.mark.parametrize("places", [True, False])
@pytest.mark.parametrize("whole", [True, False], ids=["the end holds all", "the end holds nothing"])
def test_an_item_that_ends_twice_is_one_item(places: bool, whole: bool) -> None:
    items = (thought(), message("Good day"), call(namespace="crm"))
    events = [
        event
        for i, item in enumerate(items)
        for event in (added(item, i if places else None), *[done(item, i if places else None)] * 2)
    ]
    deltas, _ = deltas_of(CREATED, *events, completed(*(items if whole else ())))
    assert not any(isinstance(one, Restart) for one in deltas)
    response = folded(CREATED, *events, completed(*(items if whole else ())))
    assert [type(part).__name__ for part in response.parts] == [
        "ReasoningPart",
        "TextPart",
        "ToolCall",
    ]


def test_what_an_item_says_at_its_second_end_counts() -> None:
    first, second = message("Good"), message("Good day")
    assert (
        folded(CREATED, added(first), delta("Good"), done(first), done(second), completed()).text
        == "Good day"
    )


@pytest.mark.parametrize("whole", [True, False], ids=["the end holds all", "the end holds nothing"])
def test_items_stand_in_the_order_of_their_places(whole: bool) -> None:
    first, second = (
        call('{"a":1}', id="fc_1", call_id="c1"),
        call('{"a":2}', id="fc_2", call_id="c2"),
    )
    late = [added(second, 1), delta('{"a":2}', 1, kind="function_call_arguments"), done(second, 1)]
    early = [added(first, 0), delta('{"a":1}', 0, kind="function_call_arguments"), done(first, 0)]
    response = folded(CREATED, *late, *early, completed(*((first, second) if whole else ())))
    assert [c.id for c in response.tool_calls] == ["c1", "c2"]


def test_items_that_take_turns_and_end_the_other_way_round_stand_as_they_began() -> None:
    first, second = (
        call('{"a":1}', id="fc_1", call_id="c1"),
        call('{"a":2}', id="fc_2", call_id="c2"),
    )
    pieces = [
        delta(text, index, kind="function_call_arguments")
        for text, index in (('{"a"', 0), ('{"a"', 1), (":1}", 0), (":2}", 1))
    ]
    response = folded(
        CREATED, added(first), added(second, 1), *pieces, done(second, 1), done(first), completed()
    )
    assert [(c.id, c.arguments) for c in response.tool_calls] == [
        ("c1", {"a": 1}),
        ("c2", {"a": 2}),
    ]


def test_an_item_without_an_end_stands_beside_one_with_it() -> None:
    """And where they cannot be put together, nothing is lost without a word."""
    streamed = (
        added(message("")),
        delta("Good day"),
        added(call(), 1),
        delta('{"a":1}', 1, kind="function_call_arguments"),
        done(call(), 1),
    )
    response = folded(CREATED, *streamed, completed())
    assert (response.text, [c.id for c in response.tool_calls]) == ("Good day", ["call_1"])
    assert failed(CREATED, *streamed, delta("!", 0), completed()).kind is ErrorKind.NETWORK


def test_a_beginning_may_say_nothing_and_an_end_may_be_called_done() -> None:
    item = message("Good day")
    assert folded({"type": "response.created"}, completed(item)).text == "Good day"
    assert (
        folded(
            CREATED, added(item), delta("Good day"), {**completed(item), "type": "response.done"}
        ).text
        == "Good day"
    )


def test_half_characters_and_bytes_that_are_none_are_survived() -> None:
    item = message("Good day")
    halves = folded(
        CREATED,
        added(item),
        b'data: {"type":"response.output_text.delta","output_index":0,"delta":"Good \\ud83e"}\n\n',
        delta("", 0),
        completed(),
    )
    assert halves.text == "Good \ud83e"
    whole = sse(completed(item)).replace(b"Good", b"G\xff\\ud83d")
    assert folded(CREATED, whole).text == "G\ufffd\ufffd day"


def test_signs_of_life_are_no_answer() -> None:
    decoder = ResponsesDecoder(Refusals("the key").in_stream)
    decoder.feed(sse({"type": "keepalive", "sequence_number": 3}) + b": ping\n\n")
    assert decoder.heard is False
    decoder.feed(sse(CREATED))
    assert decoder.heard is True


ITEMS = st.lists(
    st.one_of(
        st.builds(message, st.text(min_size=1, max_size=6)),
        st.builds(thought, st.text(min_size=1, max_size=6)),
        st.builds(lambda n: call(f'{{"a":{n}}}', call_id=f"c{n}"), st.integers(0, 99)),
        st.just({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda item: json.dumps(item),
)


def _streamed(items: list[Json], *, places: bool) -> list[Json]:
    events: list[Json] = [CREATED]
    for number, plain in enumerate(items):
        item, index = {**plain, "id": f"{plain['id']}_{number}"}, number if places else None
        events.append(added(item, index))
        where = {"item_id": item["id"]}
        match item["type"]:
            case "message":
                events += [
                    delta(c, index, content_index=0, **where) for c in item["content"][0]["text"]
                ]
            case "reasoning":
                events += [
                    delta(c, index, kind="reasoning_summary_text", summary_index=0, **where)
                    for c in item["summary"][0]["text"]
                ]
            case "function_call":
                events += [
                    delta(c, index, kind="function_call_arguments", **where)
                    for c in item["arguments"]
                ]
            case _:
                pass
        events.append(done(item, index))
        items[number] = item
    return [*events, completed(*items)]


@given(ITEMS, st.booleans(), st.data())
def test_however_an_answer_is_streamed_it_is_the_one_that_its_end_holds(
    items: list[Json], places: bool, data: st.DataObject
) -> None:
    events = _streamed(items, places=places)
    whole = folded(events[0], events[-1])
    assert folded(*events) == whole
    drawn = data.draw(st.sets(st.integers(1, len(events) - 2), max_size=3))
    # what is white around a text may be told in two ways
    lost = {i for i in drawn if events[i].get("delta", "said").strip()}
    _, decoder = deltas_of(*(event for i, event in enumerate(events) if i not in lost))
    if decoder.failure is None:
        assert folded(*(event for i, event in enumerate(events) if i not in lost)) == whole
