"""Errors on our side of a connection, as JSON-RPC errors, the only form that the SDK passes on.
Entry points: `Unreachable`, `own_error`, `read_own`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

CODE = -32801
_OURS = secrets.token_hex(8)
"""Marker of this process, which prevents servers from forging our errors."""


class Unreachable(Exception):
    """Raised when a server is currently unusable. Nothing was run.

    The message is complete: the server, the reason and the next step.
    """


class OwnError(NamedTuple):
    text: str
    happened: bool | None
    """False: the request certainly did not arrive. None: unknown."""
    retire: bool
    """True if the connection can no longer be used."""


def own_error(text: str, *, happened: bool | None = None, retire: bool = False) -> dict[str, Any]:
    """Return the members of a JSON-RPC error."""
    return {"code": CODE, "message": text, "data": {_OURS: [happened, retire]}}


def read_own(code: int, message: str, data: object) -> OwnError | None:
    """Decode our own error from a JSON-RPC error; None if the server sent it."""
    said = (
        cast("Mapping[str, Any]", data).get(_OURS)
        if code == CODE and isinstance(data, Mapping)
        else None
    )
    return None if said is None else OwnError(message, said[0], said[1])
