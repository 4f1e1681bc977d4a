"""Runs whose driver vanished, taken up again by another one: what had happened is kept, what may
have happened is never silently repeated.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    WatchedJournal,
    agent,
    asks,
    breaks,
    call,
    check_events,
    check_history,
    fails,
    gives,
    kind_of,
    label,
    open_runtime,
    says,
    text,
)
from tests.stores import emptied_journal, new_journal, postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import ToolContext, ToolFailed, tool, types
from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.errors import AgentError
from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    Entry,
    InputAdded,
    ModelRequested,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from treadle.journal.journal import RunWriter
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.run_state import RunState
from treadle.journal.sessions import ViewMark
from treadle.loop.cut_calls import ASK, NOT_KNOWN, STOPPED
from treadle.loop.inbox import LAST_TURN
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.message import ToolResult
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.approval import Approve
from treadle.tools.builtin.read import Read
from treadle.tools.tool import DidNotHappen, Happened, InvalidArguments, ToolDeferred
from treadle.types import Effect, Limits, now

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Effects:
    """What was really done, by call: outside of any journal."""

    done: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    """(call id, attempt, key)"""

    def tool(self, name: str, **more: Any) -> PlainTool:
        async def does(ctx: ToolContext[None], arguments: object) -> str:
            self.done.append((ctx.call_id, ctx.attempt, ctx.idempotency_key))
            await anyio.lowlevel.checkpoint()
            return f"done by {name}"

        return PlainTool(name=name, does=does, **more)

    def times(self, call_id: str) -> int:
        return sum(done[0] == call_id for done in self.done)


@dataclass
class Original:
    """A run that was driven to its end, and the appends that it was made of."""

    result: RunResult[Any]
    entries: list[Entry]
    appends: list[int]
    """How many entries there were after each."""

    async def until(self, count: int) -> Runtime:
        """Another process, in which the driver vanished after so many entries."""
        return await vanished(self.entries[:count])


async def driven(model: Any, *tools: Any, **options: Any) -> Original:
    sizes = [1]

    async def at(entries: Sequence[Entry]) -> None:
        sizes.append(sizes[-1] + len(entries))

    journal = WatchedJournal(at=at)
    result = await open_runtime(journal=journal).run(agent(model, *tools), "go", **options)
    return Original(result, [record.entry for record in await journal.read(result.run_id)], sizes)


async def vanished(entries: Sequence[Entry]) -> Runtime:
    journal = await emptied_journal()
    await journal.add_run([entry.to_json() for entry in entries])
    return open_runtime(journal=journal)


async def resumed(
    rt: Runtime, run_id: str, one: Agent[Any], **options: Any
) -> tuple[RunResult[Any], list[Event]]:
    """Goes on with it, and checks what must hold whenever somebody does."""
    before = [record.entry for record in await rt.journal.read(run_id)]
    state, seen = await rt.journal.load(run_id), list[Event]()
    async with rt.resume_stream(run_id, one, **options) as stream:
        async for event in stream:
            seen.append(event)
    check_events(
        seen, turns=max(state.turn - 1, 0), asked={call.id for call in state.current.calls}
    )
    result = stream.result
    check_history(result.messages)
    records = await rt.journal.read(run_id)
    entries = [record.entry for record in records]
    assert entries[: len(before)] == before, "nothing is written anew"
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert isinstance(entries[len(before)], RunResumed)
    finished = [entry.result.call_id for entry in entries if isinstance(entry, ToolFinished)]
    assert len(finished) == len(set(finished)), "one result for each call"
    assert sum(isinstance(entry, RunFinished) for entry in entries) == (
        not (await rt.journal.load(run_id)).current.open_calls
    )
    return result, seen


async def entries_of(rt: Runtime, run_id: str, kind: type[Any]) -> list[Any]:
    return [
        record.entry for record in await rt.journal.read(run_id) if isinstance(record.entry, kind)
    ]


def told(result: RunResult[Any]) -> dict[str, ToolResult]:
    return {one.call_id: one for message in result.messages for one in message.tool_results}


# ---------------------------------------------------------------- at every boundary

TOOLS: dict[str, dict[str, Any]] = {
    "look": {"effect": "pure"},
    "save": {"effect": "idempotent"},
    "send": {"effect": "once"},
    "alone": {"effect": "once", "parallel": False},
}
EFFECTS: dict[str, Effect] = {name: more["effect"] for name, more in TOOLS.items()}


def all_tools(effects: Effects) -> list[PlainTool]:
    return [effects.tool(name, **more) for name, more in TOOLS.items()]


def busy_script(*odd: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        asks(
            call("look", "a"),
            call("send", "b", to=1),
            call("send", "c", to=2),
            *odd,
            call("save", "e"),
            text="So.",
        ),
        fails("network"),
        asks(call("alone", "f"), call("alone", "g"), call("look", "h")),
        asks(call("send", "i", to=3)),
        says("All is done."),
    ]


async def goes_on(
    entries: Sequence[Entry], count: int, script: list[dict[str, Any]]
) -> tuple[Runtime, RunResult[Any]]:
    """Taken up after `count` entries; what every call may have come to is checked."""
    rt, effects = await vanished(entries[:count]), Effects()
    names = {entry.call_id: entry.name for entry in entries if isinstance(entry, ToolStarted)}
    started = {entry.call_id for entry in entries[:count] if isinstance(entry, ToolStarted)}
    known = {
        entry.result.call_id: entry.result
        for entry in entries[:count]
        if isinstance(entry, ToolFinished)
    }
    run_id = entries[0].run_id  # type: ignore[union-attr]  it is a run.started
    result, _ = await resumed(rt, run_id, agent(script, *all_tools(effects)))
    results = told(result)
    assert (result.outcome, result.text) == ("completed", "All is done.")
    assert {call_id: one for call_id, one in results.items() if call_id in known} == known, (
        "what is known is kept"
    )
    for call_id, name in names.items():
        open_before = call_id in started and call_id not in known
        once = EFFECTS[name] == "once"
        assert effects.times(call_id) == (0 if call_id in known or (open_before and once) else 1)
        assert results[call_id].unknown == (
            (call_id in known and known[call_id].unknown) or (open_before and once)
        )
        if results[call_id].unknown and open_before:
            assert results[call_id].text == STOPPED
        assert all(
            attempt == 1 + open_before and key == f"{run_id}:{call_id}"
            for done, attempt, key in effects.done
            if done == call_id
        )
    assert (result.metrics.turns, result.metrics.tool_calls) == (4, 8)
    return rt, result


async def test_a_run_whose_driver_vanished_after_any_entry_is_gone_on_with() -> None:
    script = busy_script()
    original = await driven(script, *all_tools(Effects()))
    for count in range(1, len(original.entries)):
        rt, result = await goes_on(original.entries, count, script)
        replayed = await rt.replay(result.run_id)
        assert (replayed.messages, replayed.outcome) == (result.messages, result.outcome)


async def test_a_run_whose_driver_vanished_after_any_append_is_gone_on_with() -> None:
    """A refusal is appended with the response that it is for, so that it is no call of a tool that
    is gone.
    """
    script = busy_script(call("nope", "d"))
    original = await driven(script, *all_tools(Effects()))
    for count in original.appends[:-1]:
        await goes_on(original.entries, count, script)


async def test_a_run_whose_second_driver_vanished_too_is_gone_on_with() -> None:
    script = busy_script()
    original = await driven(script, *all_tools(Effects()))
    for count in original.appends[:-1]:
        rt, result = await goes_on(original.entries, count, script)
        entries = [record.entry for record in await rt.journal.read(result.run_id)]
        for again in range(count + 1, len(entries)):
            effects, third = Effects(), await vanished(entries[:again])
            last, _ = await resumed(third, result.run_id, agent(script, *all_tools(effects)))
            assert last.text == "All is done."
            for entry in entries[:again]:
                if isinstance(entry, ToolStarted) and entry.effect == "once":
                    assert effects.times(entry.call_id) == 0


async def test_what_is_finished_is_given_back_and_nothing_is_asked_or_run_again() -> None:
    original = await driven(busy_script(), *all_tools(Effects()))
    rt, model = await original.until(len(original.entries)), ScriptedModel([])
    result = await rt.resume(original.result.run_id, agent(model))
    assert (result.text, result.messages, model.requests) == (
        original.result.text,
        original.result.messages,
        [],
    )
    with pytest.raises(AgentError, match="is finished: replay it, or fork it"):
        async with rt.resume_stream(original.result.run_id, agent(model)):
            pass


async def test_an_answer_that_is_in_the_journal_is_not_asked_for_again() -> None:
    original = await driven([asks(call("look", "a")), says("It is warm.")], gives("look"))
    rt, model = await original.until(len(original.entries) - 1), ScriptedModel([])
    result, seen = await resumed(rt, original.result.run_id, agent(model, gives("look")))
    assert (result.outcome, result.output, model.requests) == ("completed", "It is warm.", [])
    assert [kind_of(event) for event in seen] == [
        "run_start",
        "turn_start",
        "turn_end",
        "output",
        "run_end",
    ]


# ---------------------------------------------------------------- a once-call of which nobody knows


ONE = [asks(call("send", "c1", to="ada"), text="Sending."), says("done")]
LOST_AT = 4
"""run.started, model.requested, model.responded, tool.started"""


async def lost_call(
    tool: Any, *more: Any, script: Sequence[dict[str, Any]] = ONE, **options: Any
) -> tuple[Runtime, str]:
    """A run whose driver vanished while `send` ran."""
    original = await driven([*script], gives("send", effect=tool.effect), *more, **options)
    assert label(original.entries[LOST_AT - 1]) == "tool.started:c1"
    return await original.until(LOST_AT), original.result.run_id


async def test_without_a_word_a_call_that_may_have_happened_is_told_as_unknown_and_not_repeated() -> (
    None
):
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool))
    assert (told(result)["c1"].text, told(result)["c1"].unknown, effects.done) == (
        STOPPED,
        True,
        [],
    )
    assert NOT_KNOWN in STOPPED


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_may_be_repeated_runs_again_with_the_same_key_and_the_next_attempt(
    effect: Effect,
) -> None:
    effects = Effects()
    tool = effects.tool("send", effect=effect)
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool))
    assert effects.done == [("c1", 2, f"{run_id}:c1")]
    assert told(result)["c1"].text == "done by send"
    assert len(await entries_of(rt, run_id, ToolStarted)) == 1, "its start is in the journal"
    assert result.metrics.tool_calls == 1


async def test_a_call_that_may_no_more_run_is_not_repeated() -> None:
    """What rules and modes say when a run is taken up counts, not what they said when the call
    started.
    """
    effects = Effects()
    tool = effects.tool("send", effect="idempotent")
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), mode="plan")
    assert effects.done == []
    assert told(result)["c1"].unknown
    assert (
        "was not run again. Not run: send can change things, and this run only plans (mode plan)"
        in told(result)["c1"].text
    )
    assert [entry.status for entry in await entries_of(rt, run_id, ToolFinished)] == ["unknown"]


async def test_a_path_that_leads_elsewhere_since_the_crash_is_judged_again(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside.txt"
    work.mkdir()
    outside.write_text("not for the model")
    (work / "notes.txt").write_text("as it was")
    script = [asks(call("read", "c1", path="notes.txt")), says("done")]
    original = await driven(script, Read(), mode="ask", cwd=work)
    assert "as it was" in told(original.result)["c1"].text
    (work / "notes.txt").unlink()
    (work / "notes.txt").symlink_to(outside)
    rt = await original.until(LOST_AT)
    result, _ = await resumed(rt, original.result.run_id, agent(script, Read()))
    assert told(result)["c1"].is_error
    assert not told(result)["c1"].unknown
    assert "not for the model" not in told(result)["c1"].text
    assert [
        entry.status for entry in await entries_of(rt, original.result.run_id, ToolFinished)
    ] == ["error"]


def answers(answer: Any) -> Callable[[Any, Any], Awaitable[Any]]:
    async def looks(ctx: ToolContext[None], arguments: Any) -> Any:
        assert (ctx.call_id, ctx.attempt, arguments) == ("c1", 2, {"to": "ada"})
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return looks


@pytest.mark.parametrize(
    ("answer", "times", "text", "unknown"),
    [
        (Happened("sent at noon"), 0, "sent at noon", False),
        (Happened("x" * 50_000), 0, None, False),
        (DidNotHappen(), 1, "done by send", False),
        (None, 0, STOPPED, True),
        (ValueError("the mail server is down"), 0, STOPPED, True),
    ],
    ids=["happened", "happened at length", "did not happen", "cannot tell", "raises"],
)
async def test_a_probe_is_asked_what_happened(
    answer: Any, times: int, text: str | None, unknown: bool, caplog: pytest.LogCaptureFixture
) -> None:
    effects = Effects()
    tool = effects.tool("send", looks=answers(answer))
    rt, run_id = await lost_call(tool)
    with caplog.at_level(logging.WARNING, logger="treadle"):
        result, _ = await resumed(rt, run_id, agent([*ONE], tool))
    assert effects.times("c1") == times
    assert told(result)["c1"].unknown is unknown
    assert told(result)["c1"].text == text or (
        text is None and len(told(result)["c1"].text) < 31_000
    )
    assert ("the mail server is down" in caplog.text) == isinstance(answer, ValueError)


async def test_a_call_that_did_not_happen_is_not_made_where_the_run_was_taken_over_while_its_probe_was_asked() -> (
    None
):
    effects = Effects()

    async def looks(ctx: ToolContext[None], arguments: Any) -> Any:
        await rt.journal.take_over(run_id, force=True)
        return DidNotHappen()

    tool = effects.tool("send", looks=looks)
    rt, run_id = await lost_call(tool)
    async with rt.resume_stream(run_id, agent([*ONE], tool)) as stream:
        async for _ in stream:
            pass
    assert (stream.result.outcome, effects.done) == ("error", [])
    assert stream.result.error is not None
    assert stream.result.error.kind == "busy"


@pytest.mark.parametrize("on_unknown", ["tell", "wait", "fail"])
async def test_a_probe_is_asked_first_whatever_is_to_become_of_what_it_cannot_tell(
    on_unknown: Any,
) -> None:
    effects = Effects()
    tool = effects.tool("send", looks=answers(Happened("sent at noon")))
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), on_unknown=on_unknown)
    assert (result.outcome, told(result)["c1"].text, effects.done) == (
        "completed",
        "sent at noon",
        [],
    )


async def test_a_probe_that_does_not_answer_in_time_cannot_tell() -> None:
    gate = Gate()

    async def looks(ctx: ToolContext[None], arguments: Any) -> Any:
        await gate.stop()

    tool = Effects().tool("send", looks=looks, timeout_s=0.01)
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool))
    assert told(result)["c1"].unknown


async def test_a_run_that_is_cancelled_while_a_probe_is_asked_is_closed_and_the_call_is_unknown() -> (
    None
):
    gate, effects = Gate(), Effects()

    async def looks(ctx: ToolContext[None], arguments: Any) -> Any:
        await gate.stop()

    tool = effects.tool("send", looks=looks)
    rt, run_id = await lost_call(tool)
    async with anyio.create_task_group() as group:
        group.start_soon(rt.resume, run_id, agent([*ONE], tool))
        await gate.reached.wait()
        group.cancel_scope.cancel()
    result = await rt.replay(run_id)
    assert (result.outcome, told(result)["c1"].unknown, effects.done) == ("cancelled", True, [])
    check_history(result.messages)


async def test_where_it_must_not_be_unknown_the_run_fails() -> None:
    effects = Effects()
    tool, look = effects.tool("send"), effects.tool("look", effect="pure", parallel=False)
    script = [asks(call("send", "c1", to="ada"), call("look", "c2")), says("done")]
    rt, run_id = await lost_call(tool, gives("look", effect="pure", parallel=False), script=script)
    result, _ = await resumed(rt, run_id, agent([*script], tool, look), on_unknown="fail")
    assert (result.outcome, effects.done) == ("error", []), "nothing else is begun either"
    assert result.error is not None
    assert (result.error.kind, "send (call c1)" in result.error.message) == ("tool", True)
    assert told(result)["c1"].unknown


async def waiting(tool: Any, *more: Any, **options: Any) -> tuple[Runtime, str]:
    """A run that waits for a person to say what became of the lost call."""
    rt, run_id = await lost_call(tool, *more, **options)
    result, seen = await resumed(rt, run_id, agent([*ONE], tool, *more), on_unknown="wait")
    assert result.outcome == "approval_needed"
    assert [message.role for message in result.messages] == ["user"], (
        "what waits is not in a history that could be sent"
    )
    (asked,) = [event for event in seen if isinstance(event, events.ApprovalRequested)]
    assert (asked.call_id, asked.name, asked.arguments, asked.reason) == (
        "c1",
        "send",
        {"to": "ada"},
        ASK,
    )
    assert (await rt.journal.info(run_id)).status == "waiting"
    assert (await rt.replay(run_id)).outcome == "approval_needed"
    return rt, run_id


async def test_a_person_who_knows_that_it_did_not_happen_has_it_run_again() -> None:
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await waiting(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), approve=["c1"])
    [(call_id, attempt, key)] = effects.done
    assert (call_id, key, attempt > 1) == ("c1", f"{run_id}:c1", True)
    assert [entry.attempt for entry in await entries_of(rt, run_id, ToolStarted)] == [1, attempt]
    assert (told(result)["c1"].text, result.outcome, result.metrics.tool_calls) == (
        "done by send",
        "completed",
        1,
    )


async def test_a_person_who_does_not_know_either_has_the_model_told() -> None:
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await waiting(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), deny={"c1": "no idea"})
    assert (told(result)["c1"].text, told(result)["c1"].unknown, effects.done, result.outcome) == (
        STOPPED,
        True,
        [],
        "completed",
    )


async def test_a_call_that_may_be_repeated_and_needs_a_person_by_now_waits_for_one() -> None:
    effects = Effects()
    rt, run_id = await lost_call(effects.tool("send", effect="idempotent"))
    one = agent([*ONE], effects.tool("send", effect="idempotent", needs_approval=True))
    result, _ = await resumed(rt, run_id, one, on_ask="wait")
    assert (result.outcome, effects.done) == ("approval_needed", [])
    result, _ = await resumed(rt, run_id, one, approve=["c1"])
    assert (result.outcome, effects.times("c1")) == ("completed", 1)


async def test_a_person_who_does_not_know_need_not_have_been_asked() -> None:
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), deny={"c1": "no idea"})
    assert (told(result)["c1"].text, told(result)["c1"].unknown, effects.done, result.outcome) == (
        STOPPED,
        True,
        [],
        "completed",
    )


async def test_a_person_who_found_out_says_what_it_gave() -> None:
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await waiting(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), results={"c1": "Ada has it."})
    assert (told(result)["c1"].text, told(result)["c1"].unknown, effects.done, result.outcome) == (
        "Ada has it.",
        False,
        [],
        "completed",
    )


async def test_what_waits_goes_on_waiting_and_is_asked_once() -> None:
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await waiting(tool)
    for _ in range(2):
        result, _ = await resumed(rt, run_id, agent([*ONE], tool))
        assert (result.outcome, effects.done) == ("approval_needed", [])
    assert len(await entries_of(rt, run_id, ApprovalAsked)) == 1
    result, _ = await resumed(rt, run_id, agent([*ONE], tool), on_unknown="tell")
    assert (result.outcome, told(result)["c1"].unknown) == ("completed", True)


async def test_a_probe_that_can_tell_by_now_ends_the_waiting() -> None:
    effects = Effects()
    rt, run_id = await waiting(effects.tool("send"))

    async def looks(ctx: ToolContext[None], arguments: Any) -> Any:
        return Happened("it arrived")

    result, _ = await resumed(rt, run_id, agent([*ONE], effects.tool("send", looks=looks)))
    assert (told(result)["c1"].text, effects.done, result.outcome) == (
        "it arrived",
        [],
        "completed",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"approve": ["c2"]}, "no call 'c2' of this run waits for an answer; open calls: c1"),
        ({"deny": {"zz": ""}}, "no call 'zz'"),
        ({"results": {"": "x"}}, "no call ''"),
        ({"mood": "good"}, "has no option 'mood'"),
        ({"mode": "yolo"}, "mode='yolo'"),
        ({"cwd": "/no/such/place"}, "not a directory"),
    ],
)
async def test_an_answer_that_fits_nothing_is_said_before_the_run_is_taken_over(
    options: dict[str, Any], words: str
) -> None:
    tool = Effects().tool("send")
    rt, run_id = await waiting(tool)
    before = await rt.journal.read(run_id)
    with pytest.raises(AgentError, match=words) as caught:
        await rt.resume(run_id, agent([*ONE], tool), **options)
    assert caught.value.kind == "invalid"
    assert await rt.journal.read(run_id) == before
    assert (await rt.journal.info(run_id)).status == "waiting"


async def test_an_answer_where_nothing_is_open_says_so() -> None:
    original = await driven([asks(call("look", "a")), says("done")], gives("look"))
    rt = await original.until(2)
    with pytest.raises(
        AgentError, match="no call 'a' of this run waits for an answer; none is open"
    ):
        await rt.resume(original.result.run_id, agent([], gives("look")), approve="a")


async def test_what_a_run_was_told_about_unknown_outcomes_when_it_began_holds_for_whoever_takes_it_up() -> (
    None
):
    effects = Effects()
    tool = effects.tool("send")
    rt, run_id = await lost_call(tool, on_unknown="wait")
    result, _ = await resumed(rt, run_id, agent([*ONE], tool))
    assert (result.outcome, effects.done) == ("approval_needed", [])


# ---------------------------------------------------------------- the same without a crash: its own timeout


def hangs_at_first(name: str) -> PlainTool:
    """A tool that reaches its time limit at its first attempt and returns at once at the next."""

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        if ctx.attempt == 1:
            await anyio.sleep_forever()
        return "went through"

    return PlainTool(name=name, does=does, timeout_s=0.01)


async def test_a_once_call_that_timed_out_waits_for_a_person_where_the_run_was_told_to() -> None:
    rt, one = open_runtime(), agent([*ONE], hangs_at_first("send"))
    result = await rt.run(one, "go", on_unknown="wait")
    assert result.outcome == "approval_needed"
    (asked,) = await entries_of(rt, result.run_id, ApprovalAsked)
    assert asked.reason.startswith("Timed out after 0.01 s.")
    again, _ = await resumed(rt, result.run_id, one, approve=["c1"])
    assert (told(again)["c1"].text, again.outcome) == ("went through", "completed")


async def says_it_did_not_happen(ctx: ToolContext[None], arguments: Any) -> DidNotHappen:
    return DidNotHappen()


async def test_a_probe_is_not_asked_about_a_call_that_its_timeout_cut() -> None:
    """The timeout cut the wait, and perhaps not the effect: what a probe does not see yet may still
    come.
    """
    gate, rt = Gate("send", timeout_s=0.01, looks=says_it_did_not_happen), open_runtime()
    one = agent([*ONE], gate.tool)
    result = await rt.run(one, "go", on_unknown="wait")
    gate.opened.set()
    again, _ = await resumed(rt, result.run_id, one)
    assert again.outcome == "approval_needed"
    assert len(await entries_of(rt, result.run_id, ToolStarted)) == 1


async def test_a_deferred_call_is_made_once_and_its_probe_may_only_bring_the_result() -> None:
    answers: list[Any] = [DidNotHappen(), None, Happened("delivered")]
    ordered: list[str] = []

    async def orders(ctx: ToolContext[None], arguments: object) -> str:
        ordered.append(ctx.call_id)
        raise ToolDeferred("the parcel is on its way")

    async def looks(ctx: ToolContext[None], arguments: Any) -> Any:
        return answers.pop(0)

    rt = open_runtime()
    one = agent([*ONE], PlainTool(name="send", does=orders, looks=looks))
    result = await rt.run(one, "go")
    for _ in range(2):
        result, _ = await resumed(rt, result.run_id, one)
        assert (result.outcome, ordered) == ("approval_needed", ["c1"])
    result, _ = await resumed(rt, result.run_id, one)
    assert (result.outcome, told(result)["c1"].text, ordered) == ("completed", "delivered", ["c1"])


async def test_a_call_that_its_timeout_cut_starts_anew_when_it_is_approved() -> None:
    async def approves(request: Any) -> Any:
        return Approve()

    async with Runtime(journal=new_journal(), config=Config()) as rt:
        result = await rt.run(
            agent([*ONE], hangs_at_first("send")), "go", on_unknown="wait", on_approval=approves
        )
        assert (result.outcome, told(result)["c1"].text) == ("completed", "went through")
        assert [
            started.attempt for started in await entries_of(rt, result.run_id, ToolStarted)
        ] == [1, 2]


async def test_a_once_call_that_cannot_tell_whether_it_happened_waits_beside_one_that_can() -> None:
    rt = open_runtime()
    one = agent(
        [asks(call("send", "c1"), call("look", "c2")), says("done")],
        breaks("send", ToolFailed("No answer.", happened=None)),
        gives("look"),
    )
    result = await rt.run(one, "go", on_unknown="wait")
    (asked,) = await entries_of(rt, result.run_id, ApprovalAsked)
    assert (result.outcome, asked.call_id, asked.reason) == ("approval_needed", "c1", "No answer.")
    again, _ = await resumed(rt, result.run_id, one, deny={"c1": ""})
    assert (told(again)["c1"].unknown, told(again)["c2"].text, again.outcome) == (
        True,
        "ok",
        "completed",
    )


async def test_a_once_call_that_timed_out_ends_the_run_where_it_was_told_to() -> None:
    result = await open_runtime().run(
        agent([*ONE], Gate("send", timeout_s=0.01).tool), "go", on_unknown="fail"
    )
    assert result.outcome == "error"
    assert result.error is not None
    assert result.error.kind == "tool"
    assert told(result)["c1"].unknown


async def test_what_stands_behind_a_call_that_came_to_wait_waits_with_it() -> None:
    gate, effects, rt = Gate("send", timeout_s=0.01, parallel=False), Effects(), open_runtime()
    script = [asks(call("send", "c1"), call("alone", "c2"), call("look", "c3")), says("done")]
    one = agent(
        script,
        gate.tool,
        effects.tool("alone", parallel=False),
        effects.tool("look", effect="pure"),
    )
    result = await rt.run(one, "go", on_unknown="wait")
    assert (result.outcome, effects.done) == ("approval_needed", [])
    again, _ = await resumed(rt, result.run_id, one, results={"c1": "sent"})
    assert ([done[0] for done in effects.done], again.outcome) == (["c2", "c3"], "completed")


# ---------------------------------------------------------------- approvals


def asking(effects: Effects, **more: Any) -> list[PlainTool]:
    return [
        effects.tool("pay", needs_approval=True, **more),
        effects.tool("alone", parallel=False),
        effects.tool("look", effect="pure"),
    ]


async def test_a_call_that_needs_a_person_waits_across_a_restart() -> None:
    effects = Effects()
    script = [asks(call("pay", "c1", amount=5)), says("done")]
    original = await driven(script, *asking(effects), on_ask="wait")
    assert (original.result.outcome, effects.done) == ("approval_needed", [])
    rt = await original.until(len(original.entries))
    result, seen = await resumed(
        rt, original.result.run_id, agent(script, *asking(effects)), approve="c1"
    )
    assert (effects.done, result.outcome) == ([("c1", 1, f"{result.run_id}:c1")], "completed")
    (resolved,) = [event for event in seen if isinstance(event, events.ApprovalResolved)]
    assert (resolved.call_id, resolved.decision, resolved.by) == ("c1", "allow", "user")


async def test_a_denied_call_does_not_run_and_the_model_is_told_why() -> None:
    effects, rt = Effects(), open_runtime()
    script = [asks(call("pay", "c1"), call("pay", "c2")), says("done")]
    one = agent(script, *asking(effects))
    run_id = (await rt.run(one, "go", on_ask="wait")).run_id
    result, _ = await resumed(rt, run_id, one, deny={"c1": "too dear", "c2": ""})
    assert [one.text for one in told(result).values()] == [
        "Not run: the user declined: too dear",
        "Not run: the user declined.",
    ]
    assert (effects.done, result.outcome, result.metrics.tool_calls) == ([], "completed", 0)
    said = [
        (entry.call_id, entry.decision, entry.reason, entry.by)
        for entry in await entries_of(rt, run_id, ApprovalAnswered)
    ]
    assert said == [("c1", "deny", "too dear", "user"), ("c2", "deny", "", "user")]


async def test_a_person_may_give_the_result_of_a_call_that_never_ran() -> None:
    effects, rt = Effects(), open_runtime()
    one = agent([asks(call("pay", "c1")), says("done")], *asking(effects))
    run_id = (await rt.run(one, "go", on_ask="wait")).run_id
    result, _ = await resumed(rt, run_id, one, results={"c1": "paid by hand"})
    assert (told(result)["c1"].text, effects.done) == ("paid by hand", [])


async def test_of_two_questions_one_may_be_answered_first() -> None:
    effects, rt = Effects(), open_runtime()
    one = agent([asks(call("pay", "c1"), call("pay", "c2")), says("done")], *asking(effects))
    run_id = (await rt.run(one, "go", on_ask="wait")).run_id
    result, _ = await resumed(rt, run_id, one, approve=["c2"])
    assert (result.outcome, [done[0] for done in effects.done]) == ("approval_needed", ["c2"])
    result, _ = await resumed(rt, run_id, one, approve=["c1"])
    assert (result.outcome, [done[0] for done in effects.done]) == ("completed", ["c2", "c1"])
    assert len(await entries_of(rt, run_id, ApprovalAsked)) == 2
    assert [one.call_id for message in result.messages for one in message.tool_results] == [
        "c1",
        "c2",
    ]


@pytest.mark.parametrize(("parallel", "first"), [(True, ["c2", "c4"]), (False, [])])
async def test_beside_a_held_call_runs_what_may_run_beside_it(
    parallel: bool, first: list[str]
) -> None:
    """A held call that runs alone holds up everything behind it; one that runs beside others only
    what must run alone, and what follows that.
    """
    effects, rt = Effects(), open_runtime()
    before = ["c0"]
    script = [
        asks(
            call("look", "c0"),
            call("pay", "c1"),
            call("look", "c2"),
            call("look", "c4"),
            call("alone", "c5"),
            call("look", "c6"),
        ),
        says("done"),
    ]
    one = agent(script, *asking(effects, parallel=parallel))
    run_id = (await rt.run(one, "go", on_ask="wait")).run_id
    assert [done[0] for done in effects.done] == [*before, *first]
    result, _ = await resumed(rt, run_id, one, approve=["c1"])
    assert [done[0] for done in effects.done] == [
        *before,
        *first,
        *(name for name in ["c1", "c2", "c4", "c5", "c6"] if name not in first),
    ]
    assert result.outcome == "completed"


async def test_a_once_call_that_was_approved_and_then_lost_is_not_approved_for_ever() -> None:
    effects = Effects()
    script = [asks(call("pay", "c1")), says("done")]
    original = await driven(script, *asking(effects), on_ask="wait")
    rt = await original.until(len(original.entries))
    run_id = original.result.run_id
    await resumed(rt, run_id, agent(script, *asking(effects)), approve="c1")
    entries = [record.entry for record in await rt.journal.read(run_id)]
    count = next(i for i, entry in enumerate(entries) if isinstance(entry, ToolStarted)) + 1
    third = await vanished(entries[:count])
    result, _ = await resumed(third, run_id, agent(script, *asking(effects)))
    assert (effects.times("c1"), told(result)["c1"].unknown) == (1, True)
    before_it_started = await vanished(entries[: count - 1])
    await resumed(before_it_started, run_id, agent(script, *asking(effects)))
    assert effects.times("c1") == 2, "the yes is in the journal, and it had not started"


async def test_a_yes_to_running_it_again_is_also_the_yes_that_its_tool_needs() -> None:
    effects = Effects()
    script = [asks(call("pay", "c1")), says("done")]
    original = await driven(script, *asking(effects), on_ask="wait")
    run_id, rt = original.result.run_id, await original.until(len(original.entries))
    await resumed(rt, run_id, agent(script, *asking(effects)), approve="c1")
    entries = [record.entry for record in await rt.journal.read(run_id)]
    third = await vanished(
        entries[: next(i for i, entry in enumerate(entries) if isinstance(entry, ToolStarted)) + 1]
    )
    result, _ = await resumed(third, run_id, agent(script, *asking(effects)), approve="c1")
    assert (effects.times("c1"), told(result)["c1"].text, result.outcome) == (
        2,
        "done by pay",
        "completed",
    )


async def test_a_waiting_run_that_is_killed_says_that_its_calls_did_not_run() -> None:
    effects, rt = Effects(), open_runtime()
    one = agent([asks(call("pay", "c1")), says("done")], *asking(effects))
    run_id = (await rt.run(one, "go", on_ask="wait")).run_id
    info = await rt.kill(run_id)
    assert (info.status, info.outcome) == ("finished", "cancelled")
    result = await rt.replay(run_id)
    assert (told(result)["c1"].text, told(result)["c1"].unknown, effects.done) == (
        "Not run: The run was stopped.",
        False,
        [],
    )
    check_history(result.messages)
    assert await rt.kill(run_id) == info
    assert (await rt.journal.load(run_id)).approvals.asked == {}, (
        "nobody waits for an answer any more"
    )


async def test_a_waiting_run_holds_its_session_until_it_is_over() -> None:
    effects, rt = Effects(), open_runtime()
    session = rt.session(
        "s", agent=agent([asks(call("pay", "c1")), says("done"), says("again")], *asking(effects))
    )
    first = await session.send("go", on_ask="wait")
    with pytest.raises(AgentError, match="is not finished") as caught:
        await session.send("meanwhile")
    assert caught.value.kind == "busy"
    assert await session.history() == []
    done, _ = await resumed(rt, first.run_id, session.agent, approve="c1")
    assert await session.history() == done.messages
    assert (await session.send("and now?")).text == "again"


# ---------------------------------------------------------------- an attempt of the model that was lost


async def test_a_lost_attempt_is_made_again_under_the_next_number() -> None:
    original = await driven([asks(call("look", "a")), says("done")], gives("look"))
    count = (
        next(
            i
            for i, entry in enumerate(original.entries)
            if isinstance(entry, ModelRequested) and entry.turn == 2
        )
        + 1
    )
    rt, run_id = await original.until(count), original.result.run_id
    result, seen = await resumed(
        rt, run_id, agent([asks(call("look", "a")), says("done")], gives("look"))
    )
    assert [
        (entry.turn, entry.attempt, entry.failed)
        for entry in await entries_of(rt, run_id, ModelRequested)
    ] == [(1, 1, None), (2, 1, None), (2, 2, None)]
    assert [event.attempt for event in seen if isinstance(event, events.Retry)] == [1]
    assert (result.outcome, result.metrics.retries, result.metrics.turns) == ("completed", 0, 2)


async def test_the_model_is_told_once_that_this_is_its_last_turn() -> None:
    script = [asks(call("look", "a")), says("done")]
    original = await driven(script, gives("look"), limits=Limits(turns=2))
    count = len(original.entries) - 2
    assert isinstance(original.entries[count - 1], ModelRequested)
    rt = await original.until(count)
    result, _ = await resumed(rt, original.result.run_id, agent(script, gives("look")))
    said = [entry.message.text for entry in await entries_of(rt, result.run_id, InputAdded)]
    assert said == [LAST_TURN.format("limit of turns")]
    assert (result.outcome, result.metrics.turns) == ("completed", 2)


async def test_a_last_turn_stays_the_last_one_and_its_calls_do_not_run() -> None:
    script = [asks(call("look", "a")), asks(call("look", "b"))]
    original = await driven(script, gives("look"), limits=Limits(turns=2))
    effects = Effects()
    for count in original.appends[:-1]:
        rt = await original.until(count)
        result, _ = await resumed(
            rt, original.result.run_id, agent(script, effects.tool("look", effect="pure"))
        )
        assert (result.outcome, result.metrics.turns, effects.times("b")) == ("turn_limit", 2, 0)


async def test_an_empty_answer_is_asked_for_once_more_and_no_more_than_once() -> None:
    script = [says(""), says(""), says("never")]
    original = await driven(script)
    for count in original.appends[:-1]:
        rt, model = await original.until(count), ScriptedModel(script)
        result, _ = await resumed(rt, original.result.run_id, agent(model))
        assert (result.outcome, result.text, model.place) == ("completed", "", 2)


async def test_words_that_a_person_had_added_are_still_there() -> None:
    gate, rt = Gate(), open_runtime()
    one = agent([asks(call("gate", "a")), says("done")], gate.tool)
    async with rt.stream(one, "go") as stream:
        await gate.reached.wait()
        stream.steer("in Celsius")
        gate.opened.set()
        async for _ in stream:
            pass
    entries = [record.entry for record in await rt.journal.read(stream.run_id)]
    count = next(i for i, entry in enumerate(entries) if isinstance(entry, InputAdded)) + 2
    model = PlayedModel(text("20 degrees"))
    await resumed(await vanished(entries[:count]), stream.run_id, agent(model, gate.tool))
    assert [message.text for message in model.histories[0] if message.role == "user"] == [
        "go",
        "in Celsius",
    ]


# ---------------------------------------------------------------- limits count across it


async def test_a_limit_on_calls_counts_those_that_had_started() -> None:
    script = [asks(call("look", "a")), asks(call("look", "b"), call("look", "c")), says("done")]
    original = await driven(script, gives("look", effect="pure"), limits=Limits(tool_calls=2))
    for count in original.appends[:-1]:
        effects, rt = Effects(), await original.until(count)
        result, _ = await resumed(
            rt, original.result.run_id, agent(script, effects.tool("look", effect="pure"))
        )
        assert (result.outcome, result.metrics.tool_calls, effects.times("c")) == (
            "call_limit",
            2,
            0,
        )
        assert "limit of 2 tool calls" in told(result)["c"].text


async def test_a_limit_on_tokens_counts_what_was_spent_before() -> None:
    script = [asks(call("look", "a")), asks(call("look", "b")), says("done")]
    original = await driven(script, gives("look", effect="pure"), limits=Limits(tokens=400))
    requests: list[list[int | None]] = []
    for count in original.appends[:-1]:
        rt, model = await original.until(count), ScriptedModel(script)
        await resumed(rt, original.result.run_id, agent(model, gives("look", effect="pure")))
        requests.append([request.settings.max_tokens for request in model.requests])
    whole = requests[0]
    assert all(one == whole[len(whole) - len(one) :] for one in requests), (
        "the same is left, whenever it was taken up"
    )


@pytest.mark.parametrize(("limit", "outcome"), [(50, "timeout"), (5000, "completed")])
async def test_a_limit_on_seconds_counts_the_time_in_which_somebody_drove_it(
    limit: float, outcome: str
) -> None:
    original = await driven(
        [asks(call("look", "a")), says("done")], gives("look"), limits=Limits(seconds=limit)
    )
    (started, *others) = original.entries[:4]
    late = [msgspec.structs.replace(entry, at=entry.at + timedelta(seconds=60)) for entry in others]
    rt = await vanished([started, *late])
    result, _ = await resumed(
        rt,
        original.result.run_id,
        agent([asks(call("look", "a")), says("done")], gives("look", effect="pure")),
    )
    assert result.outcome == outcome
    assert result.metrics.duration_s >= 60


@pytest.mark.parametrize("hours", [2, -2])
async def test_a_clock_that_is_set_while_a_run_is_driven_takes_none_of_its_seconds(
    hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, shift = types.now, [timedelta()]
    for name, module in list(sys.modules.items()):
        if name.startswith("treadle") and getattr(module, "now", None) is read:
            monkeypatch.setattr(module, "now", lambda: read() + shift[0])

    @tool(effect="pure", name="look")
    async def look(what: str) -> str:
        """Look at a thing while the system's clock is set."""
        shift[0] = timedelta(hours=hours)
        return "seen"

    script = [asks(call("look", "a", what="it")), asks(call("look", "b", what="it")), says("done")]
    original = await driven(script, look, limits=Limits(seconds=50))
    assert original.result.outcome == "completed"
    for count in original.appends[:-1]:
        shift[0] = timedelta()
        result, _ = await resumed(
            await original.until(count), original.result.run_id, agent(script, look)
        )
        assert (result.outcome, result.metrics.duration_s < 50) == ("completed", True)
        state = await (await vanished(original.entries[:count])).journal.load(result.run_id)
        assert 0 <= state.driven_s < 50


