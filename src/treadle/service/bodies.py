"""Validation of request bodies: JSON, bounded in size and depth, with text that every database
accepts.

Bodies are checked before they reach a route. Entry points: `read_body`, `Text`, `RequestModel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, cast

import anyio
import msgspec
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.types import Receive

from treadle.service.problems import HttpProblem

DEPTH_MOST: Final = 32
BODY_S: Final = 30.0
"""Maximum time to receive a body, in seconds."""

NO_NUL: Final = r"^[^\x00]*$"
Text = Annotated[str, StringConstraints(pattern=NO_NUL)]
"""Text without NUL, as the schema states; lone surrogates are rejected with the body."""


class RequestModel(BaseModel):
    """Base class of request bodies. Unknown fields are rejected, and values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


async def read_body(headers: Mapping[str, list[str]], receive: Receive, most: int) -> bytes:
    """Receive and validate the whole body.

    Raises Problem (400, 408, 413, 415, 422), or EOFError if the client disconnects.
    """
    _check_headers(headers, most)
    with anyio.move_on_after(BODY_S) as late:
        body = await _received(receive, most)
        if body:
            _check_type(headers)
            _check_json(body)
        return body
    assert late.cancelled_caught, "it came, or it did not"
    raise HttpProblem(
        408,
        f"The body did not arrive within {BODY_S:.0f} seconds.",
        headers={"Connection": "close"},
    )


def _check_headers(headers: Mapping[str, list[str]], most: int) -> None:
    if any(one.strip().lower() != "identity" for one in headers.get("content-encoding", [])):
        raise HttpProblem(
            415,
            "Content-Encoding is not supported: send the body uncompressed.",
            headers={"Connection": "close"},
        )
    for length in headers.get("content-length", []):
        if not length.isdigit():
            raise HttpProblem(
                400, "The Content-Length is not a number.", headers={"Connection": "close"}
            )
        if len(length) > 18 or int(length) > most:
            raise _too_large(most)


def _check_type(headers: Mapping[str, list[str]]) -> None:
    kinds = headers.get("content-type", [])
    kind, _, parameter = (kinds[0] if len(kinds) == 1 else "").partition(";")
    charset = parameter.strip().lower().replace('"', "")
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise HttpProblem(
            415, "The body must be JSON in UTF-8: send it as `Content-Type: application/json`."
        )


async def _received(receive: Receive, most: int) -> bytes:
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise EOFError
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise _too_large(most)
        pieces.append(piece)
        more = message.get("more_body", False)
    return b"".join(pieces)


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(
        413, f"The body is larger than {most} bytes.", headers={"Connection": "close"}
    )


def _check_json(body: bytes) -> None:
    try:
        value: Any = msgspec.json.decode(body)
    except RecursionError as e:
        raise _too_deep() from e
    except (msgspec.DecodeError, ValueError) as e:  # also for invalid UTF-8
        raise HttpProblem(
            422, "The body is not valid JSON in UTF-8, or contains a lone surrogate."
        ) from e
    # Inspect the whole body only if it may contain NUL or nest too deeply, both of which are rare.
    if b"\\u0000" in body or body.count(b"[") + body.count(b"{") > DEPTH_MOST:
        _check_inside(value)


def _check_inside(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(DEPTH_MOST):
        inside = [one for outer in level for one in _inside(outer)]
        if any(isinstance(one, str) and "\0" in one for one in inside):
            raise HttpProblem(422, "The body contains a NUL character, which is not allowed.")
        level = [one for one in inside if isinstance(one, dict | list)]
        if not level:
            return
    raise _too_deep()


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return (*held, *held.values())
    return cast("list[Any]", value) if isinstance(value, list) else (value,)


def _too_deep() -> HttpProblem:
    return HttpProblem(422, f"The body is nested deeper than {DEPTH_MOST} levels.")
