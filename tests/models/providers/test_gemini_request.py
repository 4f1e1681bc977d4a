"""Our values as the bytes of generateContent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import with_images_only
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.history import History
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.gemini.naming import generation_of, resource_of
from treadle.models.providers.gemini.request import RequestEncoder, fitted
from treadle.types import Settings, SystemBlock

NEW, OLD = "gemini-3.8-flash", "gemini-2.5-flash"
PLAIN = Settings(max_tokens=100)
LOOK = ToolDefinition(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"a": {"type": "integer"}}},
)
HELLO = Message.user("Hello")
GO_ON = {"role": "user", "parts": [{"text": "Go on."}]}
ANY = "skip_thought_signature_validator"
IMAGE = MediaPart(media_type="image/png", data="QUJD", name="plot")

Json = dict[str, Any]


def body(
    *messages: Message,
    model: str = NEW,
    settings: Settings = PLAIN,
    settled: int = 0,
    abilities: Abilities | None = None,
    **request: Any,
) -> Json:
    encoder = RequestEncoder(model, abilities or Abilities())
    return json.loads(
        encoder.encode(
            ModelRequest(messages=History(messages, settled), settings=settings, **request)
        )
    )


def contents(*messages: Message, model: str = NEW, settled: int = 0) -> list[Json]:
    return body(*messages, model=model, settled=settled)["contents"]


def said(*parts: Part, model: str = NEW, settled: bool = False) -> list[Json]:
    """The parts of the model's turn, where there is one."""
    told = contents(
        HELLO, Message.assistant(parts), HELLO, model=model, settled=2 if settled else 0
    )
    return told[1]["parts"] if len(told) > 2 else []


def config(model: str = NEW, abilities: Abilities | None = None, **settings: Any) -> Json:
    return body(
        HELLO, model=model, settings=Settings(max_tokens=100, **settings), abilities=abilities
    )["generationConfig"]


def own(**fields: Any) -> dict[str, Any]:
    return {"provider": "gemini", "provider_data": json.dumps(fields)}


# ---------------------------------------------------------------- the whole


def test_a_request_says_everything_once() -> None:
    settings = Settings(
        max_tokens=100,
        temperature=0.5,
        stop=("END",),
        tool_choice="look",
        output_schema={"type": "object"},
    )
    sent = body(
        HELLO,
        settings=settings,
        tools=(LOOK,),
        system=(SystemBlock(text="Be kind."), SystemBlock(text=""), SystemBlock(text="Be brief.")),
    )
    assert sent == {
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "look",
                        "description": "Looks.",
                        "parametersJsonSchema": LOOK.parameters,
                    }
                ]
            }
        ],
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "stopSequences": ["END"],
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    }


def test_what_changes_within_a_run_stands_behind_what_does_not() -> None:
    encoder, history = RequestEncoder(NEW), History([HELLO])
    bodies = [
        encoder.encode(
            ModelRequest(
                messages=history,
                tools=(LOOK,),
                system=(SystemBlock(text="Be kind."),),
                settings=settings,
            )
        )
        for settings in (Settings(max_tokens=100), Settings(max_tokens=50, tool_choice="none"))
    ]
    same = next(i for i, (a, b) in enumerate(zip(*bodies, strict=False)) if a != b)
    assert same > bodies[0].index(b'"contents"') + len(
        b'"contents":[{"role":"user","parts":[{"text":"Hello"}]}]'
    )


def test_nothing_to_say_is_an_error() -> None:
    for messages in ((), (Message.user(""),)):
        with pytest.raises(AgentError, match="no message to send") as raised:
            body(*messages)
        assert raised.value.kind is ErrorKind.INVALID


def test_a_message_is_encoded_once() -> None:
    encoder, history = RequestEncoder(NEW), History([HELLO])
    request = ModelRequest(messages=history, settings=PLAIN)
    first = encoder.encode(request)
    history.append(Message.assistant("Yes."))
    history.append(HELLO)
    assert json.loads(encoder.encode(request))["contents"][:1] == json.loads(first)["contents"]
    assert encoder.encode(request) == RequestEncoder(NEW).encode(
        ModelRequest(messages=[*history], settings=PLAIN)
    )