async def test_a_run_that_is_closed_long_after_was_not_driven_meanwhile() -> None:
    original = await driven([asks(call("look", "a")), says("done")], gives("look"))
    rt = await vanished(
        [
            msgspec.structs.replace(entry, at=entry.at - timedelta(days=1))
            for entry in original.entries[:3]
        ]
    )
    await rt.kill(original.result.run_id)
    (*_, end) = await rt.journal.read(original.result.run_id)
    assert isinstance(end.entry, RunFinished)
    assert end.entry.duration_s < 3600


async def test_limits_may_be_raised_when_a_run_is_taken_up() -> None:
    original = await driven(
        [asks(call("look", "a")), says("done")],
        gives("look"),
        limits=Limits(tool_calls=1, seconds=50),
    )
    (started, *others) = original.entries[:4]
    late = [msgspec.structs.replace(entry, at=entry.at + timedelta(seconds=60)) for entry in others]
    rt = await vanished([started, *late])
    result, _ = await resumed(
        rt,
        original.result.run_id,
        agent([asks(call("look", "a")), says("done")], gives("look", effect="pure")),
        limits=Limits(seconds=5000),
    )
    assert result.outcome == "completed"


async def test_limits_that_were_raised_hold_for_every_driver_after() -> None:
    look, approved = gives("look"), gives("pay", needs_approval=True)
    script = [
        asks(call("pay", "a")),
        asks(call("look", "b")),
        asks(call("pay", "c")),
        asks(call("look", "d")),
        says("done"),
    ]
    rt = open_runtime()
    first = await rt.run(
        agent(script, approved, look), "go", on_ask="wait", limits=Limits(turns=2, tool_calls=3)
    )
    second = await rt.resume(first.run_id, approve="a", limits=Limits(turns=10, tool_calls=10))
    third = await rt.resume(first.run_id, approve="c")
    assert (first.outcome, second.outcome, third.outcome) == (
        "approval_needed",
        "approval_needed",
        "completed",
    )
    assert (await rt.replay(first.run_id)).messages == third.messages


