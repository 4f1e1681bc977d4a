"""Sync functions in threads, and what is left of them after a cancellation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.tools.conftest import MakeContext
from treadle.tooling import ToolContext
from treadle.tools.function import threads, tool
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned


@pytest.fixture
def ctx(make_context: MakeContext, tmp_path: Path) -> ToolContext[Any]:
    return make_context(tmp_path)


class Stuck:
    """A sync tool that blocks until it is let go."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.error = error

    @tool
    def work(self) -> str:
        self.begun.set()
        assert self.let_go.wait(20)
        if self.error is not None:
            raise self.error
        return "late"

    async def abandon(self, ctx: ToolContext[Any]) -> None:
        """Calls it and cancels the call once the thread has begun."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.work.execute, ctx, {})
            with anyio.fail_after(5):
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


async def test_a_cancelled_call_returns_at_once_and_its_thread_is_reported(ctx: ToolContext[Any], stuck: Stuck) -> None:
    with anyio.fail_after(5):
        await stuck.abandon(ctx)
    (left,) = abandoned_calls()
    assert (left.tool, left.run_id, left.call_id, left.ended.done()) == ("work", "run_1", "call_1", False)
    assert repr(left) == "ThreadCall('work', call_id='call_1')"
    assert await wait_for_abandoned([left], 0) == (left,)
    stuck.let_go.set()
    with anyio.fail_after(5):
        assert await wait_for_abandoned([left], 5) == ()
    assert (left.value, left.error) == ("late", None)


async def test_abandoned_calls_are_told_by_run(make_context: MakeContext, tmp_path: Path, stuck: Stuck) -> None:
    other = Stuck()
    await stuck.abandon(make_context(tmp_path, run_id="run_a"))
    await other.abandon(make_context(tmp_path, run_id="run_b"))
    (a,) = abandoned_calls("run_a")
    assert {call.run_id for call in abandoned_calls()} == {"run_a", "run_b"}
    other.let_go.set()
    stuck.let_go.set()
    with anyio.fail_after(5):
        assert await wait_for_abandoned(abandoned_calls(), 5) == ()
    assert a.ended.done()


@pytest.mark.parametrize("error", [ValueError("late"), SystemExit(3)])
async def test_what_an_abandoned_call_raises_disturbs_nobody(ctx: ToolContext[Any], error: BaseException) -> None:
    stuck = Stuck(error)
    await stuck.abandon(ctx)
    (left,) = abandoned_calls()
    stuck.let_go.set()
    with anyio.fail_after(5):
        assert await wait_for_abandoned([left], 5) == ()
    assert left.error is error


async def test_a_call_that_waits_for_a_thread_never_runs_once_cancelled(ctx: ToolContext[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    first, second = Stuck(), Stuck()
    async with anyio.create_task_group() as group:
        group.start_soon(first.work.execute, ctx, {})
        with anyio.fail_after(5):
            await anyio.to_thread.run_sync(first.begun.wait)
        async with anyio.create_task_group() as inner:
            inner.start_soon(second.work.execute, ctx, {})
            await anyio.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
        first.let_go.set()
    assert not second.begun.is_set()


async def test_a_call_that_was_given_up_before_its_thread_began_does_nothing(ctx: ToolContext[Any]) -> None:
    ran: list[int] = []
    call = threads.ThreadCall("f", ctx, lambda: ran.append(1))
    call.abandon()
    assert abandoned_calls() == ()
    assert call.run() is None
    assert ran == []


async def test_tools_run_side_by_side(ctx: ToolContext[Any]) -> None:
    barrier = threading.Barrier(8, timeout=5)

    @tool
    def meet() -> int:
        return barrier.wait()

    seen: list[object] = []

    async def one() -> None:
        seen.append(await meet.execute(ctx, {}))

    with anyio.fail_after(5):
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
