"""`/export`: writes the conversation as Markdown or as JSON lines. Entry points: `export`,
`as_markdown`.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from treadle._internal.terminal_text import one_line, plain
from treadle._internal.units import count, local, size
from treadle.errors import AgentError
from treadle.journal.sessions import SessionInfo
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    encode_message,
)
from treadle.tui.confirm import confirm

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

JSON_ENDINGS: Final = (".json", ".jsonl")
NAME_CHARS: Final = 40


async def export(desk: Desk, rest: str) -> None:
    """Write the conversation to a file that only the user can read. Overwriting needs
    confirmation.
    """
    messages, info = await desk.conversation.messages(), desk.conversation.info()
    if info is None or not messages:
        raise AgentError("invalid", "this conversation is empty: there is nothing to export")
    path = _place(rest, desk.cwd, info)
    if path.suffix.lower() in JSON_ENDINGS:
        data = b"".join(encode_message(message) + b"\n" for message in messages)
    else:
        text = await to_thread.run_sync(as_markdown, info, messages)
        data = desk.conversation.runtime.redact(text).encode("utf-8", "replace")
    try:
        there = await to_thread.run_sync(_is_there, path)
        question = f"{one_line(str(path), 400)} already exists. Overwrite it?"
        if there and not await confirm(
            desk.screen, question, yes="Overwrite", no="Keep it", danger=True
        ):
            return
        await to_thread.run_sync(partial(_write, path, data, replace=there))
    except OSError as e:
        raise AgentError(
            "invalid", f"{one_line(str(path), 400)} cannot be written: {e.strerror or e}"
        ) from e
    desk.tell(
        f"{count(len(messages), 'message')} ({size(len(data))}) written to "
        f"{one_line(str(path), 400)}"
    )


def _place(given: str, cwd: Path, info: SessionInfo) -> Path:
    """Return the path of the export, by default derived from the title."""
    if not given:
        words = re.sub(r"[^a-z0-9]+", "-", info.title.lower()).strip("-")[:NAME_CHARS].strip("-")
        given = f"{words or 'conversation'}.md"
    return Path(os.path.normpath(cwd / os.path.expanduser(given)))


def _is_there(path: Path) -> bool:
    """Return True if the file exists. Raises AgentError(invalid) if the path is not a regular
    file.
    """
    if path.is_dir():
        raise AgentError("invalid", f"{one_line(str(path), 400)} is a directory: name a file in it")
    if os.path.lexists(path) and not path.is_file():
        raise AgentError(
            "invalid",
            f"{one_line(str(path), 400)} exists and is not a regular file: name another one",
        )
    return os.path.lexists(path)


def _write(path: Path, data: bytes, *, replace: bool) -> None:
    """Write the file atomically.

    Raises OSError, also if the file was created since the check.
    """
    path = Path(os.path.realpath(path)) if replace else path  # a link stays a link
    descriptor, temporary = tempfile.mkstemp(prefix=".export-", dir=path.parent)  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        if replace:
            os.replace(temporary, path)
            return
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# ---------------------------------------------------------------- Markdown


def as_markdown(info: SessionInfo, messages: Sequence[Message]) -> str:
    """Return the conversation with tool calls and results, without reasoning."""
    lines = [
        f"# {_literal(info.title)}",
        "",
        (
            f"{count(len(messages), 'message')}, {local(info.created_at)} to "
            f"{local(info.updated_at)}, `{info.id}`"
        ),
        "",
    ]
    said_by = ""
    for message in messages:
        head = (
            "Summary of earlier messages"
            if message.is_summary
            else {"user": "You", "assistant": "Agent"}.get(message.role, said_by)
        )
        if head != said_by:
            lines += [f"## {head}", ""]
            said_by = head
        for part in message.parts:
            lines += _written(part)
    return "\n".join(lines).rstrip() + "\n"


def _written(part: Part) -> Iterator[str]:
    match part:
        case TextPart():
            if text := _still(_clean(part.text).strip("\n")):
                yield from (text, "")
        case ToolCall():
            yield f"**{_literal(part.name)}**"
            yield from ("", *_fenced(_clean(part.arguments_json), "json"), "")
        case ToolResult():
            failure = (
                f" (exit {part.exit_code})"
                if part.exit_code
                else " (failed)"
                if part.is_error
                else ""
            )
            how = " (unknown whether it took effect)" if part.unknown else failure
            yield f"Result of **{_literal(part.name)}**{how}"
            yield from ("", *_fenced(_clean(part.text).strip("\n"), ""), "")
        case MediaPart():
            yield from (f"*{_literal(part.name or part.media_type)}*", "")
        case _:
            return


def _clean(text: str) -> str:
    return plain(text.replace("\r\n", "\n"))


_FENCE: Final = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_LOADS: Final = re.compile(r"!(?=\[)|<(?=[A-Za-z/!?])")
_PUNCTUATION: Final = re.compile(r"([\\`*_\[\]<>!#~|&])")


def _still(text: str) -> str:
    """Return Markdown without images and HTML, which would load data wherever it is read, and that
    is closed at its end.

    A text without them is unchanged. In others all but fenced code is escaped; if that is not
    enough, the whole text becomes a block of code.
    """
    if not (_LOADS.search(text) or "```" in text or "~~~" in text):
        return text
    for found in (text, _escaped(text)):
        if _is_still(found):
            return found
    return "\n".join(_fenced(text, ""))


def _is_still(text: str) -> bool:
    """Return True if readers with and without tables find no image and no HTML, whatever other
    texts define, and find that the text has ended.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415  only an export parses

    for reader in (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table")):
        blocks = reader.parse(f"{text}\n\nx")
        if [(block.content, block.level) for block in blocks[-2:-1]] != [("x", 1)]:
            return False
        for token in (inner for block in blocks for inner in (block, *(block.children or ()))):
            if token.type in ("image", "html_inline", "html_block"):
                return False
            if token.type == "text" and "![" in token.content:
                return False
    return True


def _escaped(text: str) -> str:
    """Return the text with entities outside of fenced code (a backslash may have one before it),
    and with its last fence closed.
    """
    lines, fence = list[str](), ""
    for line in text.split("\n"):
        if fence:
            end = line.strip(" \t")
            is_closed = end.startswith(fence) and not end.strip(fence[0])
            fence = "" if is_closed and len(line) - len(line.lstrip(" ")) < 4 else fence
        else:
            found = _FENCE.fullmatch(line)
            fence = "" if found is None else found[1] or found[2]
            line = line if fence else _LOADS.sub(_entity, line)
        lines.append(line)
    return "\n".join([*lines, *([fence] if fence else [])])


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def _literal(text: str) -> str:
    """Return a line of text in which nothing is markup."""
    return _PUNCTUATION.sub(r"\\\1", one_line(text, 200))


def _fenced(text: str, language: str) -> list[str]:
    """Return the text in a fence longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return [fence + language, text, fence]