# ---------------------------------------------------------------- what is gone or has changed


async def test_an_agent_that_is_not_known_here_is_asked_for_by_name() -> None:
    original = await driven(busy_script(), *all_tools(Effects()))
    rt = await original.until(3)
    with pytest.raises(
        AgentError, match=r"the agent 'tester' of run .* is not known here: pass agent="
    ):
        await rt.resume(original.result.run_id)


async def test_an_agent_that_was_run_here_is_found_by_its_name() -> None:
    original = await driven([says("done")])
    rt = await original.until(2)
    await rt.run(agent(ScriptedModel([says("hi"), says("here again")])), "go")
    assert (await rt.resume(original.result.run_id)).text == "here again"


async def test_a_tool_that_is_gone_is_said_before_the_run_is_taken_over() -> None:
    rt, run_id = await lost_call(Effects().tool("send"))
    with pytest.raises(
        AgentError, match="open call of the tool 'send', which agent 'tester' has no more"
    ) as caught:
        await rt.resume(run_id, agent([*ONE]))
    assert caught.value.kind == "invalid"
    assert len(await rt.journal.read(run_id)) == LOST_AT


async def test_a_tool_that_takes_its_arguments_no_more_ends_the_run_and_its_call_is_unknown() -> (
    None
):
    def reads(arguments_json: str) -> Any:
        raise InvalidArguments("`to` must be a number")

    rt, run_id = await lost_call(Effects().tool("send"))
    result, _ = await resumed(rt, run_id, agent([*ONE], Effects().tool("send", reads=reads)))
    assert (result.outcome, told(result)["c1"].unknown) == ("error", True)
    assert result.error is not None
    assert (
        "send (call c1) has started, but the tool no longer accepts its arguments"
        in result.error.message
    )


