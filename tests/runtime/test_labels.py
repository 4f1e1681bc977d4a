"""Tags and metadata of runs: checked, stored, inherited, and the ways in which runs are found by
them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import asks, call, open_runtime, says
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, AgentError, Limits, Outcome, tool
from treadle.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("store")

LABELS: Any = {"tags": ["eu", "demo"], "metadata": {"order": 7, "shop": "north", "paid": True}}
STORED = (("eu", "demo"), LABELS["metadata"])


def speaker(name: str = "a", *texts: str, **fields: Any) -> Agent[Any, Any]:
    script = [says(text) for text in texts or ("Hi.",)]
    return Agent(name=name, model=ScriptedModel(script), **fields)


async def test_a_result_and_a_list_show_the_labels_of_a_run() -> None:
    rt = open_runtime()
    result = await rt.run(speaker(), "Hello.", user_id="ada", **LABELS)
    assert (result.tags, result.metadata) == STORED
    info = await rt.journal.info(result.run_id)
    assert (info.tags, info.metadata, info.user_id) == (*STORED, "ada")
    plain = await rt.run(speaker(), "Hello.")
    assert (plain.tags, plain.metadata) == ((), {})


async def test_a_child_run_and_a_fork_have_the_labels_of_their_origin() -> None:
    child = speaker("child")
    parent = Agent(
        name="parent",
        model=ScriptedModel(
            [asks(call("child", "c", prompt="Go.")), says("Done."), says("Again.")]
        ),
        tools=[child],
    )
    rt = open_runtime()
    result = await rt.run(parent, "Hello.", **LABELS)
    (below,) = await rt.journal.children(result.run_id)
    assert (below.tags, below.metadata) == STORED
    forked = await rt.fork(result.run_id, turn=0, text="Hello again.", agent=parent)
    assert (forked.tags, forked.metadata) == STORED
    other = await rt.fork(
        result.run_id,
        turn=0,
        text="And again.",
        agent=parent.with_(model=ScriptedModel([says("x")])),
        tags=[],
    )
    assert (other.tags, other.metadata) == ((), STORED[1])


async def test_a_resumed_run_keeps_its_labels() -> None:
    @tool(effect="once", needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    rt = open_runtime()
    one = Agent(name="a", model=ScriptedModel([asks(call("pay", "p")), says("Paid.")]), tools=[pay])
    waiting = await rt.run(one, "Pay.", on_ask="wait", **LABELS)
    assert [info.run_id for info in await rt.journal.runs(status="waiting", tag="eu")] == [
        waiting.run_id
    ]
    result = await rt.resume(waiting.run_id, one, approve=["p"])
    assert (result.outcome, result.tags, result.metadata) == (Outcome.COMPLETED, *STORED)
    assert await rt.journal.runs(status="waiting") == []


async def test_runs_are_listed_by_each_condition_and_by_all_together() -> None:
    rt = open_runtime()
    for name, user, tags in (
        ("a", "ada", ["eu"]),
        ("a", "bob", ["eu", "e"]),
        ("b", "ada", ["us", "100%"]),
        ("b", None, []),
    ):
        await rt.run(speaker(name), f"{name} {user}", user_id=user, tags=tags)
    eager = Agent(
        name="b", model=ScriptedModel([asks(call("child", "c"))]), tools=[speaker("child")]
    )
    await rt.run(eager, "limited", limits=Limits(turns=1))

    async def found(**only: Any) -> list[str]:
        return [info.prompt for info in await rt.journal.runs(**only)]

    assert await found(user_id="ada") == ["b ada", "a ada"]
    assert await found(agent="a") == ["a bob", "a ada"]
    assert await found(tag="eu") == ["a bob", "a ada"]
    assert await found(tag="e") == ["a bob"]
    assert await found(tag="EU") == []
    assert await found(tag="100%") == ["b ada"]
    assert await found(tag="eu", limit=1) == ["a bob"]
    assert await found(agent="b", user_id="ada", tag="us", status="finished") == ["b ada"]
    assert await found(status=Outcome.TURN_LIMIT) == ["limited"]
    assert len(await found(status="completed", limit=3)) == 3
    assert await found(status="running") == []
    assert await found(user_id=None, agent=None) == await found()
    with pytest.raises(AgentError, match="cannot be filtered by 'user'"):
        await found(user="ada")
    with pytest.raises(AgentError, match="'done' is not one of: queued"):
        await found(status="done")


async def test_costs_are_summed_by_tag() -> None:
    rt = open_runtime()
    for tags in (["eu", "demo"], ["eu"], []):
        await rt.run(speaker(), "Hello.", tags=tags)
    costs = await rt.journal.costs("tag")
    assert {row.key: row.runs for row in costs.rows} == {"eu": 2, "demo": 1, None: 1}
    assert costs.total.runs == 3


async def test_a_run_that_was_handed_over_is_listed_under_the_agent_in_charge() -> None:
    billing = speaker("billing", "Paid.")
    triage = Agent(
        name="triage",
        model=ScriptedModel([asks(call("transfer_to_billing", "t", reason="bill"))]),
        handoffs=[billing],
    )
    rt = open_runtime()
    result = await rt.run(triage, "Where is it?")
    info = await rt.journal.info(result.run_id)
    assert (info.agent, info.model) == ("billing", "script:inline")
    assert [one.run_id for one in await rt.journal.runs(agent="billing")] == [result.run_id]
    assert await rt.journal.runs(agent="triage") == []


async def test_a_handed_over_run_that_waits_is_found_under_its_agent() -> None:
    @tool(effect="once", needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    billing = Agent(name="billing", model=ScriptedModel([asks(call("pay", "p"))]), tools=[pay])
    triage = Agent(
        name="triage",
        model=ScriptedModel([asks(call("transfer_to_billing", "t", reason="bill"))]),
        handoffs=[billing],
    )
    rt = open_runtime()
    result = await rt.run(triage, "Where is it?", on_ask="wait")
    assert result.waiting
    assert [one.run_id for one in await rt.journal.runs(agent="billing")] == [result.run_id]
    assert await rt.journal.runs(agent="triage") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tags": "eu"}, "takes a list"),
        ({"tags": [""]}, "printable"),
        ({"tags": ["a\nb"]}, "printable"),
        ({"tags": [7]}, "printable"),
        ({"tags": ["x" * 129]}, "1 to 128"),
        ({"tags": [str(n) for n in range(33)]}, "at most 32"),
        ({"metadata": ["a"]}, "takes a dictionary"),
        ({"metadata": {"a": ["b"]}}, "use a string, number"),
        ({"metadata": {1: "b"}}, "printable"),
        ({"metadata": {"a": "x" * 20_000}}, "at most 64 values"),
        ({"metadata": {"a": 1 << 70}}, "64-bit"),
        ({"metadata": {"a": float("nan")}}, "64-bit"),
    ],
)
async def test_unsuitable_labels_are_refused_before_the_run_begins(
    options: Any, words: str
) -> None:
    rt = open_runtime()
    with pytest.raises(AgentError, match=words) as refused:
        await rt.run(speaker(), "Hello.", **options)
    assert refused.value.kind == "invalid"
    assert await rt.journal.runs() == []
