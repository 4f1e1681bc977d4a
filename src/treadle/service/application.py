"""What is mounted on the service: the agent that answers people in the chat, and what belongs to
it. Entry: `Application`.

The service has the accounts, conversations, runs, streams and limits. It knows an application by
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
"""Who makes an MCP request, as the service has verified. Raises AgentError(auth) where nobody is.
"""


# ---------------------------------------------------------------- one message, and its reply


@dataclass(frozen=True, slots=True)
class PastMessage:
    """Something that was said in the conversation before."""

    role: Literal["user", "assistant"]
    content: str
    at: datetime | None = None
    """None where a client keeps the conversation (`/v1`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """A person's message that is to be answered."""

    scope: Scope
    conversation_id: str
    message: str
    run_id: str
    history: tuple[PastMessage, ...] = ()
    """Oldest first."""
    note: Any = None
    """What `ChatBackend.on_message` returned."""
    is_stored: bool = True
    """False for a message of `/v1`: `ChatBackend.on_message` was not called."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the person is shown."""

    text: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    """Each with `tool_name`, `parameters`, `result` and `duration_ms`."""
    late: bool = False
    """The run was out of time; what it did before that stays."""


class ReplyStream(Protocol):
    """The run that answers a message: `async with stream as events`, then its reply.

    The run begins with the block; leaving the block before its end cancels it.
    """

    async def __aenter__(self) -> AsyncIterable[Event]:
        """Raises AgentError for what is wrong before the run starts."""
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
        """None before the end."""
        ...

    @property
    def metrics(self) -> RunMetrics: ...

    @property
    def reply(self) -> Reply:
        """Raises AgentError(invalid) before the end."""
        ...


class EventView(Protocol):
    """Which events of a chat's run a person may see."""

    def take(self, event: Event) -> Iterable[Event]:
        """Those to show for this one; called in order, from the run's first event."""
        ...


class ChatBackend(Protocol):
    """How an application answers messages. Usable from any task; holds nothing of any person."""

    @property
    def agent(self) -> Agent[Any, Any]: ...

    @property
    def unclear(self) -> str:
        """The reply to a message in which nothing can be read."""
        ...

    def stream(self, turn: ChatTurn, limits: Limits) -> ReplyStream:
        """`limits`: to put over those of the agent."""
        ...

    def resume(self, turn: ChatTurn) -> ReplyStream:
        """Goes on with a run whose process died; of a finished one, what it was."""
        ...

    def view(self, user_id: str) -> EventView: ...

    def on_message(self, session: Session, scope: Scope, new: NewMessage) -> Any:
        """Called in the transaction that stores a message; `ChatTurn.note` is what it returns."""
        ...

    def note_of(self, session: Session, scope: Scope, run_id: str) -> Any:
        """The same note again, where the process died before the run began."""
        ...

    def on_delete(self, session: Session, scope: Scope, conversation_id: str) -> None:
        """Called in the transaction that deletes a conversation."""
        ...


class NewMessage(NamedTuple):
    """A message that is being stored."""

    conversation_id: str
    message: str
    run_id: str


# ---------------------------------------------------------------- what is mounted


@dataclass(frozen=True, slots=True)
class ServiceHost:
    """What the service gives to its application, open as long as the service is."""

    database: Database
    runtime: Runtime
    notify: Callable[[Scope, str], None]
    """Sends an event of this name to the person's open streams of it (following.py: `notices`)."""
    stopping: anyio.Event
    """Set when the service is about to end: background jobs return."""


@dataclass(frozen=True, slots=True)
class MountedAgent(Generic[D]):
    """An agent for `POST /runs` and `/v1`, and what its tools are given for a person."""

    agent: Agent[D, Any]
    deps: Callable[[Scope], D] | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """An OpenAPI link: an answer names a parameter of other routes."""

    answer: str
    """`METHOD PATH STATUS`."""
    parameter: str
    pointer: str
    """Where in the answer."""
    operations: Sequence[str]
    """Each `METHOD PATH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """All that one application brings. Only `name` and `chat` are needed.

    Its tables derive from `Owned`. The service makes those of its own migrations only, which are
    the task assistant's.
    """

    name: str
    """Of the agent that answers in the chat: the name of its runs, and of its model in `/v1`."""
    chat: Callable[[ServiceHost], ChatBackend]
    """Called once, when the service opens."""
    agents: Sequence[MountedAgent[Any]] = ()
    """Further agents, for `POST /runs` and `/v1`."""
    routers: Sequence[APIRouter] = ()
    """Whose routes take `SignedIn` and `TheService` (signed_in.py). They raise `HttpProblem`; an
    AgentError becomes one by its kind (problems.py).
    """
    links: Sequence[Link] = ()
    page: PageFiles | None = None
    """None: `/` is not found."""
    mcp: Callable[[ServiceHost, IdentityOf], Server[Any]] | None = None
    """Makes the server behind `/mcp`, with the first request; None: `/mcp` is not found."""
    jobs: Sequence[Callable[[ServiceHost], Awaitable[None]]] = ()
    """Run beside the requests, until `ServiceHost.stopping` is set or they return."""
    title: str = "the agent"
    """What the OpenAPI document calls whoever answers in the chat."""
    keeps: str = ""
    """What the document says stays when a conversation is deleted: a sentence."""
    share: TotalsShare | None = None
    """What one run of the chat reserves of the day's totals; None: what its agent's limits say."""

    @property
    def shares(self) -> dict[str, TotalsShare]:
        """By name of the agent."""
        return {} if self.share is None else {self.name: self.share}