async def test_an_agent_that_has_changed_goes_on_with_a_warning() -> None:
    rt, run_id = await lost_call(Effects().tool("send"))
    changed = agent([*ONE], Effects().tool("send"), instructions="Be brief.")
    _, seen = await resumed(rt, run_id, changed)
    assert [event.text for event in seen if isinstance(event, events.Warned)] == [
        "agent 'tester' has changed since this run was last driven: it continues with the new definition"
    ]
    (again,) = await entries_of(rt, run_id, RunResumed)
    assert again.agent_hash == changed.fingerprint


async def test_an_agent_that_is_the_same_goes_on_without_one() -> None:
    rt, run_id = await lost_call(Effects().tool("send"))
    _, seen = await resumed(rt, run_id, agent([*ONE], gives("send")))
    assert [event for event in seen if isinstance(event, events.Warned)] == []


async def test_a_scripted_model_by_name_goes_on_where_the_journal_says(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(busy_script()), encoding="utf-8")
    one = agent(f"script:{script}", *all_tools(Effects()))
    rt = open_runtime()
    whole = await rt.run(one, "go", session="s")
    entries = [record.entry for record in await rt.journal.read(whole.run_id)]
    for count in range(1, len(entries)):
        result, _ = await resumed(await vanished(entries[:count]), whole.run_id, one)
        assert [message.text for message in result.messages if message.role == "assistant"] == [
            m.text for m in whole.messages if m.role == "assistant"
        ]


