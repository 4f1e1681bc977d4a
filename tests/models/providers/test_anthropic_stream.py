"""The events of a Messages stream as deltas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.providers.recordings import FOLDER, exchanges
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import ProviderPart, ReasoningPart, TextPart, ToolCall
from treadle.messages.response_details import OtherUsage
from treadle.models.model import Fold, ModelNotice, ModelResponse, Restart
from treadle.models.providers.anthropic.stream import MessagesDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason, Usage

START = {
    "type": "message_start",
    "message": {
        "id": "m",
        "model": "x",
        "content": [],
        "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 2},
    },
}
END = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)


def block(content: dict[str, Any], *deltas: dict[str, Any], index: int = 0) -> list[dict[str, Any]]:
    """A content block: its start, its pieces, its stop."""
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def wire(*events: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    flat = [e for event in events for e in (event if isinstance(event, list) else [event])]
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in flat
    )


def decoded(*chunks: bytes) -> tuple[Fold, MessagesDecoder]:
    decoder, fold = MessagesDecoder(Refusals("the key").in_stream), Fold()
    for chunk in chunks:
        for delta in decoder.feed(chunk):
            fold.add(delta)
    if decoder.end is not None:
        fold.add(decoder.end)
    return fold, decoder


def response(*events: dict[str, Any] | list[dict[str, Any]]) -> ModelResponse:
    fold, decoder = decoded(wire(START, *events, *END))
    assert decoder.failure is None
    return fold.response()


def test_content_that_comes_with_the_start_of_a_message_is_part_of_it() -> None:
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "look",
        "input": {"at": 1},
        "caller": {"type": "code_execution_20250825", "tool_id": "s1"},
    }
    start = {"type": "message_start", "message": {**START["message"], "content": [call]}}  # pyright: ignore[reportGeneralTypeIssues]
    fold, decoder = decoded(wire(start, *END))
    assert decoder.failure is None
    assert [(found.id, found.arguments) for found in fold.response().tool_calls] == [
        ("toolu_1", {"at": 1})
    ]
    fold, _ = decoded(wire(start, *block({"type": "text", "text": "So."}, index=1), *END))
    assert [
        part.text if isinstance(part, TextPart) else part.id
        for part in fold.response().parts
        if isinstance(part, TextPart | ToolCall)
    ] == [
        "toolu_1",
        "So.",
    ]


def failure(*events: dict[str, Any] | list[dict[str, Any]]) -> AgentError:
    _, decoder = decoded(wire(*events))
    assert decoder.failure is not None
    assert decoder.end is None
    return decoder.failure


# ---------------------------------------------------------------- blocks


def test_text_with_citations_keeps_them_verbatim() -> None:
    cited = {"type": "citations_delta", "citation": {"type": "page", "page": 3, "score": 1.0}}
    said = response(
        block(
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "Yes."},
            cited,
            cited,
        )
    )
    part = said.parts[0]
    assert isinstance(part, TextPart)
    assert part.text == "Yes."
    assert part.provider == "anthropic"
    assert json.loads(part.provider_data or "") == {"citations": [cited["citation"]] * 2}


def test_two_texts_in_a_row_stay_two_parts() -> None:
    said = response(
        block({"type": "text", "text": "One"}),
        block({"type": "text", "text": ""}, {"type": "text_delta", "text": "two"}, index=1),
    )
    assert said.parts == (TextPart(text="One"), TextPart(text="two"))


def test_thinking_keeps_its_signature_even_without_words() -> None:
    signed = {"type": "signature_delta", "signature": "sig=="}
    said = response(
        block(
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm."},
            signed,
        ),
        block({"type": "thinking", "thinking": ""}, signed, index=1),
    )
    assert said.parts == tuple(
        ReasoningPart(text=text, provider="anthropic", provider_data='{"signature":"sig=="}')
        for text in ("Hm.", "")
    )


def test_a_call_takes_its_arguments_from_the_pieces_or_else_from_its_start() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": p} for p in ("", '{"a":', "1e400}")]
    call = {"type": "tool_use", "id": "t", "name": "look"}
    assert (
        response(block({**call, "input": {}}, *pieces)).tool_calls[0].arguments_json
        == '{"a":1e400}'
    )
    assert json.loads(
        response(block({**call, "input": {"b": 2}})).tool_calls[0].arguments_json
    ) == {"b": 2}
    assert response(block({**call, "input": {}}, pieces[0])).tool_calls[0].arguments_json == "{}"
    assert response(block(call)).tool_calls[0].arguments_json == "{}"


def test_what_else_a_call_says_of_itself_is_kept() -> None:
    said = response(
        block(
            {
                "type": "tool_use",
                "id": "t",
                "name": "look",
                "input": {},
                "caller": {"type": "code"},
                "toolset_name": None,
            }
        )
    )
    assert said.parts == (
        ToolCall(
            id="t", name="look", provider="anthropic", provider_data='{"caller":{"type": "code"}}'
        ),
    )


@pytest.mark.parametrize(
    ("content", "deltas", "expected"),
    [
        (
            {"type": "redacted_thinking", "data": "xyz"},
            [],
            {"type": "redacted_thinking", "data": "xyz"},
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            [
                {"type": "input_json_delta", "partial_json": '{"q":'},
                {"type": "input_json_delta", "partial_json": '"x"}'},
            ],
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
            [{"type": "input_json_delta", "partial_json": '{"q":'}],
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
        ),
        (
            {"type": "compaction", "content": None},
            [{"type": "compaction_delta", "content": "In short.", "encrypted_content": None}],
            {"type": "compaction", "content": "In short.", "encrypted_content": None},
        ),
        (
            {"type": "hologram", "text": "a", "size": 1},
            [
                {"type": "text_delta", "text": "b"},
                {"type": "thinking_delta", "thinking": "c"},
                {"type": "glow_delta", "size": [2], "glow": "d"},
            ],
            {"type": "hologram", "text": "ab", "thinking": "c", "size": [2], "glow": "d"},
        ),
        (
            {"type": "hologram"},
            [
                {"type": "citations_delta", "citation": {"n": 1}},
                {"type": "input_json_delta", "partial_json": "\ud800", "index": 1},
            ],
            {"type": "hologram", "citations": [{"n": 1}], "index": 1},
        ),
    ],
)
def test_blocks_that_only_the_provider_understands_are_put_together_and_kept(
    content: dict[str, Any], deltas: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    (part,) = response(block(content, *deltas)).parts
    assert isinstance(part, ProviderPart)
    assert part.provider == "anthropic"
    assert json.loads(part.data) == expected


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_use"])
def test_pieces_of_a_later_kind_do_not_harm_the_blocks_that_we_know(kind: str) -> None:
    content = {"type": kind, "id": "t", "name": "look", "input": {}}
    strange = [
        {"type": "glow_delta", "glow": 1},
        {"type": "text_delta", "text": "x"},
        {"type": "thinking_delta", "thinking": "y"},
        {"type": "input_json_delta", "partial_json": "{}"},
    ]
    (part,) = response(block(content, *strange)).parts
    assert part in (
        TextPart(text="x"),
        ReasoningPart(text="y", provider="anthropic"),
        ToolCall(id="t", name="look"),
    )


def test_half_characters_survive() -> None:
    said = response(
        block(
            {"type": "text", "text": "\ud83d"},
            {"type": "text_delta", "text": "\ude00"},
            {"type": "text_delta", "text": "!"},
        ),
        block(
            {"type": "thinking", "thinking": "\ud83d"},
            {"type": "thinking_delta", "thinking": "\ude00"},
            {"type": "signature_delta", "signature": "\ud83d"},
            index=1,
        ),
        block(
            {"type": "tool_use", "id": "t", "name": "look"},
            {"type": "input_json_delta", "partial_json": '{"a":"\ud83d"}'},
            index=2,
        ),
    )
    assert [p.text for p in said.parts[:2] if isinstance(p, TextPart | ReasoningPart)] == [
        "\ud83d\ude00!",
        "\ud83d\ude00",
    ]
    assert said.tool_calls[0].arguments_json == '{"a":"\ud83d"}'


# ---------------------------------------------------------------- the message


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ("end_turn", StopReason.COMPLETE),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSE),
        ("model_context_window_exceeded", StopReason.CONTEXT_OVERFLOW),
        ("compaction", StopReason.PAUSE),
        ("a_reason_of_2027", StopReason.COMPLETE),
    ],
)
def test_each_stop_reason_is_known_or_counts_as_complete(raw: str, stop: StopReason) -> None:
    fold, _ = decoded(
        wire(
            START,
            {"type": "message_delta", "delta": {"stop_reason": raw}},
            {"type": "message_stop"},
        )
    )
    assert (fold.response().stop_reason, fold.response().raw_stop_reason) == (stop, raw)


def test_an_end_without_a_beginning_is_no_empty_answer() -> None:
    assert failure({"type": "message_stop"}, END[0], START).kind is ErrorKind.NETWORK


def test_usage_is_overwritten_where_it_is_said_and_kept_where_it_is_not() -> None:
    later = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {
            "output_tokens": 30,
            "input_tokens": None,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    }
    fold, _ = decoded(
        wire(
            START,
            {
                "type": "message_delta",
                "delta": {},
                "usage": {"output_tokens": 20, "cache_creation_input_tokens": 7},
            },
            later,
            {"type": "message_stop"},
        )
    )
    assert fold.response().usage == Usage(
        input_tokens=5,
        output_tokens=30,
        cache_read_tokens=2,
        cache_write_tokens=7,
        reasoning_tokens=4,
    )


def test_a_container_is_given_back_as_what_the_next_request_must_say() -> None:
    fold, _ = decoded(
        wire(
            START,
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "container": {"id": "c_1", "expires_at": "x"}},
            },
            {"type": "message_stop"},
        )
    )
    assert fold.response().provider_data == '{"container":{"id":"c_1"}}'


def test_a_second_beginning_voids_all_that_came_before() -> None:
    first = [
        START,
        *block({"type": "text", "text": "Old"}),
        block({"type": "tool_use", "id": "t", "name": "look"})[0],
    ]
    fold, decoder = decoded(
        wire(
            *first,
            {**START, "message": {**START["message"], "id": "second"}},
            *block({"type": "tool_use", "id": "t", "name": "look"}),
            *END,
        )
    )
    assert decoder.failure is None
    assert fold.response().parts == (ToolCall(id="t", name="look"),)
    assert fold.response().id == "second"
    assert Restart() not in MessagesDecoder(lambda e: AgentError("network", "")).feed(wire(START))


def test_nothing_after_the_end_counts() -> None:
    assert response().parts == ()
    fold, decoder = decoded(wire(START, *END, START, *block({"type": "text", "text": "more"})))
    assert fold.response().parts == ()
    assert decoder.failure is None


def test_events_of_a_later_version_are_passed_over() -> None:
    later = [{"type": "weather"}, {"type": "content_block_glow", "index": 0, "delta": {"x": 1}}]
    assert response(later, block({"type": "text", "text": "Yes."}), later).text == "Yes."
    fold, decoder = decoded(wire(START) + b"data: [DONE]\n\n" + wire(*END))
    assert decoder.failure is None
    assert fold.response().parts == ()


def test_only_pings_are_not_heard() -> None:
    decoder = MessagesDecoder(lambda e: AgentError("network", ""))
    heard = [
        (decoder.feed(chunk), decoder.heard)[1]
        for chunk in (
            wire(START),
            wire({"type": "ping"}),
            b"event: pi",
            wire({"type": "ping"}, *block({"type": "text", "text": ""})),
            wire({"type": "weather"}),
        )
    ]
    assert heard == [True, False, False, True, True]


# ---------------------------------------------------------------- what is broken


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ErrorKind.RATE_LIMIT),
        ("rate_limit_error", ErrorKind.RATE_LIMIT),
        ("api_error", ErrorKind.NETWORK),
        ("timeout_error", ErrorKind.NETWORK),
        ("invalid_request_error", ErrorKind.INVALID),
        ("not_found_error", ErrorKind.INVALID),
        ("authentication_error", ErrorKind.AUTH),
        ("permission_error", ErrorKind.AUTH),
        ("request_too_large", ErrorKind.CONTEXT_OVERFLOW),
        ("an_error_of_2027", ErrorKind.NETWORK),
    ],
)
def test_an_error_event_is_classified_by_its_type(kind: str, expected: ErrorKind) -> None:
    error = failure(
        START,
        {"type": "error", "error": {"type": kind, "message": "Because."}, "request_id": "req"},
    )
    assert (error.kind, error.request_id, error.status) == (expected, "req", 200)
    assert "Because." in error.message


def test_a_prompt_that_is_too_long_is_told_as_such_inside_a_stream_too() -> None:
    assert (
        failure(
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "prompt is too long: 5 > 4"},
            }
        ).kind
        is ErrorKind.CONTEXT_OVERFLOW
    )


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}],
        [
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "citations_delta", "citation": {}},
            }
        ],
        [
            *block({"type": "tool_use", "id": "t", "name": "look"})[:1],
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": "{}"},
            },
        ],
    ],
)
def test_pieces_for_a_block_that_is_not_open_are_an_error(events: list[dict[str, Any]]) -> None:
    assert failure(START, events).kind is ErrorKind.NETWORK


def test_servers_that_number_no_blocks_are_understood() -> None:
    events = [
        {k: v for k, v in e.items() if k != "index"}
        for e in block({"type": "text", "text": ""}, {"type": "text_delta", "text": "Yes."})
    ]
    assert response(events).text == "Yes."


def test_thinking_that_is_signed_with_nothing_after_the_next_block_has_begun_is_understood() -> (
    None
):
    """As llama.cpp says it (xllamacpp 2026.10.11549): all stops come at the end, and the signature
    of the first block in front of them.
    """
    thinking, text = (
        block({"type": "thinking", "thinking": "Hm."}),
        block({"type": "text", "text": ""}, {"type": "text_delta", "text": "Yes."}, index=1),
    )
    late = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": ""},
    }
    said = response(thinking[:-1], text[:-1], late, thinking[-1], text[-1])
    assert said.parts == (ReasoningPart(text="Hm.", provider="anthropic"), TextPart(text="Yes."))

    late["delta"] = {"type": "signature_delta", "signature": "a real one"}
    assert failure(START, thinking[:-1], text[:-1], late).kind is ErrorKind.NETWORK


def test_a_block_that_nobody_closed_ends_where_the_next_begins() -> None:
    assert response(
        block({"type": "text", "text": "One"})[:1],
        block({"type": "text", "text": "two"}, index=1)[:1],
    ).parts == (
        TextPart(text="One"),
        TextPart(text="two"),
    )


@pytest.mark.parametrize(
    "data",
    [
        b"{half",
        b"[1]",
        b'"x"',
        b'{"type":"message_start"}',
        b'{"type":"content_block_start","content_block":7}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_an_event_that_cannot_be_read_is_an_error(data: bytes) -> None:
    _, decoder = decoded(wire(START) + b"data: " + data + b"\n\n")
    assert decoder.failure is not None
    assert decoder.failure.kind is ErrorKind.NETWORK


def test_bytes_that_are_no_text_are_replaced() -> None:
    odd = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\xffb"}}\n\n'
    events = wire(START, block({"type": "text", "text": ""})[:1]) + odd + wire(*END)
    assert decoded(events)[0].response().text == "a\ufffdb"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{half",
        b"[]",
        b"{}",
        b'{"content":[7],"stop_reason":"end_turn"}',
        b'{"content":[],"stop_reason":null}',
    ],
)
def test_a_plain_body_that_is_no_message_is_an_error(body: bytes) -> None:
    decoder = MessagesDecoder(lambda e: AgentError("network", ""))
    assert decoder.take_body(body) == []
    assert decoder.failure is not None
    assert decoder.failure.kind is ErrorKind.NETWORK


def test_a_plain_body_with_half_characters_is_understood() -> None:
    decoder, fold = MessagesDecoder(lambda e: AgentError("network", "")), Fold()
    for delta in decoder.take_body(
        b'{"id":"m","content":[{"type":"text","text":"a\\ud83d"}],"stop_reason":"end_turn"}'
    ):
        fold.add(delta)
    assert fold.partial() == (TextPart(text="a\ud83d"),)
    assert decoder.end is not None


# ---------------------------------------------------------------- cuts


@pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="the folder `shared` with the recordings is not beside this checkout",
)
@pytest.mark.parametrize(
    "name", ["stream_agent_loop_lc", "stream_code_execution", "stream_redacted_thinking"]
)
@given(data=st.data())
def test_however_a_stream_is_cut_into_chunks_it_says_the_same(
    name: str, data: st.DataObject
) -> None:
    stream: bytes = exchanges(name)[0]["response"]["body"].encode()
    whole = decoded(stream)[0].response()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decoded(*chunks)[0].response() == whole


def test_a_delta_of_a_later_version_is_told_of() -> None:
    decoder = MessagesDecoder(lambda data: AgentError("network", data.decode()))
    deltas = decoder.feed(
        wire(
            block(
                {"type": "text", "text": "Hi"},
                {"type": "hologram_delta", "shape": [1]},
                {"type": "text_delta", "text": ""},
            )
        )
    )
    assert [delta.text for delta in deltas if isinstance(delta, ModelNotice)] == [
        "the response contained a delta of type 'hologram_delta', which this version does not support: it was left out"
    ]


PASSES: list[dict[str, Any]] = [
    {"type": "message", "input_tokens": 4, "output_tokens": 10, "cache_read_input_tokens": 90},
    {"type": "message", "input_tokens": 6, "output_tokens": 20, "cache_read_input_tokens": 100},
    {"type": "advisor_message", "input_tokens": 900, "output_tokens": 900},
]
SUMMED_UP: dict[str, Any] = {
    "type": "compaction",
    "input_tokens": 180_000,
    "output_tokens": 3_500,
    "cache_read_input_tokens": 70,
    "cache_creation_input_tokens": 50,
    "cache_creation": {"ephemeral_1h_input_tokens": 40},
}
STOOD_IN: dict[str, Any] = {
    "type": "fallback_message",
    "input_tokens": 7,
    "output_tokens": 30,
    "cache_read_input_tokens": 3,
}


@pytest.mark.parametrize(
    ("usage", "size"),
    [
        (
            {
                "output_tokens": 30,
                "server_tool_use": {"web_search_requests": 10},
                "iterations": PASSES,
            },
            126,
        ),
        ({"output_tokens": 30, "iterations": [PASSES[0], STOOD_IN]}, 40),
        ({"output_tokens": 30, "iterations": [SUMMED_UP, PASSES[0]]}, 104),
        ({"output_tokens": 30, "server_tool_use": {"web_search_requests": 10}}, 0),
        ({"output_tokens": 30, "server_tool_use": {"web_search_requests": 0}}, None),
        ({"output_tokens": 30}, None),
    ],
)
def test_the_sum_over_passes_of_server_tools_is_not_the_size_of_the_conversation(
    usage: dict[str, Any], size: int | None
) -> None:
    assert (
        response(
            START, {"type": "message_delta", "delta": {}, "usage": usage}, {"type": "message_stop"}
        ).context_tokens
        == size
    )


def test_the_work_of_other_models_counts_and_is_told_apart_for_its_price() -> None:
    advisor = {**PASSES[2], "model": "claude-opus-5-5"}
    usage: dict[str, Any] = {
        "input_tokens": 10,
        "output_tokens": 30,
        "iterations": [PASSES[0], advisor, {**STOOD_IN, "model": "claude-opus-5"}],
    }
    found = response(
        START, {"type": "message_delta", "delta": {}, "usage": usage}, {"type": "message_stop"}
    )
    assert (found.usage.input_tokens, found.usage.output_tokens) == (910, 930)
    assert found.details is not None
    assert found.details.others == (
        OtherUsage(model="claude-opus-5-5", usage=Usage(input_tokens=900, output_tokens=900)),
        OtherUsage(
            model="claude-opus-5",
            usage=Usage(input_tokens=7, output_tokens=30, cache_read_tokens=3),
        ),
    )


def test_what_the_provider_spent_on_a_summary_counts_which_its_totals_leave_out() -> None:
    usage: dict[str, Any] = {
        "input_tokens": 23_000,
        "output_tokens": 1_000,
        "iterations": [SUMMED_UP, PASSES[0]],
    }
    found = response(
        START, {"type": "message_delta", "delta": {}, "usage": usage}, {"type": "message_stop"}
    ).usage
    assert (found.input_tokens, found.output_tokens) == (203_000, 4_500)
    assert (found.cache_read_tokens, found.cache_write_tokens, found.cache_write_1h_tokens) == (
        72,
        50,
        40,
    )
