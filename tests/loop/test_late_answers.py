"""A late result of a call that is still open: it closes the call, and no person has to answer."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from tests.doubles import Gate, agent, asks, call, check_history, hook, open_runtime, says, skips
from tests.loop.test_late_results import Slow, entries_of
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext, ToolFailed, tool
from treadle.errors import AgentError
from treadle.journal.entries import ApprovalAnswered, ToolFinished, ToolLate, ToolStarted
from treadle.messages.events import ApprovalRequested
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime
from treadle.tools.approval import Approve
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned

pytestmark = pytest.mark.usefixtures("store")

ONE = [asks(call("send", "c1")), says("done")]
LIMIT_S = 60.0
"""Time limit of a sync tool, which passes as soon as its thread runs."""


def told(result: RunResult[Any]) -> list[tuple[str, bool]]:
    """Text of each result, and whether its outcome is unknown."""
    return [(one.text, one.unknown) for message in result.messages for one in message.tool_results]


def inputs(result: RunResult[Any]) -> list[str]:
    return [message.text for message in result.messages if message.role == "user"]


async def waiting(rt: Runtime, slow: Slow, **more: Any) -> str:
    """A run that asks what became of its call, which has ended since."""
    first = await rt.run(agent(ONE, slow.tool), "go", on_unknown="wait", **more)
    assert first.waiting
    await slow.finish(first.run_id)
    return first.run_id


async def started(rt: Runtime, run_id: str) -> int:
    return sum(isinstance(entry, ToolStarted) for entry in await entries_of(rt, run_id))


async def test_a_run_goes_on_with_it_without_an_answer() -> None:
    slow, rt = Slow(), open_runtime()
    run_id = await waiting(rt, slow, session="s")
    result = await rt.resume(run_id, agent(ONE, slow.tool))
    assert (result.outcome, told(result)) == ("completed", [("sent after all", False)])
    assert (inputs(result), await started(rt, run_id)) == (["go"], 1)
    check_history(result.messages)
    assert (await rt.replay(run_id)).messages == result.messages
    (row,) = rt.sessions.list()
    assert row.message_count == len(result.messages)


@pytest.mark.parametrize(
    "answer", [{"approve": "c1"}, {"deny": {"c1": "no"}}, {"results": {"c1": "x"}}]
)
async def test_a_person_who_answers_after_it_is_refused_and_reads_it(answer: Any) -> None:
    slow, rt = Slow(), open_runtime()
    run_id = await waiting(rt, slow)
    for _ in range(2):
        with pytest.raises(AgentError, match="has arrived: sent after all") as caught:
            await rt.resume(run_id, agent(ONE, slow.tool), **answer)
        assert caught.value.kind == "invalid"
    result = await rt.resume(run_id, agent(ONE, slow.tool))
    assert (told(result), await started(rt, run_id)) == ([("sent after all", False)], 1)


async def test_a_person_who_wakes_the_run_after_it_is_refused_and_a_worker_gets_it() -> None:
    slow, rt = Slow(), open_runtime()
    run_id = await rt.submit(agent(ONE, slow.tool), "go", on_unknown="wait")
    assert (await rt.resume(run_id, agent(ONE, slow.tool))).waiting
    await slow.finish(run_id)
    await rt.release_left()
    with pytest.raises(AgentError, match="has arrived: sent after all"):
        await rt.wake(run_id, approve=["c1"])
    (ticket,) = await rt.journal.queue.claim(["default"], engine="local", most=1)
    assert ticket.run_id == run_id
    result = await rt.resume(run_id, agent(ONE, slow.tool))
    assert told(result) == [("sent after all", False)]


async def test_a_run_that_waited_for_nothing_else_does_not_wait_any_more() -> None:
    slow, other, rt = Slow(), Slow(), open_runtime()
    other.tool.name = "other"
    one = agent(
        [asks(call("send", "c1"), call("other", "c2")), says("done")], slow.tool, other.tool
    )
    first = await rt.run(one, "go", on_unknown="wait")
    assert first.waiting
    for ended, status in ((slow, "waiting"), (other, "stopped")):
        ended.let_go()
        with anyio.fail_after(20):
            while len(abandoned_calls(first.run_id)) > (ended is slow):
                await anyio.sleep(0.01)
            await anyio.lowlevel.checkpoint()
        await rt.release_left()
        assert (await rt.journal.info(first.run_id)).status == status
    assert told(await rt.resume(first.run_id, one)) == [("sent after all", False)] * 2


async def test_an_approval_that_comes_after_it_does_not_repeat_the_call() -> None:
    slow, rt = Slow(), open_runtime()

    async def approves(request: Any) -> Approve:
        await slow.finish(request.run_id)
        return Approve()

    result = await rt.run(
        agent(ONE, slow.tool), "go", on_unknown="wait", on_ask="wait", on_approval=approves
    )
    assert (result.outcome, told(result)) == ("completed", [("sent after all", False)])
    entries = await entries_of(rt, result.run_id)
    assert [type(entry) for entry in entries if isinstance(entry, ApprovalAnswered)] == []
    assert await started(rt, result.run_id) == 1


async def test_a_run_whose_other_call_still_runs_goes_on_by_itself() -> None:
    slow, gate, rt = Slow(), Gate(), open_runtime()
    one = agent([asks(call("send", "c1"), call("gate", "c2")), says("done")], slow.tool, gate.tool)
    async with rt.stream(one, "go", on_unknown="wait") as stream:
        async for event in stream:
            if isinstance(event, ApprovalRequested):
                await gate.reached.wait()
                await slow.finish(stream.run_id)
                gate.opened.set()
    assert stream.result.outcome == "completed"
    assert told(stream.result)[0] == ("sent after all", False)
    assert inputs(stream.result) == ["go"]


async def test_it_is_the_result_of_a_run_that_is_ended_while_it_waits() -> None:
    slow, rt = Slow(), open_runtime()
    run_id = await waiting(rt, slow)
    await rt.release_left()
    await rt.kill(run_id)
    assert told(await rt.replay(run_id)) == [("sent after all", False)]


async def test_a_hook_sees_it() -> None:
    seen: list[str] = []

    async def after_tool(run: Any, called: Any, result: Any) -> Any:
        seen.append(result.text)
        return result

    slow, rt = Slow(), open_runtime()
    run_id = await waiting(rt, slow)
    one = agent(ONE, slow.tool, hooks=[hook(after_tool=after_tool)])
    assert (await rt.resume(run_id, one)).outcome == "completed"
    assert seen == ["sent after all"]


async def test_a_fork_from_its_turn_has_it() -> None:
    slow, rt = Slow(), open_runtime()
    run_id = await waiting(rt, slow)
    await rt.release_left()
    result = await rt.fork(run_id, turn=1, text="and now?", agent=agent([says("done")], slow.tool))
    assert told(result) == [("sent after all", False)]


async def test_a_call_that_fails_late_and_cannot_say_whether_it_happened_stays_open() -> None:
    leave, pass_limit = threading.Event(), skips(LIMIT_S)

    @tool(effect="once", timeout_s=LIMIT_S)
    def charge() -> str:
        """Charge."""
        pass_limit()
        leave.wait(5)
        raise ConnectionError("reset")

    rt = open_runtime()
    one = agent([asks(call("charge", "c1")), says("done")], charge)
    first = await rt.run(one, "go", on_unknown="wait")
    leave.set()
    assert not await wait_for_abandoned(abandoned_calls(first.run_id), 5)
    await anyio.lowlevel.checkpoint()
    assert (await rt.resume(first.run_id, one)).waiting
    result = await rt.resume(first.run_id, one, deny={"c1": "no"})
    assert told(result)[0][1]
    assert "reset" in inputs(result)[-1]


async def test_a_call_that_failed_late_and_did_not_happen_is_closed_with_its_error() -> None:
    leave, pass_limit = threading.Event(), skips(LIMIT_S)

    @tool(effect="once", timeout_s=LIMIT_S)
    def charge() -> str:
        """Charge."""
        pass_limit()
        leave.wait(5)
        raise ToolFailed("no such account", happened=False)

    rt = open_runtime()
    one = agent([asks(call("charge", "c1")), says("done")], charge)
    first = await rt.run(one, "go", on_unknown="wait")
    leave.set()
    assert not await wait_for_abandoned(abandoned_calls(first.run_id), 5)
    await anyio.lowlevel.checkpoint()
    result = await rt.resume(first.run_id, one)
    assert result.outcome == "completed"
    (finished,) = [e for e in await entries_of(rt, first.run_id) if isinstance(e, ToolFinished)]
    assert (finished.status, finished.result.is_error) == ("error", True)
    assert "no such account" in finished.result.text


async def test_what_the_first_attempt_gave_says_nothing_of_the_second() -> None:
    leave, again, pass_limit = threading.Event(), threading.Event(), skips(LIMIT_S)

    @tool(effect="once", timeout_s=LIMIT_S)
    def charge(ctx: ToolContext[None]) -> str:
        """Charge."""
        pass_limit()
        (leave if ctx.attempt == 1 else again).wait(5)
        return f"charge {ctx.attempt}"

    rt = open_runtime()
    one = agent([asks(call("charge", "c1")), says("done")], charge)
    first = await rt.run(one, "go", on_unknown="wait")
    (early,) = abandoned_calls(first.run_id)
    second = await rt.resume(first.run_id, one, approve="c1")
    assert second.waiting
    leave.set()
    assert not await wait_for_abandoned([early], 5)
    await anyio.lowlevel.checkpoint()
    assert (await rt.resume(first.run_id, one)).waiting
    again.set()
    assert not await wait_for_abandoned(abandoned_calls(first.run_id), 5)
    await anyio.lowlevel.checkpoint()
    result = await rt.resume(first.run_id, one)
    assert told(result) == [("charge 2", False)]
    assert "charge 1" in inputs(result)[-1]
    late = [e.status for e in await entries_of(rt, first.run_id) if isinstance(e, ToolLate)]
    assert late == [None, "ok"]
