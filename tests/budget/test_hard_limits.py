"""Limits that hold however a run and its children spend: fallbacks, summaries, hooks, processors,
handoffs and restarts; and what is spent is told once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from tests.doubles import PlainTool, agent, asks, call, gives, hook, open_runtime, says, skip
from tests.loop.test_costs import priced, used
from tests.models.providers.loopback import document, serving
from tests.stores import open_again
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from tests.tools.test_subagent import make, told
from treadle import Agent, AgentError, Approve, FallbackModel, Hook, Message, ToolContext
from treadle.config import Config, Price
from treadle.config.endpoint import Provider
from treadle.config.sections import Fallback, Models
from treadle.messages import events
from treadle.messages.message import TextPart
from treadle.messages.result import RunResult
from treadle.models.model import Delta, ModelRequest, ModelResponse, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import Limits, Settings, StopReason, Usage

STUCK_S = 1.0
"""Seconds after which a model or a processor no longer waits for another, so that a failure ends."""


class Fills(ScriptedModel):
    """Says as much as it may."""

    def __init__(self, name: str = "script:fills", tokens_in: int = 10) -> None:
        super().__init__([], name=name)
        self._tokens_in = tokens_in

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        usage = used(self._tokens_in, request.settings.max_tokens or 0)
        async for delta in ScriptedModel([says("long", usage=usage)]).stream(request):
            yield delta


class Meets(Fills):
    """Tells that it was asked, and waits for another."""

    def __init__(self, tells: anyio.Event, waits: anyio.Event | None, *script: Any) -> None:
        super().__init__()
        self._tells, self._waits, self._script = tells, waits, list(script)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self._tells.set()
        if self._waits is not None:
            with anyio.move_on_after(STUCK_S):
                await self._waits.wait()
        one = ScriptedModel([self._script.pop(0)]) if self._script else super()
        async for delta in one.stream(request):
            yield delta


class Asks(Hook):
    """Asks an agent about the input, in parallel with the first request."""

    def __init__(self, checker: Agent[Any, Any], before: anyio.Event | None = None) -> None:
        self._checker, self._before = checker, before

    async def check_input(self, run: Any, message: Any) -> None:
        await run.spawn(self._checker, "Is it fine?", key="k")

    async def before_model(self, run: Any, request: Any) -> None:
        if self._before is not None:
            with anyio.move_on_after(STUCK_S):
                await self._before.wait()


class Begins(Hook):
    """Asks an agent before the first turn of each driver and of each agent."""

    def __init__(self, checker: Agent[Any, Any], then: Any = None) -> None:
        self._checker, self._then, self.asked = checker, then, list[str]()

    async def before_run(self, run: Any) -> None:
        self.asked.append((await run.spawn(self._checker, "Is it fine?", key="k")).run_id)
        if self._then is not None:
            await self._then()


# ---------------------------------------------------------------- fallbacks and summaries


async def test_a_refusal_that_was_paid_for_leaves_less_for_the_fallback() -> None:
    first = ScriptedModel([{"stop": "refusal", "usage": used(100, 400)}], name="a:1")
    async with open_runtime() as rt:
        result = await rt.run(
            agent(FallbackModel(first, Fills("b:2", 100))), "go", limits=Limits(tokens=1_000)
        )
        info = await rt.journal.info(result.run_id)
    assert result.metrics.usage.total_tokens == 500
    assert (result.outcome, info.usage) == ("token_limit", result.metrics.usage)


async def test_a_refusal_that_was_paid_for_leaves_enough_for_a_short_answer() -> None:
    first = ScriptedModel([{"stop": "refusal", "usage": used(100, 400)}], name="a:1")
    second = ScriptedModel([says("yes", usage=used(100, 50))], name="b:2")
    async with open_runtime() as rt:
        result = await rt.run(
            agent(FallbackModel(first, second)),
            "go",
            limits=Limits(tokens=2_000),
            settings=Settings(max_tokens=500),
        )
    assert (result.text, result.metrics.usage.total_tokens) == ("yes", 650)


@pytest.mark.parametrize("is_priced", [True, False])
async def test_a_fallback_of_the_small_model_is_dear_enough_for_the_limit(is_priced: bool) -> None:
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer = {
        "type": "message",
        "id": "m",
        "model": "y",
        "content": [{"type": "text", "text": "It was about looms."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9_000, "output_tokens": 500},
    }
    long = "All about looms, and what is woven on them. " * 400
    script = [
        *(says(long, usage=used(4_500 * i + 10, 4_500)) for i in range(3)),
        asks(call("look"), usage=used(13_600, 10)),
        says("done", usage=used(1_000, 10)),
    ]
    async with serving(document(busy, status=529)) as full, serving(document(answer)) as dear:
        free = Price(input=0, output=0)
        config = Config(
            providers={
                name: Provider(type="anthropic", base_url=server.url)
                for name, server in (("full", full), ("dear", dear))
            },
            prices={
                "full:*": free,
                "script:*": free,
                **({"dear:*": Price(input=1_000, output=1_000)} if is_priced else {}),
            },
            models=Models(small="full:x"),
            fallback=Fallback(models=("dear:y",)),
        )
        async with open_runtime(config=config) as rt:
            session = rt.session("s", agent=agent(ScriptedModel(script), gives("look")))
            for i in range(3):
                await session.send(f"question {i}")
            async with session.stream("and now?", limits=Limits(cost_usd=1.0)) as stream:
                async for event in stream:
                    if isinstance(event, events.TurnStart) and event.turn == 1:
                        session.compact()
    assert dear.seen == []
    assert stream.result.metrics.total.cost_usd == 0


# ---------------------------------------------------------------- last attempts


async def failing(*deltas: Delta, error: AgentError) -> tuple[RunResult[Any], list[int]]:
    """A run whose child fails, and which then says as much as it may. What each request could
    cost, as output.
    """
    billed = list[int]()

    class Breaks(Fills):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            billed.append((request.settings.max_tokens or 0) if deltas else 0)
            for delta in deltas:
                yield delta
            raise error

    class Boss(Fills):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            one = super()
            if not billed:
                one = ScriptedModel([asks(call("child", prompt="x"), usage=used(10, 10))])
            else:
                billed.append(request.settings.max_tokens or 0)
            async for delta in one.stream(request):
                yield delta

    boss = make("boss", Boss(tokens_in=200), make("child", Breaks()))
    async with open_runtime() as rt:
        result = await rt.run(
            boss, "go", limits=Limits(tokens=5_000), settings=Settings(max_tokens=4_000)
        )
    return result, billed


@pytest.mark.parametrize(
    "error", [AgentError("network", "no", sent=False), AgentError("network", "no", status=503)]
)
async def test_a_last_attempt_that_nobody_received_or_took_costs_nothing(error: AgentError) -> None:
    result, billed = await failing(error=error)
    assert (result.outcome, billed[-1] > 3_000) == ("completed", True), billed


async def test_a_last_attempt_that_an_error_inside_the_answer_cut_counts() -> None:
    _, billed = await failing(TextDelta("half"), error=AgentError("invalid", "no more", status=200))
    assert 20 + sum(billed) <= 5_000


# ---------------------------------------------------------------- children


async def test_the_listed_price_of_a_childs_model_is_known() -> None:
    names = iter(("anthropic:claude-haiku-4-5", "anthropic:claude-opus-4-5"))
    child = make("child", ScriptedModel([says("hi", usage=used(10, 10))], name=next(names)))
    script = [asks(call("child", prompt="x"), usage=used(10, 10)), says("done", usage=used(9, 9))]
    boss = make("boss", ScriptedModel(script, name=next(names)), child)
    async with open_runtime() as rt:
        result = await rt.run(boss, "go", limits=Limits(cost_usd=5.0))
    assert told(result) == ["hi"]
    assert result.metrics.total.unpriced == 0


@pytest.mark.parametrize("limits", [None, Limits(turns=20, tokens=100_000)])
async def test_a_call_can_start_two_children_at_once(limits: Limits | None) -> None:
    first, second = anyio.Event(), anyio.Event()
    answer = says("ok", usage=used(10, 10))
    a = make("a", Meets(first, second, answer))
    b = make("b", Meets(second, first, answer))

    async def both(ctx: ToolContext[Any], arguments: Any) -> str:
        async with anyio.create_task_group() as group:
            for each in (a, b):
                group.start_soon(ctx.spawn, each, "x")
        return "both"

    script = [asks(call("both"), usage=used(10, 10)), says("done", usage=used(10, 10))]
    async with open_runtime() as rt:
        result = await rt.run(
            agent(script, PlainTool(name="both", does=both)),
            "go",
            **({} if limits is None else {"limits": limits}),
        )
    assert (told(result), result.metrics.total.runs) == (["both"], 3)


@pytest.mark.parametrize("limits", [Limits(turns=20), Limits(turns=20, tokens=100_000)])
async def test_a_check_by_a_child_leaves_the_run_its_budget(limits: Limits) -> None:
    begun, asked = anyio.Event(), anyio.Event()
    checker = make("checker", Meets(begun, asked, says("fine", usage=used(10, 10))))
    script = [asks(call("look"), usage=used(10, 10)), says("done", usage=used(30, 10))]
    one = agent(Meets(asked, None, *script), gives("look"), hooks=[Asks(checker, before=begun)])
    async with open_runtime() as rt:
        result = await rt.run(one, "go", limits=limits)
    assert (result.outcome, told(result)) == ("completed", ["ok"])


@pytest.mark.usefixtures("store")
async def test_a_child_that_is_resumed_by_itself_keeps_the_limits_of_its_parent() -> None:
    pay = gives("pay", needs_approval=True)
    child = make("child", [asks(call("pay"), usage=used(100, 100))], pay)
    boss = make("boss", [asks(call("child", prompt="x"), usage=used(100, 100))], child)
    async with open_runtime() as rt:
        first = await rt.run(boss, "go", run_id="r", limits=Limits(tokens=2_000), on_ask="wait")
        assert first.waiting
        (info,) = await rt.journal.children("r")
        (held,) = (await rt.journal.load(info.run_id)).open_calls
        await rt.resume(info.run_id, make("child", Fills(), pay), approve=[held.id])
        total = (await rt.journal.info("r")).total
    assert 400 < total.usage.total_tokens <= 2_000


# ---------------------------------------------------------------- children of hooks


@pytest.mark.usefixtures("store")
async def test_a_child_of_a_hook_counts_after_a_crash() -> None:
    left: list[Runtime] = []

    async def leave() -> None:
        if len(left) == 1:
            left.append(left[0])
            left[0].let_go()
            await anyio.sleep_forever()

    checker = make("checker", [says("fine", usage=used(100, 700))])
    one = agent(Fills(), hooks=[Begins(checker, leave)])
    left.append(rt := open_runtime(on_close="let_go"))
    with pytest.raises(AgentError, match="released"):
        await rt.run(one, "go", run_id="r", limits=Limits(tokens=1_000))
    other = open_runtime(journal=open_again(rt.journal))
    result = await other.resume("r", one)
    total = (await other.journal.info("r")).total
    assert (result.metrics.total, total.runs) == (total, 2)
    assert total.usage.total_tokens <= 1_000


@pytest.mark.usefixtures("store")
async def test_a_child_of_a_hook_ends_with_its_run_after_a_crash() -> None:
    async def leave(ctx: ToolContext[Any], arguments: Any) -> str:
        rt.let_go()
        await anyio.sleep_forever()
        return ""

    works = PlainTool(name="work", does=leave, effect="pure")
    checker = make("checker", [asks(call("work"))], works)
    rt = open_runtime(on_close="let_go")
    with pytest.raises(AgentError, match="released"):
        await rt.run(agent([], hooks=[Begins(checker)]), "go", run_id="r")
    other = open_runtime(journal=open_again(rt.journal))
    assert (await other.resume("r", agent([says("done")]))).success
    (child,) = await other.journal.children("r")
    assert (child.status, child.outcome) == ("finished", "cancelled")


async def test_a_key_of_a_hook_has_one_child_also_after_a_handoff() -> None:
    asking = Begins(make("checker", [says("fine"), says("never")]))
    billing = make("billing", [says("done")], hooks=[asking])
    triage = make(
        "triage",
        [asks(call("transfer_to_billing", reason="money"))],
        handoffs=[billing],
        hooks=[asking],
    )
    async with open_runtime() as rt:
        result = await rt.run(triage, "go")
    assert result.outcome == "completed"
    assert (len(asking.asked), len(set(asking.asked)), result.metrics.total.runs) == (2, 1, 2)


async def test_a_turn_of_a_hook_is_no_response_without_a_price() -> None:
    answer = ModelResponse(
        parts=(TextPart(text="hello"),), usage=Usage(), stop_reason=StopReason.COMPLETE
    )
    async with priced() as rt:
        result = await rt.run(agent([], hooks=[hook(before_model=answer)]), "go")
        total = (await rt.journal.costs("agent")).total
    assert result.text == "hello"
    assert (total.runs, total.responses, total.unpriced) == (0, 0, 0)


# ---------------------------------------------------------------- processors


async def test_what_a_processor_adds_counts_as_input() -> None:
    def more(ctx: Any, messages: list[Message]) -> list[Message]:
        return [*messages[:-1], messages[-1].with_parts([TextPart(text="word " * 2_000)])]

    model = ScriptedModel([says("never")])
    one = Agent(name="one", model=model, history=more)
    async with open_runtime() as rt:
        result = await rt.run(one, "go", limits=Limits(tokens=1_000))
    assert (result.outcome, model.requests) == ("token_limit", [])


async def test_what_a_processor_takes_away_does_not_count() -> None:
    def less(ctx: Any, messages: list[Message]) -> list[Message]:
        return [messages[-1].with_parts([TextPart(text="short")])]

    one = Agent(name="one", model=ScriptedModel([says("ok")]), history=less)
    async with open_runtime() as rt:
        result = await rt.run(one, "word " * 2_000, limits=Limits(tokens=1_000))
    assert result.text == "ok"


async def test_a_processor_that_waits_does_not_pass_the_limit_with_a_check() -> None:
    begun, asked = anyio.Event(), anyio.Event()

    async def slow(ctx: Any, messages: list[Message]) -> list[Message]:
        with anyio.move_on_after(STUCK_S):
            await begun.wait()
        return messages

    checks = Asks(make("checker", Meets(begun, asked)))
    one = Agent(name="one", model=Meets(asked, None), hooks=[checks], history=slow)
    async with open_runtime() as rt:
        result = await rt.run(one, "go", limits=Limits(tokens=3_000))
    assert result.metrics.total.usage.total_tokens <= 3_000


# ---------------------------------------------------------------- seconds


@pytest.mark.parametrize("hands_over", [False, True])
async def test_a_child_that_waits_stops_the_clock_of_its_parent(hands_over: bool) -> None:
    async def late(request: Any) -> Approve:
        skip(60)
        for _ in range(2):
            await anyio.sleep(0)
        return Approve()

    pays = make("pays", [asks(call("pay")), says("paid")], gives("pay", needs_approval=True))
    triage = make("triage", [asks(call("transfer_to_pays", reason="money"))], handoffs=[pays])
    first = triage if hands_over else pays
    boss = make("boss", [asks(call(first.name, prompt="x")), says("done")], first)
    async with open_runtime() as rt:
        result = await rt.run(boss, "go", limits=Limits(seconds=30), on_approval=late)
    assert (result.outcome, told(result)) == ("completed", ["paid"])


async def test_the_time_of_hooks_before_the_prompt_counts() -> None:
    class Slow(Hook):
        async def before_input(self, run: Any, message: Any) -> None:
            skip(60)

    async def work(ctx: ToolContext[Any], arguments: Any) -> str:
        for _ in range(2):
            await anyio.sleep(0)
        return "ok"

    one = agent([asks(call("work"))], PlainTool(name="work", does=work), hooks=[Slow()])
    async with open_runtime() as rt:
        result = await rt.run(one, "go", limits=Limits(seconds=30))
    assert result.outcome == "timeout"
