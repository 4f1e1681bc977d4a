"""A conversation as text, and conversations as rows. Entry points: `as_row`, `heading`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import one_line, wrapped
from treadle._internal.units import ago, count, local
from treadle.cli.terminal import Ink, Style, width
from treadle.journal.sessions import SessionInfo
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

RESULT_LINES = 4


def as_row(info: SessionInfo, secrets: Redactor) -> dict[str, Any]:
    return {
        "session_id": info.id,
        **{name: value for name, value in asdict(info).items() if name != "id"},
        "title": secrets.shortened(info.title),
    }


def shown_title(title: str, secrets: Redactor) -> str:
    return one_line(secrets.text(secrets.shortened(title)))


def cells(info: SessionInfo, secrets: Redactor) -> list[str]:
    return [
        one_line(info.id),
        ago(info.updated_at, datetime.now(UTC)),
        str(info.message_count),
        shown_title(info.title, secrets),
    ]


def style(column: int, _: str) -> Style:
    return ("cyan", "dim", "", "")[column]


def heading(
    info: SessionInfo, messages: int, left: int, clean: Callable[[str], str], ink: Ink
) -> Iterator[str]:
    yield f"{ink(one_line(clean(info.title)), 'bold')}  {ink(one_line(info.id), 'cyan')}"
    yield ink(
        (
            f"{count(messages, 'message')}, began {local(info.created_at)}, changed "
            f"{local(info.updated_at)}"
        ),
        "dim",
    )
    if left:
        yield ink(
            (
                f"{count(left, 'older message')} left the view: treadle sessions export "
                f"{one_line(info.id)}"
            ),
            "dim",
        )


def said(
    message: Message, clean: Callable[[str], str], ink: Ink, *, verbose: bool
) -> Iterator[str]:
    yield ""
    for part in message.parts:
        for first, further, text, style in shown_message(
            part, message.role, clean, verbose=verbose
        ):
            for n, line in enumerate(wrapped(text, width() - len(first))):
                yield (further if n else first) + ink(line, style)


def shown_message(
    part: Part, role: str, clean: Callable[[str], str], *, verbose: bool
) -> Iterator[tuple[str, str, str, Style]]:
    """Yield the lines of a message part: indent of the first line, indent of further lines, text
    and style.
    """
    match part:
        case TextPart():
            mark = "> " if role == "user" else "  "
            yield mark, mark, clean(part.text).strip("\n"), "bold" if role == "user" else ""
        case ReasoningPart():
            if verbose:
                yield "  ", "  ", clean(part.text).strip(), "dim"
        case ToolCall():
            yield "  ", "    ", one_line(clean(f"• {part.name} {part.arguments_json}"), 400), "cyan"
        case ToolResult():
            lines = clean(part.text).strip().splitlines()
            kept = lines if verbose else lines[:RESULT_LINES]
            more = (
                [f"… {count(len(lines) - len(kept), 'more line')}"]
                if len(lines) > len(kept)
                else []
            )
            mark = "?" if part.unknown else "✗" if part.failed else "✓"
            exited = (
                [f"{mark} exit {part.exit_code}", *kept]
                if part.exit_code
                else [f"{mark} {kept[0] if kept else ''}", *kept[1:]]
            )
            yield "  ", "    ", "\n".join([*exited, *more]), "red" if part.failed else "dim"
        case MediaPart():
            yield "  ", "  ", one_line(clean(f"[{part.name or part.media_type}]")), "dim"
        case _:
            return
