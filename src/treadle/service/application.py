"""Contract of an application mounted on the service: its chat agent, routes, page and jobs. Entry
point: `Application`.

The service owns accounts, conversations, runs, streams and limits. It uses an application through
the values and protocols below and imports none.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import anyio
from fastapi import APIRouter
from sqlmodel import Session

from treadle.agents.agent import Agent
from treadle.messages.events import Event
from treadle.messages.metrics import RunMetrics
from treadle.runtime.runtime import Runtime
from treadle.service.database.database import Database
from treadle.service.database.scope import Identity, Scope
from treadle.service.page import PageFiles
from treadle.service.totals import TotalsShare
from treadle.types import Limits, Outcome

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

D = TypeVar("D")
IdentityOf: TypeAlias = Callable[[Any], Identity]
"""Return the verified user of an MCP request. Raises AgentError(auth) if the request is not
authenticated.
"""


# ---------------------------------------------------------------- one message, and its reply


@dataclass(frozen=True, slots=True)
class PastMessage:
    """Earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: str
    at: datetime | None = None
    """Time of the message; None if the client keeps the conversation (`/v1`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """Message from a user, to be answered."""

    scope: Scope
    conversation_id: str
    message: str
    run_id: str
    history: tuple[PastMessage, ...] = ()
    """Earlier messages, oldest first."""
    note: Any = None
    """Return value of `ChatBackend.on_message`."""
    is_stored: bool = True
    """False for a message of `/v1`, for which `ChatBackend.on_message` is not called."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply shown to the user."""

    text: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    """Tool calls, each with `tool_name`, `parameters`, `result` and `duration_ms`."""
    late: bool = False
    """True if the run timed out; its earlier effects remain."""


class ReplyStream(Protocol):
    """Run that answers a message: iterate over the events in `async with stream as events`, then
    read `reply`.

    The run begins with the block. Leaving the block early cancels it.
    """

    async def __aenter__(self) -> AsyncIterable[Event]:
        """Start the run. Raises AgentError for errors that occur before it starts."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None: ...

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the run; None before it ends."""
        ...

    @property
    def metrics(self) -> RunMetrics: ...

    @property
    def reply(self) -> Reply:
        """Reply of the run. Raises AgentError(invalid) before it ends."""
        ...


class EventView(Protocol):
    """Filter that selects the events of a chat run that a user may see."""

    def take(self, event: Event) -> Iterable[Event]:
        """Return the events to show in place of this one. Call it in order, from the run's first
        event.
        """
        ...


class ChatBackend(Protocol):
    """Interface of an application that answers messages. Usable from any task; keeps no per-user
    state.
    """

    @property
    def agent(self) -> Agent[Any, Any]: ...

    @property
    def unclear(self) -> str:
        """Reply to a message that contains nothing readable."""
        ...

    def stream(self, turn: ChatTurn, limits: Limits) -> ReplyStream:
        """Start a run. `limits` tighten those of the agent."""
        ...

    def resume(self, turn: ChatTurn) -> ReplyStream:
        """Resume a run whose process died, or replay a finished one."""
        ...

    def view(self, user_id: str) -> EventView: ...

    def on_message(self, session: Session, scope: Scope, new: NewMessage) -> Any:
        """Handle a new message in the transaction that stores it. The return value becomes
        `ChatTurn.note`.
        """
        ...

    def note_of(self, session: Session, scope: Scope, run_id: str) -> Any:
        """Return the note of `on_message` again, for a run whose process died before the run
        began.
        """
        ...

    def on_delete(self, session: Session, scope: Scope, conversation_id: str) -> None:
        """Handle the deletion of a conversation, in the same transaction."""
        ...


class NewMessage(NamedTuple):
    """Message that is being stored."""

    conversation_id: str
    message: str
    run_id: str


# ---------------------------------------------------------------- mounted applications


@dataclass(frozen=True, slots=True)
class ServiceHost:
    """Facilities of the service for its application, available while the service is open."""

    database: Database
    runtime: Runtime
    notify: Callable[[Scope, str], None]
    """Send a named event to the user's open streams of that name (following.py: `notices`)."""
    stopping: anyio.Event
    """Set when the service shuts down, so that background jobs return."""


@dataclass(frozen=True, slots=True)
class MountedAgent(Generic[D]):
    """Agent for `POST /runs` and `/v1`, and a function that returns its tools' dependencies for a
    user.
    """

    agent: Agent[D, Any]
    deps: Callable[[Scope], D] | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """OpenAPI link from a response to parameters of other operations."""

    answer: str
    """Operation and its response, as `METHOD PATH STATUS`."""
    parameter: str
    pointer: str
    """JSON pointer into the response."""
    operations: Sequence[str]
    """Operations that take the parameter, each as `METHOD PATH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Application to mount. Only `name` and `chat` are required.

    Its tables derive from `Owned`. The service's own migrations create only the tables of the task
    assistant.
    """

    name: str
    """Name of the chat agent, its runs and its model in `/v1`."""
    chat: Callable[[ServiceHost], ChatBackend]
    """Factory of the chat backend, called once when the service opens."""
    agents: Sequence[MountedAgent[Any]] = ()
    """Further agents, for `POST /runs` and `/v1`."""
    routers: Sequence[APIRouter] = ()
    """Routers whose routes take `SignedIn` and `TheService` (signed_in.py). They raise
    `HttpProblem`; an AgentError is converted by its kind (problems.py).
    """
    links: Sequence[Link] = ()
    page: PageFiles | None = None
    """Files of the web page; None: `/` returns 404."""
    mcp: Callable[[ServiceHost, IdentityOf], Server[Any]] | None = None
    """Factory for the server behind `/mcp`, called on the first request; None: `/mcp` returns 404.
    """
    jobs: Sequence[Callable[[ServiceHost], Awaitable[None]]] = ()
    """Background jobs that run until `ServiceHost.stopping` is set or they return."""
    title: str = "the agent"
    """Name of the chat agent in the OpenAPI document."""
    keeps: str = ""
    """Sentence for the OpenAPI document about data that remains after a conversation is deleted."""
    share: TotalsShare | None = None
    """Share of the daily totals that one chat run reserves; None: derived from its agent's limits.
    """

    @property
    def shares(self) -> dict[str, TotalsShare]:
        """Return the shares by agent name."""
        return {} if self.share is None else {self.name: self.share}
