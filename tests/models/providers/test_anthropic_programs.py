"""Programs that the API runs, and whose calls we run: what follows a call, and what is left of a
program that never went on.

Source: platform.claude.com, "Programmatic tool calling", "Agent Skills", read 2026-11-22.
"""

from __future__ import annotations

import json
from typing import Any, cast

from tests.models.providers.claude import START, STOP, STOP_0, ending  # pyright: ignore[reportUnknownVariableType]  JSON
from tests.models.providers.loopback import Answer, Server, serving, stream
from treadle import Agent, Limits, Outcome, Runtime, Settings, ToolContext, tool
from treadle.config import Config, Price
from treadle.config.model_profile import Abilities
from treadle.messages.result import RunResult
from treadle.models.providers.anthropic.connecting import connect
from treadle.models.providers.anthropic.model import AnthropicModel

Json = dict[str, Any]

PROGRAM = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "code_execution",
    "input": {"code": "look()"},
}
CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
DONE = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {"type": "code_execution_result", "stdout": "3"},
}
SKILLS = [{"type": "anthropic", "skill_id": "xlsx"}]
TOOLS = [{"type": "code_execution_20260120", "name": "code_execution"}]
SETTINGS = Settings(max_tokens=100, extra={"container": {"skills": SKILLS}, "tools": TOOLS})


def called(number: int) -> Json:
    return {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": "look",
        "input": {"at": number},
        "caller": CALLER,
    }


def begun(*blocks: Json) -> Answer:
    """All content comes with the message's start, as after a program has gone on."""
    start: Json = {
        "type": "message_start",
        "message": {**cast("Json", START)["message"], "content": [*blocks]},
    }
    return stream(start, ending("tool_use", container={"id": "c_1", "expires_at": "x"}), STOP)


def said(*blocks: Json) -> Answer:
    pieces = [
        piece
        for block in blocks
        for piece in ({"type": "content_block_start", "index": 0, "content_block": block}, STOP_0)
    ]
    return stream(cast("Json", START), *pieces, ending("end_turn"), STOP)


def model(server: Server) -> AnthropicModel:
    return AnthropicModel(
        "claude-test",
        connection=connect(api_key="k", base_url=server.url),
        abilities=Abilities(earlier_thinking=True),
    )


def blocks(server: Server, request: int, message: int) -> list[Json]:
    body: Json = json.loads(server.seen[request].body)
    content: list[Json] = body["messages"][message]["content"]
    return [
        {name: value for name, value in block.items() if name != "cache_control"}
        for block in content
    ]


async def test_results_for_a_program_stand_alone_and_name_its_container_also_in_a_resumed_run() -> (
    None
):
    @tool(needs_approval=True)
    async def look(ctx: ToolContext[Any], at: int) -> str:
        """Look at a thing."""
        if at == 1:
            runtime.steer("s", "Be brief.")
        return "seen"

    answers = (
        begun(PROGRAM, called(1)),
        begun(called(2)),
        said(DONE, {"type": "text", "text": "3"}),
        said({"type": "text", "text": "Three."}),
    )
    async with serving(*answers) as server, Runtime.open() as runtime:
        asked = model(server)
        result: RunResult[str] = await runtime.run(
            Agent(name="a", model=asked, tools=[look], settings=SETTINGS),
            "How many?",
            session="s",
            on_ask="wait",
        )
        assert result.outcome is Outcome.APPROVAL_NEEDED
        for call in ("toolu_1", "toolu_2"):
            result = await runtime.resume(
                result.run_id,
                agent=Agent(name="a", model=asked, tools=[look], settings=SETTINGS),
                approve=[call],
            )
        await asked.aclose()
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Three.")
    assert [seen.json.get("container") for seen in server.seen] == [
        {"skills": SKILLS},
        *[{"id": "c_1", "skills": SKILLS}] * 3,
    ]
    assert (
        [block["type"] for block in blocks(server, 1, -1)]
        == [block["type"] for block in blocks(server, 2, -1)]
        == ["tool_result"]
    )
    assert blocks(server, 2, -2) == [called(2)]
    assert blocks(server, 3, -1) == [{"type": "text", "text": "Be brief."}]


async def test_a_container_is_counted_once_in_the_conversation_that_started_it() -> None:
    @tool
    async def look(at: int) -> str:
        """Look at a thing."""
        return "seen"

    prices = Config(prices={"anthropic:claude-test": Price(input=0, output=0, containers=0.25)})
    answers = (begun(PROGRAM, called(1)), begun(called(2)), said({"type": "text", "text": "3"}))
    async with serving(*answers) as server, Runtime.open(config=prices) as runtime:
        asked = model(server)
        agent = Agent(name="a", model=asked, tools=[look], settings=SETTINGS)
        result = await runtime.run(agent, "How many?")
        await asked.aclose()
    assert (result.outcome, result.metrics.cost_usd) == (Outcome.COMPLETED, 0.25)


async def test_a_program_that_never_went_on_is_left_out_of_the_next_run() -> None:
    @tool
    async def look(at: int) -> str:
        """Look at a thing."""
        return "seen"

    async with (
        serving(begun(PROGRAM, called(1)), said({"type": "text", "text": "Hello."})) as server,
        Runtime.open() as runtime,
    ):
        session = runtime.session(
            agent=Agent(name="a", model=model(server), tools=[look], settings=SETTINGS)
        )
        assert (
            await session.send("How many?", limits=Limits(turns=1))
        ).outcome is Outcome.TURN_LIMIT
        assert (await session.send("Hello?")).outcome is Outcome.COMPLETED
        await session.agent.model.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess, reportUnknownMemberType]
    assert blocks(server, 1, 1) == [
        {name: value for name, value in called(1).items() if name != "caller"}
    ]
