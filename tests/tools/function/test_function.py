"""Tools made from functions: what is refused at once, what is called how, and what stays a plain
function.
"""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.tools.conftest import MakeContext
from treadle.errors import AgentError
from treadle.tools.function import FunctionTool, tool
from treadle.tools.tool import (
    MAX_OUTPUT_CHARS,
    DidNotHappen,
    Happened,
    InvalidArguments,
    Tool,
    ToolContext,
    ToolFailed,
    ToolOutput,
)

Call = Callable[..., Any]


@pytest.fixture
def ctx(make_context: MakeContext, tmp_path: Path) -> ToolContext[Any]:
    return make_context(tmp_path)


async def run(made: Tool[Any], ctx: ToolContext[Any], arguments_json: str = "{}") -> ToolOutput:
    return await made.execute(ctx, made.parse(arguments_json))


@tool
async def charge(ctx: ToolContext[Any], amount: int) -> str:
    """Charges the card."""
    return f"{ctx.call_id}: {amount}"


# ---------------------------------------------------------------- what it is


def test_a_bare_decorator_makes_a_once_tool_with_the_defaults() -> None:
    assert isinstance(charge, FunctionTool)
    assert isinstance(charge, Tool)
    assert (
        charge.name,
        charge.effect,
        charge.timeout_s,
        charge.parallel,
        charge.needs_approval,
        charge.max_output,
        charge.isolate,
    ) == (
        "charge",
        "once",
        None,
        True,
        False,
        MAX_OUTPUT_CHARS,
        None,
    )
    assert charge.touches({}, Path("/")) is None
    assert repr(charge) == "FunctionTool('charge', effect='once')"


def test_options_are_what_was_given() -> None:
    async def look(ctx: ToolContext[Any], amount: int) -> None: ...

    made = tool(
        name="pay-2",
        description="Pays.",
        timeout_s=20,
        parallel=False,
        needs_approval=True,
        max_output=10,
        probe=look,
    )(charge.function)
    assert (made.name, made.timeout_s, made.parallel, made.needs_approval, made.max_output) == (
        "pay-2",
        20,
        False,
        True,
        10,
    )
    assert (made.definition.name, made.definition.description) == ("pay-2", "Pays.")
    assert tool(effect="pure")(charge.function).effect == "pure"
    assert tool()(charge.function).effect == "once"


async def test_it_can_still_be_called_like_the_function(ctx: ToolContext[Any]) -> None:
    assert await charge(ctx, 3) == await charge(ctx, amount=3) == "call_1: 3"
    assert charge.__doc__ == "Charges the card."
    assert charge.__name__ == "charge"
    assert list(inspect.signature(charge).parameters) == ["ctx", "amount"]


async def test_arguments_come_by_name_and_the_context_beside_them(ctx: ToolContext[Any]) -> None:
    assert await run(charge, ctx, '{"amount": 3}') == "call_1: 3"


async def test_a_context_that_stands_last_is_given_by_name(ctx: ToolContext[Any]) -> None:
    @tool
    async def late(amount: int, *, context: ToolContext[Any]) -> str:
        return f"{context.call_id}: {amount}"

    assert await run(late, ctx, '{"amount": 3}') == "call_1: 3"


async def test_a_context_before_a_slash_is_given_by_position(ctx: ToolContext[Any]) -> None:
    @tool
    async def early(ctx: ToolContext[Any], /, amount: int) -> str:
        return f"{ctx.call_id}: {amount}"

    assert await run(early, ctx, '{"amount": 3}') == "call_1: 3"


async def test_a_partial_asks_only_for_what_it_leaves_open(ctx: ToolContext[Any]) -> None:
    async def convert(amount: int, unit: str, digits: int = 2) -> str:
        """Converts."""
        return f"{amount:.{digits}f} {unit}"

    made = tool(functools.partial(convert, unit="EUR"))
    assert made.name == "convert"
    assert made.definition.description == "Converts."
    assert list(made.definition.parameters["properties"]) == ["amount", "digits"]
    assert await run(made, ctx, '{"amount": 3}') == "3.00 EUR"


async def test_a_callable_object_is_a_tool(ctx: ToolContext[Any]) -> None:
    class Counter:
        count = 0

        async def __call__(self, by: int) -> str:
            """Counts."""
            self.count += by
            return str(self.count)

    made = tool(name="count")(Counter())
    assert made.definition.description == "Counts."
    assert await run(made, ctx, '{"by": 2}') == "2"
    assert await run(made, ctx, '{"by": 2}') == "4"


async def test_a_wrapped_function_keeps_its_schema(ctx: ToolContext[Any]) -> None:
    def shouting(function: Call) -> Call:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    @tool
    @shouting
    async def greet(name: str) -> str:
        """Greets.

        Args:
            name: Whom.
        """
        return f"hello {name}"

    assert greet.definition.parameters["properties"] == {
        "name": {"type": "string", "description": "Whom."}
    }
    assert await run(greet, ctx, '{"name": "Ada"}') == "hello Ada"


# ---------------------------------------------------------------- methods


