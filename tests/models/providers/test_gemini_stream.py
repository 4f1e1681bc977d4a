"""Chunks of Gemini's answers as deltas; what is kept of them goes back as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.providers.gemini_recordings import parts_of, same, told
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import (
    MediaPart,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
)
from treadle.models.model import Delta, Fold, ModelNotice, ModelResponse, TextDelta, ToolCallStart
from treadle.models.providers.gemini.stream import ContentDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason, Usage

MODEL = "gemini-3.8-flash"
UNSIGNED = "skip/thought/signature/validator"
"""What the vendor wants for want of a signature, as `same` writes it."""

Json = dict[str, Any]


def chunk(*parts: Json, finish: str | None = None, **around: Any) -> Json:
    candidate = {
        "content": {"parts": list(parts), "role": "model"},
        "index": 0,
        **({"finishReason": finish} if finish else {}),
    }
    return {
        "candidates": [{**candidate, **around.pop("beside", {})}],
        "modelVersion": MODEL,
        "responseId": "r",
        **around,
    }


def decoded(*chunks: Json | bytes) -> tuple[ContentDecoder, list[Delta]]:
    decoder = ContentDecoder(Refusals("the key").in_stream, MODEL)
    deltas = [
        delta
        for c in chunks
        for delta in decoder.feed(
            c if isinstance(c, bytes) else b"data: %b\r\n\r\n" % json.dumps(c).encode()
        )
    ]
    return decoder, deltas + decoder.finish()


def answer(*chunks: Json | bytes) -> ModelResponse:
    decoder, deltas = decoded(*chunks)
    assert decoder.failure is None
    assert decoder.end is not None
    fold = Fold()
    for delta in (*deltas, decoder.end):
        fold.add(delta)
    return fold.response()


def failure(*chunks: Json | bytes) -> AgentError:
    decoder, _ = decoded(*chunks)
    assert decoder.end is None
    assert decoder.failure is not None
    return decoder.failure


def back(response: ModelResponse) -> list[Json]:
    return parts_of(response.parts, MODEL)


def call(name: str = "look", **fields: Any) -> Json:
    return {"functionCall": {"name": name, **fields}}


END = chunk(finish="STOP")


# ---------------------------------------------------------------- signatures


def test_a_signed_empty_text_closes_the_text_before_it_and_goes_back_by_itself() -> None:
    response = answer(
        chunk({"text": "Good "}),
        chunk({"text": "day"}),
        chunk({"text": "", "thoughtSignature": "c2ln"}, finish="STOP"),
    )
    assert response.parts == (
        TextPart(
            text="Good day",
            provider="gemini",
            provider_data=f'{{"thoughtSignature":"c2ln","prefix":8,"model":"{MODEL}"}}',
        ),
    )
    assert back(response) == [{"text": "Good day"}, {"text": "", "thoughtSignature": "c2ln"}]


def test_signed_text_is_not_joined_to_what_is_not_signed() -> None:
    response = answer(
        chunk({"text": "Good "}),
        chunk({"text": "day", "thoughtSignature": "c2ln"}),
        chunk({"text": " to you."}),
        END,
    )
    assert [part.text for part in response.parts if isinstance(part, TextPart)] == [
        "Good day",
        " to you.",
    ]
    assert back(response) == [
        {"text": "Good "},
        {"text": "day", "thoughtSignature": "c2ln"},
        {"text": " to you."},
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "", "thoughtSignature": "c2ln"}],
        [call(args={}), {"text": "", "thoughtSignature": "c2ln"}],
        [{"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}, {"text": "Yes."}],
        [{"text": "", "thought": True, "thoughtSignature": "c2ln"}, {"text": "Yes."}],
        [{**call(args={"a": 1}), "thoughtSignature": "c2ln"}, call(args={"a": 2})],
        [{"text": "Yes.", "thoughtSignature": "b25l"}, {"text": "No.", "thoughtSignature": "dHdv"}],
        [
            {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "c2ln"},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
        ],
        [
            {"inlineData": {"mimeType": "image/png", "data": "QUJD"}, "thoughtSignature": "c2ln"},
            {"text": "A plot."},
        ],
        [
            {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB"}},
            {"toolResponse": {"id": "s", "response": {"n": 1e300}}},
        ],
        [{**call(args={"a": 1}), "thoughtSignature": "c2ln", "partMetadata": {"k": "v"}}],
    ],
)
def test_what_the_vendor_wants_back_goes_back_where_it_stood(parts: list[Json]) -> None:
    response = answer(*(chunk(part) for part in parts), END)
    assert back(response) == same(
        [
            {**part, "thoughtSignature": UNSIGNED} if k == 0 and part == call(args={}) else part
            for k, part in enumerate(parts)
        ]
    )


def test_a_part_that_is_only_signed_is_a_text_that_says_nothing() -> None:
    assert back(answer(chunk({"text": "Yes."}), chunk({"thoughtSignature": "c2ln"}), END)) == [
        {"text": "Yes."},
        {"text": "", "thoughtSignature": "c2ln"},
    ]
    assert back(answer(chunk({"thoughtSignature": "c2ln"}), END)) == [
        {"text": "", "thoughtSignature": "c2ln"}
    ]


def test_thoughts_stay_here() -> None:
    response = answer(
        chunk({"text": "Hm, ", "thought": True}),
        chunk({"text": "well.", "thought": True}),
        chunk({"text": "Yes."}, finish="STOP"),
    )
    assert response.parts == (ReasoningPart(text="Hm, well."), TextPart(text="Yes."))
    assert back(response) == [{"text": "Yes."}]


SIGNED = st.one_of(st.just({}), st.just({"thoughtSignature": "c2ln"}))
TEXT = st.text("ab é🧵", max_size=4)
ANY_PART = st.one_of(
    st.builds(lambda text, signed: {"text": text, **signed}, TEXT, SIGNED),
    st.builds(lambda text: {"text": text, "thought": True}, TEXT),
    st.builds(lambda n, signed: {**call(args={"n": n}), **signed}, st.integers(0, 9), SIGNED),
    st.builds(lambda code, signed: {"executableCode": {"code": code}, **signed}, TEXT, SIGNED),
)


@given(st.lists(st.lists(ANY_PART, max_size=3), max_size=6))
def test_any_answer_goes_back_part_by_part_as_it_came(said: list[list[Json]]) -> None:
    chunks = [chunk(*parts) for parts in said]
    response = answer(*chunks, END)
    theirs = same(told(chunks))
    for k, part in enumerate(theirs):
        if "functionCall" in part and not any("functionCall" in before for before in theirs[:k]):
            part.setdefault("thoughtSignature", UNSIGNED)
    assert back(response) == theirs


# ---------------------------------------------------------------- calls


def pieces(*partial: Json, more: bool = True) -> Json:
    return chunk(
        {"functionCall": {"partialArgs": list(partial), **({"willContinue": True} if more else {})}}
    )


BEGIN = chunk(call(id="c1", willContinue=True))


def arguments(*partial: Json) -> Any:
    return json.loads(
        answer(BEGIN, *(pieces(p) for p in partial), pieces(more=False), END)
        .tool_calls[0]
        .arguments_json
    )


def at(path: str, **value: Any) -> Json:
    return {"jsonPath": path, **value}


def test_values_at_paths_are_put_together() -> None:
    assert arguments(
        at("$.place.city", stringValue="Bos", willContinue=True),
        at("$.place.city", stringValue="ton"),
        at("$.place['time zone']", stringValue="EST"),
        at('$["it\\"s"]', stringValue='"quoted"\n'),
        at("$['it\\'s']", boolValue=True),
        at("$.days[0].high", numberValue=17.5),
        at("$.days[0].low", numberValue=-3),
        at("$.days[1]", nullValue="NULL_VALUE"),
        at("$.days[2][0]", boolValue=False),
        at("$.empty", stringValue=""),
    ) == {
        "place": {"city": "Boston", "time zone": "EST"},
        'it"s': '"quoted"\n',
        "it's": True,
        "days": [{"high": 17.5, "low": -3}, None, [False]],
        "empty": "",
    }


def test_values_may_lie_as_deep_as_arguments_are_read() -> None:
    assert arguments(at("$" + ".a" * 200, numberValue=1))["a"]["a"]["a"]


def test_several_values_may_come_at_once_and_numbers_stay_as_they_were_written() -> None:
    raw = b'{"partialArgs":[{"jsonPath":"$.a","numberValue":12345678901234567890123},{"jsonPath":"$.b","stringValue":"x"}]}'
    response = answer(
        BEGIN, b'data: {"candidates":[{"content":{"parts":[{"functionCall":%b}]}}]}\n\n' % raw, END
    )
    assert response.tool_calls[0].arguments_json == '{"a":12345678901234567890123,"b":"x"}'


@pytest.mark.parametrize(
    "partial",
    [
        [at("", stringValue="x")],
        [at("$", stringValue="x")],
        [at("$[0]", stringValue="x")],
        [at("location", stringValue="x")],
        [at("$..a", stringValue="x")],
        [at("$.a[*]", stringValue="x")],
        [at("$.a[5]", stringValue="x")],
        [at("$.a[999999999]", stringValue="x")],
        [at("$.a", stringValue="x"), at("$.a.b", stringValue="y")],
        [at("$.a.b", stringValue="x"), at("$.a", stringValue="y")],
        [at("$.a[0]", stringValue="x"), at("$.a.b", stringValue="y")],
        [at("$" + ".a" * 201, stringValue="x")],
    ],
)
def test_values_that_fit_nowhere_are_a_broken_answer(partial: list[Json]) -> None:
    for last in ([pieces(more=False), END], [END]):
        assert failure(BEGIN, *(pieces(p) for p in partial), *last).kind is ErrorKind.NETWORK


def test_a_call_in_pieces_ends_with_its_last_one_with_the_next_or_with_the_answer() -> None:
    value = at("$.a", numberValue=1)
    one = answer(BEGIN, pieces(value, more=False), END)
    cut_by_next = answer(BEGIN, pieces(value), chunk(call(id="c2", args={"b": 2})), END)
    cut_by_end = answer(BEGIN, pieces(value), END)
    assert (
        [c.arguments for c in one.tool_calls]
        == [c.arguments for c in cut_by_end.tool_calls]
        == [{"a": 1}]
    )
    assert [(c.id, c.arguments) for c in cut_by_next.tool_calls] == [
        ("c1", {"a": 1}),
        ("c2", {"b": 2}),
    ]


def test_arguments_that_come_whole_at_last_are_the_arguments() -> None:
    response = answer(
        BEGIN,
        pieces(at("$.a", stringValue="x")),
        chunk({"functionCall": {"args": {"a": "xyz"}}}),
        END,
    )
    assert response.tool_calls[0].arguments == {"a": "xyz"}


def test_a_signature_may_come_with_any_piece_of_its_call() -> None:
    response = answer(
        BEGIN,
        {**pieces(at("$.a", numberValue=1))},
        chunk({"functionCall": {}, "thoughtSignature": "c2ln"}),
        END,
    )
    assert back(response) == [{**call(args={"a": 1}), "thoughtSignature": "c2ln"}]


def test_the_end_of_a_call_that_is_over_is_no_call() -> None:
    assert answer(chunk(call(args={"a": 1})), chunk({"functionCall": {}}), END).tool_calls[
        0
    ].arguments == {"a": 1}
    assert len(answer(chunk(call(args={"a": 1})), chunk({"functionCall": {}}), END).tool_calls) == 1


def test_a_call_without_a_name_is_still_one() -> None:
    assert [
        (c.name, c.arguments)
        for c in answer(chunk({"functionCall": {"args": {"a": 1}}}), END).tool_calls
    ] == [("", {"a": 1})]


@pytest.mark.parametrize("args", ["[1]", '"Boston"', "7"])
def test_arguments_that_are_no_object_are_kept_as_they_came(args: str) -> None:
    response = answer(
        b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"look","args":%b}}]}}]}\n\n'
        % args.encode(),
        END,
    )
    assert response.tool_calls[0].arguments_json == args


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", StopReason.COMPLETE),
        ("FUNCTION_CALL", StopReason.COMPLETE),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("CONTINUATION", StopReason.MAX_TOKENS),
        ("TOO_MANY_TOOL_CALLS", StopReason.PAUSE),
        ("OTHER", StopReason.COMPLETE),
        ("NO_IMAGE", StopReason.COMPLETE),
        ("A_REASON_OF_2027", StopReason.COMPLETE),
        *(
            (word, StopReason.REFUSAL)
            for word in (
                "SAFETY",
                "RECITATION",
                "PROHIBITED_CONTENT",
                "BLOCKLIST",
                "SPII",
                "LANGUAGE",
                "IMAGE_SAFETY",
                "MODEL_ARMOR",
            )
        ),
    ],
)
def test_each_end_has_its_meaning(finish: str, stop: StopReason) -> None:
    response = answer(chunk({"text": "Yes."}), chunk(finish=finish))
    assert (response.stop_reason, response.raw_stop_reason) == (stop, finish)


@pytest.mark.parametrize(
    "finish",
    [
        "STOP",
        "FUNCTION_CALL",
        "A_REASON_OF_2027",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
    ],
)
def test_an_answer_with_calls_ends_for_them(finish: str) -> None:
    assert answer(chunk(call(args={})), chunk(finish=finish)).stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("finish", ["", "FINISH_REASON_UNSPECIFIED"])
def test_an_end_that_is_not_specified_is_none(finish: str) -> None:
    assert (
        failure(chunk({"text": "Yes"}, beside={"finishReason": finish})).kind is ErrorKind.NETWORK
    )
    assert (
        answer(
            chunk({"text": "Yes"}, beside={"finishReason": finish}),
            chunk({"text": "."}, finish="STOP"),
        ).text
        == "Yes."
    )


def test_a_call_that_the_bound_on_tokens_cut_is_told_as_cut() -> None:
    assert (
        answer(chunk(call(args={})), chunk(finish="MAX_TOKENS")).stop_reason
        is StopReason.MAX_TOKENS
    )


@pytest.mark.parametrize(
    "finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"]
)
def test_what_the_model_garbled_is_asked_for_again(finish: str) -> None:
    error = failure(
        chunk({"text": "Let me look."}),
        chunk(finish=finish, beside={"finishMessage": "Malformed function call: print(look("}),
    )
    assert error.retryable
    assert finish in error.message
    assert "print(look(" in error.message


def test_a_history_without_its_signatures_is_not_sent_again() -> None:
    error = failure(chunk(finish="MISSING_THOUGHT_SIGNATURE"))
    assert (error.kind, error.retryable) == (ErrorKind.INVALID, False)


def test_a_refusal_names_what_was_blocked() -> None:
    ratings = [
        {"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True},
        {"category": "HARM_CATEGORY_OTHER", "probability": "LOW"},
    ]
    _, deltas = decoded(
        chunk({"text": "Well"}),
        chunk(finish="SAFETY", beside={"safetyRatings": ratings, "finishMessage": "Not this."}),
    )
    assert deltas[-1] == ModelNotice(
        "the provider refused to continue: SAFETY: HARM_CATEGORY_HARASSMENT: Not this."
    )


def test_a_blocked_prompt_is_a_refusal() -> None:
    feedback = {
        "blockReason": "PROHIBITED_CONTENT",
        "blockReasonMessage": "Not this.",
        "safetyRatings": [],
    }
    decoder, deltas = decoded(
        {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}, "responseId": "r"}
    )
    assert deltas == [ModelNotice("the provider refused the prompt: PROHIBITED_CONTENT: Not this.")]
    assert decoder.end is not None
    assert (
        decoder.end.stop_reason,
        decoder.end.raw_stop_reason,
        decoder.end.usage.input_tokens,
    ) == (StopReason.REFUSAL, "PROHIBITED_CONTENT", 9)


def test_a_prompt_that_was_only_rated_is_none() -> None:
    feedback = {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]}
    assert (
        answer({**chunk({"text": "Yes."}, finish="STOP"), "promptFeedback": feedback}).stop_reason
        is StopReason.COMPLETE
    )


def test_what_comes_after_the_end_reason_is_not_lost() -> None:
    response = answer(
        chunk({"text": "Good "}, finish="STOP"),
        chunk({"text": "day"}),
        {"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2}},
    )
    assert response.text == "Good day"
    assert response.usage == Usage(input_tokens=5, output_tokens=2)


def test_the_last_counts_count() -> None:
    first = {"promptTokenCount": 169, "totalTokenCount": 169}
    last = {
        "promptTokenCount": 79,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 12,
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 5,
    }
    chunks = (
        chunk({"text": "Yes."}, usageMetadata=first),
        chunk(finish="STOP", usageMetadata=last),
        chunk(usageMetadata={"trafficType": "ON_DEMAND"}),
    )
    assert answer(*chunks).usage == Usage(
        input_tokens=24, output_tokens=42, cache_read_tokens=60, reasoning_tokens=30
    )


def test_counts_may_come_with_the_text_alone() -> None:
    texts = [
        chunk({"text": "x"}, usageMetadata={"promptTokenCount": n, "candidatesTokenCount": n})
        for n in (1, 2, 3)
    ]
    assert answer(*texts, END).usage == Usage(input_tokens=3, output_tokens=3)
    assert answer(
        *texts, chunk(finish="STOP", usageMetadata={"promptTokenCount": 9})
    ).usage == Usage(input_tokens=9)


@pytest.mark.parametrize(
    "usage",
    [
        {"promptTokenCount": "many"},
        {"promptTokenCount": 1, "cachedContentTokenCount": 5},
        {"promptTokenCount": "7"},
        [],
        None,
    ],
)
def test_odd_counts_do_not_cost_the_answer(usage: object) -> None:
    response = answer(chunk({"text": "Yes."}, finish="STOP", usageMetadata=usage))
    assert response.text == "Yes."
    assert response.usage.input_tokens in (0, 7)


def test_what_is_less_than_nothing_is_counted_as_nothing() -> None:
    odd = {
        "promptTokenCount": -3,
        "candidatesTokenCount": -1,
        "cachedContentTokenCount": -2,
        "thoughtsTokenCount": -1,
        "toolUsePromptTokenCount": -5,
    }
    assert answer(chunk({"text": "Yes."}, finish="STOP", usageMetadata=odd)).usage == Usage()


# ---------------------------------------------------------------- what stands around


def test_sources_are_kept_once_and_stay_here() -> None:
    early, late = {"webSearchQueries": ["a"]}, {"webSearchQueries": ["a", "b"]}
    response = answer(
        chunk({"text": "Yes"}, beside={"groundingMetadata": early}),
        chunk({"text": "."}, finish="STOP", beside={"groundingMetadata": late}),
    )
    assert response.parts == (
        TextPart(text="Yes."),
        ProviderPart(
            provider="gemini", data='{"groundingMetadata":{"webSearchQueries": ["a", "b"]}}'
        ),
    )
    assert back(response) == [{"text": "Yes."}]


def test_an_image_is_media_and_goes_back_with_its_signature() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}, "thoughtSignature": "s"}
    draft = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}, "thought": True}
    response = answer(chunk(draft), chunk({"text": "Here:"}), chunk(image, finish="STOP"))
    thought, text, media = response.parts
    assert (type(thought), text) == (ProviderPart, TextPart(text="Here:"))
    assert isinstance(media, MediaPart)
    assert (media.media_type, media.data) == ("image/png", "QUJD")
    assert back(response) == [draft, {"text": "Here:"}, image]


def test_only_one_answer_is_taken() -> None:
    second = {"content": {"parts": [{"text": "Bad "}]}, "index": 1, "finishReason": "STOP"}
    body = chunk({"text": "Good "})
    body["candidates"].append(second)
    assert answer(body, chunk({"text": "day"}, finish="STOP")).text == "Good day"


@pytest.mark.parametrize(
    "odd",
    [
        {"candidates": None},
        {"candidates": [{"content": None}]},
        {"candidates": [{"content": {"parts": None}, "finishReason": None, "index": None}]},
        {"candidates": [{"content": {"parts": [{}]}}]},
        {
            "candidates": [
                {"content": {"parts": [{"text": None, "thought": None, "functionCall": None}]}}
            ]
        },
        {"candidates": [{"content": {"parts": [{"thought": True}]}}]},
        {"somethingNew": {"of": 2027}},
        {},
    ],
)
def test_nothing_said_in_an_odd_way_is_nothing(odd: Json) -> None:
    assert answer(chunk({"text": "Good "}), odd, chunk({"text": "day"}, finish="STOP")).parts == (
        TextPart(text="Good day"),
    )


def test_a_field_of_a_later_version_does_not_take_a_text_apart() -> None:
    new = {"mood": {"of": "2027"}}
    assert answer(
        chunk({"text": "Good ", **new}), chunk({"text": "day", **new}, finish="STOP")
    ).parts == (TextPart(text="Good day"),)
    assert answer(chunk({"text": "Hm.", "thought": True, **new}), END).parts == (
        ReasoningPart(text="Hm."),
    )


def test_a_part_of_a_later_version_is_kept() -> None:
    assert back(answer(chunk({"hologram": {"shape": [1]}}, {"text": "Yes."}), END)) == [
        {"hologram": {"shape": [1]}},
        {"text": "Yes."},
    ]


def test_half_characters_and_bytes_that_are_none_are_survived() -> None:
    said = json.dumps(
        chunk(
            {"text": "a\ud83d"},
            call(args={"s": "\udc00", "t": "ü"}),
            {"hologram": "\ud83d"},
            finish="STOP",
        )
    ).encode()
    response = answer(b"data: " + said.replace(b"STOP", b"ST\xffOP") + b"\n\n")
    assert response.text == "a\ud83d"
    assert response.tool_calls[0].arguments == {"s": "\udc00", "t": "ü"}
    assert response.raw_stop_reason == "ST\ufffdOP"
    assert json.dumps(back(response))


@pytest.mark.parametrize(
    "candidate",
    [
        b'"groundingMetadata":{"x":"\xff"},"content":{"parts":[{"text":"a"}]}',
        b'"content":{"parts":[{"inlineData":{"x":"\xff"}}]}',
        b'"content":{"parts":[{"functionCall":{"name":"look"},"odd":"\xff"}]}',
    ],
    ids=["beside the content", "a part", "beside a call"],
)
def test_bytes_that_are_no_text_are_survived_in_what_is_kept_as_it_came(candidate: bytes) -> None:
    assert "\ufffd" in str(
        answer(b'data: {"candidates":[{%b,"finishReason":"STOP"}]}\n\n' % candidate).parts
    )


def test_arguments_in_pieces_may_hold_half_characters() -> None:
    body = json.dumps(pieces(at("$.a", stringValue="\ud83d"), more=False)).encode()
    assert answer(BEGIN, b"data: " + body + b"\n\n", END).tool_calls[0].arguments == {"a": "\ufffd"}


# ---------------------------------------------------------------- documents and errors


def whole(body: bytes) -> tuple[ContentDecoder, list[Part]]:
    decoder, fold = ContentDecoder(Refusals("the key").in_stream, MODEL), Fold()
    for delta in decoder.take_body(body):
        fold.add(delta)
    return decoder, list(fold.partial()) if decoder.end is None else [*_ended(fold, decoder).parts]


def _ended(fold: Fold, decoder: ContentDecoder) -> ModelResponse:
    assert decoder.end is not None
    fold.add(decoder.end)
    return fold.response()


def test_a_stream_that_came_as_a_list_is_one_answer() -> None:
    chunks = [
        chunk({"text": "Good "}),
        chunk({"text": "day"}),
        chunk(finish="STOP", usageMetadata={"promptTokenCount": 5}),
    ]
    decoder, parts = whole(json.dumps(chunks).encode())
    assert parts == [TextPart(text="Good day")]
    assert decoder.end is not None
    assert decoder.end.usage == Usage(input_tokens=5)


def test_a_list_may_end_with_an_error_or_be_cut() -> None:
    overloaded = {
        "error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    }
    decoder, parts = whole(json.dumps([chunk({"text": "Good "}), overloaded]).encode())
    assert parts == [TextPart(text="Good ")]
    assert decoder.failure is not None
    assert decoder.failure.kind is ErrorKind.RATE_LIMIT
    for body in (
        json.dumps([chunk({"text": "Good "})]).encode(),
        json.dumps([END]).encode()[:-1],
        b"[[]]",
        b"[7]",
    ):
        assert whole(body)[0].failure is not None


@pytest.mark.parametrize(
    ("error", "kind", "wait_s"),
    [
        (
            {
                "code": 503,
                "message": "The model is overloaded. Please try again later.",
                "status": "UNAVAILABLE",
            },
            ErrorKind.RATE_LIMIT,
            None,
        ),
        (
            {
                "code": 503,
                "message": "Deadline expired before operation could complete.",
                "status": "UNAVAILABLE",
            },
            ErrorKind.NETWORK,
            None,
        ),
        (
            {"code": 500, "message": "An internal error has occurred.", "status": "INTERNAL"},
            ErrorKind.NETWORK,
            None,
        ),
        (
            {
                "code": 429,
                "message": "You exceeded your current quota.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "28.5s"}
                ],
            },
            ErrorKind.RATE_LIMIT,
            28.5,
        ),
        (
            {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum.",
                "status": "INVALID_ARGUMENT",
            },
            ErrorKind.CONTEXT_OVERFLOW,
            None,
        ),
        (
            {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"},
            ErrorKind.INVALID,
            None,
        ),
        (
            {"code": 403, "message": "Permission denied.", "status": "PERMISSION_DENIED"},
            ErrorKind.AUTH,
            None,
        ),
    ],
)
def test_an_error_inside_an_answer_is_told_by_its_words(
    error: Json, kind: ErrorKind, wait_s: float | None
) -> None:
    found = failure(chunk({"text": "Good "}), {"error": error})
    assert (found.kind, found.retry_after_s) == (kind, wait_s)
    assert error["message"] in found.message


def test_nothing_is_taken_after_an_error() -> None:
    error = {
        "error": {"code": 500, "message": "An internal error has occurred.", "status": "INTERNAL"}
    }
    said = [chunk({"text": "Good "}), error, chunk({"text": "day"}), chunk(call(args={})), END]
    decoder, deltas = decoded(
        b": hello\n\n", b"".join(b"data: %b\r\n\r\n" % json.dumps(c).encode() for c in said)
    )
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["Good "]
    assert not any(isinstance(delta, ToolCallStart) for delta in deltas)
    assert decoder.failure is not None


def test_signs_of_life_are_not_heard() -> None:
    decoder = ContentDecoder(Refusals("the key").in_stream, MODEL)
    for silent in (
        b": ping\n\n",
        b'data: {"somethingNew": 1}\n\n',
        b"data: {}\n\n",
        b'data: {"candid',
    ):
        decoder.feed(silent)
        assert not decoder.heard
    decoder.feed(b'ates": [{}]}\n\n')
    assert decoder.heard


def test_ids_are_passed_on() -> None:
    response = answer(chunk(call(id="abc", args={"a": 1})), END)
    assert response.parts == (ToolCall(id="abc", name="look", arguments_json='{"a": 1}'),)
    assert (response.id, response.model) == ("r", MODEL)
