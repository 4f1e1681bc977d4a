"""Questions of a server to the user during a call (elicitation), and their routing. If no user is
available, servers are informed of that.

connection.py makes the calls. Entry points: `ServerQuestion`, `Ask`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from treadle.tools.mcp.words import plain

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

MOST = 10
"""Maximum number of questions of one call. Further ones are declined."""
_WORDS = 4_000
_URL_CHARS = 2_000


class ServerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Question from the server, unverified."""

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer: an object with primitive values. None if the user is to open a
    page.
    """
    url: str | None = None
    """URL (http or https) that the user is asked to open. Treadle does not open it."""
    tool: str | None = None
    """Name of the server's tool, with the run and the call that the question belongs to. None if
    several calls are in progress and the server does not identify one.
    """
    run_id: str | None = None
    call_id: str | None = None


Ask: TypeAlias = Callable[[ServerQuestion], Awaitable[Mapping[str, Any] | None]]
"""Callback that asks the user. Returns the answer (`{}` once a page was opened), or None to
decline.

An exception also declines.
"""


def question_of(server: str, params: ElicitRequestParams) -> ServerQuestion | None:
    """Return the question. None if it must not be shown: a URL with a scheme other than http and
    https, with a user name (which can imitate a host), or with invalid characters.
    """
    from mcp_types import ElicitRequestURLParams  # noqa: PLC0415  costs the SDK, which only a connection needs

    message = plain(params.message, _WORDS)
    if not isinstance(params, ElicitRequestURLParams):
        return ServerQuestion(server=server, message=message, schema=params.requested_schema)
    return (
        ServerQuestion(server=server, message=message, url=params.url)
        if _can_be_opened(params.url)
        else None
    )


def _can_be_opened(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
        and len(url) <= _URL_CHARS
        and url.isprintable()
        and not set(url) & set(" \"'`<>\\^{|}$")
    )


def answer_of(content: Mapping[str, Any] | None) -> ElicitResult:
    """Convert the user's answer. Anything that the protocol does not allow declines."""
    from mcp_types import ElicitResult  # noqa: PLC0415  as above
    from pydantic import ValidationError  # noqa: PLC0415  as above

    if content is None:
        return ElicitResult(action="decline")
    try:
        return ElicitResult(action="accept", content=dict(content) or None)
    except ValidationError:
        return ElicitResult(action="decline")
