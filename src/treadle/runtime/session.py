"""A conversation of many runs, one at a time; its messages are in the store.

Entry point: `Session`, created by `Runtime.session`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Protocol, TypedDict

from typing_extensions import Unpack

from treadle._internal.other_names import OPTIONS, missing
from treadle._internal.redaction import Secret
from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError
from treadle.events.callbacks import Callbacks, Listeners
from treadle.journal.queue import QueuePlace
from treadle.messages.events import Event
from treadle.messages.message import Message, Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.model import Model
from treadle.runtime.run_stream import RunStream
from treadle.tools.approval import Approver
from treadle.tools.registry import closest
from treadle.tools.tool import Tool
from treadle.types import Limits, Mode, OnAsk, OnUnknown, Settings, Time


class DriverOptions(TypedDict, total=False):
    """Options for the process that drives a run, not stored. A resume takes them again."""

    headers: Mapping[str, str | Secret]
    """Headers of requests to the provider of the run's model, also from child runs."""
    on_approval: Approver
    """Function that is called for each call that needs approval, and returns `Approve()` or
    `Deny(reason)`.

    The run and its children wait for the answer.
    """
    callbacks: Callbacks
    on_event: Callable[[Event], object]


class SessionOptions(DriverOptions, total=False):
    """Options of every way to start a run."""

    inputs: Mapping[str, Any]
    """Values for the agent's `${variables}`."""
    settings: Settings
    limits: Limits
    """Limits, which override the agent's field by field.

    Without any, a run ends after 100 turns and has no other limit.
    """
    mode: Mode
    """Default: `full`."""
    cwd: str | Path
    user_id: str | None
    tags: Collection[str]
    """Words by which runs are found and costs are summed up. Child runs have the same."""
    metadata: Mapping[str, str | int | float | bool]
    """Facts about the run, stored with it. Child runs have the same."""
    on_ask: OnAsk
    """Handling of calls that need approval: `deny` (default), or `wait` until `resume` supplies the
    answer.
    """
    on_unknown: OnUnknown
    """Handling of once-calls that were interrupted by their timeout or the death of the process:
    `tell` the model (default), `wait` for a user, or `fail`.
    """


class RunOptions(SessionOptions, total=False):
    """Options of `run` and `stream`. A wrapper takes `**options: Unpack[RunOptions]`.

    Attributes:
        session: A session or its id, created if needed; None: a run without a session.
        messages: Messages before the prompt, oldest first, for a run without a session. Stored with
            the run. Templates in them are not expanded.
        run_id: Id of the new run, if it must be known in advance. Raises AgentError(busy) if the
            run already exists.
    """

    session: Session[Any, Any] | str | None
    messages: Sequence[Message]
    run_id: str


class ForkOptions(SessionOptions, total=False):
    """Options of a fork; the default of each is the other run's value."""

    model: str | Model
    results: Mapping[str, str]
    """Replacement results by call id, for calls of the last kept turn."""


class AnswerOptions(TypedDict, total=False):
    """A user's answers to the open calls of a run."""

    approve: Collection[str]
    """Ids of open calls that may run. One that had started runs again, because the user knows that
    it had no effect.
    """
    deny: Mapping[str, str]
    """Denied open calls by id, with the reason."""
    results: Mapping[str, str]
    """Results of open calls, as determined by the user."""
    seen: int
    """Number of the run's entries (`RunInfo.entries`) that the user had seen. An answer to a call
    that has since started or requested approval again raises AgentError(busy). Without `seen`, a
    second approval of the same request could repeat a call whose outcome is unknown.
    """


class WakeOptions(AnswerOptions, total=False):
    """Options of `wake`."""

    arguments: Mapping[str, Mapping[str, Any]]
    """Replacement arguments of approved calls."""
    at: Time | None
    """Earliest start of the run."""
    place: QueuePlace | None
    """New place in a queue."""


class ResumeOptions(AnswerOptions, DriverOptions, total=False):
    """Options of a resume; the default of each is the run's own value."""

    on_unknown: OnUnknown
    """Handling of once-calls that were running when the process died: `tell` the model (default),
    `wait` for a user, or `fail`.
    """
    wait: bool
    """True to wait while another process drives the run, until it ends the run or dies, instead of
    raising AgentError(busy).
    """
    model: str | Model
    mode: Mode
    cwd: str | Path
    limits: Limits
    on_ask: OnAsk


_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "limits": (Limits, "Limits(turns=…, seconds=…)"),
    "settings": (Settings, "Settings(max_tokens=…, temperature=…)"),
    "callbacks": (Callbacks, "Callbacks(on_text_delta=…)"),
}
_OTHER_NAMES: Final = {
    "max_turns": "turns",
    "max_tool_calls": "tool_calls",
    "timeout": "seconds",
    "timeout_s": "seconds",
    "max_cost": "cost_usd",
    "max_budget_usd": "cost_usd",
}


def check_options(options: Mapping[str, object], known: type[Any]) -> None:
    """Check the options of a run against `known`, one of the three TypedDicts above. Raises
    AgentError(invalid) with a suggestion.
    """
    names: frozenset[str] = known.__optional_keys__
    if strange := sorted(set(options) - names):
        meant = _meant(strange[0], sorted(names))
        raise AgentError("invalid", f"a run has no option {strange[0]!r}{meant}")
    for name, (kind, like) in _KINDS.items():
        if (given := options.get(name)) is not None and not isinstance(given, kind):
            raise AgentError("invalid", f"{name}= is a {type(given).__name__}: pass {like}")
    for name, what in (
        ("on_event", "a function that takes one argument"),
        ("on_approval", "an async function that takes an ApprovalRequest"),
    ):
        if (told := options.get(name)) is not None and not callable(told):
            raise AgentError("invalid", f"{name}= is a {type(told).__name__}: pass {what}")
    if (approver := options.get("on_approval")) is not None and not _is_async(approver):
        raise AgentError(
            "invalid",
            "on_approval= must be an async function that takes an ApprovalRequest: write `async "
            "def`, and return Approve() or Deny(reason)",
        )


