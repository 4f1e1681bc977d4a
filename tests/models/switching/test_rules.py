"""The rules find what they are there for: each of these is refused by whoever the request is for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.switching.rules import anthropic, gemini, openai_chat, openai_responses

Json = dict[str, Any]

ASKED = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
CALL = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
CALLED = {"role": "assistant", "content": [CALL]}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
ANSWERED = {"role": "user", "content": [RESULT]}
TOLD = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}


def says(*blocks: Json, role: str = "assistant") -> Json:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "at least one"),
        ([CALLED, ANSWERED], "the first one is the user's"),
        ([ASKED, CALLED], "want a result each"),
        ([ASKED, CALLED, ASKED], "want a result each"),
        ([ASKED, ANSWERED], "want a result each"),
        ([ASKED, CALLED, ANSWERED, CALLED, ANSWERED], "ids must be unique"),
        ([ASKED, CALLED, says(*ASKED["content"], RESULT, role="user")], "results come first"),
        (
            [
                ASKED,
                says({**CALL, "id": "a|b"}),
                says({**RESULT, "tool_use_id": "a|b"}, role="user"),
            ],
            "letters, digits",
        ),
        (
            [
                ASKED,
                says({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}),
            ],
            "lacks ['signature']",
        ),
        (
            [ASKED, says({"type": "thinking", "thinking": "Hm.", "signature": "s"})],
            "cannot be thinking",
        ),
        ([ASKED, says({"type": "text", "text": ""})], "not empty"),
        ([ASKED, says({"type": "text", "text": " \n"})], "non-whitespace"),
        ([ASKED, says()], "content must not be empty"),
        ([ASKED, says({"type": "web_search_call"})], "no block of type"),
        ([ASKED, says({"type": "text", "text": "Yes.", "annotations": []})], "does not know"),
        ([ASKED, says({"type": "image", "source": {}})], "image"),
        (
            [ASKED, CALLED, says({**RESULT, "content": "", "is_error": True}, role="user")],
            "cannot be empty",
        ),
        ([TOLD, ASKED], "must follow"),
        ([ASKED, TOLD, ASKED], "must precede"),
        ([ASKED, TOLD, TOLD], "must follow"),
    ],
)
def test_claude(messages: list[Json], said: str) -> None:
    assert any(said in problem for problem in anthropic.broken({"messages": messages}))


USER = {"role": "user", "content": "Go."}
TOOL = {"role": "tool", "tool_call_id": "a", "content": "ok"}


def calls(*ids: str, arguments: str = "{}", **more: Any) -> Json:
    made = [
        {"id": one, "type": "function", "function": {"name": "look", "arguments": arguments}}
        for one in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made, **more}


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "at least one"),
        ([USER, calls("a")], "have no answer"),
        ([USER, calls("a"), USER, TOOL], "directly after them"),
        ([USER, TOOL], "preceding message"),
        ([USER, calls("a"), TOOL, TOOL], "preceding message"),
        ([USER, calls("a" * 41), {**TOOL, "tool_call_id": "a" * 41}], "no id"),
        ([USER, calls("a", arguments="{"), TOOL], "no JSON object"),
        ([USER, {"role": "assistant", "content": ""}], "neither content nor calls"),
        ([USER, calls("a", thinking="Hm."), TOOL], "does not know"),
        ([{"role": "user", "content": []}], "must not be empty"),
        (
            [
                USER,
                calls("a"),
                {**TOOL, "content": [{"type": "image_url", "image_url": {"url": ""}}]},
            ],
            "a part of type 'image_url'",
        ),
        ([{"role": "robot", "content": "x"}], "no role"),
    ],
)
def test_chat(messages: list[Json], said: str) -> None:
    assert any(said in problem for problem in openai_chat.broken({"messages": messages}))


CALL_ITEM = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "ok"}
THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": "e"}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "at least one"),
        ([USER, CALL_ITEM], "no tool output"),
        ([USER, OUTPUT], "no tool call found"),
        ([USER, CALL_ITEM, OUTPUT, OUTPUT], "no tool call found"),
        (
            [USER, {**CALL_ITEM, "call_id": "a" * 65}, {**OUTPUT, "call_id": "a" * 65}],
            "letters, digits",
        ),
        ([USER, THOUGHT], "required following item"),
        ([USER, THOUGHT, USER], "required following item"),
        (
            [USER, {"type": "reasoning", "summary": []}, CALL_ITEM, OUTPUT],
            "lacks ['encrypted_content']",
        ),
        ([USER, {**CALL_ITEM, "id": "call_1"}, OUTPUT], "begins with 'fc'"),
        ([{"role": "user", "content": ""}], "must not be empty"),
        (
            [USER, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
            "a part of type",
        ),
        ([USER, {"type": "server_tool_use"}], "no item of type"),
    ],
)
def test_responses(items: list[Json], said: str) -> None:
    assert any(
        said in problem for problem in openai_responses.broken({"store": False, "input": items})
    )


def content(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts)}


GO = content("user", {"text": "Go."})
SIGNED = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
RESPONSE = {"functionResponse": {"name": "look", "response": {}}}


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ([], "not specified"),
        ([content("model", {"text": "Hi."}), GO], "begins with the user"),
        ([GO, content("model", {"text": "Hi."})], "ends with a turn of the user"),
        ([GO, content("model", SIGNED), GO], "as many responses"),
        ([GO, content("model", SIGNED), content("user", RESPONSE, RESPONSE)], "as many responses"),
        (
            [
                GO,
                content("model", {"text": "Hm."}),
                content("model", SIGNED),
                content("user", RESPONSE),
            ],
            "comes immediately after",
        ),
        (
            [
                GO,
                content("model", {"functionCall": SIGNED["functionCall"]}),
                content("user", RESPONSE),
            ],
            "missing a thought_signature",
        ),
        (
            [
                GO,
                content("model", {**SIGNED, "thoughtSignature": "not base64!"}),
                content("user", RESPONSE),
            ],
            "not base64",
        ),
        ([content("user", {"text": ""})], "an empty text"),
        ([content("user")], "must not be empty"),
        ([content("system", {"text": "x"})], "no role"),
        ([content("user", {"text": "x", "inlineData": {}})], "exactly one kind"),
        ([content("user", {"text": "x", "signature": "s"})], "unknown names"),
    ],
)
def test_gemini(contents: list[Json], said: str) -> None:
    assert any(said in problem for problem in gemini.broken({"contents": contents}))


@pytest.mark.parametrize(
    "problems",
    [
        anthropic.broken({"messages": [ASKED, TOLD, CALLED, ANSWERED]}),
        openai_chat.broken(
            {"messages": [USER, calls("a", "b"), TOOL, {**TOOL, "tool_call_id": "b"}]}
        ),
        openai_responses.broken({"store": False, "input": [USER, THOUGHT, CALL_ITEM, OUTPUT]}),
        gemini.broken({"contents": [GO, content("model", SIGNED), content("user", RESPONSE)]}),
    ],
)
def test_what_is_right_is_let_through(problems: list[str]) -> None:
    assert problems == []
