"""What compatible servers send, and what it means: chunks in, one response out."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_value
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import MediaPart, ProviderPart, ReasoningPart, TextPart, ToolCall
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Fold,
    ModelNotice,
    ModelResponse,
    TextDelta,
    ToolCallStart,
)
from treadle.models.providers.openai_chat import calls as calls_module
from treadle.models.providers.openai_chat.stream import ChatDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason, Usage

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"
STOP: Json = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
FULL_NAMES = {"index": 0, "id": "c1", "type": "function"}


def said(**delta: Any) -> Json:
    return {"id": "a1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def calls(*pieces: Json) -> Json:
    return said(tool_calls=list(pieces))


def named(name: str, arguments: Any = "", **more: Any) -> Json:
    return {**more, "function": {"name": name, "arguments": arguments}}


def more(arguments: Any, **fields: Any) -> Json:
    return {**fields, "function": {"arguments": arguments}}


def sse(*events: Json | bytes) -> bytes:
    return b"".join(
        event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in events
    )


def played(data: bytes, *, body: bool = False) -> tuple[list[Delta], ChatDecoder]:
    decoder = ChatDecoder(Refusals("the key").in_stream)
    deltas = decoder.take_body(data) if body else decoder.feed(data)
    if decoder.end is None and decoder.failure is None:
        deltas += decoder.finish()
    return deltas, decoder


def folded(deltas: list[Delta], decoder: ChatDecoder) -> ModelResponse:
    assert decoder.failure is None, decoder.failure
    assert decoder.end is not None
    fold = Fold()
    for delta in (*deltas, decoder.end):
        fold.add(delta)
    return fold.response()


def response(*events: Json | bytes) -> ModelResponse:
    return folded(*played(sse(*events)))


def failure(*events: Json | bytes) -> AgentError:
    _, decoder = played(sse(*events))
    assert decoder.end is None
    assert decoder.failure is not None
    return decoder.failure


def told(answer: ModelResponse) -> list[tuple[str, str]]:
    return [(call.name, call.arguments_json) for call in answer.tool_calls]


# ---------------------------------------------------------------- calls


def test_an_id_in_the_first_piece_is_the_calls_own() -> None:
    for id in ("", None):
        answer = response(
            calls({**named("look"), **FULL_NAMES}),
            calls(more('{"a"', index=0, id=id)),
            calls(more(":1}", index=0, id=id)),
            STOP,
            DONE,
        )
        assert [(call.id, *told(answer)[0]) for call in answer.tool_calls] == [
            ("c1", "look", '{"a":1}')
        ]
        assert answer.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "events",
    [
        [calls(named("look", '{"a":1}', index=0)), calls(named("go", '{"b":2}', index=1))],
        [calls(named("look", '{"a":1}', index=0), named("go", '{"b":2}', index=1))],
        [calls(named("look", '{"a":1}', id="c1")), calls(named("go", '{"b":2}', id="c2"))],
        [calls(named("look", '{"a":1}'), named("go", '{"b":2}'))],
        [calls(named("look", '{"a":1}')), calls(named("go", '{"b":2}'))],
        [calls(named("look", '{"a"')), calls(more(":1}")), calls(named("go", '{"b":2}'))],
        [
            calls(named("look", '{"a":1}', index=0, id="c1")),
            calls(named("go", '{"b":2}', index=0, id="c2")),
        ],
        [calls(named("look", '{"a":1}', index=0)), calls(named("go", '{"b":2}', index=0))],
        [
            calls(named("look", '{"a":1}', index=0, id="c1")),
            calls(named("go", index=0, id="c2")),
            calls(more('{"b":2}', index=0)),
        ],
        [calls(named("look", {"a": 1}, index=0)), calls(named("go", {"b": 2}, index=1))],
        [
            calls(named("look", '{"a"', index=0), named("go", '{"b"', index=1)),
            calls(more(":1}", index=0), more(":2}", index=1)),
        ],
        [
            calls(named("look", index=0), named("go", index=1)),
            calls(more('{"b"', index=1)),
            calls(more('{"a":1}', index=0)),
            calls(more(":2}", index=1)),
        ],
        [
            calls(named("look", '{"a"', id="c1")),
            calls(named("go", '{"b"', id="c2")),
            calls(more(":1}", id="c1")),
            calls(more(":2}", id="c2")),
        ],
        [
            calls(named("look", '{"a"', index="0")),
            calls(named("look", ":1}", index="0")),
            calls(named("go", '{"b":2}', index=1.0)),
        ],
        [
            said(function_call={"name": "look", "arguments": '{"a"'}),
            said(function_call={"arguments": ":1}"}),
            calls(named("go", '{"b":2}')),
        ],
    ],
    ids=[
        "whole, by index",
        "both in one chunk",
        "told apart by id",
        "neither id nor index, in one chunk",
        "neither id nor index, one after the other",
        "neither id nor index, in pieces",
        "index 0 for all of them, with ids",
        "index 0 for all of them, without ids",
        "index 0 for all of them, with ids, in pieces",
        "arguments as an object",
        "pieces of both in each chunk",
        "the second before the first",
        "pieces of both, by id",
        "index as text and as a float, the name said again",
        "the one function that there was once",
    ],
)
def test_calls_are_told_apart_however_they_are_numbered(events: list[Json]) -> None:
    answer = response(*events, STOP, DONE)
    assert [(name, json.loads(arguments)) for name, arguments in told(answer)] == [
        ("look", {"a": 1}),
        ("go", {"b": 2}),
    ]
    assert answer.stop_reason is StopReason.TOOL_USE
    assert len({call.id for call in answer.tool_calls}) == 2


@pytest.mark.parametrize(
    "names",
    [
        ("look_up", ""),
        ("look", "_up"),
        ("look", "look_up"),
        ("look_up", "look_up"),
        (None, "look_up"),
    ],
)
def test_a_name_may_come_in_pieces_or_again(names: tuple[str, ...]) -> None:
    pieces = [calls({**FULL_NAMES, "function": {"name": name}}) for name in names]
    assert told(
        response(
            *pieces,
            calls(more('{"a":1}', index=0)),
            calls(named("look_up", "  ", index=0)),
            STOP,
            DONE,
        )
    ) == [("look_up", '{"a":1}  ')]


def test_a_call_without_arguments_is_a_call() -> None:
    for function in (
        {"name": "look"},
        {"name": "look", "arguments": None},
        {"name": "look", "arguments": ""},
        {"name": "look", "arguments": {}},
    ):
        assert told(response(calls({"index": 0, "function": function}), STOP, DONE)) == [
            ("look", "{}")
        ]


def test_calls_without_arguments_and_numbers_are_told_apart() -> None:
    assert told(response(calls(named("look")), calls(named("go")), STOP, DONE)) == [
        ("look", "{}"),
        ("go", "{}"),
    ]
    assert told(response(calls(named("look"), named("look")), STOP, DONE)) == [
        ("look", "{}"),
        ("look", "{}"),
    ]


def test_arguments_are_told_while_they_come() -> None:
    decoder = ChatDecoder(Refusals("").in_stream)
    assert decoder.feed(sse(calls({**named("look"), **FULL_NAMES}))) == []  # the name may go on
    assert decoder.feed(sse(calls(more('{"a"', index=0)))) == [
        ToolCallStart("c1", "look"),
        ArgumentsDelta('{"a"'),
    ]
    assert decoder.feed(sse(calls(more(":1}", index=0)))) == [ArgumentsDelta(":1}")]
    assert decoder.feed(sse(calls(named("go", '{"b"', index=1))))[-1] == ArgumentsDelta('{"b"')
    assert decoder.feed(sse(calls(more(":2}", index=1)))) == [ArgumentsDelta(":2}")]


def test_text_beside_a_call_does_not_cut_it() -> None:
    answer = response(
        said(content="Well. "),
        calls(named("look", '{"a"', index=0)),
        said(content="\n", reasoning="Hm."),
        calls(more(":1}", index=0)),
        STOP,
        DONE,
    )
    assert told(answer) == [("look", '{"a":1}')]
    assert answer.text == "Well. \n"
    assert [part.text for part in answer.parts if isinstance(part, ReasoningPart)] == ["Hm."]


def test_text_after_a_whole_call_comes_at_once() -> None:
    decoder = ChatDecoder(Refusals("").in_stream)
    decoder.feed(sse(calls(named("look", '{"a":1}', index=0))))
    assert TextDelta("So.") in decoder.feed(sse(said(content="So.")))


def test_more_for_a_call_that_is_over_is_an_error() -> None:
    events = [
        calls(named("look", '{"a":1}', index=0)),
        calls(named("go", "{", index=1)),
        calls(more(',"b":2}', index=0)),
    ]
    assert failure(*events, STOP, DONE).kind is ErrorKind.NETWORK


def test_what_else_a_call_holds_goes_with_it() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    answer = response(
        calls({**named("look", "{}", index=0), "extra_content": signature}), STOP, DONE
    )
    assert json.loads(answer.tool_calls[0].provider_data or "") == {"extra_content": signature}


def test_long_arguments_are_not_looked_at_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece says the name again: only where one ends like an object could another call have
    begun.
    """
    looked: list[str] = []
    monkeypatch.setattr(calls_module, "is_object", lambda text: looked.append(text) is None)
    answer = response(*[calls(named("look", "x" * 100, index=0)) for _ in range(2000)], STOP, DONE)
    assert len(answer.tool_calls[0].arguments_json) == 200_000
    assert looked == []


