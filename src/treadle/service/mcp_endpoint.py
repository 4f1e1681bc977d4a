"""`/mcp`: the application's tools over streamable HTTP, for authenticated clients. The tools belong
to the application (`Application.mcp`).

The first authenticated request imports the SDK and starts its sessions, so a service without MCP
clients pays nothing for it. Host and Origin were checked before (hosts.py). Entry point:
`McpEndpoint`.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from treadle.errors import AgentError
from treadle.service.database.scope import Identity
from treadle.service.problems import (
    HttpProblem,
    problem_response,
    too_many,
    unauthorized,
    unavailable,
)
from treadle.service.signed_in import Visitor, count_stranger, opened_by, verified
from treadle.service.state import Service
from treadle.service.windows import SlidingWindow, network_of

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

logger = logging.getLogger("treadle.service")

SESSIONS_MOST = 2_000
"""Open sessions of all users together.

At the limit, the oldest idle session of the user with the most sessions is closed.
"""
SESSIONS_OF_PERSON: Final = 60
"""Maximum number of sessions that one user may open within the idle timeout."""
SESSIONS_OF_NETWORK: Final = 400
"""Maximum number of sessions that users of one IPv4 address or IPv6 /64 may open within the idle
timeout. A client with many accounts gets at most a fifth of all sessions.
"""
SESSIONS_OF_REGISTRATION: Final = 400
"""Maximum number of sessions that users whose accounts one neighbourhood (`wider_network_of`)
registered may open within the idle timeout, from any address. Several accounts of one client thus
count as one client.
"""
IDLE_S: Final = 15 * 60.0
WHO: Final = "treadle.visitor"
"""Scope key of the request's verified user. Clients cannot set it."""


