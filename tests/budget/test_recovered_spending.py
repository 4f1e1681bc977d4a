"""Spending of runs whose processes end: no limit is passed, and the journal that another process
opens has the same figures.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.doubles import PlainTool, asks, call, says
from tests.loop.test_costs import priced
from tests.profiles import BY_CHANCE
from tests.stores import close_old_journals, new_journal, open_again
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from tests.tools.test_subagent import make
from treadle import Agent, AgentError, ToolContext
from treadle.budget.ledger import BYTES_PER_TOKEN
from treadle.journal.journal import Journal
from treadle.models.model import Delta, ModelRequest, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import Limits, Settings

OF_A_CHILD = ("look", "two", "cut", "refused", "leave", "leave in a call")
ACTIONS = (*OF_A_CHILD, "child", "children", "say")
CALLS = {
    "look": ("look",),
    "two": ("look", "look"),
    "leave in a call": ("leave",),
    "child": ("helper",),
    "children": ("helper", "helper"),
}
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from((0.0, 0.5, 1.0))), max_size=8)


@dataclass
class World:
    """What a provider bills, a dollar for each token, and the process that may end."""

    runtime: Runtime | None = None
    billed: int = 0
    context: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens of each conversation up to its last answer, by its first message."""

    async def leave(self) -> None:
        assert self.runtime is not None
        self.runtime.let_go()
        await anyio.sleep_forever()


class Spender(ScriptedModel):
    """Takes as many tokens of input as its new text can be, and a share of the output it may.

    After what is planned it asks for calls until a limit ends it.
    """

    def __init__(self, world: World, plan: Iterator[tuple[str, float]]) -> None:
        super().__init__([])
        self._world, self._plan, self._calls = world, plan, 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        world, messages = self._world, list(request.messages)
        said = [n for n, message in enumerate(messages, 1) if message.role == "assistant"]
        new = messages[said[-1] if said else 0 :]
        action, share = next(self._plan, ("look", 1.0))
        if action == "refused":
            raise AgentError("network", "busy", status=503)
        tokens_in = world.context.get(messages[0].id, 0)
        tokens_in += sum(len(message.to_json()) for message in new) // BYTES_PER_TOKEN
        tokens_out = int((request.settings.max_tokens or 0) * share)
        world.billed += tokens_in + tokens_out
        if action == "leave":
            yield TextDelta("half")
            await world.leave()
        if action == "cut":
            yield TextDelta("half")
            raise AgentError("network", "it was cut")
        world.context[messages[0].id] = tokens_in + tokens_out
        is_last = request.settings.tool_choice == "none"
        answer = self._answer(action, is_last, tokens_in, tokens_out)
        async for delta in ScriptedModel([answer]).stream(request):
            yield delta

    def _answer(
        self, action: str, is_last: bool, tokens_in: int, tokens_out: int
    ) -> dict[str, Any]:
        usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
        wished: list[dict[str, Any]] = []
        for name in () if is_last else CALLS.get(action, ()):
            self._calls += 1
            wished.append(call(name, f"c{id(self)}-{self._calls}", prompt="x"))
        return asks(*wished, usage=usage) if wished else says("ok", usage=usage)


def team(world: World, plan: Sequence[tuple[str, float]]) -> Agent[Any, Any]:
    """A boss and a helper that do what is planned, whichever of them is asked next."""

    async def look(ctx: ToolContext[Any], arguments: Any) -> str:
        return "seen"

    async def leave(ctx: ToolContext[Any], arguments: Any) -> str:
        if ctx.attempt == 1:
            await world.leave()
        return "seen"

    tools = [
        PlainTool(name="look", does=look, effect="pure"),
        PlainTool(name="leave", does=leave, effect="pure"),
    ]
    steps = iter(plan)
    of_a_child = (step if step[0] in OF_A_CHILD else ("look", step[1]) for step in steps)
    helper = make("helper", Spender(world, of_a_child), *tools)
    return make("boss", Spender(world, steps), *tools, helper)


async def figures(journal: Journal) -> dict[str, Any]:
    """All that a journal has of the spending of each run."""
    return {
        info.run_id: (
            info.turns,
            info.tool_calls,
            info.usage,
            info.cost_usd,
            info.spending,
            info.total,
            [*(await journal.load(info.run_id)).ledger._account.spent],  # pyright: ignore[reportPrivateUsage]  the account is in no list
        )
        for info in await journal.runs()
    }


@pytest.mark.usefixtures("store")
@settings(
    max_examples=10,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@example([("cut", 1.0), ("leave", 1.0), ("children", 1.0), ("leave", 1.0)], 1_190, False)
@example([("leave in a call", 1.0), ("cut", 1.0), ("child", 1.0), ("cut", 1.0)], 2_000, True)
@given(steps, st.integers(400, 4_000), st.booleans())
async def test_no_limit_is_passed_and_another_process_reads_the_same_spending(
    plan: list[tuple[str, float]], limit: int, is_money: bool
) -> None:
    await close_old_journals()
    world, journal, ended = World(), new_journal(), None
    boss = team(world, plan)
    limits = Limits(cost_usd=limit) if is_money else Limits(tokens=limit)
    begun = False
    with anyio.fail_after(20):
        while ended is None:
            runtime = world.runtime = priced(journal=journal, on_close="let_go")
            try:
                if begun:
                    ended = await runtime.resume("r1", boss)
                else:
                    begun = True
                    ended = await runtime.run(
                        boss,
                        "go",
                        run_id="r1",
                        limits=limits,
                        settings=Settings(max_tokens=150),
                    )
            except AgentError as e:
                if "was released before it ended" not in e.message:
                    raise
            other = open_again(journal)
            assert await figures(other) == await figures(journal)
            journal = other
    assert world.billed <= limit
    total = (await journal.info("r1")).total
    assert total == ended.metrics.total
    assert total.usage.total_tokens <= world.billed
    assert total.cost_usd is None or total.cost_usd <= world.billed