def test_a_call_that_is_cut_into_by_text_is_not_looked_at_with_each_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(calls_module, "is_object", lambda text: looked.append(text) is not None)
    events = [event for _ in range(100) for event in (calls(more("}", index=0)), said(content="x"))]
    assert response(calls(named("look", '{"a":"', index=0)), *events, STOP).text == "x" * 100
    assert looked == []


def test_arguments_that_seem_whole_again_and_again_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server decides how often that is: to look at all of them each time took it two seconds of
    ours for a megabyte.
    """
    looked: list[str] = []
    monkeypatch.setattr(
        calls_module,
        "is_object",
        lambda text: looked.append(text) is not None or json.loads(text) == {"a": "}" * 300},
    )
    pieces = ['{"a":"', *["}"] * 300, '"}', *[" "] * 50]
    answer = response(
        *[calls(named("look", piece, index=0)) for piece in pieces],
        calls(named("look", "{}", index=0)),
        STOP,
        DONE,
    )
    assert [json.loads(call.arguments_json) for call in answer.tool_calls] == [{"a": "}" * 300}, {}]
    assert len(looked) == 1


TRICKY = st.text(alphabet='\\"{}[]a\u00e9', max_size=4)


@given(
    st.dictionaries(TRICKY, TRICKY | st.lists(TRICKY, max_size=2), max_size=3),
    st.lists(st.integers(1, 60), max_size=12),
    st.booleans(),
)
def test_a_whole_call_is_told_from_the_next_however_its_arguments_are_cut(
    arguments: Json, places: list[int], ascii_only: bool
) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    cuts = [0, *sorted({place for place in places if place < len(text)}), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    answer = response(
        *[calls(named("look", piece, index=0)) for piece in [*pieces, *pieces]], STOP, DONE
    )
    assert "".join(call.arguments_json for call in answer.tool_calls) == text * 2
    assert len(answer.tool_calls) == 2


@pytest.mark.parametrize(
    "event",
    [
        b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":"{}"},"extra_content":{"x":"\xff"}}]}',
        b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":{"x":"\xff"}}}]}',
        b'{"content":"a","reasoning_details":[{"type":"other","data":"\xff"}]}',
    ],
    ids=["beside a call", "arguments", "details of reasoning"],
)
def test_bytes_that_are_no_text_are_survived_in_what_is_kept_as_it_came(event: bytes) -> None:
    answer = response(b'data: {"choices":[{"delta":%b}]}\n\n' % event, STOP, DONE)
    kept = str(
        [
            (part.provider_data, part.arguments_json) if isinstance(part, ToolCall) else part
            for part in answer.parts
        ]
    )
    assert "\ufffd" in kept


# ---------------------------------------------------------------- reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_remembers_under_which_name_it_came(field: str) -> None:
    answer = response(
        said(**{field: "Let me "}), said(**{field: "think."}), said(content="Yes."), STOP, DONE
    )
    assert answer.parts == (
        ReasoningPart(
            text="Let me think.", provider="openai-chat", provider_data=f'{{"field":"{field}"}}'
        ),
        TextPart(text="Yes."),
    )


def test_tags_in_a_text_are_text() -> None:
    assert response(said(content="<think>Hm.</think>Yes."), STOP, DONE).parts == (
        TextPart(text="<think>Hm.</think>Yes."),
    )


def test_reasoning_details_are_kept_as_one_list_with_their_pieces_joined() -> None:
    def detail(**fields: Any) -> Json:
        return said(reasoning=fields.get("text"), reasoning_details=[fields])

    encrypted = {
        "type": "reasoning.encrypted",
        "data": "abc",
        "id": "rs_1",
        "format": "openai-responses-v1",
        "index": 1,
    }
    answer = response(
        detail(
            type="reasoning.text",
            text="Let me ",
            index=0,
            format="anthropic-claude-v1",
            signature=None,
        ),
        detail(
            type="reasoning.text",
            text="think.",
            index=0,
            format="anthropic-claude-v1",
            signature=None,
        ),
        detail(type="reasoning.text", index=0, signature="sig=="),
        said(content="Yes."),
        {**calls(named("look", "{}", index=0)), "ignored": 1},
        said(reasoning_details=[encrypted]),
        said(reasoning_details=[encrypted]),
        STOP,
        DONE,
    )
    thought, text, call, details = answer.parts
    assert (thought.text, text.text, call.name) == ("Let me think.", "Yes.", "look")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  by their place
    assert isinstance(details, ProviderPart)
    first = {
        "type": "reasoning.text",
        "text": "Let me think.",
        "index": 0,
        "format": "anthropic-claude-v1",
        "signature": "sig==",
    }
    assert json.loads(details.data) == {"reasoning_details": [first, encrypted, encrypted]}


def test_details_alone_are_read() -> None:
    answer = response(
        said(reasoning_details=[{"type": "reasoning.summary", "summary": "In short."}]),
        said(content="Yes."),
        STOP,
        DONE,
    )
    assert [part.text for part in answer.parts if isinstance(part, ReasoningPart)] == ["In short."]


def test_content_may_be_a_list_of_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}
    answer = response(
        said(
            content=[
                thought,
                {"type": "text", "text": "Yes"},
                {"type": "reference", "reference_ids": [1]},
            ]
        ),
        said(content="."),
        STOP,
        DONE,
    )
    assert [part.text for part in answer.parts if isinstance(part, TextPart | ReasoningPart)] == [
        "Hm.",
        "Yes.",
    ]


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("stop", StopReason.COMPLETE),
        ("eos", StopReason.COMPLETE),
        ("STOP", StopReason.COMPLETE),
        ("hologram", StopReason.COMPLETE),
        ("length", StopReason.MAX_TOKENS),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("model_length", StopReason.CONTEXT_OVERFLOW),
        ("tool_calls", StopReason.COMPLETE),
    ],
)
def test_why_it_ended_is_told_in_one_of_our_words_with_theirs_beside(
    word: str, stop: StopReason
) -> None:
    answer = response(
        said(content="Yes."), {"choices": [{"delta": {}, "finish_reason": word}]}, DONE
    )
    assert (answer.stop_reason, answer.raw_stop_reason, answer.text) == (stop, word, "Yes.")


@pytest.mark.parametrize("word", ["stop", "tool_calls", "function_call", "eos", None])
def test_an_answer_with_calls_wants_them_made(word: str | None) -> None:
    answer = response(
        calls(named("look", "{}", index=0)),
        {"choices": [{"delta": {}, "finish_reason": word}]},
        DONE,
    )
    assert answer.stop_reason is StopReason.TOOL_USE


def test_calls_that_were_cut_or_filtered_are_not_made() -> None:
    for word, stop in (("length", StopReason.MAX_TOKENS), ("content_filter", StopReason.REFUSAL)):
        assert (
            response(
                calls(named("look", '{"a"', index=0)), {"choices": [{"finish_reason": word}]}, DONE
            ).stop_reason
            is stop
        )


def test_a_stop_text_that_was_met_is_told_where_the_server_tells() -> None:
    met = {"choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": "END"}]}
    assert response(said(content="Yes"), met, DONE).stop_reason is StopReason.STOP_SEQUENCE
    token = {"choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": 128009}]}
    assert response(said(content="Yes"), token, DONE).stop_reason is StopReason.COMPLETE


def test_a_refusal_is_told_and_its_words_are_kept() -> None:
    deltas, decoder = played(sse(said(refusal="I will "), said(refusal="not."), STOP, DONE))
    answer = folded(deltas, decoder)
    assert (answer.stop_reason, answer.text) == (StopReason.REFUSAL, "I will not.")
    assert ModelNotice("the model refused to answer") in deltas


@pytest.mark.parametrize(
    "end",
    [[DONE], [STOP], [STOP, DONE], [{"choices": [{"finish_reason": "stop"}]}, b"data: [DONE]"]],
)
def test_an_answer_is_whole_when_the_server_says_so_in_either_way(end: list[Json | bytes]) -> None:
    assert response(said(content="Yes."), *end).text == "Yes."


@pytest.mark.parametrize(
    "events",
    [
        [],
        [said(content="Yes.")],
        [b": hello\n\n"],
        [DONE],
        [{"id": "a"}, DONE],
        [calls(named("look", '{"a"', index=0)), DONE],
    ],
)
def test_an_answer_that_nobody_says_is_whole_is_none(events: list[Json | bytes]) -> None:
    assert failure(*events).kind is ErrorKind.NETWORK


def test_nothing_after_the_end_counts() -> None:
    assert (
        response(said(content="Yes."), STOP, DONE, said(content="No."), b"data: {half\n\n").text
        == "Yes."
    )


# ---------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            Usage(input_tokens=10, output_tokens=5),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            },
            Usage(input_tokens=3, output_tokens=5, cache_read_tokens=4, cache_write_tokens=3),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 8,
                "prompt_cache_miss_tokens": 2,
            },
            Usage(input_tokens=2, output_tokens=5, cache_read_tokens=8),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 8},
            Usage(input_tokens=2, output_tokens=5, cache_read_tokens=8),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(input_tokens=10, output_tokens=105, reasoning_tokens=100),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 105,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(input_tokens=10, output_tokens=105, reasoning_tokens=100),
        ),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 9},
            },
            Usage(input_tokens=0, output_tokens=5, cache_read_tokens=9),
        ),
        (
            {"prompt_tokens": "10", "completion_tokens": 5.0, "prompt_tokens_details": [], "x": {}},
            Usage(input_tokens=10, output_tokens=5),
        ),
        ({"prompt_tokens": None, "completion_tokens": None}, Usage()),
        (None, Usage()),
    ],
)
def test_usage_of_any_server_is_told_in_ours(counts: Json | None, usage: Usage) -> None:
    last = {"choices": [], "usage": counts}
    assert response(said(content="Yes."), STOP, last, DONE).usage == usage
    assert response(said(content="Yes."), {**STOP, "usage": counts}).usage == usage
    assert (
        response(
            said(content="Yes."), {**STOP, "x_groq": {"id": "req_1", "usage": counts}}, DONE
        ).usage
        == usage
    )


def test_tokens_that_are_called_both_read_and_written_are_counted_once() -> None:
    counts = {
        "prompt_tokens": 2168,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 2161, "cache_write_tokens": 2161},
    }
    usage = response(said(content="Yes."), STOP, {"choices": [], "usage": counts}, DONE).usage
    assert (usage.total_input_tokens, usage.cache_read_tokens) == (2168, 2161)


def test_usage_in_every_chunk_is_the_last_one_not_the_sum() -> None:
    chunks = [
        {**said(content="x"), "usage": {"prompt_tokens": 10, "completion_tokens": n}}
        for n in (1, 2, 3)
    ]
    assert response(*chunks, {**STOP, "usage": None}, DONE).usage == Usage(
        input_tokens=10, output_tokens=3
    )


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (
            {
                "error": {"code": 502, "message": "Provider returned error"},
                "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
            },
            ErrorKind.NETWORK,
            "Provider",
        ),
        ({"error": {"code": 429, "message": "Slow down"}}, ErrorKind.RATE_LIMIT, "Slow down"),
        (
            {"error": {"message": "Overloaded", "type": "server_error", "code": None}},
            ErrorKind.RATE_LIMIT,
            "Overloaded",
        ),
        ({"error": {"message": "No credits", "code": "401"}}, ErrorKind.AUTH, "No credits"),
        ({"error": "model crashed"}, ErrorKind.NETWORK, "model crashed"),
        (
            {"object": "error", "message": "too long", "type": "BadRequestError", "code": 400},
            ErrorKind.INVALID,
            "too long",
        ),
        (
            {
                "object": "error",
                "message": "maximum context length is 9",
                "type": "BadRequestError",
                "code": 400,
            },
            ErrorKind.CONTEXT_OVERFLOW,
            "length",
        ),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, ErrorKind.NETWORK, "failed"),
        (
            {"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]},
            ErrorKind.RATE_LIMIT,
            "overloaded",
        ),
        (
            {
                "choices": [
                    {
                        "delta": {},
                        "finish_reason": "stop",
                        "error": {"code": 503, "message": "Gone"},
                    }
                ]
            },
            ErrorKind.NETWORK,
            "Gone",
        ),
        (
            {"choices": [], "x_groq": {"error": "over capacity"}},
            ErrorKind.RATE_LIMIT,
            "over capacity",
        ),
        ({"code": 429, "message": "Slow down"}, ErrorKind.RATE_LIMIT, "Slow down"),
        ({"status": "error", "message": "It broke"}, ErrorKind.NETWORK, "It broke"),
        ({"detail": "Not authenticated"}, ErrorKind.NETWORK, "Not authenticated"),
        (
            {
                "error": {
                    "message": "Garbled",
                    "type": "invalid_request_error",
                    "code": "tool_use_failed",
                    "status_code": 400,
                }
            },
            ErrorKind.NETWORK,
            "Garbled",
        ),
        (b'event: error\ndata: {"message": "Overloaded"}\n\n', ErrorKind.RATE_LIMIT, "Overloaded"),
        (
            b'event: error\ndata: {"error": {"code": 429, "message": "Slow"}}\n\n',
            ErrorKind.RATE_LIMIT,
            "Slow",
        ),
    ],
)
def test_an_error_inside_an_answer_is_of_its_kind(
    event: Json | bytes, kind: ErrorKind, words: str
) -> None:
    error = failure(said(content="Yes"), event, DONE)
    assert error.kind is kind
    assert words in error.message


@pytest.mark.parametrize(
    "data", [b"{half", b"[1]", b'"text"', b"null", b"\x1f\x8b\x08garbage", b"[" * 5000]
)
def test_what_is_no_chunk_at_all_is_a_broken_answer(data: bytes) -> None:
    assert (
        failure(said(content="Yes"), b"data: " + data + b"\n\n", STOP, DONE).kind
        is ErrorKind.NETWORK
    )


# ---------------------------------------------------------------- odd, and well


@pytest.mark.parametrize(
    "event",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [{"delta": None, "index": 0}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 1, "delta": {"content": "NO"}, "finish_reason": "length"}]},
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": None,
                        "reasoning_content": None,
                    },
                }
            ]
        },
        {
            "choices": [
                {"index": 0, "delta": {"content": "", "tool_calls": []}, "finish_reason": ""}
            ]
        },
        {
            "choices": [
                {"index": 0, "delta": {"content": 5, "reasoning": {"x": 1}, "tool_calls": {"a": 1}}}
            ]
        },
        {"choices": [None, 3]},
        {"choices": "NO"},
        {"choices": [], "prompt_filter_results": [{}], "model": "", "id": ""},
        {"object": "ping"},
        {},
        b"data:\n\n",
        b"data: \n\n",
        b": OPENROUTER PROCESSING\n\n",
        b"event: hologram\n\n",
    ],
)
def test_what_says_nothing_is_passed_over(event: Json | bytes) -> None:
    answer = response(
        event, said(content="Go"), event, said(content="od"), event, STOP, event, DONE
    )
    assert answer.text.replace("5", "") == "Good"
    assert answer.id == "a1"


def test_only_what_says_something_is_heard() -> None:
    decoder = ChatDecoder(Refusals("").in_stream)
    for event in (
        b": OPENROUTER PROCESSING\n\n",
        {"choices": []},
        said(content=""),
        said(role="assistant"),
    ):
        decoder.feed(sse(event))
        assert not decoder.heard
    for event in (
        said(content="x"),
        said(reasoning="x"),
        calls(named("look", index=0)),
        STOP,
        {"choices": [], "usage": {"prompt_tokens": 1}},
    ):
        decoder.feed(sse(event))
        assert decoder.heard


def test_the_first_name_that_an_answer_is_given_is_its_name() -> None:
    chunks = [
        {"choices": [{"delta": {"content": "a"}}]},
        {"id": "", "model": "m", "choices": [{"delta": {"content": "b"}}]},
        said(content="c"),
        {**said(content="d"), "id": "a2"},
    ]
    answer = response(*chunks, STOP, DONE)
    assert (answer.id, answer.model, answer.text) == ("a1", "m", "abcd")


def test_numbers_where_texts_belong_and_the_other_way_round() -> None:
    answer = response(
        {"id": 17, "model": None, "choices": [{"index": "0", "delta": {"content": "Yes."}}]},
        STOP,
        DONE,
    )
    assert (answer.id, answer.text) == ("17", "Yes.")


def test_a_completion_that_is_no_chat_is_read() -> None:
    assert (
        response(
            {"choices": [{"text": "Yes", "index": 0}]},
            {"choices": [{"text": ".", "index": 0, "finish_reason": "length"}]},
            DONE,
        ).text
        == "Yes."
    )


def test_one_of_something_without_its_list_is_a_list_of_one() -> None:
    answer = response(
        said(content={"type": "text", "text": "Go"}),
        said(content=["o", "d"]),
        said(tool_calls=named("look", '{"a":1}')),
        STOP,
        DONE,
    )
    assert answer.text == "Good"
    assert told(answer) == [("look", '{"a":1}')]


@pytest.mark.parametrize(
    "nothing",
    [
        {"function_call": {"name": "", "arguments": ""}},
        {"tool_calls": [{}]},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "",
                    "type": "function",
                    "function": {"name": "", "arguments": ""},
                }
            ]
        },
    ],
)
def test_a_call_of_nothing_is_none(nothing: Json) -> None:
    answer = response(said(content="4", **nothing), STOP, DONE)
    assert (answer.text, answer.tool_calls, answer.stop_reason) == ("4", (), StopReason.COMPLETE)
    late = response(said(**nothing), calls(named("look", '{"a":1}', index=0, id="c1")), STOP, DONE)
    assert [(call.id, call.name, call.arguments) for call in late.tool_calls] == [
        ("c1", "look", {"a": 1})
    ]


def test_arguments_that_are_a_list_are_told_and_not_taken_for_none() -> None:
    assert told(
        response(calls({"index": 0, "function": {"name": "look", "arguments": [1]}}), STOP, DONE)
    ) == [("look", "[1]")]


def test_a_call_whose_id_is_another_with_each_piece_is_one_call() -> None:
    answer = response(
        calls(named("look", '{"a"', index=0, id="c1")),
        calls(more(":1", index=0, id="c2")),
        calls(more("}", index=0, id="c3")),
        STOP,
        DONE,
    )
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
        ("c1", "look", {"a": 1})
    ]


def test_what_is_less_than_nothing_is_counted_as_nothing() -> None:
    odd = {
        "prompt_tokens": -3,
        "completion_tokens": -1,
        "total_tokens": -4,
        "prompt_tokens_details": {"cached_tokens": -2},
    }
    assert (
        response(said(content="Yes."), STOP, {"choices": [], "usage": odd}, DONE).usage == Usage()
    )


def test_a_message_said_again_at_the_end_is_not_said_twice() -> None:
    again = {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Yes."},
                "finish_reason": "stop",
            }
        ]
    }
    assert response(said(content="Yes."), again, DONE).text == "Yes."


def test_a_body_that_is_no_answer_is_none() -> None:
    for body in (
        b"{}",
        b'{"choices": []}',
        b"[]",
        b"<html>",
        b'{"message": {"content": "native"}, "done": true}',
    ):
        _, decoder = played(body, body=True)
        assert decoder.failure is not None
        assert decoder.failure.kind is ErrorKind.NETWORK


def test_an_error_in_a_body_is_of_its_kind() -> None:
    _, decoder = played(b'{"error": {"code": 429, "message": "Slow down"}}', body=True)
    assert decoder.failure is not None
    assert decoder.failure.kind is ErrorKind.RATE_LIMIT


ODD = st.dictionaries(
    st.sampled_from(["choices", "usage", "id", "model", "error", "object", "x_groq", "delta"]),
    json_value
    | st.lists(
        st.dictionaries(
            st.sampled_from(["delta", "message", "index", "finish_reason", "text", "error"]),
            json_value
            | st.dictionaries(
                st.sampled_from(
                    [
                        "content",
                        "tool_calls",
                        "reasoning",
                        "reasoning_details",
                        "refusal",
                        "function_call",
                    ]
                ),
                json_value,
                max_size=3,
            ),
            max_size=4,
        ),
        max_size=2,
    ),
    max_size=4,
)


@given(st.lists(ODD, max_size=5), st.booleans())
def test_whatever_a_server_sends_is_an_answer_or_an_error_of_ours(
    events: list[Json], body: bool
) -> None:
    data = json.dumps(events[0] if events else {}).encode() if body else sse(*events, DONE)
    deltas, decoder = played(data, body=body)
    assert (decoder.end is None) is (decoder.failure is not None)
    if decoder.end is not None:
        folded(deltas, decoder)


@given(st.lists(st.integers(0, 2000), max_size=6))
def test_any_cut_of_a_stream_gives_the_same_response(places: list[int]) -> None:
    stream = sse(
        said(reasoning_content="Hm… "),
        said(content="Well: "),
        calls(named("look", '{"a"', index=0, id="c1"), named("go", '{"b":', index=1, id="c2")),
        calls(more(":1}", index=0), more("2}", index=1)),
        {**STOP, "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
        DONE,
    )
    edges = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    decoder = ChatDecoder(Refusals("").in_stream)
    deltas = [delta for a, b in pairwise(edges) for delta in decoder.feed(stream[a:b])]
    assert folded(deltas, decoder) == response(stream)


CHUNKS = st.sampled_from(
    [
        said(content="Yes "),
        said(content=""),
        said(content="x", reasoning=None, tool_calls=None),
        said(content="y", tool_calls=[]),
        said(content="z", reasoning="Hm."),
        said(reasoning_content="Hm."),
        said(refusal="No."),
        calls(named("look", '{"a"', index=0, id="c1")),
        calls(more(":1}", index=0)),
        calls(named("go", "{}", index=1, id="c2")),
        {**said(content="u"), "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
        {"choices": [{"index": 1, "delta": {"content": "NO"}}]},
        {
            "choices": [
                {"index": 0, "delta": {"content": "w"}},
                {"index": 1, "delta": {"content": "NO"}},
            ]
        },
        {"choices": [{"delta": {"content": "v"}, "finish_reason": "length"}]},
        {"choices": [{"text": "t"}]},
        {"choices": []},
        b": comment\n\n",
    ]
)


@given(st.lists(CHUNKS, max_size=8))
def test_the_short_way_for_text_leads_to_the_same_place(chunks: list[Json | bytes]) -> None:
    """It is taken only once the answer has a name."""
    unnamed = [
        {name: value for name, value in chunk.items() if name != "id"}
        if isinstance(chunk, dict)
        else chunk
        for chunk in chunks
    ]
    (quick, decoder), (slow, other) = (
        played(sse(said(), *chunks, STOP, DONE)),
        played(sse(*unnamed, STOP, DONE)),
    )
    if decoder.failure is not None or other.failure is not None:
        assert (decoder.failure and decoder.failure.kind) == (other.failure and other.failure.kind)
        return
    a, b = folded(quick, decoder), folded(slow, other)
    assert [(type(part), getattr(part, "text", "")) for part in a.parts] == [
        (type(part), getattr(part, "text", "")) for part in b.parts
    ]
    assert (a.text, told(a), a.usage, a.stop_reason, a.raw_stop_reason) == (
        b.text,
        told(b),
        b.usage,
        b.stop_reason,
        b.raw_stop_reason,
    )


def test_content_that_no_part_can_hold_is_told_of_once() -> None:
    sound = {"type": "output_audio", "audio": {"data": "QUJD"}}
    body = [
        said(
            content=[{"type": "text", "text": "Hi"}, sound, sound],
            images=[{"image_url": {"url": "data:"}}],
            audio=None,
        ),
        said(
            tool_calls=[
                {
                    "index": 0,
                    "id": "c",
                    "type": "custom",
                    "custom": {"name": "shell", "input": "ls"},
                }
            ],
            audio={"data": "QUJD"},
        ),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    deltas, decoder = played(sse(*body))
    assert folded(deltas, decoder).text == "Hi"
    told = [
        delta.text.removeprefix("the response contained ").partition(",")[0]
        for delta in deltas
        if isinstance(delta, ModelNotice)
    ]
    assert told == [
        "content of type 'output_audio'",
        "an image without content",
        "a call of a custom tool",
        "audio",
    ]


@pytest.mark.parametrize("field", ["delta", "message"])
def test_an_image_of_the_model_is_a_part_of_its_message(field: str) -> None:
    data = base64.b64encode(b"\x89PNG").decode()
    images = [
        {"type": "image_url", "image_url": {"url": url}}
        for url in (f"data:image/PNG;base64,{data}", "https://example.com/loom.png")
    ]
    chunk = {"choices": [{field: {"content": "Here.", "images": images}, "finish_reason": "stop"}]}
    deltas, decoder = played(sse(chunk))
    made = [part for part in folded(deltas, decoder).parts if isinstance(part, MediaPart)]
    assert [(part.media_type, part.data, part.url) for part in made] == [
        ("image/png", data, None),
        ("image/png", None, "https://example.com/loom.png"),
    ]
    assert not [delta for delta in deltas if isinstance(delta, ModelNotice)]


def test_an_image_between_the_pieces_of_a_call_does_not_split_it() -> None:
    def piece(**function: str) -> dict[str, Any]:
        return said(tool_calls=[{"index": 0, "id": "c", "function": function}])

    deltas, decoder = played(
        sse(
            piece(name="look", arguments='{"a":'),
            said(images=[{"image_url": {"url": "data:image/png;base64,QUJD"}}]),
            piece(arguments="1}"),
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        )
    )
    call, image = folded(deltas, decoder).parts
    assert isinstance(call, ToolCall)
    assert isinstance(image, MediaPart)
    assert call.arguments_json == '{"a":1}'