def test_a_count_asks_for_what_counts() -> None:
    settings = Settings(max_tokens=5, tool_choice="any")
    request = ModelRequest(
        messages=[HELLO], tools=(LOOK,), system=(SystemBlock(text="Be kind."),), settings=settings
    )
    asked = json.loads(RequestEncoder(NEW).encode_count(request))["generateContentRequest"]
    assert asked["model"] == f"models/{NEW}"
    assert set(asked) == {"model", "systemInstruction", "tools", "toolConfig", "contents"}


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("model", "settings", "thinking"),
    [
        (NEW, {}, None),
        (NEW, {"thinking": True}, {"includeThoughts": True}),
        (NEW, {"thinking": "adaptive"}, {"includeThoughts": True}),
        (NEW, {"thinking": "between_tools"}, {"includeThoughts": True}),
        (NEW, {"thinking": False}, {"includeThoughts": False, "thinkingLevel": "LOW"}),
        (NEW, {"thinking": 1000}, {"includeThoughts": True, "thinkingLevel": "LOW"}),
        (NEW, {"thinking": 5000}, {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        (NEW, {"thinking": 100_000}, {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        (
            NEW,
            {"thinking": 1000, "effort": "high"},
            {"includeThoughts": True, "thinkingLevel": "HIGH"},
        ),
        (NEW, {"effort": "low"}, {"thinkingLevel": "LOW"}),
        (NEW, {"effort": "max"}, {"thinkingLevel": "HIGH"}),
        ("gemini-4-argon", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}),
        ("gemini-flash-latest", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}),
        ("tunedModels/mine", {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}),
        (OLD, {"thinking": True}, {"includeThoughts": True, "thinkingBudget": -1}),
        (OLD, {"thinking": False}, {"includeThoughts": False, "thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinking": False}, {"includeThoughts": False, "thinkingBudget": 128}),
        (OLD, {"thinking": 1000}, {"includeThoughts": True, "thinkingBudget": 1000}),
        (
            OLD,
            {"thinking": True, "effort": "medium"},
            {"includeThoughts": True, "thinkingBudget": 8192},
        ),
        (OLD, {"effort": "max"}, {"thinkingBudget": 24576}),
    ],
)
def test_thinking_is_asked_for_in_the_words_of_the_generation(
    model: str, settings: Json, thinking: Json | None
) -> None:
    assert config(model, **settings).get("thinkingConfig") == thinking


def test_an_effort_is_the_nearest_that_the_model_takes() -> None:
    assert config(effort="medium", abilities=Abilities(efforts=("low", "high")))[
        "thinkingConfig"
    ] == {"thinkingLevel": "LOW"}
    assert config(effort="max", abilities=Abilities(efforts=("low", "high", "xhigh")))[
        "thinkingConfig"
    ] == {"thinkingLevel": "XHIGH"}


@pytest.mark.parametrize(("choice", "mode"), [("auto", "AUTO"), ("any", "ANY"), ("none", "NONE")])
def test_a_choice_of_tools_is_said_where_there_are_tools(choice: str, mode: str) -> None:
    settings = Settings(max_tokens=9, tool_choice=choice)
    assert body(HELLO, settings=settings, tools=(LOOK,))["toolConfig"] == {
        "functionCallingConfig": {"mode": mode}
    }
    assert "toolConfig" not in body(HELLO, settings=settings)


def test_extras_are_merged_over_ours() -> None:
    extra = {
        "generationConfig": {"topK": 3, "maxOutputTokens": 7},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "cachedContent": "cachedContents/1",
        "tools": [
            {"googleSearch": {}},
            {"functionDeclarations": [{"name": "look", "behavior": "BLOCKING"}, {"name": "go"}]},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
    }
    sent = body(HELLO, tools=(LOOK,), settings=Settings(max_tokens=9, temperature=0.5, extra=extra))
    assert sent["generationConfig"] == {"maxOutputTokens": 7, "temperature": 0.5, "topK": 3}
    assert sent["safetySettings"] == extra["safetySettings"]
    assert sent["cachedContent"] == "cachedContents/1"
    declared = {
        "name": "look",
        "description": "Looks.",
        "parametersJsonSchema": LOOK.parameters,
        "behavior": "BLOCKING",
    }
    assert sent["tools"] == [
        {"functionDeclarations": [declared, {"name": "go"}]},
        {"googleSearch": {}},
    ]
    assert sent["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert body(HELLO, settings=Settings(max_tokens=9, extra={"tools": [{"googleSearch": {}}]}))[
        "tools"
    ] == [{"googleSearch": {}}]


@pytest.mark.parametrize(
    "extra",
    [
        {"contents": []},
        {"tools": "all"},
        {"tools": ["googleSearch"]},
        {"tools": [{"functionDeclarations": "x"}]},
        {"x": object()},
    ],
)
def test_extras_that_cannot_be_sent_are_refused(extra: Json) -> None:
    with pytest.raises(AgentError) as raised:
        body(HELLO, settings=Settings(max_tokens=9, extra=extra))
    assert raised.value.kind is ErrorKind.INVALID


# ---------------------------------------------------------------- schemas


def test_a_schema_says_the_same_in_words_that_are_taken() -> None:
    point = {
        "type": "object",
        "properties": {
            "const": {"const": "x"},
            "$ref": {"type": "string"},
            "n": {"const": 3},
            "on": {"const": True},
        },
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"Point": point},
        "properties": {
            "plain": {"$ref": "#/$defs/Point"},
            "described": {"$ref": "#/$defs/Point", "description": "Where."},
            "titled": {"$ref": "#/$defs/Point", "title": "There", "description": "Where."},
            "either": {"anyOf": [{"$ref": "#/$defs/Point", "title": "A"}, {"type": "null"}]},
            "list": {
                "type": "array",
                "items": {"const": "y"},
                "prefixItems": [{"const": 1}],
                "default": [{"const": "z"}],
            },
        },
        "additionalProperties": False,
    }
    before = json.dumps(schema)
    assert fitted(schema) == {
        "type": "object",
        "$defs": {
            "Point": {
                "type": "object",
                "properties": {
                    "const": {"enum": ["x"]},
                    "$ref": {"type": "string"},
                    "n": {"enum": [3]},
                    "on": {"const": True},
                },
            }
        },
        "properties": {
            "plain": {"$ref": "#/$defs/Point"},
            "described": {"$ref": "#/$defs/Point", "description": "Where."},
            "titled": {
                "anyOf": [{"$ref": "#/$defs/Point"}],
                "title": "There",
                "description": "Where.",
            },
            "either": {
                "anyOf": [{"anyOf": [{"$ref": "#/$defs/Point"}], "title": "A"}, {"type": "null"}]
            },
            "list": {
                "type": "array",
                "items": {"enum": ["y"]},
                "prefixItems": [{"enum": [1]}],
                "default": [{"const": "z"}],
            },
        },
        "additionalProperties": False,
    }
    assert json.dumps(schema) == before, "the caller's own is left alone"


# ---------------------------------------------------------------- signatures


CALL = ToolCall(id="c1", name="look", arguments_json='{"a": 1}')
RESULT = Message.tool([ToolResult(call_id="c1", name="look", content="seen")])


def signed_call(model: str | None) -> ToolCall:
    kept = own(thoughtSignature="c2ln", **({"model": model} if model else {}))
    return ToolCall(id="c1", name="look", arguments_json='{"a": 1}', **kept)


def signature(*parts: Part, model: str = NEW, settled: bool = False) -> list[str | None]:
    told = contents(
        HELLO, Message.assistant(parts), RESULT, HELLO, model=model, settled=3 if settled else 0
    )
    return [part.get("thoughtSignature") for part in told[1]["parts"] if "functionCall" in part]


def test_a_signature_goes_back_to_the_model_that_gave_it_and_only_within_the_run() -> None:
    assert signature(signed_call(NEW)) == signature(signed_call(None)) == ["c2ln"]
    assert signature(signed_call("gemini-3.7-flash")) == [ANY]
    assert signature(signed_call(NEW), settled=True) == [None]
    assert signature(signed_call(OLD), model=OLD) == ["c2ln"]
    assert signature(signed_call(NEW), model=OLD) == [None]


def test_the_first_call_of_a_step_has_the_vendors_placeholder_for_want_of_a_signature() -> None:
    foreign = ToolCall(
        id="c1", name="look", provider="anthropic", provider_data='{"caller":{"type":"direct"}}'
    )
    second = ToolCall(id="c2", name="look")
    assert signature(foreign, second) == [ANY, None]
    assert signature(signed_call(NEW), second) == ["c2ln", None]
    assert signature(foreign, settled=True) == [None]
    for model, expected in (
        ("gemini-4-argon", ANY),
        ("gemini-pro-latest", ANY),
        ("gemini-3-pro-preview", ANY),
        (OLD, None),
        ("gemini-1.5-pro", None),
    ):
        assert signature(foreign, model=model) == [expected]


def test_our_own_words_do_not_travel() -> None:
    text = TextPart(text="Good day", **own(thoughtSignature="c2ln", prefix=5, model=NEW))
    assert said(text) == [{"text": "Good "}, {"text": "day", "thoughtSignature": "c2ln"}]
    assert (
        said(text, settled=True) == said(text, model="gemini-3.7-flash") == [{"text": "Good day"}]
    )
    assert said(TextPart(text="Good", **own(thoughtSignature="c2ln", prefix=99))) == [
        {"text": "Good"},
        {"text": "", "thoughtSignature": "c2ln"},
    ]
    empty = ProviderPart(
        provider="gemini", data='{"text":"","thoughtSignature":"c2ln","model":"gemini-3.7-flash"}'
    )
    assert said(empty, TextPart(text="Yes.")) == [{"text": "Yes."}]


@pytest.mark.parametrize(
    "part",
    [
        ReasoningPart(text="Hm."),
        ReasoningPart(text="Hm.", provider="gemini"),
        ReasoningPart(text="Hm.", provider="anthropic", provider_data='{"signature":"no"}'),
        ProviderPart(provider="anthropic", data='{"type":"redacted_thinking"}'),
        ProviderPart(provider="gemini", data='{"groundingMetadata":{}}'),
        ProviderPart(provider="gemini", data="{half"),
        UnknownPart(type="hologram", raw='{"type":"hologram"}'),
        TextPart(text=""),
    ],
)
def test_what_is_not_for_this_provider_is_left_out(part: Part) -> None:
    assert said(part, TextPart(text="Yes.")) == [{"text": "Yes."}]
    assert said(part) == []


def test_parts_of_the_provider_stay_when_the_run_is_over_but_not_their_signatures() -> None:
    code = ProviderPart(
        provider="gemini", data='{"executableCode":{"code":"1"},"thoughtSignature":"c2ln"}'
    )
    thought = ProviderPart(provider="gemini", data='{"inlineData":{},"thought":true}')
    assert said(code, thought) == [
        {"executableCode": {"code": "1"}, "thoughtSignature": "c2ln"},
        {"inlineData": {}, "thought": True},
    ]
    assert said(code, thought, settled=True) == [{"executableCode": {"code": "1"}}]


# ---------------------------------------------------------------- order


def test_the_user_begins_and_ends_and_the_model_speaks_once_at_a_time() -> None:
    answer, again = Message.assistant("Yes."), {"role": "model", "parts": [{"text": "Yes."}]}
    user = {"role": "user", "parts": [{"text": "Hello"}]}
    assert contents(answer, HELLO) == [GO_ON, again, user]
    assert contents(HELLO, answer) == [user, again, GO_ON]
    assert contents(HELLO, answer, answer, HELLO) == [user, again, GO_ON, again, user]
    assert contents(HELLO, answer, Message.user(""), answer) == [user, again, GO_ON, again, GO_ON]


def test_who_has_the_last_word_may_change_while_the_history_grows() -> None:
    encoder, history = RequestEncoder(NEW), History([HELLO, Message.assistant("Half")])
    request = ModelRequest(messages=history, settings=PLAIN)
    first = json.loads(encoder.encode(request))["contents"]
    history.append(Message.assistant("and half."))
    history.append(HELLO)
    second = json.loads(encoder.encode(request))["contents"]
    assert second[: len(first)] == first
    assert [content["role"] for content in second] == ["user", "model", "user", "model", "user"]


def test_words_between_results_and_the_answer_are_the_users() -> None:
    told = contents(
        HELLO,
        Message.assistant([CALL]),
        RESULT,
        Message.system("Mind the gap."),
        Message.user("Hurry."),
    )
    assert told[3:] == [
        {"role": "user", "parts": [{"text": "Mind the gap."}]},
        {"role": "user", "parts": [{"text": "Hurry."}]},
    ]


# ---------------------------------------------------------------- calls and results


def test_calls_and_results_are_paired_by_name_and_id() -> None:
    calls = [
        ToolCall(id="id|of:another", name="look.closer"),
        ToolCall(id="", name="9 lives", arguments_json="{half"),
        ToolCall(id="c" * 99, name=""),
    ]
    results = [ToolResult(call_id=c.id, name="?", content="seen") for c in calls]
    told = contents(HELLO, Message.assistant(calls), Message.tool(results))
    asked = [part["functionCall"] for part in told[1]["parts"]]
    answered = [part["functionResponse"] for part in told[2]["parts"]]
    assert [(c["id"], c["name"]) for c in asked] == [(r["id"], r["name"]) for r in answered]
    assert asked[0]["name"] == "look.closer"
    assert [c["args"] for c in asked] == [{}, {"INVALID_JSON": "{half"}, {}]
    for c in asked:
        assert len(c["id"]) <= 64
        assert c["name"][0].isalpha() or c["name"][0] == "_"


def result(*content: TextPart | MediaPart, model: str = NEW, **fields: Any) -> list[Json]:
    answered = ToolResult(call_id="c1", name="look", content=content, **fields)
    return contents(HELLO, Message.assistant([CALL]), Message.tool([answered]), model=model)[2:]


def test_a_result_is_an_output_or_an_error() -> None:
    failed = Message.tool(
        [ToolResult(call_id="c1", name="look", content="No such place.", is_error=True)]
    )
    silent = Message.tool([ToolResult(call_id="c1", name="look", is_error=True)])
    before = (HELLO, Message.assistant([CALL]))
    assert contents(*before, RESULT)[2] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "seen"}}}
        ],
    }
    assert contents(*before, failed)[2]["parts"][0]["functionResponse"]["response"] == {
        "error": "No such place."
    }
    assert contents(*before, silent)[2]["parts"][0]["functionResponse"]["response"] == {
        "error": "It failed without saying why."
    }


