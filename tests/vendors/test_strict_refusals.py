"""Strict tools that a vendor refuses as too many or too complex: asked again without strictness,
once, with a word to people.

Source: Claude, "Structured outputs", schema limits; OpenAI, "Function calling", strict mode; read
2026-11-22.
"""

from __future__ import annotations

import pytest

from tests.models.providers.loopback import document
from tests.vendors.rules import Json
from tests.vendors.server import SPEECHES, Reply, call, vendor
from treadle import Agent, Outcome, Runtime, Settings, tool
from treadle.messages.events import Warned

MODELS = {"anthropic": "claude-opus-5-5", "openai": "gpt-6-sol"}


@tool(effect="pure", needs_approval=True)
async def look(at: str) -> str:
    """Look at a thing."""
    return at


def strict(body: Json) -> bool:
    return any(one.get("strict") for one in body["tools"])


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (
            "anthropic",
            "Schema is too complex for compilation. Simplify the tools or reduce the number of strict tools.",
        ),
        (
            "anthropic",
            "tools: Too many strict tools (21). The maximum number of strict tools is 20.",
        ),
        ("anthropic", "The compiled grammar is too large, which would cause performance issues."),
        (
            "openai",
            "Invalid schema for function 'look': In context=(), 'required' is required to be supplied.",
        ),
    ],
)
async def test_strictness_that_is_refused_is_left_out_for_the_run_also_after_a_resume(
    wire: str, complaint: str
) -> None:
    refusal: Reply = document(SPEECHES[wire].error(400, complaint), status=400)
    async with (
        vendor(refusal, call("look", "look_1", at="a"), "Done.") as server,
        Runtime.open() as runtime,
    ):
        agent = Agent(
            name="a",
            model=server.model(wire, MODELS[wire]),
            tools=[look],
            settings=Settings(strict_tools=True),
        )
        async with runtime.stream(agent, "go", on_ask="wait") as run:
            warnings = [event.text async for event in run if isinstance(event, Warned)]
        assert run.result.outcome is Outcome.APPROVAL_NEEDED
        result = await runtime.resume(run.result.run_id, agent=agent, approve=["look_1"])
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Done.")
    assert [strict(body) for body in server.bodies] == [True, False, False]
    (warning,) = warnings
    assert "does not accept strict_tools: it is left out from here on" in warning
    assert complaint in warning
