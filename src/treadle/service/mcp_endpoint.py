"""`/mcp`: the task tools over streamable HTTP, for whoever brings a token. What they do is tasks/over_mcp.py's.

The SDK is imported, and its sessions begin, with the first request that has a token: a service that nobody asks over MCP pays nothing for it.
Host and Origin were judged before (hosts.py). Entry: `McpEndpoint`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from treadle.database.scope import Identity
from treadle.errors import AgentError
from treadle.service.limits import Window
from treadle.service.problems import Problem, problem_response, too_many, unauthorized, unavailable
from treadle.service.signed_in import Visitor, verified
from treadle.service.state import Service

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

logger = logging.getLogger("treadle.service")

SESSIONS_MOST: Final = 2_000
SESSIONS_OF_PERSON: Final = 60
"""That one person may open in the time after which an idle one is closed."""
IDLE_S: Final = 15 * 60.0
WHO: Final = "treadle.visitor"
"""In a request's scope, set by us alone: no header reaches it."""


class McpEndpoint:
    """An ASGI application for one path."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: StreamableHTTPSessionManager | None = None
        self._open: anyio.Event | None = None
        self._begun = Window(SESSIONS_OF_PERSON, IDLE_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            visitor = await self._visitor(request)
            async with AsyncExitStack() as held:
                if request.method == "GET":  # the stream on which a server speaks first: it stays open
                    await held.enter_async_context(self._service.limits.stream(visitor.scope))
                sessions = await self._opened()
                self._admit(request, visitor)
                await sessions.handle_request(_of(scope, visitor), receive, send)
        except Problem as e:
            await problem_response(e)(scope, receive, send)

    async def _visitor(self, request: Request) -> Visitor:
        """Raises Problem: 401 without a good token, 429 where this person has asked too often, 503 while the service ends."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        found = await verified(self._service, token.strip()) if kind.lower() == "bearer" else None
        if found is None:
            self._service.limits.stranger(request.client.host if request.client else "")
            raise unauthorized()
        self._service.limits.request(found.scope)
        if self._service.stopping.is_set():
            raise unavailable()
        return found

    def _admit(self, request: Request, visitor: Visitor) -> None:
        """Raises Problem(429) for a session too many. Clients of the newer protocol have none."""
        from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415  half a second, for those who ask

        version = request.headers.get("mcp-protocol-version")
        if request.method != "POST" or "mcp-session-id" in request.headers or (version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS):
            return
        if wait_s := self._begun.take(visitor.scope.user_id):
            raise too_many(f"That is more than {SESSIONS_OF_PERSON} sessions in {IDLE_S / 60:.0f} minutes: go on in one that you have.", wait_s)

    async def _opened(self) -> StreamableHTTPSessionManager:
        if self._open is None:
            self._open = anyio.Event()
            self._service.live.spawn(self._hold)
        await self._open.wait()
        if self._sessions is None:
            raise unavailable()
        return self._sessions

    async def _hold(self) -> None:
        """Sessions live in this task, until the service ends."""
        assert self._open is not None
        try:
            sessions = _manager(self._service)
            async with sessions.run():
                self._sessions = sessions
                self._open.set()
                await self._service.stopping.wait()
        finally:
            self._sessions = None
            self._open.set()


def _manager(service: Service) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415  half a second, for those who ask
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415  likewise

    from treadle.tasks.over_mcp import tasks_over_mcp  # noqa: PLC0415  likewise

    return StreamableHTTPSessionManager(
        tasks_over_mcp(service.tools, identity_of).sdk,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        session_idle_timeout=IDLE_S,
        max_sessions=SESSIONS_MOST,
        max_request_body_size=service.settings.limits.body_bytes,
    )


def identity_of(context: Any) -> Identity:
    """Of the request that brought this call, whatever session it came in. Raises AgentError(auth) where that is not known."""
    scope: Mapping[str, Any] = getattr(context.request, "scope", {})
    visitor = scope.get(WHO)
    if not isinstance(visitor, Visitor):
        raise AgentError("auth", "nobody is signed in")
    return Identity(visitor.scope.user_id, "token")


def _of(scope: Scope, visitor: Visitor) -> Scope:
    """The SDK gives a session to whoever opened it, and to nobody else, by this user."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # noqa: PLC0415  half a second, for those who ask
    from mcp.server.auth.provider import AccessToken  # noqa: PLC0415  likewise

    user_id = visitor.scope.user_id
    return {**scope, WHO: visitor, "user": AuthenticatedUser(AccessToken(token="", client_id=user_id, subject=user_id, scopes=[]))}
