"""Sync functions in threads, and calls abandoned there: a thread cannot be interrupted, so a
function keeps running after its call was cancelled.

Run a function that must be stoppable in a process (isolate.py). Entry points: `run_in_thread`,
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
"""Maximum number of sync tools that run concurrently in one event loop; further ones wait.
Abandoned calls do not count.

Separate from anyio's own limit, so that slow tools do not delay file operations.
"""

_limiter: Final[RunVar[anyio.CapacityLimiter]] = RunVar("treadle_tool_threads")
_lock: Final = threading.Lock()
"""Invariants: a call is in `_abandoned` exactly while it runs, or reports its late result, after it
was abandoned. It reports that result once, whether it is abandoned first or ends first."""
_abandoned: Final[set[ThreadCall]] = set()


class ThreadCall:
    """Call of a sync function in a thread.

    If the call is cancelled, the function keeps running, and its result, as formatted by `text_of`,
    is passed to `ctx.late`.
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
        """Completed when the thread has ended. `value` or `error` then holds what the function
        returned or raised.
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
        ):  # the boundary of an abandoned thread: its run, or the run's loop, may have ended
            logger.debug("the late result of %r could not be delivered", self, exc_info=True)

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
    """Call the function in a thread. Returns its result and propagates its exceptions. Raises
    ToolFailed(happened=False) if no thread can be started, or if another process took over the run
    while the call waited for a thread.

    Cancellation: re-raised immediately. A function that has not started never runs; one that has
    keeps running and is listed in `abandoned_calls`. With `text_of`, its result is passed to
    `ctx.late`
    once: from the thread, or from here if the function has ended already.
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
    """Wait up to `grace_s` seconds for the calls to end, and return those that still run.

    Never raises their exceptions.
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