async def test_mode_and_place_of_the_last_driver_hold_for_the_next_one(tmp_path: Path) -> None:
    effects = Effects()
    script = [asks(call("pay", "c1")), says("done")]
    original = await driven(script, *asking(effects), on_ask="wait", mode="plan", cwd=tmp_path)
    rt = await original.until(len(original.entries))
    if original.result.outcome == "approval_needed":
        await resumed(rt, original.result.run_id, agent(script, *asking(effects)))
    info = await rt.journal.info(original.result.run_id)
    assert (info.mode, info.cwd) == ("plan", str(tmp_path.resolve()))


# ---------------------------------------------------------------- one driver at a time


async def test_a_run_that_somebody_drives_is_not_taken_up() -> None:
    gate, rt = Gate(), open_runtime()
    one = agent([asks(call("gate")), says("done")], gate.tool)
    async with rt.stream(one, "go") as stream:
        await gate.reached.wait()
        with pytest.raises(AgentError, match="is being driven") as caught:
            await rt.resume(stream.run_id, one)
        assert caught.value.kind == "busy"
        gate.opened.set()
        async for _ in stream:
            pass
    assert stream.result.success


async def test_a_driver_that_wakes_up_after_its_run_was_taken_away_writes_nothing() -> None:
    gate, journal = Gate(), new_journal()
    rt, other = open_runtime(journal=journal), open_runtime(journal=journal)
    async with rt.stream(
        agent([asks(call("gate", "c1")), says("done")], gate.tool), "go"
    ) as stream:
        await gate.reached.wait()
        info = await other.kill(stream.run_id, force=True)
        closed = await journal.read(stream.run_id)
        gate.opened.set()
        async for _ in stream:
            pass
    assert (info.outcome, stream.result.outcome) == ("cancelled", "error")
    assert stream.result.error is not None
    assert stream.result.error.kind == "busy"
    assert await journal.read(stream.run_id) == closed
    assert told(await rt.replay(stream.run_id))["c1"].unknown


