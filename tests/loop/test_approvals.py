"""Whoever is there is asked about calls while the run waits: yes, yes with other arguments, no, and
whatever may go wrong in asking.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import Any, cast

import anyio
import pytest

from tests.doubles import (
    PlainTool,
    asks,
    call,
    check_history,
    gives,
    open_runtime,
    says,
    skip,
    watch,
)
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import AgentError, Approve, Deny, TextPart, ToolContext, tool
from treadle.journal.entries import ApprovalAnswered, ApprovalAsked
from treadle.messages import events
from treadle.tools.approval import ApprovalRequest, Approver
from treadle.tools.tool import ToolDeferred, ToolFailed
from treadle.types import Limits

pytestmark = pytest.mark.usefixtures("store")


class Sent:
    def __init__(self, name: str = "send", **more: Any) -> None:
        self.did: list[Any] = []
        known: dict[str, Any] = {"needs_approval": True}
        self.tool = PlainTool(name=name, does=self._does, **(known | more))

    async def _does(self, ctx: ToolContext[Any], arguments: Any) -> Any:
        self.did.append(arguments)
        return "sent"


def answering(*answers: Any) -> tuple[Approver, list[ApprovalRequest]]:
    """One after the other; what is an exception is raised."""
    asked, left = list[ApprovalRequest](), iter(answers)

    async def approver(request: ApprovalRequest) -> Any:
        asked.append(request)
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return approver, asked


ONE = [asks(call("send", "s", to="Ada")), says("done")]


async def test_a_yes_lets_a_call_run_in_the_same_run() -> None:
    sent, (approver, asked) = Sent(), answering(Approve())
    seen = await watch(ONE, sent.tool, on_approval=approver)
    assert (seen.outcome, seen.results, sent.did) == ("completed", ["sent"], [{"to": "Ada"}])
    (request,) = asked
    assert (request.run_id, request.call_id, request.name, request.arguments) == (
        seen.result.run_id,
        "s",
        "send",
        {"to": "Ada"},
    )
    assert request.reason
    kinds = [
        kind
        for kind in seen.kinds
        if kind.startswith(("approval", "tool_call_start", "tool_call_end"))
    ]
    assert kinds == ["approval_requested", "approval_resolved", "tool_call_start", "tool_call_end"]


async def test_a_no_is_told_with_its_reason_and_the_run_goes_on() -> None:
    sent, (approver, _) = Sent(), answering(Deny("not on Sundays"))
    seen = await watch(ONE, sent.tool, on_approval=approver)
    assert (seen.outcome, sent.did) == ("completed", [])
    assert "not on Sundays" in seen.results[0]


async def test_changed_arguments_are_what_is_called_and_the_model_is_told() -> None:
    sent, (approver, _) = Sent(), answering(Approve({"to": "Bob"}))
    seen = await watch(ONE, sent.tool, on_approval=approver)
    assert sent.did == [{"to": "Bob"}]
    assert seen.results == ['[a person changed the arguments to {"to":"Bob"}]\nsent']
    (answered,) = [r.entry for r in seen.records if isinstance(r.entry, ApprovalAnswered)]
    assert answered.arguments_json == '{"to":"Bob"}'
    asked_for = [c for m in seen.result.messages for c in m.tool_calls]
    assert [one.arguments for one in asked_for] == [{"to": "Ada"}], "what the model said stands"


async def test_the_model_is_told_also_where_a_result_is_more_than_text() -> None:
    async def does(ctx: ToolContext[Any], arguments: Any) -> Any:
        return [TextPart(text="a picture")]

    approver, _ = answering(Approve({"to": "Bob"}))
    seen = await watch(
        ONE, PlainTool(name="send", does=does, needs_approval=True), on_approval=approver
    )
    assert "a person changed the arguments" in seen.results[0]
    assert "a picture" in seen.results[0]


async def test_the_model_is_told_also_where_the_changed_call_fails() -> None:
    async def does(ctx: ToolContext[Any], arguments: Any) -> Any:
        raise ToolFailed("nobody of that name")

    approver, _ = answering(Approve({"to": "Bob"}))
    seen = await watch(
        ONE, PlainTool(name="send", does=does, needs_approval=True), on_approval=approver
    )
    assert "a person changed the arguments" in seen.results[0]
    assert "nobody of that name" in seen.results[0]


async def test_changed_arguments_are_validated_and_the_model_is_told_whose_they_are() -> None:
    @tool(needs_approval=True)
    async def send(count: int) -> str:
        """Sends."""
        raise AssertionError("not with these")

    approver, _ = answering(Approve({"count": "many"}))
    seen = await watch([asks(call("send", "s", count=1)), says("done")], send, on_approval=approver)
    assert seen.outcome == "completed"
    assert "count" in seen.results[0]
    assert "a person changed the arguments" in seen.results[0]


async def test_changed_arguments_are_judged_anew(tmp_path: Any) -> None:
    from treadle.config import Config
    from treadle.config.sections import Permissions
    from treadle.tools.builtin.write import Write

    rt = open_runtime(config=Config(permissions=Permissions(deny=("write(secret.txt)",))))
    approver, asked = answering(Approve({"path": "secret.txt", "content": "x"}))
    script = [asks(call("write", "w", path="free.txt", content="x")), says("done")]
    seen = await watch(
        script, cast("Any", Write()), on_approval=approver, mode="ask", cwd=tmp_path, runtime=rt
    )
    assert len(asked) == 1
    assert "denies" in seen.results[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "answer", [None, True, "yes", Approve({"a": object()}), RuntimeError("gone home")]
)
async def test_what_is_no_answer_leaves_the_call_open_and_the_run_waits(answer: Any) -> None:
    sent, rt, (approver, _) = Sent(), open_runtime(), answering(answer)
    seen: list[Any] = []
    result = await rt.run(
        agent_of(ONE, sent.tool), "go", on_approval=approver, on_event=seen.append
    )
    assert (result.outcome, result.waiting, sent.did) == ("approval_needed", True, [])
    (warned,) = [event for event in seen if isinstance(event, events.Warned)]
    assert "send" in warned.text
    again, asked = answering(Approve())
    done = await rt.resume(result.run_id, on_approval=again)
    assert (done.success, len(asked), len(sent.did)) == (True, 1, 1)
    asked_once = [
        r for r in await rt.journal.read(result.run_id) if isinstance(r.entry, ApprovalAsked)
    ]
    assert len(asked_once) == 1, "a question that stands is not asked again in the journal"


def agent_of(script: Any, *tools: Any) -> Any:
    from tests.doubles import agent

    return agent(script, *tools)


async def test_calls_of_one_turn_are_asked_about_in_their_order_and_each_has_its_answer() -> None:
    sent, (approver, asked) = Sent(), answering(Approve(), Deny("no"), Approve({"to": "Eve"}))
    script = [
        asks(*[call("send", f"s{i}", to=f"p{i}") for i in range(3)], call("look", "k")),
        says("done"),
    ]
    seen = await watch(script, sent.tool, gives("look", "seen"), on_approval=approver)
    assert [one.call_id for one in asked] == ["s0", "s1", "s2"]
    assert sent.did == [{"to": "p0"}, {"to": "Eve"}]
    assert [words.splitlines()[-1].split(":")[0] for words in seen.results] == [
        "sent",
        "Not run",
        "sent",
        "seen",
    ]


async def test_a_sequential_call_behind_one_that_is_asked_about_runs_after_it() -> None:
    order: list[str] = []

    def noting(name: str, **more: Any) -> PlainTool:
        async def does(ctx: ToolContext[Any], arguments: Any) -> str:
            order.append(name)
            return name

        return PlainTool(name=name, does=does, **more)

    approver, _ = answering(Approve())
    tools = [
        noting("first", parallel=False, needs_approval=True),
        noting("second", parallel=False),
        noting("beside"),
    ]
    seen = await watch(
        [asks(call("first", "a"), call("second", "b"), call("beside", "c")), says("done")],
        *tools,
        on_approval=approver,
    )
    assert order.index("first") < order.index("second")
    assert seen.results == ["first", "second", "beside"]


async def test_a_run_that_is_cancelled_while_somebody_is_asked_is_closed() -> None:
    sent, reached = Sent(), anyio.Event()

    async def approver(request: ApprovalRequest) -> Approve:
        reached.set()
        await anyio.sleep_forever()
        return Approve()

    rt = open_runtime()
    with anyio.fail_after(20):
        async with rt.stream(agent_of(ONE, sent.tool), "go", on_approval=approver) as stream:
            await reached.wait()
            stream.cancel()
            async for _ in stream:
                pass
    assert stream.result.outcome == "cancelled"
    check_history(stream.result.messages)
    assert sent.did == []
    assert (await rt.journal.info(stream.result.run_id)).status == "finished"


async def test_the_time_in_which_somebody_is_asked_is_no_time_of_the_run() -> None:
    async def slow(request: ApprovalRequest) -> Approve:
        skip(100)
        return Approve()

    result = await open_runtime().run(
        agent_of(ONE, Sent().tool), "go", on_approval=slow, limits=Limits(seconds=60)
    )
    assert result.success


async def test_the_time_in_which_somebody_is_asked_is_not_recorded_as_time_of_the_run() -> None:
    async def slow(request: ApprovalRequest) -> Approve:
        await anyio.sleep(0.3)
        return Approve()

    rt = open_runtime()
    result = await rt.run(agent_of(ONE, Sent().tool), "go", on_approval=slow)
    rows = await rt.journal.read(result.run_id)
    passed_s = (rows[-1].entry.at - rows[0].entry.at).total_seconds()
    assert (await rt.journal.load(result.run_id)).driven_s <= passed_s - 0.29


async def test_what_somebody_changes_of_a_call_that_had_begun_is_what_is_run() -> None:
    tries: list[Any] = []

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        tries.append(arguments)
        if len(tries) == 1:
            await anyio.sleep_forever()
        return "sent"

    approver, asked = answering(Approve({"to": "Bob"}))
    slow = PlainTool(name="send", does=does, timeout_s=0.05)
    seen = await watch(ONE, slow, on_approval=approver, on_unknown="wait")
    assert len(asked) == 1
    assert tries == [{"to": "Ada"}, {"to": "Bob"}]
    assert "a person changed the arguments" in seen.results[0]


# ---------------------------------------------------------------- results from outside


def deferring(
    name: str = "order", *, until: int = 10**9, **more: Any
) -> tuple[PlainTool, list[Any]]:
    tries: list[Any] = []

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        tries.append(arguments)
        if len(tries) < until:
            raise ToolDeferred("the shop answers by mail")
        return "it came"

    return PlainTool(name=name, does=does, **more), tries


ORDERS = [asks(call("order", "o")), says("thanks")]


async def test_a_result_from_outside_is_waited_for_and_brought_by_resume() -> None:
    for effect in ("once", "pure", "idempotent"):
        order, tries = deferring(effect=effect)
        rt = open_runtime()
        waiting = await rt.run(agent_of(ORDERS, order), "go")
        assert (waiting.outcome, waiting.waiting) == ("approval_needed", True)
        assert (await rt.journal.info(waiting.run_id)).status == "waiting"
        result = await rt.resume(waiting.run_id, results={"o": "on Monday"})
        assert (
            result.text,
            [r.text for m in result.messages for r in m.tool_results],
            len(tries),
        ) == ("thanks", ["on Monday"], 1)


async def test_a_once_tool_is_not_called_again_while_its_result_is_waited_for_and_another_one_is() -> (
    None
):
    for effect, times in (("once", 1), ("pure", 3), ("idempotent", 3)):
        order, tries = deferring(effect=effect)
        rt = open_runtime()
        waiting = await rt.run(agent_of(ORDERS, order), "go")
        for _ in range(2):
            assert (await rt.resume(waiting.run_id)).waiting
        assert len(tries) == times
    order, tries = deferring(until=2, effect="pure")
    rt = open_runtime()
    result = await rt.resume((await rt.run(agent_of(ORDERS, order), "go")).run_id)
    assert [r.text for m in result.messages for r in m.tool_results] == ["it came"]


async def test_several_results_come_one_by_one() -> None:
    order, _ = deferring()
    rt = open_runtime()
    waiting = await rt.run(
        agent_of(
            [asks(call("order", "a"), call("order", "b"), call("look", "c")), says("thanks")],
            order,
            gives("look", "seen"),
        ),
        "go",
    )
    half = await rt.resume(waiting.run_id, results={"b": "second"})
    assert half.waiting
    result = await rt.resume(waiting.run_id, results={"a": "first"})
    assert [r.text for m in result.messages for r in m.tool_results] == ["first", "second", "seen"]


async def test_a_result_from_outside_and_somebodys_yes_are_two_things() -> None:
    order, tries = deferring()
    sent, (approver, asked) = Sent(), answering(Approve())
    rt = open_runtime()
    waiting = await rt.run(
        agent_of([asks(call("order", "o"), call("send", "s")), says("thanks")], order, sent.tool),
        "go",
        on_approval=approver,
    )
    assert [one.call_id for one in asked] == ["s"], "nobody is asked for a yes to what has begun"
    assert (waiting.waiting, len(sent.did), len(tries)) == (True, 1, 1)
    result = await rt.resume(waiting.run_id, results={"o": "on Monday"})
    assert [r.text for m in result.messages for r in m.tool_results] == ["on Monday", "sent"]


async def test_a_deferred_call_that_is_given_up_is_told_as_such() -> None:
    order, tries = deferring()
    rt = open_runtime()
    waiting = await rt.run(agent_of(ORDERS, order), "go")
    result = await rt.resume(waiting.run_id, deny={"o": "the shop closed"})
    (told,) = [r for m in result.messages for r in m.tool_results]
    assert told.is_error
    assert "the shop closed" in told.text
    assert len(tries) == 1


# ---------------------------------------------------------------- beside limits


async def test_held_calls_keep_their_places_among_those_that_are_allowed() -> None:
    sent, (approver, _) = Sent(), answering(Approve(), Approve())
    script = [asks(call("send", "a"), call("send", "b"), call("look", "c")), says("done")]
    seen = await watch(
        script, sent.tool, gives("look", "seen"), on_approval=approver, limits=Limits(tool_calls=2)
    )
    started = seen.result.metrics.tool_calls
    assert started == 2
    assert seen.outcome in ("call_limit", "completed")


class Asks:
    """One whose answer is a method."""

    def plainly(self, request: ApprovalRequest) -> Approve:
        raise AssertionError("it is not asked")

    async def later(self, request: ApprovalRequest) -> Approve:
        return Approve()


def plain(request: ApprovalRequest) -> Approve:
    raise AssertionError("it is not asked")


NOT_AWAITED: list[Any] = [plain, Asks().plainly, partial(Asks().plainly), Asks, Approve]


@pytest.mark.parametrize("approver", NOT_AWAITED)
async def test_what_cannot_be_awaited_is_refused_before_the_run(approver: Any) -> None:
    with pytest.raises(
        AgentError,
        match=r"^on_approval= must be an async function that takes an ApprovalRequest: write `async def`",
    ):
        await watch(ONE, Sent().tool, on_approval=approver)


async def test_a_method_a_partial_and_a_wrapped_function_are_asked() -> None:
    @wraps(Asks.later)
    def wrapped(request: ApprovalRequest) -> Any:
        return Asks().later(request)

    for approver in (Asks().later, partial(Asks().later), wrapped):
        sent = Sent()
        await watch(ONE, sent.tool, on_approval=approver)
        assert sent.did == [{"to": "Ada"}]


async def test_what_has_ended_is_seen_before_a_question_is_asked() -> None:
    """Also of the last call of its stage, whose result otherwise rides with what follows."""
    ended = anyio.Event()

    async def approver(request: ApprovalRequest) -> Approve:
        with anyio.fail_after(20):
            await ended.wait()
        return Approve()

    def listen(_: Any, event: events.Event) -> None:
        if isinstance(event, events.ToolCallEnd):
            ended.set()

    script = [asks(call("quick", "q"), call("send", "s", to="Ada")), says("done")]
    seen = await watch(
        script, gives("quick"), Sent().tool, on_approval=approver, while_running=listen
    )
    assert seen.outcome == "completed"
