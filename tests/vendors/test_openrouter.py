"""Claude behind OpenRouter: thinking that no longer fits is refused once in a run, and left out from
then on; a forced call becomes a free one.
"""

from __future__ import annotations

import json
from typing import Any

from tests.vendors.server import Vendor, call, think, vendor
from treadle import Agent, Runtime, Settings, tool
from treadle.messages.events import Warned
from treadle.models.providers.openai_chat.model import THINKING_REFUSED

CLAUDE = "anthropic/claude-opus-5.5"


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at a parcel."""
    return f"{at} is there"


def agent(server: Vendor, **other: Any) -> Agent[None, str]:
    model = server.model("openrouter", CLAUDE)
    given = {"name": "clerk", "instructions": "Look.", "tools": [look], "model": model}
    return Agent(**{**given, "settings": Settings(thinking=True), **other})


async def test_thinking_that_a_changed_agent_made_invalid_is_left_out_for_the_run() -> None:
    looks = [[think(), call("look", at=place)] for place in "abcd"]
    async with vendor(*looks[:2], "One.", *looks[2:], "Two.") as made, Runtime.open() as runtime:
        first = await runtime.run(agent(made), "Go.")
        other = agent(made, instructions="Look twice.")
        async with runtime.fork_stream(first.run_id, turn=1, agent=other) as run:
            told = [event.text async for event in run if isinstance(event, Warned)]
    assert (run.result.text, run.result.error) == ("Two.", None)
    assert [one.rule for one in made.refused] == ["reasoning_details"], "once"
    assert told.count(THINKING_REFUSED) == 1
    kept = [json.dumps(body).count("reasoning_details") for body in made.bodies[3:]]
    assert kept == [0, 1, 2], "what came after it stays"
    assert "thinking_since" not in json.dumps(made.bodies)


async def test_a_call_that_cannot_be_forced_is_free_and_people_are_told() -> None:
    async with vendor("Done.") as made, Runtime.open() as runtime:
        forced = agent(made, settings=Settings(tool_choice="any"))
        async with runtime.stream(forced, "Go.") as run:
            told = [event.text async for event in run if isinstance(event, Warned)]
    assert (run.result.text, made.refused) == ("Done.", [])
    assert made.bodies[0]["tool_choice"] == "auto"
    assert any("cannot be forced" in text for text in told)
