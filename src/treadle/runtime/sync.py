"""A runtime for programs without an event loop: scripts, Flask, Django. Entry points: `open`,
`SyncRuntime`.

The runtime lives on an event loop in its own thread; any number of threads can call it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, Generic, Literal, ParamSpec, Self, TypedDict, TypeVar, overload

import anyio
from anyio.from_thread import BlockingPortal
from typing_extensions import Unpack

from treadle._internal.other_names import hinted
from treadle.agents.agent import Agent, Deps
from treadle.config import Config
from treadle.errors import AgentError
from treadle.events.hooks import Hook
from treadle.events.tracing import Tracer
from treadle.journal.run_info import RunInfo
from treadle.messages.events import Event, TextDelta
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.retry import RetryPolicy
from treadle.runtime.batched_runs import BatchOptions
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import OnClose, Runtime
from treadle.runtime.session import ForkOptions, ResumeOptions, RunOptions

P = ParamSpec("P")
T = TypeVar("T")

_END: Final = object()


class OpenOptions(TypedDict, total=False):
    """Options of `Runtime.open`."""

    config: Config | None
    durability: Literal["process", "power"]
    retries: RetryPolicy | None
    tracer: Tracer | None
    hooks: Sequence[Hook[Any]]
    on_close: OnClose | None


@hinted
def open(url: str = "memory:", **options: Unpack[OpenOptions]) -> SyncRuntime:
    """Open a runtime for code without an event loop.

    `with treadle.open("sqlite:///runs.db") as rt: rt.run(agent, "Hello")`. URL and options are
    those of `Runtime.open`. Open it after a server has forked its workers, not before. Raises
    AgentError(invalid) for a journal that cannot be opened.
    """
    return SyncRuntime(Runtime.open(url, **options))


class SyncRuntime:
    """A runtime whose methods block the calling thread. Threads may call it at the same time.

    Close it with `with` or `close()`. If a program exits without closing it, its runs can be
    resumed as after a crash.

    Attributes:
        runtime: The runtime on its event loop. Call its coroutines with `call`.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._process = os.getpid()
        self._portal, self._thread = _started(runtime)
        self._closing = Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the runtime, as `Runtime.aclose`, and end its thread. Idempotent."""
        with self._closing:
            if self._is_closed or self._process != os.getpid():
                return
            self._is_closed = True
            self._portal.start_task_soon(self._portal.stop).result()
            self._thread.join()

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function on the runtime's loop and return its result:
        `rt.call(rt.runtime.journal.costs, "agent")`.

        Raises its exceptions, and AgentError(invalid) if the runtime is closed or the caller is
        itself on an event loop. Cancellation: an exception in the waiting thread, such as Ctrl-C,
        cancels the function.
        """
        future: Future[T] = self._usable().start_task_soon(partial(function, *args, **kwargs))
        try:
            return future.result()
        finally:
            future.cancel()

    def run(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Run an agent to its end, as `Runtime.run`."""
        return self.call(self.runtime.run, agent, text, deps=deps, **options)

    def batch(
        self,
        agent: Agent[Deps, Out],
        prompts: Sequence[Prompt],
        *,
        deps: Deps = None,
        **options: Unpack[BatchOptions],
    ) -> list[RunResult[Out]]:
        """Run an agent for each prompt at half price, as `Runtime.batch`."""
        return self.call(self.runtime.batch, agent, prompts, deps=deps, **options)

    def stream(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> SyncRunStream[Out]:
        """Start a run and read its events: `with rt.stream(…) as run: for event in run: …`."""
        return SyncRunStream(self, self.runtime.stream(agent, text, deps=deps, **options))

    @overload
    def resume(
        self, run_id: str, agent: None = None, *, deps: Any = None, **options: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @overload
    def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out],
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[Out]: ...
    def resume(
        self,
        run_id: str,
        agent: Agent[Any, Any] | None = None,
        *,
        deps: Any = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[Any]:
        """Resume a run, or return the result of a finished one, as `Runtime.resume`."""
        return self.call(partial(self.runtime.resume, run_id, agent, deps=deps, **options))

    def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: Agent[Any, Out],
        deps: Any = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Out]:
        """Start a run that continues after a turn of another one, as `Runtime.fork`."""
        return self.call(
            partial(
                self.runtime.fork, run_id, turn=turn, text=text, agent=agent, deps=deps, **options
            )
        )

    def kill(self, run_id: str, *, force: bool = False) -> RunInfo:
        """End a run as `cancelled`, as `Runtime.kill`."""
        return self.call(self.runtime.kill, run_id, force=force)

    def events(self, run_id: str) -> list[Event]:
        """Return the events of a stored run, as `Runtime.events`."""
        return self.call(self.runtime.events, run_id)

    # ------------------------------------------------------------ the loop

    def within(self, manager: Any) -> AbstractContextManager[Any]:
        """Return an async context manager of the runtime as a sync one."""
        return self._usable().wrap_async_context_manager(manager)

    def _usable(self) -> BlockingPortal:
        _check_no_loop()
        if self._is_closed:
            raise AgentError("invalid", "this runtime is closed: open a new one")
        if self._process != os.getpid():
            raise AgentError(
                "invalid",
                "this runtime was opened before this process was forked: open it after the fork",
            )
        return self._portal


def _started(runtime: Runtime) -> tuple[BlockingPortal, Thread]:
    """Enter a runtime on an event loop in its own thread. Raises the errors of entering it."""
    ready: Future[BlockingPortal] = Future()

    async def main() -> None:
        async with BlockingPortal() as portal, runtime:
            ready.set_result(portal)
            await portal.sleep_until_stopped()

    def work() -> None:
        try:
            anyio.run(main)
        except BaseException as e:
            if ready.done():
                raise
            ready.set_exception(e)

    thread = Thread(target=work, name="treadle", daemon=True)
    thread.start()
    return ready.result(), thread


class SyncRunStream(Generic[Out]):
    """Events of a run in progress, read by one thread: `with rt.stream(…) as run: for event in run:
    …`, then `run.result`.

    Leaving the block early cancels the run, as for `RunStream`.
    """

    def __init__(self, runtime: SyncRuntime, stream: RunStream[Out]) -> None:
        self._runtime = runtime
        self._stream = stream
        self._block: AbstractContextManager[Any] | None = None
        self._events: Any = None

    def __enter__(self) -> Self:
        """Start the run. Raises AgentError for errors that occur before the start."""
        self._block = self._runtime.within(self._stream)
        self._block.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._block is not None
        return self._block.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events. Raises the errors of `RunStream`."""
        events = self._runtime.call(self._iterator)
        while (event := self._runtime.call(_next, events)) is not _END:
            yield event

    async def _iterator(self) -> Any:
        return aiter(self._stream)

    def text_stream(self) -> Iterator[str]:
        """Iterate over the text as it is streamed, omitting other events."""
        for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    def output_stream(self) -> Iterator[Out]:
        """Iterate over the output as it grows, as `RunStream.output_stream` does."""
        values = self._runtime.call(self._outputs)
        while (value := self._runtime.call(_next, values)) is not _END:
            yield value

    async def _outputs(self) -> Any:
        return self._stream.output_stream()

    @property
    def run_id(self) -> str:
        """Id of the run, known before it begins."""
        return self._stream.run_id

    @property
    def result(self) -> RunResult[Out]:
        """Result of the run. Raises AgentError(invalid) before the end, and the error that
        prevented the start.
        """
        return self._stream.result

    def cancel(self) -> None:
        """End the run as `cancelled`; its events close. Idempotent."""
        self._runtime.call(_in_loop, self._stream.cancel)

    def steer(self, text: str) -> None:
        """Send text that the model reads at its next turn. Raises the errors of
        `RunStream.steer`.
        """
        self._runtime.call(_in_loop, self._stream.steer, text)


async def _in_loop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


async def _next(events: Any) -> Any:
    return await anext(events, _END)


def _check_no_loop() -> None:
    """Raise AgentError(invalid) in a thread with a running event loop, which a call would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AgentError(
        "invalid",
        "a runtime of treadle.open cannot be called inside a running event loop, which it would "
        "block: use `async with Runtime.open(…)` there",
    )
