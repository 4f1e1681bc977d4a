"""Who asks: a key or a token, checked before it goes into a header.

What headers a wire makes of it is the wire's. Entry: `Identity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from treadle.errors import AgentError

JSON_HEADERS: Mapping[str, str] = {
    "content-type": "application/json",
    "accept": "text/event-stream, application/json",
}
"""Of every question that a wire asks."""


class Identity(NamedTuple):
    """`secret` is "" where a server of its own wants none."""

    secret: str
    is_key: bool
    """False: a bearer token."""

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
        """`sources`: where a key and a token come from, as an error tells it.

        Raises AgentError(auth) where the vendor itself is asked with nothing, or it is nothing that
        a header can hold.
        """
        secret = (api_key or auth_token or "").strip()
        if not secret and base_url is None:
            raise AgentError("auth", f"there is no key for {vendor}. Set {sources[0]}")
        if not secret.isascii() or not secret.isprintable() or " " in secret:
            raise AgentError(
                "auth",
                (
                    "the key holds characters that no key has, such as a space or a line break. "
                    f"Check {sources[not api_key]}"
                ),
            )
        return cls(secret, bool(api_key))

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"} if self.secret else {}


def in_lower_case(headers: Mapping[str, str] | None) -> dict[str, str]:
    """A gateway's headers, which go over ours of the same name."""
    return {name.lower(): value for name, value in (headers or {}).items()}
