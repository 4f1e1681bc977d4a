"""Credentials of a request: a key or a token, validated before it is sent as a header.

Each wire builds its own headers. Entry points: `Identity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from treadle.errors import AgentError

JSON_HEADERS: Mapping[str, str] = {
    "content-type": "application/json",
    "accept": "text/event-stream, application/json",
}
"""Headers of every request."""


class Identity(NamedTuple):
    """Credentials. `secret` is empty for a custom server that needs none."""

    secret: str
    is_key: bool
    """True for an API key, False for a bearer token."""

    @classmethod
    def of(
        cls,
        vendor: str,
        sources: tuple[str, str],
        *,
        api_key: str | None,
        auth_token: str | None,
        base_url: str | None,
    ) -> Identity:
        """Validate a key or token. `sources`: origins of key and token, for error messages.

        Raises AgentError(auth) if the vendor's own server would get no credentials, or they are not
        valid in a header.
        """
        secret = (api_key or auth_token or "").strip()
        if not secret and base_url is None:
            raise AgentError("auth", f"no key for {vendor}. Set {sources[0]}")
        if not secret.isascii() or not secret.isprintable() or " " in secret:
            raise AgentError(
                "auth",
                (
                    "the key contains invalid characters, such as a space or a line break. "
                    f"Check {sources[not api_key]}"
                ),
            )
        return cls(secret, bool(api_key))

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"} if self.secret else {}


def in_lower_case(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return a gateway's headers with lower-case names. They override ours."""
    return {name.lower(): value for name, value in (headers or {}).items()}
