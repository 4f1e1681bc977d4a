"""Headers of one run: validated, and sent with its requests to one provider.

registry.py makes the run's models with them. Entry points: `RunHeaders`, `HeaderedConnection`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, cast

from treadle._internal.redaction import Secret
from treadle.errors import AgentError
from treadle.models.providers.connection import Connection, HttpReply, joined

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CREDENTIALS: Final = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key"}
)
_OURS: Final = frozenset(
    {
        *("host", "connection", "content-length", "content-type", "content-encoding", "accept"),
        *("accept-encoding", "transfer-encoding", "te", "trailer", "upgrade", "expect"),
    }
)
_LIKE: Final = "like headers={'x-tenant': 'acme'}"


class RunHeaders(NamedTuple):
    """Headers of one run."""

    provider: str
    """Name of the only provider that receives them."""
    values: Mapping[str, Secret]
    """Values by name, in lower case."""

    @classmethod
    def of(cls, provider: str, given: object) -> RunHeaders | None:
        """Validate the headers of a run; None if there are none. Raises AgentError(invalid), whose
        message contains no value.
        """
        if not isinstance(given, Mapping):
            raise AgentError(
                "invalid", f"headers= is a {type(given).__name__}: pass texts by name, {_LIKE}"
            )
        values = dict[str, Secret]()
        for name, value in cast("Mapping[object, object]", given).items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise AgentError(
                    "invalid", f"headers= has a name that is not valid in HTTP: {name!r}; {_LIKE}"
                )
            values[name.lower()] = _checked(name, value)
        return cls(provider, values) if values else None

    @property
    def plain(self) -> dict[str, str]:
        return {name: value.reveal() for name, value in self.values.items()}


def _checked(name: str, value: object) -> Secret:
    low = name.lower()
    if low in _CREDENTIALS:
        raise AgentError(
            "invalid",
            f"headers= cannot contain {name!r}, which carries the provider's key: set the key or "
            "a token with Provider(api_key=…) or Provider(token=…)",
        )
    if low in _OURS:
        raise AgentError("invalid", f"headers= cannot contain {name!r}, which Treadle sets itself")
    text = value.reveal() if isinstance(value, Secret) else value
    if not isinstance(text, str):
        raise AgentError(
            "invalid",
            f"headers={{{name!r}: …}} is a {type(text).__name__}: pass a str, or a Secret from "
            "treadle.config",
        )
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise AgentError(
            "invalid",
            f"headers={{{name!r}: …}} contains a line break, a character that is not printable "
            "ASCII, or a space at its start or end: encode the value",
        )
    return Secret(text)


class HeaderedConnection:
    """Connection of a run: another connection, whose requests carry the run's headers."""

    def __init__(self, inner: Connection, headers: RunHeaders) -> None:
        self._inner, self._headers = inner, headers.plain

    @property
    def base_url(self) -> str:
        return self._inner.base_url

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpReply]:
        return self._inner.post(path, body, joined(headers, self._headers))

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpReply]:
        return self._inner.get(path, joined(headers, self._headers))

    async def aclose(self) -> None:
        await self._inner.aclose()
