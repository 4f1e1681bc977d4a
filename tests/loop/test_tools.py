"""Tools in a run: every way a call can go, its context, what the model is told, and in what order
calls run.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    Seen,
    agent,
    asks,
    breaks,
    call,
    gives,
    open_runtime,
    says,
    skips,
    watch,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import DidNotHappen, ToolContext, ToolFailed
from treadle.config import load
from treadle.errors import AgentError
from treadle.loop import calls
from treadle.messages import events
from treadle.messages.message import MediaPart, TextPart
from treadle.testing import FakeClock
from treadle.tools.function import tool
from treadle.types import Effect, Limits


async def one_call(one: PlainTool, **options: Any) -> Seen:
    seen = await watch([asks(call(one.name, "c1")), says("done")], one, **options)
    assert seen.outcome == "completed"
    return seen


def status(seen: Seen) -> str:
    [entry] = [entry for entry in seen.entries if entry.startswith("tool.finished:c1:")]
    return entry.rpartition(":")[2]


# ---------------------------------------------------------------- what goes wrong


async def test_a_tool_that_raises_tells_the_model_what() -> None:
    seen = await one_call(breaks("look", ValueError("no such place"), effect="pure"))
    assert seen.results == ["ValueError: no such place"]
    assert status(seen) == "error"
    [ended] = seen.of(events.ToolCallEnd)
    assert (ended.is_error, ended.unknown) == (True, False)


async def test_how_long_a_call_took_is_told_in_milliseconds() -> None:
    clock = FakeClock()

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        clock.time_s += 1.23456789
        return "ok"

    rt = open_runtime(clock=clock)
    seen = await one_call(PlainTool(name="look", does=does), runtime=rt)
    assert [ended.duration_ms for ended in seen.of(events.ToolCallEnd)] == [1234.568]
    await rt.aclose()


async def test_a_tool_that_raises_something_without_words_is_an_error_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert (await one_call(breaks("look", Mute(), effect="pure"))).results == ["Mute"]


async def test_a_tool_that_exits_does_not_take_the_process_down() -> None:
    seen = await one_call(breaks("look", SystemExit(3), effect="pure"))
    assert seen.results == ["SystemExit: 3"]


async def test_a_tool_says_in_its_own_words_what_went_wrong() -> None:
    seen = await one_call(breaks("look", ToolFailed("There is no such place. Use 'list' first.")))
    assert seen.results == ["There is no such place. Use 'list' first."]
    assert status(seen) == "error"


@pytest.mark.parametrize(
    ("effect", "expected"), [("once", "unknown"), ("idempotent", "error"), ("pure", "error")]
)
async def test_a_failure_that_may_have_happened_is_unknown_where_it_must_not_happen_twice(
    effect: Effect, expected: str
) -> None:
    seen = await one_call(
        breaks("send", ToolFailed("The line broke.", happened=None), effect=effect)
    )
    assert status(seen) == expected
    assert seen.of(events.ToolCallEnd)[0].unknown == (expected == "unknown")


@pytest.mark.parametrize(
    ("effect", "expected"), [("once", "unknown"), ("idempotent", "error"), ("pure", "error")]
)
async def test_a_timeout_is_unknown_where_it_must_not_happen_twice(
    effect: Effect, expected: str
) -> None:
    seen = await one_call(Gate("send", effect=effect, timeout_s=0.01).tool)
    assert status(seen) == expected
    assert seen.results[0].startswith("Timed out after 0.01 s.")
    assert ("It may or may not have" in seen.results[0]) == (expected == "unknown")


async def test_a_timeout_of_its_own_inside_a_tool_is_an_ordinary_error() -> None:
    seen = await one_call(
        breaks("look", TimeoutError("the host is silent"), timeout_s=50, effect="pure")
    )
    assert seen.results == ["TimeoutError: the host is silent"]


async def test_a_tool_that_confirms_at_its_timeout_that_nothing_happened_is_believed() -> None:
    async def does(ctx: ToolContext[None], arguments: object) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise ToolFailed("It was not sent.", happened=False) from None

    seen = await one_call(PlainTool(name="send", does=does, timeout_s=0.01))
    assert (status(seen), seen.results) == ("error", ["It was not sent."])


async def test_a_clean_up_that_breaks_at_the_timeout_leaves_the_call_unknown() -> None:
    async def does(ctx: ToolContext[None], arguments: object) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            raise OSError("the line broke")

    seen = await one_call(PlainTool(name="send", does=does, timeout_s=0.01))
    assert status(seen) == "unknown"


@pytest.mark.usefixtures("store")
async def test_a_clean_up_that_breaks_while_the_run_is_stopped_leaves_the_call_unknown() -> None:
    async def does(ctx: ToolContext[None], arguments: object) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            raise OSError("the line broke")

    def stop(stream: Any, event: events.Event) -> None:
        if isinstance(event, events.ToolCallStart):
            stream.cancel()

    seen = await watch(
        [asks(call("send", "c1"))], PlainTool(name="send", does=does), while_running=stop
    )
    assert (seen.outcome, status(seen)) == ("cancelled", "unknown")


@pytest.mark.parametrize("together", [1, 2])
async def test_a_cancellation_from_inside_a_tool_is_its_failure_and_does_not_stop_the_run(
    together: int,
) -> None:
    async def does(ctx: ToolContext[None], arguments: object) -> str:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return str(await future)

    seen = await watch(
        [asks(*(call("send") for _ in range(together))), says("done")],
        PlainTool(name="send", does=does),
    )
    assert seen.outcome == "completed"
    assert [event.unknown for event in seen.of(events.ToolCallEnd)] == [True] * together


async def test_reading_arguments_is_a_tools_own_code_and_may_break() -> None:
    def reads(text: str) -> object:
        raise ZeroDivisionError

    seen = await one_call(gives("look", reads=reads))
    assert seen.results == ["The arguments could not be read: ZeroDivisionError: "]
    assert "tool_call_start" not in seen.kinds


async def test_a_tool_that_breaks_when_it_is_asked_what_it_writes_is_not_trusted() -> None:
    def changes(arguments: object, cwd: Path) -> None:
        raise ZeroDivisionError

    seen = await watch(
        [asks(call("look", "c1")), says("done")],
        gives("look", changes=changes),
        mode="accept-edits",
    )
    assert (seen.outcome, status(seen)) == ("approval_needed", "denied")


@pytest.mark.parametrize("strange", [None, 5, b"\xff", ["text"], {"a": 1}])
async def test_a_result_that_is_neither_text_nor_parts_is_an_error(strange: object) -> None:
    seen = await one_call(gives("look", strange))
    assert status(seen) == "error"
    assert seen.results[0].startswith(f"The tool ran, but it returned {strange!r}")


# ---------------------------------------------------------------- what the model is shown


async def test_text_and_media_come_back_as_they_are() -> None:
    parts = (TextPart(text="A cat:"), MediaPart(media_type="image/png", data="iVBORw0KGgo="))
    seen = await one_call(gives("look", parts))
    [result] = seen.result.messages[2].tool_results
    assert result.content == parts
    assert [event.result for event in seen.of(events.ToolCallEnd)] == ["A cat:"]


async def test_what_is_too_long_is_cut_and_the_whole_can_be_read_on() -> None:
    long = "\n".join(f"line {i}" for i in range(50_000))
    rt = open_runtime()
    for one in (
        gives("look", long),
        breaks("look", ValueError(long)),
        gives("look", [TextPart(text=long)]),
    ):
        seen = await one_call(one, runtime=rt)
        shown = seen.results[0]
        assert len(shown) <= 30_000
        assert "line 0\n" in shown
        assert "line 49999" in shown
        [file] = [word.strip("'\".,;:()[]") for word in shown.split() if "output-" in word]
        assert long in Path(file).read_text(encoding="utf-8")
    await rt.aclose()
    assert not Path(file).exists()


async def test_a_tool_may_show_less_than_the_usual() -> None:
    assert len((await one_call(gives("look", "x" * 500, max_output=200))).results[0]) <= 200


async def test_known_secrets_are_taken_out_of_results_errors_and_progress() -> None:
    secret = "sk-ant-api03-CANARY-0815-4711"
    config = load({"ANTHROPIC_API_KEY": secret}, files=False)

    async def does(ctx: ToolContext[None], arguments: object) -> list[TextPart]:
        ctx.progress(f"using {secret}")
        return [TextPart(text=f"found {secret}")]

    for one in (
        gives("look", f"found {secret}"),
        breaks("look", ValueError(secret)),
        PlainTool(name="look", does=does),
        breaks("look", ToolFailed(secret)),
    ):
        seen = await one_call(one, runtime=open_runtime(config=config))
        assert "[redacted]" in seen.results[0]
        assert secret not in repr(seen)


async def test_known_secrets_are_taken_out_of_the_error_that_ends_a_run() -> None:
    secret = "sk-ant-api03-CANARY-0815-4711"
    config = load({"ANTHROPIC_API_KEY": secret}, files=False)
    for error in (AgentError("auth", f"the key {secret} is wrong"), ValueError(secret)):
        seen = await watch(PlayedModel([error]), runtime=open_runtime(config=config))
        assert secret not in repr(seen)
        assert seen.result.error is not None
        assert secret not in f"{seen.result.error} {seen.result.error!r} {seen.result.error.args}"


# ---------------------------------------------------------------- the context


async def test_a_call_knows_its_run(tmp_path: Path) -> None:
    known: list[ToolContext[Any]] = []

    async def does(ctx: ToolContext[Any], arguments: object) -> str:
        known.append(ctx)
        return "ok"

    rt = open_runtime()
    one = PlainTool(name="look", does=does)
    seen = await watch(
        [asks(call("look", "c1"), call("look", "c2")), says("done")],
        one,
        runtime=rt,
        deps={"till": 3},
        cwd=tmp_path,
        user_id="ada",
        session="s1",
    )
    first, second = known
    assert (first.run_id, first.session_id, first.call_id, first.user_id) == (
        seen.result.run_id,
        "s1",
        "c1",
        "ada",
    )
    assert (first.cwd, first.deps, first.attempt, first.deadline, first.cancelled) == (
        tmp_path.resolve(),
        {"till": 3},
        1,
        None,
        False,
    )
    assert first.idempotency_key != second.idempotency_key
    assert f"{seen.result.run_id}:c1" == first.idempotency_key
    assert first.seen_files is second.seen_files


@pytest.mark.usefixtures("store")
async def test_a_tool_can_ask_whether_the_run_is_being_stopped() -> None:
    asked: list[bool] = []

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        asked.append(ctx.cancelled)
        with anyio.CancelScope(shield=True):
            ctx.progress("stop me")
            while not ctx.cancelled:
                await anyio.lowlevel.checkpoint()
        asked.append(ctx.cancelled)
        return "stopped"

    def stop(stream: Any, event: events.Event) -> None:
        if isinstance(event, events.ToolProgress):
            stream.cancel()

    seen = await watch(
        [asks(call("look", "c1"))], PlainTool(name="look", does=does), while_running=stop
    )
    assert asked == [False, True]
    assert (seen.outcome, seen.results) == ("cancelled", ["stopped"])


async def test_progress_is_told_from_the_loop_and_from_threads() -> None:
    @tool
    async def here(ctx: ToolContext[None]) -> str:
        """Works in the loop."""
        ctx.progress("half", 1, 2)
        return "ok"

    @tool
    def there(ctx: ToolContext[None]) -> str:
        """Works in a thread."""
        ctx.progress("begun")
        ctx.progress("done", done=2)
        return "ok"

    seen = await watch(
        [asks(call("here", "c1")), asks(call("there", "c2")), says("done")], here, there
    )
    told = [
        (e.call_id, e.text, *(n for n in (e.done, e.total) if isinstance(n, (int, float))))
        for e in seen.of(events.ToolProgress)
    ]
    assert told == [("c1", "half", 1, 2), ("c2", "begun"), ("c2", "done", 2)]


async def test_progress_outside_a_run_is_told_to_nobody(tmp_path: Path) -> None:
    known: dict[str, Any] = {
        "run_id": "r",
        "session_id": None,
        "call_id": "c",
        "user_id": None,
        "cwd": tmp_path,
    }
    ctx = ToolContext[None](
        deps=None,
        deadline=None,
        attempt=1,
        idempotency_key="k",
        spill=lambda text: tmp_path,
        **known,
    )
    ctx.progress("half", 1, 2)
    assert not ctx.cancelled


async def test_what_an_abandoned_thread_says_after_its_call_is_told_to_nobody() -> None:
    goes_on, said, pass_limit = threading.Event(), threading.Event(), skips(10)

    @tool(timeout_s=10)
    def slow(ctx: ToolContext[None]) -> str:
        """Does not look at the clock."""
        pass_limit()
        goes_on.wait(5)
        ctx.progress("still here")
        said.set()
        return "too late"

    @tool(effect="pure")
    async def wait_for_it() -> str:
        """Lets the abandoned thread speak."""
        goes_on.set()
        await anyio.to_thread.run_sync(said.wait, 5)
        await anyio.lowlevel.checkpoint()
        return "ok"

    seen = await watch(
        [asks(call("slow", "c1")), asks(call("wait_for_it")), says("done")], slow, wait_for_it
    )
    assert status(seen) == "unknown"
    assert not seen.of(events.ToolProgress)


# ---------------------------------------------------------------- order


class Traffic:
    """Tools that note how many of them run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.begun: list[str] = []
        self.together: list[tuple[str, int]] = []

    def tool(self, name: str, **more: Any) -> PlainTool:
        async def does(ctx: ToolContext[None], arguments: object) -> str:
            self.running += 1
            self.begun.append(ctx.call_id)
            self.most = max(self.most, self.running)
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
                self.together.append((name, self.running))
            self.running -= 1
            return ctx.call_id

        return PlainTool(name=name, does=does, **more)


