"""Sync functions in threads, and the ones that run on after their call was cancelled: a thread cannot be interrupted, only left alone.

A function that must be stoppable belongs into a process (isolate.py). Entry: `run_in_thread`, `abandoned_calls`.
"""

from __future__ import annotations

import threading
from asyncio import wrap_future
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import anyio
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from treadle.tooling import ToolContext

MAX_THREADS: Final = 64
"""Sync tools that run at once in one event loop; further ones wait. Abandoned ones do not count. Apart from anyio's own, so that slow tools hold up no file."""

_limiter: Final[RunVar[anyio.CapacityLimiter]] = RunVar("treadle_tool_threads")
_lock: Final = threading.Lock()
"""Invariant: a call is in `_abandoned` exactly while it runs on without anybody who waits for it."""
_abandoned: Final[set[ThreadCall]] = set()


class ThreadCall:
    """A sync function on its way through a thread. One whose call was cancelled runs on."""

    def __init__(self, tool: str, ctx: ToolContext[Any], function: Callable[[], object]) -> None:
        self.tool: Final = tool
        self.run_id: Final = ctx.run_id
        self.call_id: Final = ctx.call_id
        self.ended: Final[Future[None]] = Future()
        """Done when the thread is. Then `value` and `error` say what the function returned or raised: too late for its call."""
        self.value: object = None
        self.error: BaseException | None = None
        self._function = function
        self._begun = False
        self._abandoned = False
        self.ended.set_running_or_notify_cancel()

    def __repr__(self) -> str:
        return f"ThreadCall({self.tool!r}, call_id={self.call_id!r})"

    def run(self) -> object:
        """In the thread."""
        with _lock:
            self._begun = not self._abandoned
        try:
            self.value = self._function() if self._begun else None
        except BaseException as e:
            self.error = e
            raise
        finally:
            with _lock:
                _abandoned.discard(self)
                self.ended.set_result(None)
        return self.value

    def abandon(self) -> None:
        """In the event loop, when the call was cancelled: one that has not begun never will."""
        with _lock:
            self._abandoned = True
            if self._begun and not self.ended.done():
                _abandoned.add(self)


async def run_in_thread(tool: str, ctx: ToolContext[Any], function: Callable[[], object]) -> object:
    """What it returns, or raises what it raises.

    Cancellation: returns at once. A function that has not begun never runs; one that has is left alone and listed in `abandoned_calls`.
    """
    call = ThreadCall(tool, ctx, function)
    try:
        return await run_sync(call.run, abandon_on_cancel=True, limiter=_threads())
    except anyio.get_cancelled_exc_class():
        call.abandon()
        raise


def abandoned_calls(run_id: str | None = None) -> tuple[ThreadCall, ...]:
    """Those whose thread still runs, in this process, of one run or of all."""
    with _lock:
        return tuple(call for call in _abandoned if run_id in (None, call.run_id))


async def wait_for_abandoned(calls: Sequence[ThreadCall], grace_s: float) -> tuple[ThreadCall, ...]:
    """Waits until they have ended, at most so long; gives those that still run. Never raises what they raise."""
    with anyio.move_on_after(grace_s):
        for call in calls:
            await wrap_future(call.ended)
    return tuple(call for call in calls if not call.ended.done())


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
        return limiter