async def test_a_run_that_is_driven_here_is_killed_through_its_driver() -> None:
    gate, rt = Gate(), open_runtime()
    with anyio.fail_after(20):
        async with rt.stream(agent([asks(call("gate", "c1"))], gate.tool), "go") as stream:
            await gate.reached.wait()
            info = await rt.kill(stream.run_id)
            async for _ in stream:
                pass
    assert (info.status, info.outcome, stream.result.outcome) == (
        "finished",
        "cancelled",
        "cancelled",
    )


async def test_a_run_that_nobody_drives_is_closed_where_it_is_killed() -> None:
    rt, run_id = await lost_call(Effects().tool("send"))
    info = await rt.kill(run_id)
    assert (info.status, info.outcome, info.tool_calls) == ("finished", "cancelled", 1)
    result = await rt.replay(run_id)
    assert told(result)["c1"].unknown
    assert [label(entry) for entry in await entries_of(rt, run_id, object)][-3:] == [
        "cancel.asked",
        "tool.finished:c1:unknown",
        "run.finished",
    ]


async def test_a_journal_that_refuses_a_further_driver_leaves_the_run_to_the_next_one() -> None:
    original = await driven([says("done")])

    async def full(entries: Sequence[Entry]) -> None:
        raise AgentError("agent", "the disk is full")

    journal = WatchedJournal()
    await journal.add_run([entry.to_json() for entry in original.entries[:2]])
    rt = open_runtime(journal=journal)
    journal.at = full
    with pytest.raises(AgentError, match="the disk is full"):
        await rt.resume(original.result.run_id, agent([says("done")]))
    journal.at = None
    assert (await rt.resume(original.result.run_id, agent([says("done")]))).success