async def test_the_calls_of_a_turn_run_at_once_and_their_results_keep_the_order_of_the_calls() -> (
    None
):
    first, second = Gate("first"), Gate("second")

    async def both() -> None:
        await first.reached.wait()
        await second.reached.wait()
        second.opened.set()
        await anyio.lowlevel.checkpoint()
        first.opened.set()

    async with anyio.create_task_group() as group:
        group.start_soon(both)
        seen = await watch(
            [asks(call("first", "c1"), call("second", "c2")), says("done")], first.tool, second.tool
        )
        assert [event.call_id for event in seen.of(events.ToolCallEnd)] == ["c2", "c1"]
        assert [r.call_id for r in seen.result.messages[2].tool_results] == ["c1", "c2"]


async def test_a_sequential_tool_runs_alone_after_those_before_it_and_before_those_after_it() -> (
    None
):
    traffic = Traffic()
    wide, alone = traffic.tool("wide"), traffic.tool("alone", parallel=False)
    wishes = [
        call("wide", "a"),
        call("wide", "b"),
        call("alone", "c"),
        call("alone", "d"),
        call("wide", "e"),
        call("wide", "f"),
    ]
    seen = await watch([asks(*wishes), says("done")], wide, alone)
    assert traffic.begun == ["a", "b", "c", "d", "e", "f"]
    assert traffic.most == 2
    assert {running for name, running in traffic.together if name == "alone"} == {1}
    assert seen.results == ["a", "b", "c", "d", "e", "f"]