def _is_async(told: object) -> bool:
    """Return False for a function that certainly returns nothing awaitable, not for an object."""
    function = inspect.unwrap(told) if callable(told) else told
    function = function.func if isinstance(function, partial) else function
    is_plain = inspect.isfunction(function) or inspect.ismethod(function)
    return not inspect.isclass(told) and (not is_plain or inspect.iscoroutinefunction(function))


def _meant(name: str, known: Sequence[str]) -> str:
    """Return the end of the message: the argument to use instead, or the nearest name and all."""
    if name in OPTIONS:
        return f": {OPTIONS[name]}"
    limit = _OTHER_NAMES.get(name, name)
    if limit in Limits.__struct_fields__:
        return f": use limits=Limits({limit}=…)"
    if name in Settings.__struct_fields__:
        return f": use settings=Settings({name}=…)"
    if name in Agent.__dataclass_fields__:
        return f": pass {name}= to the agent"
    near = closest(name, known)
    return f"{f': did you mean {near!r}?' if near else '.'} Its options: {', '.join(known)}"


def listeners_of(options: RunOptions | ResumeOptions | ForkOptions) -> Listeners | None:
    """Return the callbacks among the options of a run; None if there are none."""
    given = options.get("callbacks"), options.get("on_event")
    return None if given == (None, None) else Listeners(*given)


class Driver(Protocol):
    """Methods of a runtime that a session needs."""

    async def run(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]: ...

    def stream(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps,
        **options: Unpack[RunOptions],
    ) -> RunStream[Out]: ...

    def steer(self, session_id: str, text: str) -> None: ...

    def cancel(self, session_id: str) -> bool: ...

    def compact(self, session_id: str) -> bool: ...

    def is_busy(self, session_id: str) -> bool: ...

    async def messages(self, session_id: str) -> list[Message]: ...

    async def clear(self, session_id: str) -> None: ...


class Session(Generic[Deps, Out]):
    """A conversation. All methods but `send` and `stream` may be called from any thread.

    Attributes:
        id: Id of the session.
        limit: Maximum number of earlier messages that a run sees; None: `MAX_SESSION_MESSAGES`.
    """

    def __init__(
        self,
        session_id: str,
        agent: Agent[Deps, Out],
        driver: Driver,
        *,
        limit: int | None = None,
    ) -> None:
        if limit is not None and (type(limit) is not int or limit < 2):
            raise AgentError(
                "invalid",
                f"limit={limit!r} of a session is not a whole number of at least 2: pass how many "
                "messages of the conversation a run sees at most",
            )
        self.id, self.limit = session_id, limit
        self._agent = agent
        self._driver = driver

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            raise missing("Session", name)

    @property
    def agent(self) -> Agent[Deps, Out]:
        """Agent that answers in this conversation."""
        return self._agent

    async def send(
        self, text: Prompt, *, deps: Deps = None, **options: Unpack[SessionOptions]
    ) -> RunResult[Out]:
        """Run a prompt in this conversation.

        Raises AgentError(busy) if a run is in progress, AgentError(invalid) for an empty text.
        """
        return await self._driver.run(self._agent, text, deps=deps, session=self, **options)

    def stream(
        self, text: Prompt, *, deps: Deps = None, **options: Unpack[SessionOptions]
    ) -> RunStream[Out]:
        """Send text and stream the events of its run."""
        return self._driver.stream(self._agent, text, deps=deps, session=self, **options)

    def steer(self, text: str) -> None:
        """Send text to the run in progress, which its model reads at the next turn. Raises
        AgentError(invalid) if there is no run.
        """
        self._driver.steer(self.id, text)

    def cancel(self) -> bool:
        """End the run in progress as `cancelled`. Returns False if there is none."""
        return self._driver.cancel(self.id)

    def compact(self) -> bool:
        """Compact the conversation before the next request: of the active run, or (returning False)
        of the next one. See `Runtime.compact`.
        """
        return self._driver.compact(self.id)

    @property
    def is_busy(self) -> bool:
        """True if a run of this session is in progress in this runtime."""
        return self._driver.is_busy(self.id)

    async def history(self) -> list[Message]:
        """Return the messages of ended runs, oldest first, as a copy."""
        return await self._driver.messages(self.id)

    async def clear(self) -> None:
        """Remove all messages from view. Raises AgentError(busy) while a run is active."""
        await self._driver.clear(self.id)

    def use(
        self,
        *,
        agent: Agent[Deps, Out] | None = None,
        model: str | Model | None = None,
        tools: Sequence[Tool[Deps]] | None = None,
        instructions: str | None = None,
    ) -> None:
        """Set the agent, model, tools or instructions of the next runs; the history is kept. Raises
        AgentError(busy) while a run is in progress.
        """
        if self.is_busy:
            raise AgentError(
                "busy", f"session {self.id!r} is running: its agent can be changed between runs"
            )
        given = {"model": model, "tools": tools, "instructions": instructions}
        changes: dict[str, Any] = {name: to for name, to in given.items() if to is not None}
        changed = agent or self._agent
        self._agent = replace(changed, **changes) if changes else changed