def test_what_a_result_shows_stands_inside_it_where_the_model_takes_that() -> None:
    (told,) = result(TextPart(text="A plot."), IMAGE)
    answered = told["parts"][0]["functionResponse"]
    assert answered["response"] == {"output": "A plot."}
    assert answered["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}]


def test_else_it_follows_by_itself_since_results_are_counted() -> None:
    url = MediaPart(media_type="image/png", url="https://example.com/a.png")
    for content, model in (
        ([TextPart(text="A plot."), IMAGE], OLD),
        ([TextPart(text="A plot."), url], NEW),
    ):
        answered, shown = result(*content, model=model)
        assert answered["parts"][0]["functionResponse"]["response"] == {
            "output": "A plot.\nIts result is shown below."
        }
        assert len(answered["parts"]) == 1
        assert [*shown["parts"][0]] in (["inlineData"], ["fileData"])


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (IMAGE, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}),
        (
            MediaPart(media_type="application/pdf", data="QUJD"),
            {"inlineData": {"mimeType": "application/pdf", "data": "QUJD"}},
        ),
        (
            MediaPart(media_type="audio/wav", data="QUJD"),
            {"inlineData": {"mimeType": "audio/wav", "data": "QUJD"}},
        ),
        (
            MediaPart(media_type="video/mp4", url="https://example.com/a.mp4"),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/a.mp4"}},
        ),
        (
            MediaPart(media_type="text/markdown", data="IyBIaQ==", name="a.md"),
            {"text": "a.md (text/markdown):\n# Hi"},
        ),
        (
            MediaPart(media_type="application/json", data="e30="),
            {"text": "A file (application/json):\n{}"},
        ),
    ],
)
def test_media_go_as_what_the_api_takes(part: MediaPart, sent: Json) -> None:
    assert contents(Message.user([part])) == [{"role": "user", "parts": [sent]}]