class McpEndpoint:
    """ASGI application for one path."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: StreamableHTTPSessionManager | None = None
        self._open: anyio.Event | None = None
        self._begun = SlidingWindow(SESSIONS_OF_PERSON, IDLE_S)
        self._begun_there = SlidingWindow(SESSIONS_OF_NETWORK, IDLE_S)
        self._begun_by = SlidingWindow(SESSIONS_OF_REGISTRATION, IDLE_S)
        self._held = _Held()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            visitor = await self._visitor(request)
            async with AsyncExitStack() as held:
                # The stream for messages from the server stays open.
                if request.method == "GET":
                    await held.enter_async_context(self._service.limits.stream(visitor.scope))
                sessions = await self._opened()
                user_id, session_id = visitor.scope.user_id, request.headers.get("mcp-session-id")
                if self._opens(request):
                    await self._admit(user_id, request.client.host if request.client else "")
                    await self._make_room(sessions)
                    session_id = ""
                with self._held.request(
                    user_id, session_id, ends=request.method == "DELETE"
                ) as seen:
                    await sessions.handle_request(_of(scope, visitor), receive, seen(send))
        except HttpProblem as e:
            await problem_response(e)(scope, receive, send)

    async def _visitor(self, request: Request) -> Visitor:
        """Verify the user. Raises Problem: 401 without a valid token, 429 at the user's request
        limit, 503 while the service shuts down.
        """
        found = await verified(self._service, request.scope)
        if found is None:
            count_stranger(self._service, request)
            raise unauthorized()
        self._service.limits.request(found.scope)
        if self._service.stopping.is_set():
            raise unavailable()
        opened_by(request.scope, found)
        return found

    def _opens(self, request: Request) -> bool:
        """Return True if the request opens a session. Clients of the newer protocol have none."""
        from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415  takes half a second

        version = request.headers.get("mcp-protocol-version")
        return (
            request.method == "POST"
            and "mcp-session-id" not in request.headers
            and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)
        )

    async def _admit(self, user_id: str, address: str) -> None:
        """Count a new session. Raises Problem(429) at the limit of a user, of a network, or of the
        accounts that one neighbourhood registered.
        """
        limits = [
            (self._begun, user_id, SESSIONS_OF_PERSON, ""),
            (self._begun_there, network_of(address), SESSIONS_OF_NETWORK, " from your address"),
        ]
        if (origin := await self._service.accounts.registered_from(user_id)) is not None:
            whose = " of accounts registered from the same network as yours"
            limits.append((self._begun_by, origin, SESSIONS_OF_REGISTRATION, whose))
        for window, key, most, whose in limits:
            if wait_s := window.wait_s(key):
                raise too_many(
                    f"More than {most} sessions{whose} were opened in {IDLE_S / 60:.0f} minutes: "
                    "reuse one of them, or wait.",
                    wait_s,
                )
        for window, key, _, _ in limits:
            window.take(key)

    async def _make_room(self, sessions: StreamableHTTPSessionManager) -> None:
        """Close idle sessions until there is a free place. Raises Problem(503) if every session is
        busy.
        """
        while len(self._held) >= SESSIONS_MOST:
            if (found := self._held.least_missed()) is None:
                raise unavailable("Too many sessions are open. Please try again.", 5)
            session_id, user_id = found
            self._held.forget(session_id)
            await sessions.handle_request(
                {**_as(_CLOSE, user_id), "headers": [(b"mcp-session-id", session_id.encode())]},
                _nothing_more,
                _unheard,
            )

    async def _opened(self) -> StreamableHTTPSessionManager:
        if self._open is None:
            self._open = anyio.Event()
            self._service.live.spawn(partial(self._hold, self._open))
        await self._open.wait()
        if self._sessions is None:
            raise unavailable()
        return self._sessions

    async def _hold(self, is_open: anyio.Event) -> None:
        """Keep the sessions open in this task until the service shuts down. After an error, the
        next request opens them again.
        """
        try:
            sessions = _manager(self._service)
            async with sessions.run():
                self._sessions = sessions
                is_open.set()
                await self._service.stopping.wait()
        finally:
            self._sessions = self._open = None
            is_open.set()


class _Session:
    """Session that is open or being opened."""

    __slots__ = ("requests", "user_id")

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.requests = 0
        """Number of requests in progress."""


class _Held:
    """Open sessions, as observed from their requests. A session that the SDK has closed meanwhile
    is noticed when it is closed here.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        """Sessions by id, least recently used first."""
        self._opening = 0

    def __len__(self) -> int:
        return len(self._sessions) + self._opening

    @contextmanager
    def request(
        self, user_id: str, session_id: str | None, *, ends: bool
    ) -> Generator[Callable[[Send], Send]]:
        """Track a request in progress. `session_id` is empty if the request opens a session.

        Yields a wrapper of `send` that reads the session id from the response.
        """
        session = self._sessions.get(session_id or "")
        session = (
            session if session is not None and session.user_id == user_id else _Session(user_id)
        )
        session.requests += 1
        self._opening += session_id == ""
        try:
            yield lambda send: partial(self._answered, session, ends, send)
        finally:
            session.requests -= 1
            self._opening -= session_id == ""
            if session_id and self._sessions.get(session_id) is session:
                self._sessions.move_to_end(session_id)

    def least_missed(self) -> tuple[str, str] | None:
        """Return the id and user of the session to close: the least recently used idle one of the
        user with the most sessions, among users with an idle one. None if every session is busy.
        """
        counts = Counter(session.user_id for session in self._sessions.values())
        idle = [
            (session_id, session.user_id)
            for session_id, session in self._sessions.items()
            if not session.requests
        ]
        # the first one if several qualify
        return max(idle, key=lambda one: counts[one[1]], default=None)

    def forget(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    async def _answered(self, session: _Session, ends: bool, send: Send, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            session_id = Headers(raw=message["headers"]).get("mcp-session-id", "")
            if ends:
                self.forget(session_id)
            elif session_id:
                self._sessions.setdefault(session_id, session)
        await send(message)


_CLOSE: Final[Scope] = {
    "type": "http",
    "http_version": "1.1",
    "method": "DELETE",
    "scheme": "http",
    "path": "/mcp",
    "query_string": b"",
}
"""Request that ends a session, as its client would send it."""


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(message: Message) -> None: ...


def _manager(service: Service) -> StreamableHTTPSessionManager:
    assert service.application.mcp is not None, "the route exists only then"
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415  half a second, for those who ask
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415  deferred: slow import

    return StreamableHTTPSessionManager(
        service.application.mcp(service.host, identity_of),
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        session_idle_timeout=IDLE_S,
        max_sessions=None,  # the endpoint closes sessions before this limit is reached
        max_request_body_size=service.settings.limits.body_bytes,
    )


def identity_of(context: Any) -> Identity:
    """Return the user of the request that carried this call, regardless of the call's session.

    Raises AgentError(auth) if the request is not authenticated.
    """
    scope: Mapping[str, Any] = getattr(context.request, "scope", {})
    visitor = scope.get(WHO)
    if not isinstance(visitor, Visitor):
        raise AgentError("auth", "no user is signed in: send a valid token")
    return Identity(visitor.scope.user_id, "token")


def _of(scope: Scope, visitor: Visitor) -> Scope:
    """Set the user by which the SDK binds a session to its opener."""
    return {**_as(scope, visitor.scope.user_id), WHO: visitor}


def _as(scope: Scope, user_id: str) -> Scope:
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # noqa: PLC0415  half a second, for those who ask
    from mcp.server.auth.provider import AccessToken  # noqa: PLC0415  deferred: slow import

    return {
        **scope,
        "user": AuthenticatedUser(
            AccessToken(token="", client_id=user_id, subject=user_id, scopes=[])
        ),
    }