class Shop:
    def __init__(self, till: int) -> None:
        self.till = till

    @tool(effect="idempotent", timeout_s=3)
    async def sell(self, ctx: ToolContext[Any], price: int = 1) -> str:
        """Sells.

        Args:
            ctx: Not for the model.
            price: In cents.
        """
        self.till += price
        return f"{ctx.run_id}: {self.till}"

    @tool
    def count(self) -> int:
        return self.till

    @staticmethod
    @tool
    async def opens(day: str) -> str:
        return f"{day}: 9"


async def test_a_method_is_bound_to_its_instance(ctx: ToolContext[Any]) -> None:
    shop = Shop(1)
    assert await run(shop.sell, ctx, '{"price": 2}') == "run_1: 3"
    assert await shop.sell(ctx, 4) == "run_1: 7"
    assert await run(shop.count, ctx) == "7"
    assert (shop.sell.effect, shop.sell.timeout_s) == ("idempotent", 3)
    assert list(shop.sell.definition.parameters["properties"]) == ["price"]


def test_every_bound_tool_of_a_method_has_the_same_definition() -> None:
    assert Shop(1).sell.definition is Shop(2).sell.definition


def test_a_method_taken_from_its_class_is_no_tool() -> None:
    with pytest.raises(AgentError, match=r"Shop\.sell is a method: take the tool from an instance"):
        _ = Shop.sell.definition
    with pytest.raises(AgentError, match="is a method"):
        Shop.sell.parse("{}")


async def test_a_static_method_needs_no_instance(ctx: ToolContext[Any]) -> None:
    assert (
        await run(Shop.opens, ctx, '{"day": "Monday"}')
        == await run(Shop(1).opens, ctx, '{"day": "Monday"}')
        == "Monday: 9"
    )


async def test_a_bound_method_of_a_plain_class_is_a_tool(ctx: ToolContext[Any]) -> None:
    class Till:
        async def take(self, amount: int) -> str:
            return f"took {amount}"

    assert await run(tool(Till().take), ctx, '{"amount": 1}') == "took 1"


def test_a_tool_that_is_only_kept_in_a_class_is_not_bound() -> None:
    class Keeps:
        pay = charge

    assert Keeps().pay is charge


# ---------------------------------------------------------------- refused at decoration


async def _fine(a: int) -> str:
    return ""


def _generator(a: int) -> Any:
    yield a


async def _async_generator(a: int) -> Any:
    yield a


class _CallableGenerator:
    def __call__(self) -> Any:
        yield 1


async def _stars(a: int, *rest: int) -> str:
    return ""


async def _double_stars(a: int, **rest: int) -> str:
    return ""


async def _positional(a: int, /) -> str:
    return ""


async def _two_contexts(a: ToolContext[Any], b: ToolContext[Any]) -> str:
    return ""


async def _late_positional_context(a: int, b: ToolContext[Any], /) -> str:
    return ""


def _with_context(ctx: ToolContext[Any]) -> str:
    return ""


def _sync(a: int) -> str:
    return ""


def _sync_probe(ctx: object) -> None: ...