def test_a_model_that_takes_no_images_reads_what_was_there() -> None:
    answered = Message.tool([ToolResult(call_id="c1", name="look", content=(IMAGE,))])
    sent = body(
        HELLO,
        Message.assistant([CALL]),
        answered,
        Message.user([IMAGE]),
        settled=4,
        abilities=Abilities(images=False),
    )
    assert "QUJD" not in json.dumps(sent)
    assert json.dumps(sent).count("[plot (image/png)") == 2


def test_half_characters_do_not_break_a_history() -> None:
    parts = (
        TextPart(text="a\ud83d"),
        ToolCall(id="c1", name="look", arguments_json='{"a":"\\ud83d","b":"\ud83d"}'),
        ProviderPart(provider="gemini", data='{"executableCode":{"code":"\\ud83d"}}'),
    )
    assert "\ud83d" not in json.dumps(said(*parts), ensure_ascii=False)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("model", "resource"),
    [
        ("gemini-3.8-flash", "models/gemini-3.8-flash"),
        ("models/gemini-3.8-flash", "models/gemini-3.8-flash"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("a/b?c#d e:f", "models/a%2Fb%3Fc%23d%20e%3Af"),
        ("../../v1/x", "models/..%2F..%2Fv1%2Fx"),
    ],
)
def test_an_id_is_a_place_of_its_own(model: str, resource: str) -> None:
    assert resource_of(model) == resource