class Slow(MemoryJournal):
    """Each of its answers takes a step of the event loop, in which whoever waits may be cancelled;
    what changes it is finished all the same.
    """

    async def take_over(self, run_id: str, *, force: bool = False) -> Any:
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        return await super().take_over(run_id, force=force)

    async def read(self, run_id: str, *, after: int = 0) -> list[Any]:
        await anyio.lowlevel.checkpoint()
        return await super().read(run_id, after=after)

    async def load(self, run_id: str) -> RunState:
        await anyio.lowlevel.checkpoint()
        return await super().load(run_id)


async def test_whoever_takes_a_run_up_and_is_stopped_at_any_step_has_closed_it_or_let_it_go() -> (
    None
):
    original, ends = (
        await driven(
            [asks(call("look", "a"), call("send", "b")), says("done")],
            gives("look"),
            gives("send"),
            session="s",
        ),
        set[str](),
    )
    run_id = original.result.run_id
    for steps in range(200):
        journal, effects = Slow(), Effects()
        await journal.add_run([entry.to_json() for entry in original.entries[:5]])
        rt = open_runtime(journal=journal)
        one = agent(
            [asks(call("look", "a"), call("send", "b")), says("done")],
            effects.tool("look", effect="pure"),
            effects.tool("send"),
        )
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(rt.resume, run_id, one)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
        info = await journal.info(run_id)
        ends.add(str(info.outcome) if info.status == "finished" else info.status)
        assert not rt.is_busy("s")
        check_history((await rt.replay(run_id)).messages)
        if info.outcome == "completed":
            break
    assert ends == {"stopped", "cancelled", "completed"}


