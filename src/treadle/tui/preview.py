"""What a call would do, for whoever is asked about it: the difference that it makes, the command, or its arguments. Reads, never writes.

Entry: `preview_of`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from treadle.plain import revealed

READ_BYTES: Final = 1_000_000
TEXT_CHARS: Final = 200_000


class Difference(NamedTuple):
    """Of one file."""

    path: str
    before: str
    after: str


class Words(NamedTuple):
    """A command, or whatever else there is to be read."""

    text: str
    is_command: bool = False


Preview: TypeAlias = Difference | Words


def preview_of(name: str, arguments: object, cwd: Path, *, redact: Callable[[str], str] = str) -> Preview:
    """Of a file that cannot be read, or an edit that does not fit it, what was said is shown. `redact`: takes secrets out, of files too."""
    found = _preview_of(name, arguments, cwd)
    if isinstance(found, Difference):
        return Difference(redact(found.path), revealed(redact(found.before)), revealed(redact(found.after)))
    text = revealed(redact(found.text))
    more = f"\n… {len(text) - TEXT_CHARS:,} more characters, which cannot be shown here" if len(text) > TEXT_CHARS else ""
    return Words(text[:TEXT_CHARS] + more, found.is_command)


def _preview_of(name: str, arguments: object, cwd: Path) -> Preview:
    if not isinstance(arguments, dict):
        return Words(str(arguments))
    given = cast("dict[str, Any]", arguments)
    if name == "bash" and isinstance(command := given.get("command"), str):
        return Words(command, is_command=True)
    if name in ("write", "edit") and isinstance(path := given.get("path"), str):
        found = _written(given, path, cwd) if name == "write" else _edited(given, path, cwd)
        if found is not None:
            return found
    return Words(json.dumps(given, indent=2, ensure_ascii=False, default=str))


def _written(given: Mapping[str, Any], path: str, cwd: Path) -> Difference | None:
    content = given.get("content")
    return Difference(path, _text_of(cwd / path) or "", content) if isinstance(content, str) else None


def _edited(given: Mapping[str, Any], path: str, cwd: Path) -> Difference | None:
    edits, before = given.get("edits"), _text_of(cwd / path)
    if not isinstance(edits, list):
        return None
    pairs = [(str(edit.get("old", "")), str(edit.get("new", "")), bool(edit.get("all"))) for edit in cast("list[dict[str, Any]]", edits)]
    after = before
    for old, new, every in pairs:
        if after is None or not old or old not in after:
            return Difference(path, "\n".join(old for old, _, _ in pairs), "\n".join(new for _, new, _ in pairs))
        after = after.replace(old, new) if every else after.replace(old, new, 1)
    assert before is not None, "there is an edit, or nothing has changed"
    return Difference(path, before, after or "")


def _text_of(path: Path) -> str | None:
    """None where there is none, it is too large, or no text."""
    try:
        if not path.is_file() or os.path.getsize(path) > READ_BYTES:
            return None
        return path.read_text()
    except (OSError, ValueError):  # no text, or no name of a file
        return None
