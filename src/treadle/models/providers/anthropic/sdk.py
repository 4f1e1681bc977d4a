"""Connection over the official `anthropic` SDK 2.x, whose clients bring credentials, profiles and
clouds.

Its typed layer, retries and redirects are not used. Optional; imported with the first client. Entry
points: `SdkConnection`. Source: the SDK's 2.10 code, and its errors as measured in November 2026.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

import anyio

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.models.providers import real_requests
from treadle.models.providers.connection import ReadTimeout
from treadle.models.providers.http import TIMEOUT_S

if TYPE_CHECKING:
    import anthropic
    import httpx2

_T = TypeVar("_T")

INSTALL = "pip install 'treadle[anthropic]'"
GRACE_S = 0.25
"""Seconds that a complete response may take to end, and a connection to close."""


class _Client(Protocol):
    """The methods of a client that are used here."""

    base_url: httpx2.URL

    def with_options(self, *, max_retries: int) -> _Client: ...

    async def post(self, path: str, **how: object) -> Any: ...

    async def get(self, path: str, **how: object) -> Any: ...


class SdkConnection:
    """Connection over `AsyncAnthropic` and similar clients, whose HTTP client carries our bytes, or
    over Bedrock's and Vertex's clients, which read events themselves.
    """

    def __init__(self, client: object, timeout_s: float = TIMEOUT_S) -> None:
        """Create a connection over the SDK. `timeout_s` applies in addition to the client's own
        timeout.

        Raises AgentError(invalid) if the SDK is missing, or the client is not one of its async
        clients.
        """
        try:
            import anthropic  # noqa: PLC0415  1.3 s and 76 MB, and an extra
        except ImportError as e:
            raise AgentError("invalid", f"this needs the anthropic SDK: {INSTALL}") from e
        if not inspect.iscoroutinefunction(getattr(client, "post", None)) or not hasattr(
            client, "with_options"
        ):
            raise AgentError(
                "invalid",
                (
                    f"{type(client).__name__} is not an async client of the anthropic SDK: pass an "
                    "AsyncAnthropic or a similar client"
                ),
            )
        self.client = cast("_Client", client).with_options(max_retries=0)
        self.takes_bytes = isinstance(client, anthropic.AsyncAnthropic)
        self.timeout_s = timeout_s

    @property
    def base_url(self) -> str:
        return str(self.client.base_url)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> _Exchange:
        return _Exchange(self, path, body, headers)

    def get(self, path: str, headers: Mapping[str, str]) -> _Exchange:
        return _Exchange(self, path, None, headers)

    async def aclose(self) -> None:
        """Do nothing: the caller owns the client."""


class _Exchange:
    """An exchange, both as the context of `Connection.post` or `get` and as the reply it
    returns.
    """

    def __init__(
        self, connection: SdkConnection, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._host = connection.client.base_url.host
        if real_requests.refused:
            real_requests.check(self._host)
        self._path = path
        self._body = body
        self._headers = headers
        self._silence = ReadTimeout(connection.timeout_s, anyio.current_time)
        self._response: httpx2.Response
        self._pieces: AsyncGenerator[bytes, None]
        self._reframed = False
        """True if the body has a different format than the response's headers state."""

    async def __aenter__(self) -> Self:
        import anthropic  # noqa: PLC0415  it is imported already

        try:
            self._response, self._pieces = await self._in_time(self._ask())
        except anthropic.APIStatusError as error:
            # the SDK raises for such responses, after reading them completely
            self._response, self._pieces = error.response, _single(error.response.content)
        return self

    async def _ask(self) -> tuple[httpx2.Response, AsyncGenerator[bytes, None]]:
        import anthropic  # noqa: PLC0415  see above
        import httpx2  # noqa: PLC0415  comes with it

        options = {
            "headers": {"content-type": "application/json", **self._headers},
            "follow_redirects": False,
        }
        client, streaming = (
            self._connection.client,
            {"stream": True, "stream_cls": anthropic.AsyncStream[object], "options": options},
        )
        if self._body is None:
            response = await client.get(self._path, cast_to=httpx2.Response, **streaming)
            return response, response.aiter_bytes()
        post = client.post
        if self._connection.takes_bytes:
            response = await post(
                self._path, content=self._body, cast_to=httpx2.Response, **streaming
            )
            return response, response.aiter_bytes()
        fields: dict[str, object] = json.loads(self._body)
        if not fields.get("stream"):
            response = await post(self._path, body=fields, cast_to=httpx2.Response, **streaming)
            return response, response.aiter_bytes()
        self._reframed = True
        stream = await post(self._path, body=fields, cast_to=object, **streaming)
        return stream.response, _as_server_sent(stream)

    async def _in_time(self, work: Awaitable[_T]) -> _T:
        import anthropic  # noqa: PLC0415  see above
        import httpx2  # noqa: PLC0415  comes with it

        self._silence.begin()
        try:
            with anyio.move_on_after(self._silence.left_s()):
                return await work
        except anthropic.APIStatusError:
            raise
        except (
            anthropic.AnthropicError,
            httpx2.HTTPError,
            httpx2.StreamError,
            OSError,
            TypeError,
            ValueError,
            RuntimeError,
        ) as error:
            raise _translated(error, self._host) from error
        finally:
            self._silence.pause()
        raise AgentError("timeout", f"{self._host} sent nothing for {self._silence.limit_s:g} s")

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        headers = self._response.headers
        if self._reframed and self.status == 200:
            return {**headers, "content-type": "text/event-stream"}
        return headers

    async def read(self) -> bytes:
        return await self._in_time(anext(self._pieces, b""))

    def heard(self) -> None:
        self._silence.broken()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import httpx2  # noqa: PLC0415  it is imported already

        try:
            with (
                anyio.move_on_after(GRACE_S),
                suppress(httpx2.HTTPError, httpx2.StreamError, OSError),
            ):
                # the connection is reusable only after the end of the response
                while error is None and await anext(self._pieces, b""):
                    pass
        finally:
            with anyio.move_on_after(GRACE_S, shield=True), suppress(httpx2.HTTPError, OSError):
                await self._pieces.aclose()
                await self._response.aclose()