async def test_a_run_that_has_moved_on_meanwhile_is_left_to_whom_moved_it() -> None:
    original = await driven([says("done")])

    class Moving(MemoryJournal):
        """Somebody else takes the run, drives it a little and vanishes, between our look at it and
        our take-over.
        """

        async def take_over(self, run_id: str, *, force: bool = False) -> Any:
            if self.moves:
                self.moves = False
                other = await super().take_over(run_id)
                await other.append(
                    [
                        RunResumed(
                            at=now(),
                            fence=other.fence,
                            agent="a",
                            agent_hash="h",
                            model="m",
                            mode="full",
                            cwd="/",
                        )
                    ]
                )
                await other.release()
            return await super().take_over(run_id, force=force)

        moves = True

    journal = Moving()
    await journal.add_run([entry.to_json() for entry in original.entries[:2]])
    rt = open_runtime(journal=journal)
    with pytest.raises(AgentError, match="has just been advanced") as caught:
        await rt.resume(original.result.run_id, agent([says("done")]))
    assert caught.value.kind == "busy"
    assert (await rt.resume(original.result.run_id, agent([says("done")]))).success


async def test_a_tool_that_broke_is_known_to_have_broken() -> None:
    """An error is a result: it is kept, and the call is not run again."""
    original = await driven([*ONE], breaks("send", ValueError("no such address")))
    effects, rt = Effects(), await original.until(LOST_AT + 1)
    result, _ = await resumed(rt, original.result.run_id, agent([*ONE], effects.tool("send")))
    assert (told(result)["c1"].is_error, effects.done) == (True, [])


async def test_the_model_is_told_of_a_timeout_as_of_a_timeout_also_by_a_later_driver() -> None:
    @tool(effect="once", timeout_s=0.01)
    async def hang() -> str:
        await anyio.sleep_forever()
        return ""

    agent = Agent(
        name="a",
        model=ScriptedModel(
            [{"tool_calls": [{"name": "hang", "arguments": {}, "id": "c1"}]}, {"text": "done"}]
        ),
        tools=[hang],
    )
    async with Runtime.open() as rt:
        waiting = await rt.run(agent, "go", on_unknown="wait")
        assert waiting.outcome == "approval_needed"
        result = await rt.resume(waiting.run_id, on_unknown="tell")
    [told] = [r for m in result.messages for r in m.tool_results]
    assert told.unknown
    assert "Timed out" in told.text
    assert "process stopped" not in told.text


async def test_what_waits_after_a_timeout_is_shown_with_what_the_timeout_said() -> None:
    @tool(effect="once", timeout_s=0.01)
    async def hang() -> str:
        await anyio.sleep_forever()
        return ""

    agent = Agent(
        name="a",
        model=ScriptedModel([{"tool_calls": [{"name": "hang", "arguments": {}, "id": "c1"}]}]),
        tools=[hang],
    )
    seen: list[Event] = []
    async with Runtime.open() as rt:
        await rt.run(agent, "go", on_unknown="wait", on_event=seen.append)
    [end] = [event for event in seen if isinstance(event, events.ToolCallEnd)]
    assert end.unknown
    assert "Timed out" in end.result


async def test_a_run_goes_on_from_what_another_process_said_in_the_session_right_before_it_began(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    def speaker(text: str) -> Agent[object, str]:
        return Agent(name="a", model=ScriptedModel([{"text": text}]))

    async with Runtime.open(url) as rt, Runtime.open(url) as other:
        begin = rt.journal.begin

        async def after_the_other(
            started: RunStarted, *, found: ViewMark | None = None
        ) -> RunWriter:
            rt.journal.begin = begin  # pyright: ignore[reportAttributeAccessIssue]  it comes between once
            await other.session("s", agent=speaker("theirs")).send("first")
            return await begin(started, found=found)

        rt.journal.begin = after_the_other  # pyright: ignore[reportAttributeAccessIssue]  between plan and begin
        result = await rt.session("s", agent=speaker("ours")).send("second")
        assert [m.text for m in result.messages] == ["first", "theirs", "second", "ours"]
        assert (await rt.replay(result.run_id)).messages == result.messages
        assert [m.text for m in await rt.session("s", agent=speaker("")).history()] == [
            "first",
            "theirs",
            "second",
            "ours",
        ]