async def test_no_more_calls_run_at_once_than_the_cap_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "MAX_PARALLEL", 3)
    traffic = Traffic()
    seen = await watch(
        [asks(*(call("wide", f"c{i}") for i in range(10))), says("done")], traffic.tool("wide")
    )
    assert traffic.most == 3
    assert traffic.begun == [f"c{i}" for i in range(10)]
    assert seen.results == [f"c{i}" for i in range(10)]


async def test_refused_calls_stand_between_the_others_without_stopping_them() -> None:
    traffic = Traffic()
    seen = await watch(
        [asks(call("wide", "a"), call("nope", "b"), call("wide", "c")), says("done")],
        traffic.tool("wide"),
    )
    assert traffic.most == 2
    assert [seen.results[0], seen.results[2]] == ["a", "c"]


async def test_one_call_that_fails_does_not_stop_those_beside_it() -> None:
    gate = Gate("gate")

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        await gate.reached.wait()
        gate.opened.set()
        raise ValueError("no")

    seen = await watch(
        [asks(call("gate"), call("bad")), says("done")],
        gate.tool,
        PlainTool(name="bad", does=does, effect="pure"),
    )
    assert seen.results == ["went through", "ValueError: no"]


# ---------------------------------------------------------------- made from functions


async def test_arguments_that_do_not_fit_tell_the_model_how_to_mend_its_call() -> None:
    @tool(effect="pure")
    async def weather(city: str, days: int = 1) -> str:
        """Forecast."""
        return f"{city}: sun for {days} day(s)"

    seen = await watch(
        [
            asks(call("weather", days="many")),
            asks(call("weather", city="Oslo", days=2)),
            says("Sun."),
        ],
        weather,
    )
    assert "city" in seen.results[0]
    assert "days" in seen.results[0]
    assert seen.results[1] == "Oslo: sun for 2 day(s)"


