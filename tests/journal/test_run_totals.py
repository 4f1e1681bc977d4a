"""Figures of a run and of everything that it started stand side by side, wherever a run's figures
are shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles import Gate, PlainTool, PlayedModel, asks, call, gives, says, text
from tests.loop.test_costs import priced, used
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from tests.tools.test_subagent import make, seen_of
from treadle import Agent, AgentError
from treadle.config import Config, Price
from treadle.messages import events
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime
from treadle.types import Limits, Outcome, Usage


def nested() -> Agent[Any, Any]:
    """A boss that starts two helpers, of which one starts another: one dollar a token, so 2 + 2, 3,
    4 + 4 and 5 dollars.
    """
    low = make("low", [says("low", usage=used(2, 3))])
    helper = make(
        "helper",
        [asks(call("low", "l", prompt="x"), usage=used(2, 2)), says("ok", usage=used(2, 2))],
        low,
    )
    other = make("other", [says("ok", usage=used(1, 2))])
    both = asks(call("helper", "h", prompt="x"), call("other", "o", prompt="x"), usage=used(1, 1))
    return make("boss", [both, says("done", usage=used(1, 1))], helper, other)


def check_nested(result: RunResult[Any]) -> None:
    metrics = result.metrics
    assert (metrics.turns, metrics.tool_calls, metrics.usage.total_tokens, metrics.cost_usd) == (
        2,
        2,
        4,
        4.0,
    )
    total = metrics.total
    assert (
        total.runs,
        total.turns,
        total.tool_calls,
        total.usage.total_tokens,
        total.cost_usd,
    ) == (4, 6, 3, 20, 20.0)


@pytest.mark.usefixtures("store")
async def test_the_result_its_last_event_and_the_list_have_the_total_of_the_tree_beside_the_runs_own_figures() -> (
    None
):
    async with priced() as rt:
        result, seen = await seen_of(rt, nested())
        check_nested(result)
        end = [event for event in seen if isinstance(event, events.RunEnd)][-1]
        assert (end.cost_usd, end.turns, end.total) == (4.0, 2, result.metrics.total)
        infos = {info.agent: info for info in await rt.journal.runs()}
        assert (infos["boss"].cost_usd, infos["boss"].total) == (4.0, result.metrics.total)
        assert (
            infos["helper"].cost_usd,
            infos["helper"].total.cost_usd,
            infos["helper"].total.runs,
        ) == (8.0, 13.0, 2)
        assert (infos["low"].total.cost_usd, infos["low"].total.runs) == (5.0, 1)
        check_nested(await rt.resume(result.run_id))


async def test_a_run_that_started_no_other_is_its_own_total() -> None:
    async with priced() as rt:
        result = await rt.run(make("solo", [says("hi", usage=used(2, 3))]), "go")
    total = result.metrics.total
    assert (total.runs, total.turns, total.tool_calls, total.usage, total.cost_usd) == (
        1,
        1,
        0,
        Usage(input_tokens=2, output_tokens=3),
        5.0,
    )


async def test_what_has_no_price_is_counted_apart_in_the_total() -> None:
    async with priced(Price(input=1_000_000, output=1_000_000), "script:*") as rt:
        helper = make("helper", PlayedModel(text("hi")))
        result = await rt.run(
            make(
                "boss",
                [
                    asks(call("helper", "h", prompt="x"), usage=used(1, 1)),
                    says("done", usage=used(1, 1)),
                ],
                helper,
            ),
            "go",
        )
    assert (
        result.metrics.total.cost_usd,
        result.metrics.total.unpriced,
        result.metrics.cost_usd,
    ) == (4.0, 1, 4.0)


async def test_a_limit_of_money_that_children_reached_is_told_with_what_they_spent() -> None:
    """Limits count the tree, so an end by a limit states the tree's figure."""
    async with priced(Price(input=1_000, output=1_000)) as rt:
        helper = make("helper", [says("dear", usage=used(500, 500))])
        boss = make(
            "boss",
            [
                asks(call("helper", "h", prompt="x"), usage=used(1, 1)),
                says("done", usage=used(1, 1)),
            ],
            helper,
        )
        result = await rt.run(boss, "go", limits=Limits(cost_usd=0.9))
    assert (result.outcome, result.metrics.cost_usd, result.metrics.total.cost_usd) == (
        Outcome.COST_LIMIT,
        0.002,
        1.002,
    )
    with pytest.raises(AgentError, match=r"cost_limit after \$1\.00 in 2 runs"):
        result.unwrap()


async def test_a_resumed_run_counts_each_child_once(tmp_path: Path) -> None:
    """A child that ended before the stop, and one that goes on with its parent."""
    url = f"sqlite:///{tmp_path}/runs.db"
    config = Config(prices={"script:*": Price(input=1_000_000, output=1_000_000)})

    def agents(tool: PlainTool) -> Agent[Any, Any]:
        done = make("done", [says("ok", usage=used(1, 2))])
        slow = make(
            "slow", [asks(call("wait", "w"), usage=used(2, 2)), says("ok", usage=used(2, 2))], tool
        )
        script = [
            asks(call("done", "d", prompt="x"), usage=used(1, 1)),
            asks(call("slow", "s", prompt="x"), usage=used(1, 1)),
            says("end", usage=used(1, 1)),
        ]
        return make("boss", script, done, slow)

    async with (
        Runtime.open(url, config=config) as rt,
        rt.stream(agents(Gate("wait", effect="pure").tool), "go") as stream,
    ):
        async for event in stream:
            if isinstance(event, events.ToolCallStart) and event.name == "wait":
                rt.let_go()
                break
        run_id = stream.run_id
    async with Runtime.open(url, config=config) as rt:
        halfway = await rt.journal.info(run_id)
        assert (halfway.status, halfway.cost_usd, halfway.total.cost_usd, halfway.total.runs) == (
            "stopped",
            4.0,
            11.0,
            3,
        )
        result = await rt.resume(run_id, agents(gives("wait", effect="pure")))
        assert (
            result.metrics.cost_usd,
            result.metrics.total.cost_usd,
            result.metrics.total.runs,
        ) == (6.0, 17.0, 3)
        assert (await rt.journal.info(run_id)).total == result.metrics.total
