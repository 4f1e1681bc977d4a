"""The task assistant as an application of the service: chat, routes, page and MCP tools.

Entry point: `task_application`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlmodel import Session

from treadle.agents.agent import Agent
from treadle.apps.assistant import confirmations
from treadle.apps.assistant.agent import NAME
from treadle.apps.assistant.confirmation_records import AnsweredConfirmations
from treadle.apps.assistant.context import AgentContext, MessageHistory
from treadle.apps.assistant.replies import UNCLEAR
from treadle.apps.assistant.routes import NOTICE, router
from treadle.apps.assistant.runner import LOOK, AgentRunner, ReplyStream
from treadle.apps.assistant.server import MCPToolServer
from treadle.apps.assistant.view import ReplyView
from treadle.models.model import Model
from treadle.service.application import (
    Application,
    ChatBackend,
    ChatTurn,
    IdentityOf,
    Link,
    NewMessage,
    ServiceHost,
)
from treadle.service.database.scope import Scope
from treadle.service.page import PageFiles
from treadle.service.totals import TotalsShare
from treadle.types import Limits, now

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

SHARE: Final = TotalsShare(150_000, 0.25)
"""Tokens and money that a run of the assistant reserves. No run needs as much, because its turns and
the length of its answers are limited.
"""
PAGE: Final = PageFiles(
    "treadle.apps.assistant",
    "page",
    (
        "account.js",
        "app.js",
        "chat.js",
        "conversations.js",
        "document.js",
        "events.js",
        "icon.svg",
        "notices.js",
        "reply.js",
        "session.js",
        "style.css",
        "task_row.js",
        "tasks.js",
        "words.js",
    ),
)
_TASK: Final = "/tasks/{task_id}"


def task_application(model: Model | str | None = None) -> Application:
    """Return the application. `model`: None selects the rule-based model, which needs no key."""
    return Application(
        name=NAME,
        title="the task assistant",
        keeps="Tasks stay.",
        chat=partial(TaskChat, model),
        routers=(router,),
        links=(
            Link(
                "post /tasks 201",
                "task_id",
                "id",
                (f"get {_TASK}", f"patch {_TASK}", f"delete {_TASK}"),
            ),
        ),
        page=PAGE,
        mcp=_over_mcp,
        share=SHARE,
    )


def _over_mcp(host: ServiceHost, identity_of: IdentityOf) -> Server[Any]:
    from treadle.apps.assistant import over_mcp  # noqa: PLC0415  the SDK takes half a second

    return over_mcp.tasks_over_mcp(_tools(host), identity_of).sdk


def _tools(host: ServiceHost) -> MCPToolServer:
    return MCPToolServer(host.database, changed=lambda scope: host.notify(scope, NOTICE))


class TaskChat:
    """Chat backend that answers each message with a run of the task assistant (runner.py)."""

    def __init__(self, model: Model | str | None, host: ServiceHost) -> None:
        self.runner: Final = AgentRunner(host.database, _tools(host), model, runtime=host.runtime)

    @property
    def unclear(self) -> str:
        return UNCLEAR

    @property
    def agent(self) -> Agent[Any, Any]:
        return self.runner.agent

    def stream(self, turn: ChatTurn, limits: Limits) -> ReplyStream:
        return self.runner.stream(
            _context(turn),
            turn.message,
            run_id=turn.run_id,
            answered=turn.note if turn.is_stored else LOOK,
            limits=limits,
        )

    def resume(self, turn: ChatTurn) -> ReplyStream:
        return self.runner.resume_stream(turn.run_id, _context(turn))

    def view(self, user_id: str) -> ReplyView:
        return ReplyView(user_id)

    def on_message(
        self, session: Session, scope: Scope, new: NewMessage
    ) -> AnsweredConfirmations | None:
        """Resolve pending confirmations with the message, and return the result; None if there were
        none.
        """
        return confirmations.answered(session, scope, new.conversation_id, new.message, new.run_id)

    def note_of(self, session: Session, scope: Scope, run_id: str) -> AnsweredConfirmations | None:
        return confirmations.granted(session, scope, run_id)

    def on_delete(self, session: Session, scope: Scope, conversation_id: str) -> None:
        """Delete the conversation's confirmations. Its tasks stay."""
        confirmations.forget(session, scope, conversation_id)


def _context(turn: ChatTurn) -> AgentContext:
    history = (MessageHistory(said.role, said.content, said.at or now()) for said in turn.history)
    return AgentContext(turn.scope.user_id, turn.conversation_id, tuple(history))


if TYPE_CHECKING:
    _: type[ChatBackend] = TaskChat