async def _single(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _as_server_sent(stream: anthropic.AsyncStream[object]) -> AsyncGenerator[bytes, None]:
    """Yield events that the SDK decoded from a cloud's framing as server-sent events."""
    import anthropic  # noqa: PLC0415  it is imported already

    try:
        async for event in stream:
            yield b"data: " + encode_json(event) + b"\n\n"
    except anthropic.APIStatusError as error:  # type of an `error` event
        yield b"data: " + encode_json(error.body) + b"\n\n"


def _translated(error: Exception, host: str) -> AgentError:
    """Translate errors of the SDK and its HTTP library. A disconnection within a response raises
    the library's own error.
    """
    import anthropic  # noqa: PLC0415  it is imported already
    import httpx2  # noqa: PLC0415  comes with it

    cause = error.__cause__ or error
    match error:
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return AgentError("timeout", f"no response from {host} within the client's timeout")
        case anthropic.APIConnectionError() if "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return AgentError(
                "invalid",
                (
                    f"the certificate of {host} is not trusted. For a private authority, set "
                    "SSL_CERT_FILE to its certificate"
                ),
            )
        case anthropic.APIConnectionError() if isinstance(cause, httpx2.ConnectError):
            return AgentError("network", f"cannot connect to {host}: {cause}")
        case anthropic.APIConnectionError():
            return AgentError(
                "network",
                f"{host} closed the connection before it answered ({type(cause).__name__})",
            )
        case (
            anthropic.APIResponseValidationError()
            | httpx2.HTTPError()
            | httpx2.StreamError()
            | OSError()
        ):
            return AgentError(
                "network",
                (f"the connection to {host} was lost during the response ({type(error).__name__})"),
            )
        case json.JSONDecodeError():
            return AgentError("network", f"{host} sent an event that is not JSON")
        # a TypeError means that there are no credentials
        case anthropic.AnthropicError() | TypeError():
            return AgentError("auth", f"the SDK's client cannot identify itself to {host}: {error}")
        case _:
            return AgentError("invalid", f"the SDK's client cannot send to {host}: {error}")
