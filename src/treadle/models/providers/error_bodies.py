"""Bodies of error responses, in the formats of providers, gateways and local servers, which mix
each other's. Entry point: `read_error`.

refusals.py classifies them. Source: as there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class ErrorBody(msgspec.Struct, frozen=True):
    """Fields found in the body of an error."""

    words: tuple[str, ...] = ()
    """Error codes and types, the most specific first."""
    message: str = ""
    request_id: str | None = None
    status: int = 0
    """Status in the body; 0 if there is none."""
    retry_after_s: float | None = None


def read_error(body: bytes) -> ErrorBody:
    """Read an error in any known format; empty for other bodies."""
    try:
        document: object = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return ErrorBody()
    while isinstance(document, list) and document:  # Gemini's, where it was asked for a stream
        document = cast("list[object]", document)[0]
    if not isinstance(document, dict):
        return ErrorBody()
    outer = cast("dict[str, Any]", document)
    inner = _error_in(outer)
    details = [
        cast("dict[str, Any]", detail)
        for detail in _list(inner.get("details"))
        if isinstance(detail, dict)
    ]
    named = [
        inner.get("code"),
        *(detail.get("reason") for detail in details),
        inner.get("status"),
        inner.get("type"),
    ]
    codes = [
        int(code)
        for code in (inner.get("code"), inner.get("status"))
        if isinstance(code, int) or (isinstance(code, str) and code.isdecimal())
    ]
    waits = [_SECONDS.fullmatch(str(detail.get("retryDelay"))) for detail in details]
    return ErrorBody(
        words=tuple(
            word for word in named if isinstance(word, str) and word and not word.isdecimal()
        ),
        message=_message(inner, outer),
        request_id=next(_texts(outer.get("request_id")), None),
        status=next((code for code in codes if 400 <= code < 600), 0),
        retry_after_s=next((float(wait[1]) for wait in waits if wait), None),
    )


def _message(inner: dict[str, Any], outer: dict[str, Any]) -> str:
    nested: object = inner.get("message")
    deeper: object = (
        cast("dict[str, Any]", nested).get("detail") if isinstance(nested, dict) else None
    )
    detail: object = inner.get("detail")
    words = next(
        _texts(
            cast("object", nested),
            detail,
            outer.get("message"),
            _wrong_fields(detail),
            _wrong_fields(deeper),
        ),
        "",
    )
    metadata: object = inner.get("metadata")
    # OpenRouter: the original error of the provider
    behind: object = (
        cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    )
    return f"{words}: {behind}" if isinstance(behind, str) and behind else words


def _wrong_fields(details: object) -> str:
    """Format pydantic's validation errors, as FastAPI and Mistral return them."""
    wrong = [
        cast("dict[str, Any]", detail) for detail in _list(details) if isinstance(detail, dict)
    ]
    return "; ".join(
        f"{'.'.join(map(str, _list(detail.get('loc'))))}: {detail.get('msg')}" for detail in wrong
    )


def _error_in(outer: dict[str, Any]) -> dict[str, Any]:
    response = outer.get("response")
    error = outer.get("error") or (
        cast("dict[str, Any]", response).get("error") if isinstance(response, dict) else None
    )
    if isinstance(error, str):
        return {"message": error}
    if isinstance(error, dict):
        return cast("dict[str, Any]", error)
    return {name: value for name, value in outer.items() if name != "type" or value != "error"}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _texts(*values: object) -> Iterator[str]:
    return (value for value in values if isinstance(value, str) and value)