@pytest.mark.parametrize(
    ("model", "generation"),
    [
        ("gemini-3.8-flash", (3, 8)),
        ("gemini-3-pro-preview", (3, 0)),
        ("models/gemini-2.5-flash-preview-09-2025", (2, 5)),
        ("gemini-4-argon", (4, 0)),
        ("gemini-10.12-x", (10, 12)),
        ("gemini-flash-latest", None),
        ("gemma-4-31b-it", None),
        ("gemini-20250101", None),
    ],
)
def test_an_id_tells_its_generation(model: str, generation: tuple[int, int] | None) -> None:
    assert generation_of(model) == generation


# ---------------------------------------------------------------- any history


def broken(sent: Json) -> list[str]:
    """What the API would refuse of a conversation.

    Source: its pages on function calling and thought signatures, and its 400s.
    """
    problems = list[str]()
    turns: list[Json] = sent["contents"]
    if not turns or turns[0]["role"] != "user" or turns[-1]["role"] != "user":
        problems.append("the user begins and ends")
    asked = max(
        (
            i
            for i, turn in enumerate(turns)
            if turn["role"] == "user" and not _of(turn, "functionResponse")
        ),
        default=0,
    )
    for i, turn in enumerate(turns):
        before = turns[i - 1] if i else {"role": "", "parts": []}
        calls, answered = _of(before, "functionCall"), _of(turn, "functionResponse")
        if not turn["parts"] or turn["role"] not in ("user", "model"):
            problems.append(f"{i}: a turn needs a role and parts")
        if [(c["id"], c["name"]) for c in calls] != [(r["id"], r["name"]) for r in answered]:
            problems.append(f"{i}: {len(calls)} calls and {len(answered)} results")
        if answered and len(answered) != len(turn["parts"]):
            problems.append(f"{i}: results stand by themselves")
        if turn["role"] == before["role"] == "model":
            problems.append(f"{i}: the model speaks twice")
        first = next((part for part in turn["parts"] if "functionCall" in part), None)
        if i > asked and first is not None and not first.get("thoughtSignature"):
            problems.append(f"{i}: a call of the current turn is not signed")
        problems += [
            f"{i}: {sorted(part)}"
            for part in turn["parts"]
            if len(part.keys() - {"thoughtSignature", "thought"}) != 1
        ]
        problems += [
            f"{i}: an empty text"
            for part in turn["parts"]
            if part.get("text") == "" and "thoughtSignature" not in part
        ]
    return problems


