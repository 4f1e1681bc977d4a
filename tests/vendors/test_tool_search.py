"""Deferred tools on every wire: searched by the vendor where it can, and otherwise by a tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.vendors.server import call, vendor
from treadle import Agent, Runtime, Settings, Toolset, tool
from treadle.config.model_profile import Abilities
from treadle.messages.message import Message, ProviderPart, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.anthropic.request import RequestEncoder as ClaudeEncoder
from treadle.models.providers.openai_responses.request import RequestEncoder as ResponsesEncoder

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6-astra",
    "openai-chat": "gpt-5.6",
    "gemini": "gemini-3.8-flash",
}
NATIVE = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai": {"type": "tool_search"},
}


@tool(effect="pure")
async def weather(city: str) -> str:
    """Weather of a city."""
    return f"Rain in {city}."


@tool(effect="pure")
async def clock() -> str:
    """Time of day."""
    return "Noon."


def tools_in(body: dict[str, Any]) -> list[Any]:
    tools = body["tools"]
    if "functionDeclarations" in tools[0]:
        return tools[0]["functionDeclarations"]
    return [one.get("function", one) for one in tools]


@pytest.mark.parametrize("wire", MODELS)
async def test_deferred_tools_are_found_and_called(wire: str) -> None:
    searches = [] if wire in NATIVE else [[call("search_tools", "c1", query="weather")]]
    script = [*searches, [call("weather", "c2", city="Rome")], "Rain."]
    async with vendor(*script) as made, Runtime.open() as runtime:
        model = made.model(wire, MODELS[wire], own_host=True)
        who = Agent(
            name="clerk",
            model=model,
            tools=[*Toolset[Any]([weather]).deferred(), clock],
            settings=Settings(max_tokens=1_000, strict_tools=False, cache=False),
        )
        result = await runtime.run(who, "Go.")
    assert (result.text, result.error, made.refused) == ("Rain.", None, [])
    assert "Rain in Rome." in json.dumps(made.bodies[-1])
    first, last = tools_in(made.bodies[0]), tools_in(made.bodies[-1])
    if wire in NATIVE:
        assert (first[0]["name"], first[0]["defer_loading"]) == ("weather", True)
        assert ("defer_loading" in first[1], first[-1]) == (False, NATIVE[wire])
        assert first == last
    else:
        assert [one["name"] for one in first] == ["clock", "search_tools"]
        assert [one["name"] for one in last] == ["clock", "search_tools", "weather"]
        assert "defer" not in json.dumps(made.bodies)


@pytest.mark.parametrize("wire", NATIVE)
async def test_a_server_that_only_speaks_the_api_gets_our_search(wire: str) -> None:
    async with vendor("Hello.") as made, Runtime.open() as runtime:
        model = made.model(wire, MODELS[wire], Abilities(tool_search=False), own_host=True)
        tools = [*Toolset[Any]([weather]).deferred(), clock]
        await runtime.run(Agent(name="clerk", model=model, tools=tools), "Go.")
    assert [one["name"] for one in tools_in(made.bodies[0])] == ["clock", "search_tools"]


SAID: tuple[dict[str, Any], ...] = (
    {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25", "input": {}},
    {
        "type": "tool_search_tool_result",
        "tool_use_id": "s1",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "weather"}],
        },
    },
)
FOUND = ToolDefinition(name="weather", description="W.", parameters={"type": "object"})
HISTORY = [
    Message.user("Go."),
    Message.assistant(
        [
            *(ProviderPart(provider="anthropic", data=json.dumps(block)) for block in SAID),
            ToolCall(id="t1", name="weather"),
        ]
    ),
    Message.tool([ToolResult(call_id="t1", name="weather", content="Rain.")]),
]


@pytest.mark.parametrize("deferred", [True, False])
def test_a_search_by_claude_goes_back_only_with_its_tools(deferred: bool) -> None:
    """In a session that goes on with another agent, the tools of the references are missing."""
    found = ToolDefinition(
        name="weather", description="W.", parameters={"type": "object"}, deferred=deferred
    )
    request = ModelRequest(messages=HISTORY, tools=(found,), settings=Settings(max_tokens=99))
    body = json.loads(ClaudeEncoder("claude-opus-5-5").encode(request).body)
    blocks = body["messages"][1]["content"]
    assert [block["type"] for block in blocks] == (
        ["server_tool_use", "tool_search_tool_result", "tool_use"] if deferred else ["tool_use"]
    )


def test_a_search_by_openai_goes_back_unchanged_and_its_call_with_the_namespace() -> None:
    items: tuple[dict[str, Any], ...] = (
        {"type": "tool_search_call", "status": "completed", "call_id": None, "arguments": {}},
        {"type": "tool_search_output", "status": "completed", "call_id": None, "tools": []},
    )
    parts = [ProviderPart(provider="openai", data=json.dumps(one)) for one in items]
    asked = ToolCall(
        id="c1", name="weather", provider="openai", provider_data='{"namespace":"weather"}'
    )
    messages = [HISTORY[0], Message.assistant([*parts, asked])]
    request = ModelRequest(messages=messages, tools=(FOUND,), settings=Settings(max_tokens=99))
    sent = json.loads(ResponsesEncoder("gpt-6-sol").encode(request))["input"]
    assert sent[1:3] == list(items)
    assert sent[3]["namespace"] == "weather"


def test_the_cache_breakpoint_of_tools_is_not_on_a_deferred_one() -> None:
    late = ToolDefinition(
        name="late", description="L.", parameters={"type": "object"}, deferred=True
    )
    request = ModelRequest(messages=HISTORY[:1], tools=(FOUND, late), settings=Settings())
    tools = json.loads(ClaudeEncoder("claude-opus-5-5").encode(request).body)["tools"]
    assert ["cache_control" in one for one in tools] == [False, False, True]
    assert tools[1]["defer_loading"] is True