async def _probe(ctx: object, **arguments: object) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (_stars, {}, r"_stars: the parameter '\*rest' cannot be described"),
        (_double_stars, {}, r"the parameter '\*\*rest' cannot be described"),
        (_positional, {}, "the parameter 'a' is positional-only"),
        (_two_contexts, {}, "takes two contexts, 'a' and 'b'"),
        (_late_positional_context, {}, "the context 'b' is positional-only and not the first"),
        (_generator, {}, "a generator cannot be a tool: collect"),
        (_async_generator, {}, "a generator cannot be a tool: collect"),
        (_CallableGenerator(), {}, "a generator cannot be a tool: collect"),
        (staticmethod(_fine), {}, "put @staticmethod above it"),
        (classmethod(_fine), {}, "a class method cannot be a tool"),
        (Path, {}, "a class cannot be a tool"),
        ("name", {}, "a string is not a function; pass options by keyword"),
        (charge, {}, "is a tool already"),
        (dict.update, {}, "the signature of .* cannot be read|positional-only"),
        (lambda a: a, {}, "'<lambda>' is not a valid tool name .*pass name="),
        (_fine, {"name": "a b"}, "'a b' is not a valid tool name"),
        (_fine, {"name": "x" * 129}, "at most 128"),
        (
            _fine,
            {"effect": "sometimes"},
            "effect='sometimes' is not one of 'pure', 'idempotent', 'once'",
        ),
        (_fine, {"timeout_s": 0}, "timeout_s=0 must be greater than 0"),
        (_fine, {"timeout_s": float("nan")}, "timeout_s=nan must be greater than 0"),
        (_fine, {"max_output": 0}, "max_output=0 .* at least 1"),
        (
            _fine,
            {"effect": "pure", "probe": _probe},
            "a probe is for once-tools; with effect='pure'",
        ),
        (_fine, {"probe": _sync_probe}, "must be an async function: async def probe"),
        (_sync, {"isolate": "thread"}, "isolate='thread' is neither 'process' nor None"),
        (_fine, {"isolate": "process"}, "isolate='process' is for sync functions"),
        (
            _with_context,
            {"isolate": "process"},
            "an isolated function has no context.*remove 'ctx'",
        ),
        (functools.partial(_sync, a=1), {"isolate": "process"}, "that another process can import"),
        (Shop.count.function, {"isolate": "process"}, "that another process can import"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_decorated(
    function: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(AgentError, match=says) as e:
        tool(**options)(function) if options else tool(function)
    assert e.value.kind == "invalid"


def test_decorating_evaluates_nothing() -> None:
    @tool
    async def later(a: NotThere) -> str:  # noqa: F821  the very point
        return ""

    with pytest.raises(AgentError, match="NotThere"):
        _ = later.definition


# ---------------------------------------------------------------- running


async def test_a_sync_function_runs_in_a_thread_with_its_context(ctx: ToolContext[Any]) -> None:
    import threading

    @tool
    def where(ctx: ToolContext[Any]) -> dict[str, object]:
        return {"main": threading.current_thread() is threading.main_thread(), "call": ctx.call_id}

    assert await run(where, ctx) == '{"main":false,"call":"call_1"}'


async def test_a_sync_function_that_gives_an_awaitable_is_awaited(ctx: ToolContext[Any]) -> None:
    made = tool(name="f")(lambda: _fine(1))
    assert await run(made, ctx) == ""


async def test_what_a_function_raises_is_raised(ctx: ToolContext[Any]) -> None:
    @tool
    async def fails() -> str:
        raise ValueError("no")

    @tool
    def fails_in_a_thread() -> str:
        raise ToolFailed("no", happened=None)

    with pytest.raises(ValueError, match="no"):
        await run(fails, ctx)
    with pytest.raises(ToolFailed, match="no") as e:
        await run(fails_in_a_thread, ctx)
    assert e.value.happened is None


async def test_an_async_function_is_cancelled(ctx: ToolContext[Any]) -> None:
    seen: list[str] = []

    @tool
    async def hangs() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("stopped")
        return ""

    async with anyio.create_task_group() as group:
        group.start_soon(run, hangs, ctx)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert seen == ["stopped"]


@pytest.mark.parametrize(("annotation", "text"), [(None, "done"), (str | None, "null")])
async def test_none_says_done_where_nothing_was_to_come_back(
    ctx: ToolContext[Any], annotation: Any, text: str
) -> None:
    async def f() -> Any: ...

    f.__annotations__["return"] = annotation
    assert await run(tool(f), ctx) == text


async def test_an_unannotated_function_that_gives_none_is_done(ctx: ToolContext[Any]) -> None:
    async def f(): ...

    assert await run(tool(f), ctx) == "done"


async def test_bad_arguments_never_reach_the_function(ctx: ToolContext[Any]) -> None:
    with pytest.raises(InvalidArguments, match="amount"):
        await run(charge, ctx, '{"amount": "much"}')


# ---------------------------------------------------------------- the probe


@pytest.mark.parametrize("answer", [Happened("charged"), DidNotHappen(), None])
async def test_a_probe_tells_whether_a_call_happened(ctx: ToolContext[Any], answer: Any) -> None:
    asked: list[object] = []

    async def look(ctx: ToolContext[Any], **arguments: object) -> Any:
        asked.append((ctx.idempotency_key, arguments))
        return answer

    made = tool(probe=look)(charge.function)
    assert await made.probe(ctx, made.parse('{"amount": 3}')) is answer
    assert asked == [("key_1", {"amount": 3})]


async def test_without_a_probe_nobody_can_tell(ctx: ToolContext[Any]) -> None:
    assert await charge.probe(ctx, {}) is None


async def test_what_a_probe_raises_is_for_whoever_asked(ctx: ToolContext[Any]) -> None:
    async def look(ctx: ToolContext[Any], **arguments: object) -> None:
        raise ConnectionError("the bank is closed")

    with pytest.raises(ConnectionError, match="the bank is closed"):
        await tool(probe=look)(charge.function).probe(ctx, {})


async def test_a_probe_that_gives_something_else_is_a_fault(ctx: ToolContext[Any]) -> None:
    async def look(ctx: ToolContext[Any], **arguments: object) -> Any:
        return True

    with pytest.raises(
        AgentError,
        match=r"the probe of tool 'charge' returned True: it must return Happened\(result\)",
    ):
        await tool(probe=look)(charge.function).probe(ctx, {})


# ---------------------------------------------------------------- start-up

START_UP = """
import sys
from treadle.tools.function import FunctionTool, tool
from treadle.tools.tool import ToolContext

@tool(effect="pure")
async def weather(ctx: ToolContext[int], city: str, days: int = 1) -> str:
    '''Forecast.'''
    return city

@tool
def sync(city: str) -> str:
    return city

FunctionTool(name="given", description="", parameters={"type": "object", "properties": {"a": {"type": "integer"}}}, execute=weather.function)
print([name for name in ("pydantic", "pydantic_core", "jsonschema_rs", "asyncio", "anyio", "docstring_parser") if name in sys.modules])
"""


def test_decorating_and_constructing_import_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", START_UP], capture_output=True, text=True, timeout=200, check=True
    )
    assert done.stdout == "[]\n"
