"""Agents as tools, over the SDK's own client in this process, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from tests.doubles import asks, call, fails, says
from treadle import Agent, Limits, Runtime, tool
from treadle.agents.templates import Input
from treadle.apps.mcp_server.agents import ServedAgent
from treadle.apps.mcp_server.server import McpToolServer
from treadle.messages.message import ToolResult
from treadle.runtime.session import SessionOptions
from treadle.testing import ScriptedModel
from treadle.types import Outcome

ERAS = ["legacy", "2026-07-28"]
Asked = Callable[[ClientRequestContext, ElicitRequestParams], Awaitable[ElicitResult]]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def connected(
    runtime: Runtime,
    *agents: Agent[Any, Any],
    era: str,
    asked: Asked | None = None,
    options: SessionOptions | None = None,
) -> AbstractAsyncContextManager[Client]:
    server = McpToolServer([ServedAgent(agent, runtime, options or {}) for agent in agents])
    return Client(server.sdk, mode=era, elicitation_callback=asked)  # pyright: ignore[reportArgumentType]  a narrower answer


def agent(*script: dict[str, Any], name: str = "helper", **more: Any) -> Agent[Any, Any]:
    return Agent(name=name, model=ScriptedModel(script), **more)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_an_agent_is_a_tool_with_a_closed_schema_of_its_prompt_and_inputs(era: str):
    inputs = {
        "place": Input(description="Where"),
        "days": Input(type="integer", default=3),
        "notes": Input(type="array", required=False),
    }
    async with (
        Runtime.open() as runtime,
        connected(
            runtime,
            agent(
                name="weather",
                description="Tells the weather",
                inputs=inputs,
                instructions="${place} ${days} ${notes}",
            ),
            era=era,
        ) as client,
    ):
        (found,) = (await client.list_tools()).tools
    assert (found.name, found.description) == ("weather", "Tells the weather")
    assert found.input_schema["additionalProperties"] is False
    assert found.input_schema["required"] == ["prompt", "place"]
    assert found.input_schema["properties"]["place"] == {"type": "string", "description": "Where"}
    assert found.input_schema["properties"]["days"] == {"type": "integer", "default": 3}
    assert found.input_schema["properties"]["notes"] == {"type": "array"}
    assert found.output_schema is None


async def test_a_call_is_a_run_in_the_journal_and_its_text_the_result(era: str):
    model = ScriptedModel([says("Sunny in Oslo.")])
    weather = Agent(
        name="weather", model=model, instructions="About ${place}.", inputs={"place": Input()}
    )
    async with Runtime.open() as runtime, connected(runtime, weather, era=era) as client:
        result = await client.call_tool("weather", {"prompt": "And now?", "place": "Oslo"})
        (info,) = await runtime.journal.runs()
        replayed = await runtime.replay(info.run_id)
    assert (result.is_error, text_of(result)) == (False, "Sunny in Oslo.")
    assert result.meta is not None
    assert result.meta["treadle/run_id"] == info.run_id
    assert (info.outcome, replayed.text) == (Outcome.COMPLETED, "Sunny in Oslo.")
    (request,) = model.requests
    assert (request.messages[-1].text, request.system[0].text) == ("And now?", "About Oslo.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs the argument 'prompt'"),
        ({"prompt": " "}, "needs the argument 'prompt'"),
        ({"prompt": 3}, "needs the argument 'prompt'"),
        ({"prompt": "x"}, "needs the input(s) place"),
        ({"prompt": "x", "place": 3}, "must be a string, not 3"),
        (
            {"prompt": "x", "place": "Oslo", "plaice": 1},
            "takes no argument 'plaice'; it takes: prompt, place",
        ),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_clients_model_and_nothing_runs(
    era: str, arguments: dict[str, Any], words: str
):
    weather = agent(
        says("never"), name="weather", instructions="${place}", inputs={"place": Input()}
    )
    async with Runtime.open() as runtime, connected(runtime, weather, era=era) as client:
        result = await client.call_tool("weather", arguments)
        assert await runtime.journal.runs() == []
    assert result.is_error
    assert words in text_of(result)


async def test_an_unknown_tool_is_an_error_of_the_protocol(era: str):
    async with (
        Runtime.open() as runtime,
        connected(runtime, agent(name="weather"), era=era) as client,
    ):
        with pytest.raises(MCPError, match=r"no tool named 'wether'. Did you mean 'weather'"):
            await client.call_tool("wether", {"prompt": "x"})


async def test_what_kept_an_agent_from_its_answer_is_told_with_what_to_do_next(era: str):
    @tool
    def look() -> str:
        """Looks."""
        return "nothing"

    limited = agent(
        asks(call("look")),
        says("I saw nothing so far"),
        name="limited",
        tools=[look],
        limits=Limits(tool_calls=1, turns=2),
    )
    broken = agent(fails("auth", status=401), name="broken")
    refusing = agent({"text": "", "stop": "refusal"}, name="refusing")
    async with (
        Runtime.open() as runtime,
        connected(runtime, limited, broken, refusing, era=era) as client,
    ):
        at_limit = await client.call_tool("limited", {"prompt": "x"})
        failed = await client.call_tool("broken", {"prompt": "x"})
        refused = await client.call_tool("refusing", {"prompt": "x"})
    assert not at_limit.is_error or "limit of turns" in text_of(at_limit)
    assert failed.is_error
    assert "broken failed (auth)" in text_of(failed)
    assert refused.is_error
    assert "its model refused to answer" in text_of(refused)
    for result in (at_limit, failed, refused):
        assert "Traceback" not in text_of(result)


async def test_a_bug_in_the_server_harms_one_call_and_tells_nothing_of_itself(
    era: str, caplog: pytest.LogCaptureFixture
):
    class Broken(ServedAgent):
        async def call(self, context: Any, params: Any) -> Any:
            raise ZeroDivisionError("secret detail")

    async with Runtime.open() as runtime:
        server = McpToolServer(
            [
                Broken(agent(), runtime, {}),
                ServedAgent(agent(says("fine"), name="other"), runtime, {}),
            ]
        )
        async with Client(server.sdk, mode=era) as client:
            result = await client.call_tool("helper", {"prompt": "x"})
            assert text_of(await client.call_tool("other", {"prompt": "x"})) == "fine"
    assert result.is_error
    assert "secret detail" not in text_of(result)
    assert "secret detail" in caplog.text


async def test_calls_come_side_by_side(era: str):
    meeting = [anyio.Event(), anyio.Event()]

    def meets(own: int) -> Any:
        @tool
        async def meet() -> str:
            """Meets the other one."""
            meeting[own].set()
            await meeting[1 - own].wait()
            return "met"

        return agent(asks(call("meet")), says("met"), name=f"agent{own}", tools=[meet])

    async with Runtime.open() as runtime, connected(runtime, meets(0), meets(1), era=era) as client:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for own in (0, 1):
                    group.start_soon(client.call_tool, f"agent{own}", {"prompt": "x"})


async def test_progress_tells_turns_and_tools_and_rises(era: str):
    @tool
    async def look() -> str:
        """Looks."""
        await anyio.wait_all_tasks_blocked()
        return "nothing"

    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    helper = agent(asks(call("look")), asks(call("look")), says("done"), tools=[look])
    async with Runtime.open() as runtime, connected(runtime, helper, era=era) as client:
        result = await client.call_tool("helper", {"prompt": "x"}, progress_callback=hear)
    assert text_of(result) == "done"
    assert heard[:2] == [(1, "turn 1"), (2, "running look")]
    assert [step for step, _ in heard] == sorted({step for step, _ in heard})


async def test_a_cancelled_request_closes_its_run_with_a_valid_history(era: str):
    begun = anyio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    async with (
        Runtime.open() as runtime,
        connected(runtime, agent(asks(call("wait", "call_1")), tools=[wait]), era=era) as client,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "helper", {"prompt": "x"})
            with anyio.fail_after(20):
                await begun.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            while (await runtime.journal.runs())[0].status != "finished":
                await anyio.lowlevel.checkpoint()
        (info,) = await runtime.journal.runs()
        state = await runtime.journal.load(info.run_id)
    assert info.outcome is Outcome.CANCELLED
    assert [
        part.call_id
        for message in state.context.history
        for part in message.parts
        if isinstance(part, ToolResult)
    ] == ["call_1"]


# ---------------------------------------------------------------- approvals


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def payer() -> Agent[Any, Any]:
    return agent(asks(call("pay", "call_1", amount=3)), says("done"), tools=[pay])


def answering(asked: list[str], *answers: ElicitResult) -> Asked:
    left = list(answers)

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return left.pop(0)

    return answer


ALLOW = ElicitResult(action="accept", content={"decision": "allow"})


async def results_of(runtime: Runtime) -> list[str]:
    (info,) = await runtime.journal.runs()
    state = await runtime.journal.load(info.run_id)
    assert state.finished is not None
    return [
        str(part.content)
        for message in state.context.history
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


async def test_a_person_at_the_client_allows_a_call(era: str):
    asked: list[str] = []
    async with (
        Runtime.open() as runtime,
        connected(runtime, payer(), era=era, asked=answering(asked, ALLOW)) as client,
    ):
        result = await client.call_tool("helper", {"prompt": "x"})
        assert await results_of(runtime) == ["paid 3"]
    assert text_of(result) == "done"
    (question,) = asked
    assert 'helper wants to run pay {"amount":3}' in question.replace(" 3", "3").replace(
        ": 3", ":3"
    )


@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="accept", content={"decision": "deny", "reason": "too much"}),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={}),
        ElicitResult(action="accept", content={"decision": "ALLOW"}),
    ],
)
async def test_anything_but_a_clear_yes_is_a_no(era: str, answer: ElicitResult):
    asked: list[str] = []
    async with (
        Runtime.open() as runtime,
        connected(runtime, payer(), era=era, asked=answering(asked, answer)) as client,
    ):
        result = await client.call_tool("helper", {"prompt": "x"})
        (told,) = await results_of(runtime)
    assert text_of(result) == "done"
    assert "declined" in told
    assert ("too much" in told) is bool(answer.content and "reason" in answer.content)


async def test_two_calls_are_asked_about_and_each_answer_counts_for_its_own(era: str):
    two = agent(
        asks(call("pay", "call_1", amount=1), call("pay", "call_2", amount=2)),
        says("done"),
        tools=[pay],
    )
    asked: list[str] = []
    answer = answering(asked, ALLOW, ElicitResult(action="decline"))
    async with Runtime.open() as runtime, connected(runtime, two, era=era, asked=answer) as client:
        await client.call_tool("helper", {"prompt": "x"})
        first, second = await results_of(runtime)
    assert len(asked) == 2
    assert first == "paid 1"
    assert "declined" in second


async def test_where_the_client_cannot_ask_the_call_is_refused(era: str):
    async with Runtime.open() as runtime, connected(runtime, payer(), era=era) as client:
        result = await client.call_tool("helper", {"prompt": "x"})
        (told,) = await results_of(runtime)
    assert "paid" not in told
    assert not result.is_error or "approve" in text_of(result)


async def test_a_run_may_wait_for_another_way_to_a_person(era: str):
    async with (
        Runtime.open() as runtime,
        connected(runtime, payer(), era=era, options={"on_ask": "wait"}) as client,
    ):
        result = await client.call_tool("helper", {"prompt": "x"})
        (info,) = await runtime.journal.runs()
    assert result.is_error
    assert f"treadle runs resume {info.run_id}" in text_of(result)
    assert info.status == "waiting"


async def test_a_request_that_is_cancelled_over_its_question_ends_the_run():
    asking = anyio.Event()

    async def never(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asking.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        Runtime.open() as runtime,
        connected(runtime, payer(), era="legacy", asked=never) as client,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "helper", {"prompt": "x"})
            with anyio.fail_after(20):
                await asking.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            while (await runtime.journal.runs())[0].status != "finished":
                await anyio.lowlevel.checkpoint()
        (told,) = await results_of(runtime)
    assert "paid" not in told


async def test_what_a_client_sends_back_is_sealed():
    async with (
        Runtime.open() as runtime,
        connected(runtime, payer(), era="2026-07-28", asked=answering([], ALLOW)) as client,
    ):
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(
                "helper",
                {"prompt": "x"},
                request_state="run_0123456789",
                input_responses={"call_1": ALLOW},
            )
        assert await runtime.journal.runs() == []