def _of(turn: Json, kind: str) -> list[Json]:
    return [part[kind] for part in turn["parts"] if kind in part]


ODD = st.text(st.characters(exclude_categories=()), max_size=6)
ARGUMENTS = st.sampled_from(['{"a":1}', "", "{", "[1]", '"\ud83d"', '{"a":1e400}'])
FOREIGN = {"provider": "elsewhere", "provider_data": '{"x":1}'}
KEPT = [{}, FOREIGN, own(thoughtSignature="c2ln"), own(thoughtSignature="c2ln", model=NEW)]
OWNED = st.sampled_from([*KEPT, own(thoughtSignature="c2ln", prefix=2, model=NEW)])
MEDIA = st.builds(
    MediaPart,
    media_type=st.sampled_from(["image/png", "text/plain", "image/gif"]),
    data=st.sampled_from(["QUJD", "half", "%"]),
)
SPOKEN = st.one_of(
    st.builds(lambda text, kept: TextPart(text=text, **kept), ODD, OWNED),
    st.builds(lambda text, kept: ReasoningPart(text=text, **kept), ODD, OWNED),
    st.builds(
        lambda data, provider: ProviderPart(provider=provider, data=data),
        st.sampled_from(
            [
                '{"text":"","thoughtSignature":"c2ln"}',
                '{"executableCode":{}}',
                '{"citationMetadata":{}}',
                "{",
            ]
        ),
        st.sampled_from(["gemini", "elsewhere"]),
    ),
    st.just(UnknownPart(type="hologram", raw="{}")),
)
CALLED = st.builds(
    lambda id, name, text, kept: ToolCall(id=id, name=name, arguments_json=text, **kept),
    ODD,
    ODD,
    ARGUMENTS,
    st.sampled_from(KEPT),
)
SHOWN = st.one_of(
    ODD, st.lists(st.one_of(st.builds(TextPart, text=ODD), MEDIA), max_size=3).map(tuple)
)


@st.composite
def steps(draw: st.DrawFn) -> list[Message]:
    if draw(st.booleans()):
        return [
            Message.of(
                draw(st.sampled_from(["user", "system"])),
                draw(st.lists(st.one_of(st.builds(TextPart, text=ODD), MEDIA), max_size=2)),
            )
        ]
    calls = draw(st.lists(CALLED, max_size=3, unique_by=lambda call: call.id))
    answer = Message.assistant([*draw(st.lists(SPOKEN, max_size=3)), *calls])
    results = [
        ToolResult(call_id=c.id, name=c.name, content=draw(SHOWN), is_error=draw(st.booleans()))
        for c in calls
    ]
    return [answer, Message.tool(results)] if results else [answer]


@given(
    st.lists(steps(), max_size=6), st.sampled_from([NEW, OLD, "gemini-pro-latest"]), st.booleans()
)
def test_any_history_becomes_a_conversation_that_the_api_takes(
    said: list[list[Message]], model: str, over: bool
) -> None:
    messages = with_images_only([message for step in said for message in step])
    settled = len(messages) if over else 0
    sent = body(*messages, HELLO, model=model, settled=settled)
    assert [
        problem for problem in broken(sent) if model != OLD or "not signed" not in problem
    ] == []
