"""A model that no list names gets its settings as they are; what its vendor refuses by name is left
out for the rest of the run.
"""

from __future__ import annotations

import pytest

from tests.vendors.server import call, vendor
from treadle import Agent, Outcome, Runtime, Settings, tool
from treadle.config.model_profile import UNKNOWN
from treadle.messages.events import Warned


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at a thing."""
    return at


@pytest.mark.parametrize(
    ("name", "settings", "left_out"),
    [
        ("anthropic:claude-opus-5-5", Settings(thinking=False), {"thinking"}),
        ("anthropic:claude-opus-5-5", Settings(thinking=4_000, effort="low"), {"thinking"}),
        ("anthropic:claude-opus-5-5", Settings(tool_choice="any"), {"tool_choice"}),
        ("anthropic:claude-opus-4-5", Settings(effort="max"), {"effort"}),
        ("anthropic:claude-haiku-5-5", Settings(thinking=False, effort="max"), {"thinking"}),
        ("openai:gpt-6-astra", Settings(thinking=False), {"thinking"}),
        ("openai:gpt-5.1", Settings(effort="max"), {"effort"}),
        ("openai:gpt-6-sol", Settings(temperature=0.5), {"temperature"}),
        ("openai:gpt-4.1", Settings(thinking=True, effort="low"), {"effort", "show_thinking"}),
        ("openai-chat:gpt-5.2", Settings(effort="low", stop=("END",)), {"stop"}),
        ("openai-chat:gpt-5.1", Settings(effort="high", temperature=0.5), {"temperature"}),
        ("openai-chat:gpt-5.6", Settings(effort="low"), {"effort"}),
        ("gemini:gemini-3-pro-preview", Settings(effort="medium"), {"effort"}),
        ("gemini:gemma-4-31b-it", Settings(thinking=True), {"thinking"}),
        ("gemini:gemini-2.5-flash-lite", Settings(effort="low", thinking=True), set()),
    ],
)
async def test_a_setting_that_the_vendor_refuses_by_name_is_left_out_once_and_for_the_run(
    name: str, settings: Settings, left_out: set[str]
) -> None:
    wire, _, model_id = name.partition(":")
    async with vendor(call("look", at="a"), "Done.") as server, Runtime.open() as runtime:
        agent = Agent(
            name="a", model=server.model(wire, model_id, UNKNOWN), tools=[look], settings=settings
        )
        async with runtime.stream(agent, "go") as run:
            warnings = [event.text async for event in run if isinstance(event, Warned)]
        assert (run.result.outcome, run.result.error) == (Outcome.COMPLETED, None)
        assert len(server.bodies) == 2
    assert len(server.refused) == len(warnings) == len(left_out)
    assert {
        name
        for name in left_out
        if any(f"does not accept {name}: it is left out from here on" in text for text in warnings)
    } == left_out
