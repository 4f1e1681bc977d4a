"""Log lines of events: name, level and fields.

logs.py writes them. Entry point: `line_of`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from treadle._internal.log_masking import without_secrets
from treadle.messages.events import DELTAS, ErrorRaised, Event, LimitWarning, Retry, Warned

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

CONTENT: Final = frozenset(
    {"text", "arguments", "result", "message", "output", "value", "receipt", "reason"}
)
"""Fields of events with content from people, models and tools. Warnings and errors are exempt."""
SAID_MAX = 8_192
"""Maximum length of a text in a line, in characters."""


@dataclass(slots=True)
class LogLine:
    event: str
    level: Level
    fields: dict[str, Any]


def line_of(event: Event, *, content: bool) -> LogLine:
    """Return the log line of an event, with known and likely secrets masked.

    Without `content`, each text is replaced by its length: `text` becomes `text_chars`.
    """
    fields: dict[str, Any] = msgspec.to_builtins(event)
    name = str(fields.pop("type"))
    told = {
        "at": fields.pop("at"),
        **{key: value for key, value in fields.items() if value is not None},
    }
    if not content and not isinstance(event, (Warned, ErrorRaised)):
        told = dict(
            _measured(key, value) if key in CONTENT else (key, value) for key, value in told.items()
        )
    return LogLine(name, _level(event), _clean(told))


def line_of_record(record: logging.LogRecord) -> LogLine:
    """Return the log line of a record of the library's logger. The record's secrets are already
    masked.
    """
    at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
    fields: dict[str, Any] = {"at": at, "logger": record.name}
    if record.exc_text:
        fields["exception"] = record.exc_text
    level: Level = (
        "error"
        if record.levelno >= logging.ERROR
        else "warning"
        if record.levelno >= logging.WARNING
        else "info"
    )
    return LogLine(
        record.getMessage(), level if record.levelno >= logging.INFO else "debug", fields
    )


def missed(count: int) -> LogLine:
    """Return a log line that reports `count` omitted lines."""
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return LogLine(
        "missed",
        "warning",
        {
            "at": at,
            "count": count,
            "why": "the sink of this log was too slow, or did not accept them",
        },
    )


def printable(
    logger: Any, method: str, fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escape control characters, for terminals. Has the type of a structlog processor."""
    return {
        key: repr(value)[1:-1] if isinstance(value, str) and not value.isprintable() else value
        for key, value in fields.items()
    }


def _level(event: Event) -> Level:
    if isinstance(event, ErrorRaised):
        return "error"
    return (
        "warning"
        if isinstance(event, (Warned, LimitWarning, Retry))
        else "debug"
        if isinstance(event, DELTAS)
        else "info"
    )


def _measured(key: str, value: object) -> tuple[str, object]:
    if key == "message" and isinstance(value, dict):
        return "message_id", cast("Mapping[str, object]", value).get("id")
    return f"{key}_chars", len(value if isinstance(value, str) else msgspec.json.encode(value))


def _clean(value: Any) -> Any:
    match value:
        case str():
            text = without_secrets(value)
            return text if len(text) <= SAID_MAX else f"{text[:SAID_MAX]}… ({len(text)} characters)"
        case dict():
            return {key: _clean(inner) for key, inner in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_clean(inner) for inner in cast("list[Any] | tuple[Any, ...]", value)]
        case _:
            return value
