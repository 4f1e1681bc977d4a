"""Sync functions in threads, and what is left of them after a cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from tests.tools.conftest import MakeContext
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.function import FunctionTool, threads, tool
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned
from treadle.tools.tool import ToolContext, ToolFailed


@pytest.fixture
def ctx(make_context: MakeContext, tmp_path: Path) -> ToolContext[Any]:
    return make_context(tmp_path)


class Stuck:
    """A sync tool that blocks until it is let go."""

    def __init__(self, error: BaseException | None = None, value: object = "late") -> None:
        self.value = value
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.error = error

    @tool
    def work(self) -> Any:
        self.begun.set()
        assert self.let_go.wait(20)
        if self.error is not None:
            raise self.error
        return self.value

    @tool(effect="idempotent")
    def repeat(self) -> Any:
        return self.work()

    async def abandon(self, ctx: ToolContext[Any], one: FunctionTool[Any] | None = None) -> None:
        """Calls it and cancels the call once the thread has begun."""
        async with anyio.create_task_group() as group:
            group.start_soon((one or self.work).execute, ctx, {})
            with anyio.fail_after(20):
                await anyio.to_thread.run_sync(self.begun.wait)
            group.cancel_scope.cancel()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    one = Stuck()
    yield one
    one.let_go.set()


@pytest.fixture(autouse=True)
def _nothing_is_left_over() -> Iterator[None]:
    assert abandoned_calls() == ()
    yield
    assert abandoned_calls() == ()


async def test_a_cancelled_call_returns_at_once_and_its_thread_is_reported(
    ctx: ToolContext[Any], stuck: Stuck
) -> None:
    with anyio.fail_after(20):
        await stuck.abandon(ctx)
    (left,) = abandoned_calls()
    assert (left.tool, left.run_id, left.call_id, left.ended.done()) == (
        "work",
        "run_1",
        "call_1",
        False,
    )
    assert repr(left) == "ThreadCall('work', call_id='call_1')"
    assert await wait_for_abandoned([left], 0) == (left,)
    stuck.let_go.set()
    with anyio.fail_after(20):
        assert await wait_for_abandoned([left], 5) == ()
    assert (left.value, left.error) == ("late", None)


async def test_abandoned_calls_are_told_by_run(
    make_context: MakeContext, tmp_path: Path, stuck: Stuck
) -> None:
    other = Stuck()
    await stuck.abandon(make_context(tmp_path, run_id="run_a"))
    await other.abandon(make_context(tmp_path, run_id="run_b"))
    (a,) = abandoned_calls("run_a")
    assert {call.run_id for call in abandoned_calls()} == {"run_a", "run_b"}
    other.let_go.set()
    stuck.let_go.set()
    with anyio.fail_after(20):
        assert await wait_for_abandoned(abandoned_calls(), 5) == ()
    assert a.ended.done()


@pytest.mark.parametrize("error", [ValueError("late"), SystemExit(3)])
async def test_what_an_abandoned_call_raises_disturbs_nobody(
    ctx: ToolContext[Any], error: BaseException
) -> None:
    stuck = Stuck(error)
    await stuck.abandon(ctx)
    (left,) = abandoned_calls()
    stuck.let_go.set()
    with anyio.fail_after(20):
        assert await wait_for_abandoned([left], 5) == ()
    assert left.error is error


async def test_a_call_that_waits_for_a_thread_never_runs_once_cancelled(
    ctx: ToolContext[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    first, second = Stuck(), Stuck()
    async with anyio.create_task_group() as group:
        group.start_soon(first.work.execute, ctx, {})
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(first.begun.wait)
        async with anyio.create_task_group() as inner:
            inner.start_soon(second.work.execute, ctx, {})
            await anyio.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
        first.let_go.set()
    assert not second.begun.is_set()


async def test_a_call_that_was_given_up_before_its_thread_began_does_nothing(
    ctx: ToolContext[Any],
) -> None:
    ran: list[int] = []
    call = threads.ThreadCall("f", ctx, lambda: ran.append(1))
    call.abandon()
    assert abandoned_calls() == ()
    assert call.run() is None
    assert ran == []


# ---------------------------------------------------------------- late results


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Heard:
    """What `ctx.late` was told, and in which thread."""

    def __init__(self) -> None:
        self.said: list[tuple[str, bool]] = []
        self.statuses: list[str | None] = []

    def __call__(self, text: str, status: Literal["ok", "error"] | None = None, /) -> None:
        self.statuses.append(status)
        self.said.append((text, threading.current_thread() is threading.main_thread()))


async def gone() -> None:
    with anyio.fail_after(20):
        assert await wait_for_abandoned(abandoned_calls(), 5) == ()


@pytest.mark.parametrize(
    ("stuck", "told"),
    [
        (Stuck(), "late"),
        (Stuck(value={"paid": [3]}), '{"paid":[3]}'),
        (Stuck(value=None), "null"),
        (
            Stuck(
                value=[TextPart(text="a"), MediaPart(media_type="image/png", data="", name="b.png")]
            ),
            "a\n[b.png, image/png: not shown]",
        ),
        (
            Stuck(value=b"\0"),
            "The tool ran, but it returned 1 bytes that are neither text nor an image or PDF.",
        ),
        (Stuck(ValueError("no such account")), "ValueError: no such account"),
        (Stuck(ToolFailed("no such account")), "ToolFailed: no such account"),
        (Stuck(SystemExit(3)), "SystemExit: 3"),
        (Stuck(Unspeakable()), "Unspeakable"),
    ],
)
async def test_what_an_abandoned_call_gave_is_told_once_from_its_thread(
    make_context: MakeContext, tmp_path: Path, stuck: Stuck, told: str
) -> None:
    heard = Heard()
    await stuck.abandon(make_context(tmp_path, late=heard))
    assert heard.said == []
    stuck.let_go.set()
    await gone()
    assert heard.said == [(told, False)]
    known = "error" if isinstance(stuck.error, ToolFailed) else None
    assert heard.statuses == ["ok" if stuck.error is None else known]


async def test_a_coroutine_that_comes_late_is_not_run(
    make_context: MakeContext, tmp_path: Path
) -> None:
    async def second_half() -> None:
        raise AssertionError("nobody waits for it")

    heard, stuck = Heard(), Stuck(value=second_half())
    await stuck.abandon(make_context(tmp_path, late=heard))
    stuck.let_go.set()
    await gone()
    assert heard.statuses == [None]
    assert [text for text, _ in heard.said] == [
        "The call returned a coroutine after it was cut off, and nothing awaited it: its work may not have been done."
    ]


async def test_a_call_that_is_over_when_it_is_cut_tells_it_too(
    make_context: MakeContext, tmp_path: Path
) -> None:
    heard = Heard()
    call = threads.ThreadCall("f", make_context(tmp_path, late=heard), lambda: "just now", str)
    await anyio.to_thread.run_sync(call.run)
    assert heard.said == []
    call.abandon()
    assert heard.said == [("just now", True)]
    assert abandoned_calls() == ()


async def test_a_call_that_was_waited_for_tells_nothing_late(
    make_context: MakeContext, tmp_path: Path
) -> None:
    def cancelled_inside() -> str:
        raise asyncio.CancelledError("from the function itself")

    heard = Heard()
    ctx = make_context(tmp_path, late=heard)
    assert await tool(lambda: "in time", name="f").execute(ctx, {}) == "in time"
    with pytest.raises(asyncio.CancelledError, match="from the function itself"):
        await tool(cancelled_inside).execute(ctx, {})
    assert heard.said == []


async def test_a_call_that_was_given_up_before_it_began_tells_nothing(
    make_context: MakeContext, tmp_path: Path
) -> None:
    heard = Heard()
    call = threads.ThreadCall("f", make_context(tmp_path, late=heard), lambda: "never", str)
    call.abandon()
    call.run()
    assert heard.said == []


async def test_what_a_tool_that_may_be_repeated_gives_late_is_for_nobody(
    make_context: MakeContext, tmp_path: Path, stuck: Stuck
) -> None:
    heard = Heard()
    await stuck.abandon(make_context(tmp_path, late=heard), stuck.repeat)
    stuck.let_go.set()
    await gone()
    assert heard.said == []


async def test_a_late_result_that_nobody_can_take_disturbs_nobody(
    make_context: MakeContext, tmp_path: Path, stuck: Stuck
) -> None:
    told = threading.Event()

    def closed(text: str, status: object = None, /) -> None:
        told.set()
        raise RuntimeError("Event loop is closed")

    await stuck.abandon(make_context(tmp_path, late=closed))
    (left,) = abandoned_calls()
    stuck.let_go.set()
    await gone()
    assert told.is_set()
    assert (left.value, left.error) == ("late", None)


async def test_whoever_waits_for_an_abandoned_call_goes_on_after_it_was_told(
    make_context: MakeContext, tmp_path: Path, stuck: Stuck
) -> None:
    order: list[str] = []

    def late(text: str, status: object = None, /) -> None:
        order.append(f"told, {len(abandoned_calls())} left")

    await stuck.abandon(make_context(tmp_path, late=late))
    (left,) = abandoned_calls()
    left.ended.add_done_callback(lambda _: order.append("ended"))
    stuck.let_go.set()
    await gone()
    assert order == ["told, 1 left", "ended"]


async def cut_at_its_end(ctx: ToolContext[Any]) -> list[object]:
    """Cancels a call while its function returns; gives what the call gave, if it did."""
    barrier, given = threading.Barrier(2, timeout=5), list[object]()

    @tool
    def work() -> str:
        barrier.wait()
        return "done"

    async def call() -> None:
        given.append(await work.execute(ctx, {}))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await anyio.to_thread.run_sync(barrier.wait)
        group.cancel_scope.cancel()
    return given


async def test_a_call_that_is_cut_at_its_end_gives_its_result_once(
    make_context: MakeContext, tmp_path: Path
) -> None:
    for _ in range(100):
        heard = Heard()
        given = await cut_at_its_end(make_context(tmp_path, late=heard))
        await gone()
        assert [*given, *(text for text, _ in heard.said)] == ["done"]


# ---------------------------------------------------------------- side by side


async def test_tools_run_side_by_side(ctx: ToolContext[Any]) -> None:
    barrier = threading.Barrier(8, timeout=5)

    @tool
    def meet() -> int:
        return barrier.wait()

    seen: list[object] = []

    async def one() -> None:
        seen.append(await meet.execute(ctx, {}))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(one)
    assert sorted(seen) == [str(i) for i in range(8)]


async def test_context_variables_reach_the_thread(ctx: ToolContext[Any]) -> None:
    who: ContextVar[str] = ContextVar("who")
    who.set("Ada")

    @tool
    def tell() -> str:
        return who.get()

    assert await tell.execute(ctx, {}) == "Ada"


def test_each_event_loop_has_its_own_threads(make_context: MakeContext, tmp_path: Path) -> None:
    @tool
    def f() -> str:
        return "ran"

    for _ in range(2):
        assert anyio.run(f.execute, make_context(tmp_path), {}) == "ran"
