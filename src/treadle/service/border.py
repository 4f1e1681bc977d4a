"""Outermost ASGI layer, for every request in order: request id, client address, host and origin,
limits on unauthenticated clients, body.

For every response: browser headers, the end of a stream with its login, metrics, and one log line
without query, headers, bodies or ids. Entry point: `Border`.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.service.bodies import read_body
from treadle.service.hosts import Hosts
from treadle.service.problems import OUR_FAULT, HttpProblem, problem_response, unauthorized
from treadle.service.windows import without_port

if TYPE_CHECKING:
    from treadle.service.state import Service

logger = logging.getLogger("treadle.service")

CSP = (
    "default-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)
_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
ANSWER: Final = "treadle.answer"
"""Scope key of the request's `AnswerSender`. Clients cannot set it."""
STRANGER: Final = "treadle.stranger"
"""Scope key, True once the request has counted against its address. Clients cannot set it."""
CLAIMS: Final = "treadle.claims"
"""Scope key of the claims of the request's valid access token, or None. Clients cannot set it."""
STRANGERS_BODY_BYTES: Final = 16_384
"""Maximum body of a request without a valid token; each connection may have one such request."""
EVENTS: Final = b"text/event-stream"
SIGNED_OUT: Final = b": this login has ended; sign in again\n\n"
ENDING_S: Final = 1.0
_NO_STORE = (b"cache-control", b"no-store")
_HSTS = (b"strict-transport-security", b"max-age=31536000")
UNCOUNTED: Final = frozenset({"/healthz", "/readyz"})
"""Paths that machines poll; their requests are not counted."""


