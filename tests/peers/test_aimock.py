"""Whole runs against CopilotKit's mock server, on each wire; its journal shows what it made of our
requests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.peers.aimock import Aimock
from tests.peers.weather import SYSTEM, guide
from tests.peers.wires import PATHS
from treadle import Outcome, Runtime
from treadle.errors import ErrorKind
from treadle.messages.message import ReasoningPart
from treadle.messages.validate import check_history


def messages_of(body: dict[str, Any], wire: str) -> list[dict[str, Any]]:
    """As the server reads them, in the words of Chat Completions; made alike where the wires
    differ.
    """
    messages = list[dict[str, Any]]()
    for read in body["messages"]:
        message = {"tool_calls": [], **read, "content": read["content"] or ""}
        if wire == "gemini" and message["role"] == "tool":  # a result is an object there
            message["content"] = json.loads(message["content"])["output"]
        # each item of a response is a message to it
        if messages and message["role"] == messages[-1]["role"] == "assistant":
            messages[-1]["tool_calls"] += message["tool_calls"]
            messages[-1]["content"] += message["content"]
        else:
            messages.append(message)
    return messages


def understood(body: dict[str, Any], wire: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Role, text, and of calls their names and arguments."""
    return [
        (
            message["role"],
            message["content"],
            [
                (call["function"]["name"], call["function"]["arguments"])
                for call in message["tool_calls"]
            ],
        )
        for message in messages_of(body, wire)
    ]


async def test_a_streamed_tool_round_trip_is_the_same_conversation_on_the_other_side(
    runtime: Runtime, aimock: Aimock, wire: str
) -> None:
    asked: list[str] = []
    result = await runtime.run(guide(asked), "How warm is Paris?")

    assert result.unwrap() == "It is 18C in Paris, and it stays so."
    assert asked == ["Paris"]
    assert check_history(result.messages) == []
    first, second = aimock.received()
    assert [entry["path"].partition("?")[0] for entry in (first, second)] == [PATHS[wire]] * 2
    assert first["body"]["tools"][0]["function"]["name"] == "get_weather"
    if wire != "gemini":  # it does not know `parametersJsonSchema` there
        assert first["body"]["tools"][0]["function"]["parameters"]["required"] == ["city"]
    assert understood(first["body"], wire) == [
        ("system", SYSTEM, []),
        ("user", "How warm is Paris?", []),
    ]
    assert understood(second["body"], wire)[2:] == [
        (
            "assistant",
            "Let me look at the thermometer. ",
            [("get_weather", '{"city":"Paris","days":2}')],
        ),
        ("tool", "Paris: 18C for 2 day(s)", []),
    ]
    *_, assistant, answer = messages_of(second["body"], wire)
    assert answer["tool_call_id"] == assistant["tool_calls"][0]["id"]


async def test_three_calls_of_one_answer_are_answered_each_under_its_id(
    runtime: Runtime, aimock: Aimock, wire: str
) -> None:
    asked: list[str] = []
    result = await runtime.run(guide(asked), "Compare both cities")

    assert result.unwrap() == "All the same."
    assert sorted(asked) == ["Oslo", "Rome", "Öresund 🌊"]
    assert check_history(result.messages) == []
    *_, assistant, oslo, rome, oresund = messages_of(aimock.bodies()[1], wire)
    assert [call["id"] for call in assistant["tool_calls"]] == [
        m["tool_call_id"] for m in (oslo, rome, oresund)
    ]
    assert [m["content"].partition(":")[0] for m in (oslo, rome, oresund)] == [
        "Oslo",
        "Rome",
        "Öresund 🌊",
    ]


async def test_reasoning_is_streamed_kept_and_goes_back_in_front_of_its_calls(
    runtime: Runtime, aimock: Aimock, wire: str
) -> None:
    """For Claude the server itself checks it: with thinking on, each turn of a tool loop has to
    begin with signed thinking, else it answers 400.
    """
    asked: list[str] = []
    result = await runtime.run(guide(asked, thinking=2048), "Ponder and look")

    assert result.unwrap() == "Both are warm."
    assert asked == ["Paris", "Rome"]
    thoughts = [
        part.text
        for message in result.messages
        for part in message.parts
        if isinstance(part, ReasoningPart)
    ]
    assert thoughts == ["Paris comes first, I believe.", "Rome is still to be seen.", "Now I know."]
    assert [entry["response"]["status"] for entry in aimock.received()] == [200, 200, 200]
    if wire == "openai-chat":
        said = [
            message for message in aimock.bodies()[2]["messages"] if message["role"] == "assistant"
        ]
        assert [message["reasoning_content"] for message in said] == thoughts[:2]


def test_the_server_does_refuse_a_tool_loop_without_its_thinking(aimock: Aimock) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18C"}
    turns = [("user", "Ponder and look"), ("assistant", [call]), ("user", [result])]
    messages = [{"role": role, "content": content} for role, content in turns]
    body = {
        "model": "tiny",
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "messages": messages,
    }
    status, answer = aimock.post("/v1/messages", body)
    assert (status, "must begin with a `thinking` block" in answer["error"]["message"]) == (
        400,
        True,
    )


async def test_an_answer_that_is_cut_by_its_length_ends_the_run_as_truncated(
    runtime: Runtime,
) -> None:
    result = await runtime.run(guide(), "Talk on and on")
    assert (result.outcome, result.text) == (Outcome.TRUNCATED, "On and on and")
    assert check_history(result.messages) == []


async def test_a_call_of_a_tool_that_is_not_there_is_told_to_the_model_which_goes_on(
    runtime: Runtime, aimock: Aimock
) -> None:
    result = await runtime.run(guide(), "Call what is not there")
    assert result.unwrap() == "So there is only the weather."
    assert check_history(result.messages) == []


async def test_tokens_are_those_that_the_server_counts(runtime: Runtime, wire: str) -> None:
    result = await runtime.run(guide(), "How warm is Paris?")
    usage = result.metrics.usage
    assert (usage.total_input_tokens, usage.output_tokens) == (100, 20)


@pytest.mark.parametrize(
    ("prompt", "kind", "attempts"),
    [
        ("Refuse the key", ErrorKind.AUTH, 1),
        ("Refuse the model", ErrorKind.INVALID, 1),
        ("Refuse the request", ErrorKind.INVALID, 1),
        ("Be overloaded", ErrorKind.RATE_LIMIT, 4),
        ("Break down", ErrorKind.NETWORK, 4),
        ("Say what nobody expects", ErrorKind.NETWORK, 4),
    ],
)
async def test_a_refusal_ends_the_run_with_an_error_of_its_kind(
    runtime: Runtime, aimock: Aimock, prompt: str, kind: ErrorKind, attempts: int
) -> None:
    result = await runtime.run(guide(), prompt)
    assert result.error is not None
    assert (result.outcome, result.error.kind, len(aimock.received())) == (
        Outcome.ERROR,
        kind,
        attempts,
    )
    assert result.error.status == aimock.received()[-1]["response"]["status"]
    assert check_history(result.messages) == []


async def test_a_prompt_that_is_too_long_for_the_model_ends_the_run_as_an_overflow(
    runtime: Runtime,
) -> None:
    result = await runtime.run(guide(), "Refuse the length")
    assert result.outcome is Outcome.CONTEXT_OVERFLOW
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONTEXT_OVERFLOW
