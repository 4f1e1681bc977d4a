"""What users of @tool, FunctionTool and ToolContext see of types: checked by pyright and mypy,
never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

from treadle import (
    Agent,
    DidNotHappen,
    FunctionTool,
    Happened,
    Tool,
    ToolContext,
    ToolRegistry,
    tool,
)


@dataclass
class Shop:
    till: int = 0


@dataclass
class Bank:
    account: str = ""


@tool
async def weather(city: str, days: int = 1) -> str:
    return f"{city}: sun for {days} day(s)"


@tool(effect="pure", timeout_s=3)
async def forecast(city: str) -> list[int]:
    return [len(city)]


@tool
async def charge(ctx: ToolContext[Shop], amount: int) -> str:
    assert_type(ctx.deps, Shop)
    assert_type(ctx.cancelled, bool)
    ctx.progress("charging", 1, 2)
    return str(ctx.deps.till + amount)


@tool(effect="once", parallel=False, needs_approval=True, max_output=100)
async def refund(ctx: ToolContext[Shop], amount: int, *, reason: str = "") -> str:
    return f"{ctx.deps.till - amount} {reason}"


@tool(isolate="process")
def resize(width: int) -> bytes:
    return b"" * width


@tool
def transfer(ctx: ToolContext[Bank], amount: int) -> None: ...


class Desk:
    @tool
    async def ask(self, ctx: ToolContext[Shop], question: str) -> str:
        return f"{question} {ctx.deps.till}"

    @tool(effect="pure")
    def number(self, of: int) -> int:
        return of


desk = Desk()


async def the_decorated_is_called_like_the_function(ctx: ToolContext[Shop]) -> None:
    assert_type(await weather("Rome", days=2), str)
    assert_type(await forecast("Rome"), list[int])
    assert_type(await charge(ctx, 3), str)
    assert_type(await charge(ctx, amount=3), str)
    assert_type(await refund(ctx, 3, reason="broken"), str)
    assert_type(resize(10), bytes)
    assert_type(await desk.ask(ctx, "how much?"), str)
    assert_type(desk.number(of=3), int)


async def wrong_calls_are_errors(ctx: ToolContext[Bank]) -> None:
    await weather(3)  # type: ignore[arg-type]
    await weather()  # type: ignore[call-arg]
    await charge(ctx, 3)  # type: ignore[arg-type]
    await refund(ToolContext[Any], 3)  # type: ignore[arg-type]
    desk.number("x")  # type: ignore[arg-type]


def a_tool_knows_the_dependencies_that_it_needs() -> None:
    needs_nothing: FunctionTool[object] = weather
    needs_shop: FunctionTool[Shop] = charge
    needs_shop = refund
    needs_bank: FunctionTool[Bank] = transfer
    needs_shop = desk.ask
    needs_nothing = desk.number
    needs_nothing = forecast
    needs_nothing = resize
    plain: FunctionTool = weather
    needs_bank = charge  # type: ignore[assignment]
    needs_nothing = transfer  # type: ignore[assignment]
    plain = charge  # type: ignore[assignment]
    del needs_nothing, needs_shop, needs_bank, plain


def what_needs_less_fits_where_more_is_there() -> None:
    of_shop: Sequence[Tool[Shop]] = [weather, charge, refund, resize, desk.ask, desk.number]
    of_nobody: Sequence[Tool[None]] = [weather, resize]
    mixed: Sequence[Tool[Shop]] = [charge, transfer]  # type: ignore[list-item]
    without: Tool[None] = charge  # type: ignore[assignment]
    ToolRegistry(of_shop)
    del of_nobody, mixed, without


def an_agent_takes_the_tools_that_its_dependencies_serve() -> None:
    shop: Agent[Shop, str] = Agent(name="shop", tools=[weather, charge, desk.ask])
    alone = Agent[None, str](name="alone", tools=[weather])
    wrong: Agent[Bank, str] = Agent(name="wrong", tools=[charge])  # type: ignore[list-item]
    del shop, alone, wrong


async def call_plain(**arguments: object) -> str:
    return str(arguments)


async def call_shop(ctx: ToolContext[Shop], amount: int) -> str:
    return str(ctx.deps.till + amount)


def a_tool_from_a_schema_knows_its_dependencies_too() -> None:
    schema: dict[str, object] = {"type": "object"}
    plain = FunctionTool(
        name="plain", description="", parameters=schema, execute=call_plain, effect="pure"
    )
    shop = FunctionTool(name="shop", description="", parameters=schema, execute=call_shop)
    for_all: Sequence[Tool[None]] = [plain]
    for_shop: Sequence[Tool[Shop]] = [plain, shop]
    for_bank: Sequence[Tool[Bank]] = [plain, shop]  # type: ignore[list-item]
    tool(effect="never")  # type: ignore[call-overload]
    del for_all, for_shop, for_bank


async def look(ctx: ToolContext[Shop], **arguments: object) -> Happened | DidNotHappen | None:
    return Happened("charged") if ctx.deps.till else DidNotHappen()


async def guess(ctx: ToolContext[Shop], **arguments: object) -> bool:
    return True


async def a_probe_says_what_happened(ctx: ToolContext[Shop]) -> None:
    @tool(probe=look)
    async def pay(ctx: ToolContext[Shop], amount: int) -> str:
        return str(amount)

    assert_type(await pay.probe(ctx, {"amount": 3}), Happened | DidNotHappen | None)
    asked: Tool[Shop] = pay
    assert_type(await asked.probe(ctx, {"amount": 3}), Happened | DidNotHappen | None)
    tool(probe=guess)  # type: ignore[arg-type]