class Border:
    """ASGI middleware that wraps the whole application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        settings, page = service.settings, service.application.page
        self._uncounted = UNCOUNTED if page is None else UNCOUNTED | page.paths
        """Paths whose requests are not counted, including the page's own files: a visit loads about
        a dozen.
        """
        self._hosts = Hosts(settings.hosts, settings.public_url)
        self._proxies: Collection[str] = frozenset(settings.proxies)
        self._is_https = (
            bool(settings.public_url) and urlsplit(settings.public_url or "").scheme == "https"
        )
        self._more = (*_HEADERS, _HSTS) if self._is_https else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        answer = AnswerSender(send, self._more, self._service)
        begun = time.perf_counter()
        try:
            await self._pass(scope, receive, answer)
        except HttpProblem as e:
            await problem_response(e, Request(scope))(scope, receive, answer)
        except EOFError:  # the client disconnected in the middle of its request
            answer.status = answer.status or 499
        except Exception:  # request boundary
            logger.exception("request %s failed", answer.request_id)
            if answer.status:
                raise  # the response has begun: the server closes the connection
            await problem_response(HttpProblem(500, OUR_FAULT), Request(scope))(
                scope, receive, answer
            )
        finally:
            answer.close()
            self._note(scope, answer, time.perf_counter() - begun)

    async def _pass(self, scope: Scope, receive: Receive, answer: AnswerSender) -> None:
        scope["headers"] = [
            (name, value.strip(b" \t")) for name, value in scope["headers"]
        ]  # httptools keeps this whitespace, which RFC 9110 5.5 excludes from the value
        headers: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in scope["headers"]:
            headers[name.decode("latin-1")].append(value.decode("latin-1"))
        answer.owes_body = not _OF_BODY.isdisjoint(headers)
        self._believe(scope, headers)
        self._hosts.check(scope["method"], headers)
        if len(headers.get("authorization", ())) > 1:
            raise HttpProblem(400, "Send the Authorization header only once.")
        is_known = self._count(scope, headers)
        if answer.owes_body:
            body = await self._body(headers, receive, is_known=is_known)
            answer.owes_body = False
            receive = _Replay(body, receive)
        scope[ANSWER] = answer
        with answer.cut:
            await self._app(scope, receive, answer)
        if answer.cut.cancelled_caught:
            await answer.end()

    async def _body(
        self, headers: Mapping[str, list[str]], receive: Receive, *, is_known: bool
    ) -> bytes:
        """Read the body. Raises Problem, or EOFError if the client disconnects."""
        most = self._service.settings.limits.body_bytes
        if is_known:
            return await read_body(headers, receive, most)
        try:
            return await read_body(headers, receive, min(most, STRANGERS_BODY_BYTES))
        except HttpProblem as e:
            if e.status_code == 413 and "authorization" in headers:  # the token may have expired
                raise unauthorized() from e
            raise

    def _count(self, scope: Scope, headers: Mapping[str, list[str]]) -> bool:
        """Count a request for the login that its token names, or else for its address. Return True
        if the token is valid; the route checks whether its login is.
        """
        kind, _, token = "".join(headers.get("authorization", ())).partition(" ")
        claims = (
            self._service.tokens.verified(token.strip(), "access")
            if kind.lower() == "bearer"
            else None
        )
        if claims is not None:
            self._service.limits.login(claims.login_id)
        elif scope["path"] not in self._uncounted:
            client = scope["client"]
            self._service.limits.stranger(client[0] if client else "")
        scope[CLAIMS], scope[STRANGER] = claims, claims is None
        return claims is not None

    def _believe(self, scope: Scope, headers: defaultdict[str, list[str]]) -> None:
        """Apply the forwarding headers of a trusted proxy. The client is the last address in the
        chain that is not a trusted proxy.
        """
        client = scope["client"]
        if client is None or client[0] not in self._proxies:
            return
        chain = [
            without_port(address.strip())
            for line in headers.get("x-forwarded-for", [])
            for address in line.split(",")
        ]
        strangers = [address for address in chain if address and address not in self._proxies]
        if strangers:
            scope["client"] = (strangers[-1], 0)
        if "https" in headers.get("x-forwarded-proto", []):
            scope["scheme"] = "https"

    def _note(self, scope: Scope, answer: AnswerSender, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "none"
        status, method = (
            answer.status or 500,
            scope["method"] if scope["method"] in _METHODS else "other",
        )
        metrics = self._service.metrics
        metrics.requests.labels(method, route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        if logger.isEnabledFor(logging.INFO):
            logger.info(
                "%s %s %d %.1f ms %s", method, route, status, 1000 * seconds, answer.request_id
            )


_OF_BODY = frozenset({"content-length", "transfer-encoding", "content-encoding"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class AnswerSender:
    """Wrapper of `send` that adds headers and records the status.

    An event stream ends with the login that opened it.
    """

    __slots__ = (
        "_held",
        "_more",
        "_send",
        "_service",
        "cut",
        "login_id",
        "owes_body",
        "request_id",
        "status",
    )

    def __init__(self, send: Send, more: tuple[tuple[bytes, bytes], ...], service: Service) -> None:
        self._send, self._more, self._service = send, more, service
        self._held = ExitStack()
        self.request_id = secrets.token_hex(8)
        self.status = 0
        self.login_id: str | None = None
        """Id of the request's login, once known."""
        self.owes_body = False
        """True while the client may still send a body that has not been read."""
        self.cut = anyio.CancelScope()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            if self.login_id is not None and any(
                name.lower() == b"content-type" and value.startswith(EVENTS)
                for name, value in given
            ):
                self._held.enter_context(self._service.open_streams.opened(self.login_id, self.cut))
            given += [header for header in self._more if header[0] not in names]
            if b"cache-control" not in names:
                given.append(_NO_STORE)
            if self.owes_body and b"connection" not in names:
                given.append((b"connection", b"close"))
            given.append((b"x-request-id", self.request_id.encode()))
            message = {**message, "headers": given}
        await self._send(message)

    async def end(self) -> None:
        """Complete a stream that was cut off, so that the client sees its end. A client that does
        not read loses the connection instead.
        """
        with anyio.move_on_after(ENDING_S):
            await self._send({"type": "http.response.body", "body": SIGNED_OUT, "more_body": False})

    def close(self) -> None:
        self._held.close()


class _Replay:
    """Wrapper of `receive` that replays the body that was read, then delegates to the client's."""

    __slots__ = ("_body", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