async def test_a_sync_tool_runs_in_a_thread_and_may_give_json() -> None:
    @tool(effect="pure")
    def who() -> dict[str, bool]:
        """Where am I?"""
        return {"main": threading.current_thread() is threading.main_thread()}

    assert (await watch([asks(call("who")), says("done")], who)).results == ['{"main":false}']


async def test_a_probe_is_not_asked_in_a_run_that_goes_well() -> None:
    async def never(ctx: ToolContext[None], **arguments: object) -> DidNotHappen:
        raise AssertionError("asked")

    @tool(probe=never)
    async def charge(amount: int) -> str:
        """Charges."""
        return "charged"

    assert (await watch([asks(call("charge", amount=3)), says("done")], charge)).results == [
        "charged"
    ]


async def test_a_limit_on_calls_does_not_reach_into_a_batch_that_is_running() -> None:
    traffic = Traffic()
    seen = await watch(
        [asks(call("wide", "a"), call("wide", "b")), says("done")],
        traffic.tool("wide"),
        limits=Limits(tool_calls=1),
    )
    assert (seen.outcome, traffic.begun) == ("call_limit", ["a"])


async def test_the_tools_of_an_agent_have_names_of_their_own() -> None:
    with pytest.raises(Exception, match="two tools are named 'look'"):
        agent([], gives("look"), gives("look"))
