"""What users of Agent, Runtime and Session see of types: checked by pyright and mypy, never run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import assert_type

from treadle import (
    Agent,
    Hook,
    Limits,
    Message,
    RunContext,
    RunResult,
    Runtime,
    Session,
    Tool,
    ToolContext,
    ToolDefinition,
    ToolFailed,
    Toolset,
    handoff,
    run,
    run_sync,
    tool,
)
from treadle.hooks import HookedRun, Stop


@dataclass
class Shop:
    till: int = 0


@tool(effect="pure")
async def weather(city: str, days: int = 1) -> str:
    return f"{city}: sun for {days} day(s)"


@tool(timeout_s=20, parallel=False)
async def charge(ctx: ToolContext[Shop], amount: int) -> str:
    ctx.deps.till += amount
    return "charged"


plain = Agent(name="plain", model="anthropic:claude-opus-5-5", limits=Limits(turns=3))
shop: Agent[Shop, str] = Agent(name="shop", tools=[weather, charge])


async def the_result_has_the_type_of_the_output(rt: Runtime) -> None:
    assert_type(await rt.run(plain, "hi"), RunResult[str])
    result = await rt.run(shop, "hi", deps=Shop(), inputs={"who": "Ada"}, mode="plan")
    assert_type(result, RunResult[str])
    assert_type(result.unwrap(), str)
    assert_type(result.output, str | None)
    async with rt.stream(shop, "hi", deps=Shop()) as stream:
        async for event in stream:
            assert_type(event.seq, int)
    assert_type(stream.result, RunResult[str])
    assert_type(await run(plain, "hi"), RunResult[str])
    assert_type(run_sync(plain, "hi"), RunResult[str])


async def a_session_keeps_the_types_of_its_agent(rt: Runtime) -> None:
    session = rt.session("ada", agent=shop)
    assert_type(session, Session[Shop, str])
    assert_type(await session.send("hi", deps=Shop(), limits=Limits(turns=1)), RunResult[str])


async def a_child_has_the_types_of_its_agent(ctx: ToolContext[None]) -> None:
    assert_type(await ctx.spawn(plain, "hi"), RunResult[str])
    result = await ctx.spawn(shop, "hi", deps=Shop(), inputs={"who": "Ada"}, limits=Limits(turns=3))
    assert_type(result, RunResult[str])
    assert_type(result.unwrap(), str)
    counted: Agent[None, int] = Agent(name="counter", output=int)
    assert_type((await ctx.spawn(counted, "How many?")).output, int | None)
    await ctx.spawn(shop, "hi", deps=3)  # type: ignore[misc]
    await ctx.spawn("guide", "hi")  # type: ignore[arg-type]


async def the_wrong_dependencies_are_an_error(rt: Runtime) -> None:
    await rt.run(shop, "hi", deps=3)  # type: ignore[misc]


def greeting(ctx: RunContext[Shop]) -> str:
    return f"The till holds {ctx.deps.till}."


async def tools_of_the_run(ctx: RunContext[Shop]) -> list[Tool[Shop]]:
    return [weather, charge] if ctx.inputs else [weather]


async def functions_of_a_definition_say_what_its_runs_need(rt: Runtime) -> None:
    assert_type(Agent(name="a", instructions=greeting), Agent[Shop, str])
    assert_type(Agent(name="a", tools=tools_of_the_run, output=Shop), Agent[Shop, Shop])
    assert_type(Agent(name="a", instructions=greeting, tools=[charge]), Agent[Shop, str])
    await rt.run(Agent(name="a", instructions=greeting), "hi", deps=3)  # type: ignore[misc]


class Till(Hook[Shop]):
    async def check_input(self, run: HookedRun[Shop], message: Message) -> Stop | None:
        assert_type(run.deps, Shop)
        return Stop("closed") if run.deps.till < 0 else None


class Polite(Hook):
    async def check_input(self, run: HookedRun, message: Message) -> Stop | None:
        assert_type(run.deps, object)
        return None


async def hooks_say_what_the_runs_of_their_agent_need(rt: Runtime) -> None:
    assert_type(Agent(name="a", hooks=[Till()]), Agent[Shop, str])
    assert_type(Agent(name="a", hooks=[Till(), Polite()], tools=[charge]), Agent[Shop, str])
    await rt.run(Agent(name="a", hooks=[Polite()]), "hi")
    await rt.run(Agent(name="a", hooks=[Till()]), "hi", deps=3)  # type: ignore[misc]


def for_rich(ctx: RunContext[Shop]) -> bool:
    return ctx.deps.till > 0


async def shorter(ctx: RunContext[Shop], tool: ToolDefinition) -> ToolDefinition | None:
    return tool if await asyncio.sleep(0, result=True) else None


@tool(effect="once", is_enabled=for_rich, prepare=shorter)
async def spend(ctx: ToolContext[Shop]) -> str:
    return "spent"


async def conditions_and_sets_keep_the_dependencies_of_the_tools(rt: Runtime) -> None:
    assert_type(Agent(name="a", tools=[spend]), Agent[Shop, str])
    tools = Toolset([spend]).filtered(lambda ctx, tool: tool.name != "pay").prefixed("my_")
    assert_type(tools, Toolset[Shop])
    assert_type(Agent(name="a", tools=tools), Agent[Shop, str])
    await rt.run(Agent(name="a", tools=tools), "hi", deps=3)  # type: ignore[misc]


def a_copy_has_the_types_of_its_definition_but_for_a_new_output() -> None:
    assert_type(shop.with_(description="A shop."), Agent[Shop, str])
    assert_type(shop.with_(output=int), Agent[Shop, int])
    assert_type(shop.with_(output=int).with_(model="a:b"), Agent[Shop, int])
    assert_type(shop.with_(output=None), Agent[Shop, str])
    shop.with_(colour="red")  # type: ignore[call-overload]


async def counted(ctx: RunContext[Shop], output: int) -> None:
    assert_type(ctx.deps.till, int)
    if output > ctx.deps.till:
        raise ToolFailed("more than the till holds")


def short(ctx: RunContext[object], output: str) -> None:
    if len(output) > 80:
        raise ToolFailed("too long")


async def a_check_has_the_output_and_says_what_its_runs_need(rt: Runtime) -> None:
    counts = Agent(name="a", output=int, output_check=counted)
    assert_type(counts, Agent[Shop, int])
    assert_type(Agent(name="a", output_check=short), Agent[object, str])
    assert_type(Agent(name="a", output=None, output_check=short), Agent[object, str])
    assert_type(Agent(name="a", tools=[charge], output_check=short), Agent[Shop, str])
    assert_type(counts.with_(output_check=None), Agent[Shop, int])
    assert_type(shop.with_(output_check=short), Agent[Shop, str])
    assert_type(shop.with_(output=int, output_check=counted), Agent[Shop, int])
    await rt.run(counts, "hi", deps=3)  # type: ignore[misc]
    Agent(name="a", output=str, output_check=counted)  # type: ignore[arg-type]
    Agent(name="a", output_check=counted)  # type: ignore[arg-type]
    shop.with_(output_check=counted)  # type: ignore[arg-type]


@dataclass
class Paid:
    number: int


def an_agent_with_handoffs_answers_with_the_outputs_of_all() -> None:
    billing: Agent[Shop, Paid] = Agent(name="billing", output=Paid, tools=[charge])
    orders = Agent(name="orders", output=int)
    assert_type(Agent(name="triage", handoffs=[orders]), Agent[object, str | int])
    assert_type(Agent(name="triage", handoffs=[billing]), Agent[Shop, str | Paid])
    assert_type(
        Agent(name="triage", output=bool, handoffs=[handoff(orders, history="none")]),
        Agent[object, bool | int],
    )
