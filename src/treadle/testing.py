"""Test doubles and helpers for code that uses Treadle: real implementations, small and in memory.

Entry points: `ScriptedModel`, `context`, `override`, `no_real_models`, `transcript`, `FakeClock`,
`collect`. The pytest plug-in (apps/pytest_plugin.py) has fixtures for them. The contract suites for
plug-ins are in `treadle.testing.contracts` (apps/testing/contracts/).
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
import typing_extensions
from typing_extensions import TypeVar

from treadle._internal.clock import Clock
from treadle.agents.agent import Agent
from treadle.journal.memory.journal import MemoryJournal
from treadle.messages.message import MediaPart, Message, ToolCall, ToolResult
from treadle.messages.result import RunResult
from treadle.models import model
from treadle.models.model import Model
from treadle.models.providers import real_requests, scripted
from treadle.runtime import model_choice
from treadle.tools.tool import ToolContext

__all__ = [
    "FakeClock",
    "MemoryJournal",
    "ScriptedModel",
    "collect",
    "context",
    "no_real_models",
    "override",
    "transcript",
]

__path__ = [str(Path(__file__).with_name("apps") / "testing")]
"""Makes apps/testing/contracts importable as `treadle.testing.contracts`, without pytest here."""

T = TypeVar("T")
DepsT = TypeVar("DepsT", default=None)

Entry = scripted.ScriptEntry | dict[str, Any]


class ScriptedModel(scripted.ScriptedModel):
    """A model that returns prepared responses, entry by entry, and records the requests.

    Entries are dictionaries as in a script file: `{"text": …}`, `{"tool_calls": [{"name": …,
    "arguments": …}]}`, `{"error": …}`. Instead of a list, you can pass a function that returns the
    entry for a request. As a context manager, it raises AssertionError at the end if entries are
    unused.
    """

    def __init__(
        self,
        entries: Sequence[Entry] | Callable[[model.ModelRequest], Entry],
        *,
        name: str = "script:inline",
        place: int = 0,
    ) -> None:
        """Create a scripted model. `place`: number of entries already used. Raises
        AgentError(invalid) for an invalid entry; of a function, when it returns it.
        """
        self.requests: list[model.ModelRequest] = []
        """Requests so far, with the messages as they were at that moment."""
        self._respond = entries if callable(entries) else None
        super().__init__(() if callable(entries) else entries, name=name, place=place)

    @typing_extensions.override
    async def stream(self, request: model.ModelRequest) -> AsyncGenerator[model.Delta, None]:
        """Yield the deltas of the next entry, and record the request."""
        request = msgspec.structs.replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        async with aclosing(super().stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    @typing_extensions.override
    def _take(self, request: model.ModelRequest) -> tuple[scripted.ScriptEntry, int]:
        if self._respond is None:
            return super()._take(request)
        self.place += 1
        entry = scripted.script_entry(self._respond(request), self.place - 1, self.name)
        return entry, self.place

    def check_used(self) -> None:
        """Raise AssertionError if the conversation ended before the script did."""
        if left := self.unused:
            count = f"{len(left)} {'entry was' if len(left) == 1 else 'entries were'}"
            raise AssertionError(
                f"{self.name}: {count} not used after {len(self.requests)} requests; the next is "
                f"{msgspec.json.encode(left[0]).decode()}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.check_used()


class FakeClock(Clock):
    """A clock on which waits take no real time."""

    def __init__(self) -> None:
        self.time_s = 0.0
        """Time in seconds since the epoch."""
        self.waits: list[float] = []
        """Seconds of every wait, in order."""

    @typing_extensions.override
    def monotonic(self) -> float:
        """Return the seconds on a clock that never goes back."""
        return self.time_s

    @typing_extensions.override
    async def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting."""
        self.waits.append(seconds)
        self.time_s += seconds
        await anyio.lowlevel.checkpoint()

    @typing_extensions.override
    def jitter(self) -> float:
        """Return the middle of the interval, so that waits are predictable."""
        return 0.5


def context(
    deps: DepsT = None,
    *,
    cwd: str | Path | None = None,
    user_id: str | None = None,
    session_id: str | None = None,
    attempt: int = 1,
    said: Callable[[str], object] | None = None,
) -> ToolContext[DepsT]:
    """Return a context with which a test can call a tool function directly.

    The call is `call_test` of the run `run_test`, and nothing cancels it. `cwd`: the current
    directory by default. `said` receives the texts of `progress` and `warn`. `spawn` raises
    AgentError(invalid): test an agent that runs others in a run.
    """

    def hear(text: str) -> None:
        if said is not None:
            said(text)

    return ToolContext(
        deps=deps,
        run_id="run_test",
        session_id=session_id,
        call_id="call_test",
        user_id=user_id,
        cwd=Path(cwd or ".").absolute(),
        deadline=None,
        attempt=attempt,
        idempotency_key="run_test-call_test",
        spill=_spill,
        kept={},
        seen_files={},
        report=lambda text, done, total: hear(text),
        tell=hear,
    )


def _spill(text: str) -> Path:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="treadle-", suffix=".txt", delete=False
    ) as file:
        file.write(text)
    return Path(file.name)


@contextmanager
def override(agent: Agent[Any, Any] | str, *, model: str | Model) -> Generator[None]:
    """Let every run of an agent that begins or resumes in this block use `model`.

    `agent`: the agent or its name; children and agents from files are found by name. It applies to
    all threads of this process, but not to worker processes.
    """
    name = agent if isinstance(agent, str) else agent.name
    replaced = model_choice.replaced
    before = replaced.get(name)
    replaced[name] = model
    try:
        yield
    finally:
        if before is None:
            del replaced[name]
        else:
            replaced[name] = before


@contextmanager
def no_real_models() -> Generator[None]:
    """Refuse every request of this process to a provider, with AgentError(invalid).

    Servers on this machine (localhost, 127.0.0.1, ::1) stay allowed, and so are models without a
    connection: scripts, tapes and your own classes.
    """
    before = real_requests.refused
    real_requests.refused = True
    try:
        yield
    finally:
        real_requests.refused = before


def transcript(result: RunResult[Any]) -> dict[str, Any]:
    """Return a run's transcript as JSON values that are equal for equal runs: outcome, output and
    new messages, without ids, times and usage.
    """
    error = {} if result.error is None else {"error": result.error.message}
    return {
        "outcome": result.outcome.value,
        **error,
        "output": msgspec.json.decode(result.output_json),
        "messages": [_shown(message) for message in result.new_messages],
    }


def _shown(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"tool": [_shown_result(part) for part in message.tool_results]}
    shown: dict[str, Any] = {message.role: message.text}
    if media := [part.media_type for part in message.parts if isinstance(part, MediaPart)]:
        shown["media"] = media
    if calls := message.tool_calls:
        shown["calls"] = [{call.name: _arguments(call)} for call in calls]
    return shown


def _arguments(call: ToolCall) -> object:
    try:
        return call.arguments
    except ValueError:
        return call.arguments_json


def _shown_result(result: ToolResult) -> dict[str, Any]:
    state = "unknown" if result.unknown else "error" if result.is_error else "result"
    return {result.name: {state: result.text}}


async def collect(items: AsyncIterable[T]) -> list[T]:
    """Return all items of an async iterable as a list."""
    return [item async for item in items]
