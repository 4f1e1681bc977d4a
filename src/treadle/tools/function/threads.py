"""Sync functions in threads, and the ones that run on after their call was cancelled: a thread
cannot be interrupted, only left alone.

A function that must be stoppable belongs into a process (isolate.py). Entry: `run_in_thread`,
`abandoned_calls`.
"""

from __future__ import annotations

import logging
import threading
from asyncio import wrap_future
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from inspect import isawaitable
from typing import Any, Final

import anyio
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from treadle.errors import AgentError
from treadle.tools.failures import LateStatus, words_of
from treadle.tools.tool import ToolContext, ToolFailed

logger = logging.getLogger("treadle")

MAX_THREADS: Final = 64
"""Sync tools that run at once in one event loop; further ones wait. Abandoned ones do not count.

Apart from anyio's own, so that slow tools hold up no file.
"""

_limiter: Final[RunVar[anyio.CapacityLimiter]] = RunVar("treadle_tool_threads")
_lock: Final = threading.Lock()
"""Invariants: a call is in `_abandoned` exactly while it runs on, and tells what it gave, without
anybody who waits for it; it tells that once, whether it is abandoned first or over first."""
_abandoned: Final[set[ThreadCall]] = set()


class ThreadCall:
    """A sync function on its way through a thread.

    One whose call was cancelled runs on, and tells `ctx.late` what it gave, in the words of
    `text_of`.
    """

    def __init__(
        self,
        tool: str,
        ctx: ToolContext[Any],
        function: Callable[[], object],
        text_of: Callable[[object], str] | None = None,
    ) -> None:
        self.tool: Final = tool
        self.run_id: Final = ctx.run_id
        self.call_id: Final = ctx.call_id
        self.ended: Final[Future[None]] = Future()
        """Done when the thread is.

        Then `value` and `error` say what the function returned or raised: too late for its call.
        """
        self.value: object = None
        self.error: BaseException | None = None
        self._function = function
        self._late = ctx.late
        self._text_of = text_of
        self.has_begun = False
        """True once the thread has called the function."""
        self._over = False
        self._abandoned = False
        self.ended.set_running_or_notify_cancel()

    def __repr__(self) -> str:
        return f"ThreadCall({self.tool!r}, call_id={self.call_id!r})"

    def run(self) -> object:
        """Run the call. Called in the thread."""
        with _lock:
            self.has_begun = not self._abandoned
        try:
            self.value = self._function() if self.has_begun else None
        except BaseException as e:
            self.error = e
            raise
        finally:
            self._end()
        return self.value

    def _end(self) -> None:
        with _lock:
            self._over = True
            is_late = self.has_begun and self._abandoned
        if is_late:
            self._tell()
        with _lock:
            _abandoned.discard(self)
            self.ended.set_result(None)

    def abandon(self) -> None:
        """Abandon a cancelled call. If it has not started, it never starts; if it has, its result
        is late. Call it in the event loop.
        """
        with _lock:
            self._abandoned = True
            is_late = self.has_begun and self._over
            if self.has_begun and not self._over:
                _abandoned.add(self)
        if is_late:
            self._tell()

    def _tell(self) -> None:
        if self._late is None or self._text_of is None:
            return
        try:
            text = self._text_of(self.value) if self.error is None else words_of(self.error)
            self._late(text, self._status())
        except (
            Exception
        ):  # the edge of a thread that nobody waits for: its run, or the loop of it, may be gone
            logger.debug("what %r gave late could be told to nobody", self, exc_info=True)

    def _status(self) -> LateStatus:
        """Return the status of the result as it would have been in time; None: unknown."""
        if self.error is None:
            return None if isawaitable(self.value) else "ok"
        known = isinstance(self.error, ToolFailed) and self.error.has_happened() is not None
        return "error" if known else None


async def run_in_thread(
    tool: str,
    ctx: ToolContext[Any],
    function: Callable[[], object],
    text_of: Callable[[object], str] | None = None,
) -> object:
    """Return what the function returns, or raise what it raises. Raises ToolFailed(happened=False)
    where no thread can be started, or where the run was taken over while a thread was awaited.

    Cancellation: returns at once. A function that has not begun never runs; one that has is left
    alone and listed in `abandoned_calls`. With `text_of`, `ctx.late` is told what such a one gave:
    once, in the thread, or here where it was over already.
    """
    call = ThreadCall(tool, ctx, function, text_of)
    try:
        limiter = _threads()
        if ctx.verify is None or limiter.available_tokens >= 1:
            return await run_sync(call.run, abandon_on_cancel=True, limiter=limiter)
        async with limiter:
            await _verify(ctx.verify)
            alone = anyio.CapacityLimiter(1)  # this task has its token already
            return await run_sync(call.run, abandon_on_cancel=True, limiter=alone)
    except RuntimeError as e:
        if call.has_begun:
            raise
        raise ToolFailed(
            f"Not run: no thread could be started for it ({e}). Make the call again later.",
            happened=False,
        ) from e
    except anyio.get_cancelled_exc_class() as e:
        if e is not call.error:  # else the function raised it, and this is its result
            call.abandon()
        raise


async def _verify(verify: Callable[[], Awaitable[None]]) -> None:
    try:
        await verify()
    except AgentError as e:
        raise ToolFailed(f"Not run: {e.message}", happened=False) from e


def abandoned_calls(run_id: str | None = None) -> tuple[ThreadCall, ...]:
    """Return the abandoned calls whose thread still runs in this process, of one run or of all."""
    with _lock:
        return tuple(call for call in _abandoned if run_id in (None, call.run_id))


async def wait_for_abandoned(calls: Sequence[ThreadCall], grace_s: float) -> tuple[ThreadCall, ...]:
    """Waits until they have ended, at most so long; gives those that still run.

    Never raises what they raise.
    """
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
