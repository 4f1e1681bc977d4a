"""File mentions in a prompt, such as `@src/app.py:10-20`, and their contents as parts. Entry
points: `mentions_of`, `parts_of`.

mention_approval.py decides which of them may be read, suggestions.py offers names, and
attachments.py builds the parts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from treadle._internal.terminal_text import one_line, revealed, revealed_line
from treadle._internal.units import count, size
from treadle.errors import AgentError
from treadle.messages.attachments import as_text, attachment, content, media_type
from treadle.messages.message import Part, TextPart

TEXT_BYTES_MAX: Final = 200_000
"""Maximum size of an attached text. A larger file is only named, and the model reads what it needs.
"""
NAMES_MAX: Final = 500
"""Maximum entries listed of a directory."""
MENTIONS_MAX: Final = 50
"""Maximum attachments of one prompt."""
_RANGE: Final = r":(\d{1,9}(?:-\d{1,9})?)(?!\d)"
_MENTION: Final = re.compile(rf'(?<![\w@./\\)\]-])@(?:"([^"\n]+)"(?:{_RANGE})?|([^\s"@]+))')
"""Pattern of a mention. Does not match after a word, as in an e-mail address."""
_LINES: Final = re.compile(rf"(.+?){_RANGE}")
PATH_CHARS_MAX: Final = 4_096
"""Maximum length of a mentioned path, as on Linux."""
_AFTER_MAX: Final = 8
"""Maximum number of characters that follow a path without a blank. Each one takes another check for
a file.
"""
_AFTER: Final = ".,;:!?)]}>'\u2026"
"""Characters that may follow a path in a sentence."""


class Mention(NamedTuple):
    path: Path
    """Resolved path of the file to read."""
    said: str
    lines: tuple[int, int] | None
    """First and last line, inclusive, counted from 1."""


def mentions_of(text: str, cwd: Path) -> list[Mention]:
    """Return the existing files and directories that a prompt mentions, each once, in order. Checks
    their existence and reads no content. Never raises.

    Names that do not exist, e-mail addresses and decorators stay text.
    """
    return [*dict.fromkeys(_mentions(text, cwd))]


class Prompt(NamedTuple):
    parts: list[Part]
    """Attachments, then the text."""
    attached: list[str]
    """Display names of the attachments."""
    notices: list[str]
    """One notice per mention that cannot be attached."""


def parts_of(text: str, mentions: Iterable[Mention]) -> Prompt:
    """Return the prompt preceded by the contents of its mentions. Reads files, so call it in a
    thread. Never raises.
    """
    parts, attached, notices = list[Part](), list[str](), list[str]()
    for mention in mentions:
        try:
            parts.append(_attached(mention))
            attached.append(shown_mention(mention))
        except AgentError as e:
            notices.append(one_line(e.message, 300))
    return Prompt([*parts, TextPart(text=text)], attached, notices)


def shown_mention(mention: Mention) -> str:
    """Return the mention with unusual characters escaped."""
    lines = "" if mention.lines is None else f":{mention.lines[0]}-{mention.lines[1]}"
    return f"@{revealed(mention.said)}{lines}"


def _mentions(text: str, cwd: Path) -> Iterator[Mention]:
    for found in _MENTION.finditer(text):
        quoted, lines, bare = found.groups()
        mention = _existing(quoted, lines, cwd) if quoted is not None else _bare(bare, cwd)
        if mention is not None:
            yield mention


def _bare(said: str, cwd: Path) -> Mention | None:
    """Resolve an unquoted mention, with or without the punctuation that follows it."""
    if len(said) > PATH_CHARS_MAX:
        return None
    for _ in range(_AFTER_MAX + 1):
        if not said:
            return None
        if (mention := _existing(said, None, cwd)) is not None:
            return mention
        ranged = _LINES.fullmatch(said)
        if ranged is not None and (mention := _existing(ranged[1], ranged[2], cwd)) is not None:
            return mention
        if said[-1] not in _AFTER:
            return None
        said = said[:-1]
    return None


def _existing(said: str, lines: str | None, cwd: Path) -> Mention | None:
    try:
        path = cwd / os.path.expanduser(said)
        if "\x00" in said or not path.exists():
            return None
    except (OSError, ValueError):  # for example, the name is too long
        return None
    first, _, last = (lines or "").partition("-")
    return Mention(path, said, (int(first), int(last or first)) if first else None)


def _attached(mention: Mention) -> Part:
    """Return the content of a mention. Raises AgentError if it cannot be attached."""
    path, named = mention.path, f"@{mention.said}"
    if path.is_dir():
        return _listing(path, named)
    if media_type(path) is not None:
        return attachment(path, named=named, in_place=True)
    if (
        mention.lines is None
        and path.is_file()
        and (there_are := path.stat().st_size) > TEXT_BYTES_MAX
    ):
        raise AgentError(
            "invalid",
            (
                f"{named} has {size(there_are)}: it is only named, not attached. Name some lines "
                f"of it, like {named}:1-200"
            ),
        )
    data = content(path, named, in_place=True)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise AgentError(
            "invalid",
            f"{named} is neither an image, a PDF nor UTF-8 text: it is only named, not attached",
        ) from None
    return as_text(mention.said, text) if mention.lines is None else _some(mention, text)


def _some(mention: Mention, text: str) -> Part:
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
                f"{size(TEXT_BYTES_MAX)}: they are not attached. Name fewer"
            ),
        )
    return as_text(mention.said, chosen, lines=f"{first}-{min(last, len(lines))}")


def _listing(path: Path, named: str) -> Part:
    try:
        with os.scandir(path) as entries:
            names = sorted(
                revealed_line(entry.name) + ("/" if entry.is_dir() else "") for entry in entries
            )
    except OSError as e:
        raise AgentError("invalid", f"cannot read {named}: {e.strerror or e}") from e
    more = [f"… and {len(names) - NAMES_MAX} more"] if len(names) > NAMES_MAX else []
    shown = "\n".join((*names[:NAMES_MAX], *more))
    return TextPart(text=f"<directory path={named[1:]!r}>\n{shown}\n</directory>")
