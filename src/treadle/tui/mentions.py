"""Files that a person names in what they say, like `@src/app.py:10-20`: they go along with it.
Entry: `parts_of`.

Which names are offered while one types is suggestions.py's; a file as a part of a prompt is
attachments.py's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from treadle._internal.terminal_text import one_line
from treadle._internal.units import count, size
from treadle.errors import AgentError
from treadle.messages.attachments import as_text, attachment, content, media_type
from treadle.messages.message import Part, TextPart

TEXT_BYTES_MAX: Final = 200_000
"""What is larger is only named: the model reads the parts that it needs."""
NAMES_MAX: Final = 500
"""Of a directory."""
_MENTION: Final = re.compile(r'(?<![\w@./\\)\]-])@(?:"([^"\n]+)"(?::(\d+(?:-\d+)?))?|([^\s"@]+))')
"""Not where it stands behind a word, as in an address."""
_LINES: Final = re.compile(r"(.+?):(\d+(?:-\d+)?)")
_AFTER: Final = ".,;:!?)]}>'\u2026"
"""What may follow a path in a sentence."""


class _Mention(NamedTuple):
    path: Path
    said: str
    lines: tuple[int, int] | None
    """From and to, both included, counted from 1."""


def parts_of(text: str, cwd: Path) -> tuple[list[Part], list[str]]:
    """The prompt with what it names before it, each once, and what is to be told of that. Reads
    files: call it in a thread. Raises nothing.

    What does not exist, an address and a decorator stay what they are: text.
    """
    parts, notices = list[Part](), list[str]()
    for mention in dict.fromkeys(_mentions(text, cwd)):
        try:
            parts.append(_attached(mention, cwd))
        except AgentError as e:
            notices.append(one_line(e.message, 300))
    return [*parts, TextPart(text=text)], notices


def _mentions(text: str, cwd: Path) -> Iterator[_Mention]:
    for found in _MENTION.finditer(text):
        quoted, lines, bare = found.groups()
        mention = _existing(quoted, lines, cwd) if quoted is not None else _bare(bare, cwd)
        if mention is not None:
            yield mention


def _bare(said: str, cwd: Path) -> _Mention | None:
    """As it stands, or without what follows it in the sentence."""
    while said:
        if (mention := _existing(said, None, cwd)) is not None:
            return mention
        ranged = _LINES.fullmatch(said)
        if ranged is not None and (mention := _existing(ranged[1], ranged[2], cwd)) is not None:
            return mention
        if said[-1] not in _AFTER:
            return None
        said = said[:-1]
    return None


def _existing(said: str, lines: str | None, cwd: Path) -> _Mention | None:
    try:
        path = cwd / os.path.expanduser(said)
        if "\x00" in said or not path.exists():
            return None
    except (OSError, ValueError):  # too long for a name, say
        return None
    first, _, last = (lines or "").partition("-")
    return _Mention(path, said, (int(first), int(last or first)) if first else None)


def _attached(mention: _Mention, cwd: Path) -> Part:
    """Raises AgentError for what cannot go along."""
    path, named = mention.path, f"@{mention.said}"
    if path.is_dir():
        return _listing(path, named)
    if media_type(path) is not None:
        return attachment(path, named=named)
    if (
        mention.lines is None
        and path.is_file()
        and (there_are := path.stat().st_size) > TEXT_BYTES_MAX
    ):
        raise AgentError(
            "invalid",
            (
                f"{named} has {size(there_are)}: it is only named, not attached. Name some lines "
                "of "
                f"it, like {named}:1-200"
            ),
        )
    data = content(path, named)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise AgentError(
            "invalid",
            f"{named} is neither an image, a PDF nor UTF-8 text: it is only named, not attached",
        ) from None
    return as_text(mention.said, text) if mention.lines is None else _some(mention, text)


def _some(mention: _Mention, text: str) -> Part:
    assert mention.lines is not None, "asked for"
    lines, (first, last) = text.splitlines(), mention.lines
    chosen = "\n".join(lines[max(first - 1, 0) : last])
    if not chosen:
        raise AgentError(
            "invalid",
            (
                f"@{mention.said} has {count(len(lines), 'line')}, so none from {first} to {last}: "
                "it is only named, not attached"
            ),
        )
    if len(chosen.encode()) > TEXT_BYTES_MAX:
        raise AgentError(
            "invalid",
            (
                f"lines {first} to {last} of @{mention.said} have more than "
                f"{size(TEXT_BYTES_MAX)}: "
                "they are not attached. Name fewer"
            ),
        )
    return as_text(mention.said, chosen, lines=f"{first}-{min(last, len(lines))}")


def _listing(path: Path, named: str) -> Part:
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)
    except OSError as e:
        raise AgentError("invalid", f"{named} cannot be read: {e.strerror or e}") from e
    more = [f"… and {len(names) - NAMES_MAX} more"] if len(names) > NAMES_MAX else []
    shown = "\n".join(
        name.encode("utf-8", "replace").decode() for name in (*names[:NAMES_MAX], *more)
    )
    return TextPart(text=f"<directory path={named[1:]!r}>\n{shown}\n</directory>")
