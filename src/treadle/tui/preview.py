"""Preview of a call that needs approval: the difference that it makes, the command, or its
arguments. Reads but never writes. Entry points: `preview_of`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, cast

from treadle._internal.held_files import read_checked
from treadle._internal.terminal_text import revealed, revealed_line
from treadle.tools.builtin.difference import is_too_much
from treadle.tools.builtin.patch_format import PATCH, FileChange
from treadle.tools.builtin.patches import patch
from treadle.tools.builtin.text import TextDocument
from treadle.tools.tool import ToolFailed
from treadle.tui.differences import WHOLE_CHARS

READ_BYTES: Final = 1_000_000
TEXT_CHARS: Final = 200_000


class FileDifference(NamedTuple):
    """Difference of one file."""

    path: str
    before: str
    after: str
    note: str = ""
    """Text after the path, such as `(new file)`."""


class Patch(NamedTuple):
    """Differences of several files."""

    files: tuple[FileDifference, ...]


class TextPreview(NamedTuple):
    """Command or other text."""

    text: str
    is_command: bool = False
    left_out: int = 0
    """Number of hidden characters; if there are any, the call cannot be approved."""


Preview: TypeAlias = FileDifference | Patch | TextPreview


def preview_of(
    name: str, arguments: object, cwd: Path, *, redact: Callable[[str], str] = str
) -> Preview:
    """Return the preview of a call: its arguments if a file cannot be read or an edit does not
    apply.

    `redact`: function that masks secrets, also in file contents.
    """
    found = _preview_of(name, arguments, cwd)
    shown = (
        (found,)
        if isinstance(found, FileDifference)
        else found.files
        if isinstance(found, Patch)
        else ()
    )
    # The user must see everything that is approved.
    if any(_is_too_long(file) for file in shown):
        found = TextPreview(_all_of(arguments))
    if isinstance(found, Patch):
        return Patch(tuple(_revealed(file, redact) for file in found.files))
    if isinstance(found, FileDifference):
        return _revealed(found, redact)
    text = revealed(redact(found.text))
    left_out = max(len(text) - TEXT_CHARS, 0)
    more = f"\n… {left_out:,} more characters, which cannot be shown here" if left_out else ""
    return TextPreview(text[:TEXT_CHARS] + more, found.is_command, left_out)


def _is_too_long(file: FileDifference) -> bool:
    """Return True if a difference would not show the complete texts."""
    longest = max(map(len, (*file.before.split("\n"), *file.after.split("\n"))))
    # An escaped character takes up to ten.
    return is_too_much(file.before, file.after) or longest > WHOLE_CHARS // 10


def _revealed(file: FileDifference, redact: Callable[[str], str]) -> FileDifference:
    return FileDifference(
        revealed_line(redact(file.path)),
        revealed(redact(file.before)),
        revealed(redact(file.after)),
        revealed_line(redact(file.note)),
    )


def _all_of(arguments: object) -> str:
    """Format arguments as indented JSON, or as plain lines if they are only a patch or a file's
    content.
    """
    given = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    if isinstance(whole := given.get("input"), str) and len(given) == 1:
        return whole
    if isinstance(content := given.get("content"), str) and len(given) == 2:
        return f"{given.get('path')}\n\n{content}"
    return json.dumps(arguments, indent=2, ensure_ascii=False, default=str)


def _preview_of(name: str, arguments: object, cwd: Path) -> Preview:
    if not isinstance(arguments, dict):
        return TextPreview(str(arguments))
    given = cast("dict[str, Any]", arguments)
    if name == "bash" and isinstance(command := given.get("command"), str):
        more = {key: value for key, value in given.items() if key != "command"}
        return TextPreview(f"{command}\n\n{_all_of(more)}" if more else command, is_command=True)
    if name in ("write", "edit") and isinstance(path := given.get("path"), str):
        found = _written(given, path, cwd) if name == "write" else _edited(given, path, cwd)
        if found is not None:
            return found
    if name == PATCH and (patched := _patched(given, cwd)) is not None:
        return patched
    return TextPreview(_all_of(given))


def _patched(given: Mapping[str, Any], cwd: Path) -> Patch | None:
    """Return the preview of a patch; None if it is invalid or does not apply, so that its text is
    shown.
    """
    from treadle.tools.builtin.apply_patch import ApplyPatch  # noqa: PLC0415  only for patches

    try:
        changes = ApplyPatch().parse(json.dumps(given)).changes
        return Patch(tuple(_patched_file(change, cwd) for change in changes))
    except (ToolFailed, _Unreadable):
        return None


class _Unreadable(Exception):
    """File to change that cannot be read."""


def _patched_file(change: FileChange, cwd: Path) -> FileDifference:
    """Return the change that a patch makes to one file. Raises ToolFailed if a hunk does not apply,
    and _Unreadable if the file to update cannot be read.
    """
    before = _text_of(cwd / change.path)
    match change.kind:
        case "add":
            return FileDifference(
                change.path, before or "", change.content, " (new file)" if before is None else ""
            )
        case "delete":
            return FileDifference(
                change.path,
                before or "",
                "",
                " (deleted)" if before is not None else " (deleted; its content cannot be shown)",
            )
        case "update":
            if before is None:
                raise _Unreadable
            document = TextDocument(before)
            patch(document, change)
            return FileDifference(
                change.path,
                before,
                document.text,
                f" (moved to {change.move_to})" if change.move_to is not None else "",
            )
        case _:
            assert_never(change.kind)


def _written(given: Mapping[str, Any], path: str, cwd: Path) -> FileDifference | None:
    content = given.get("content")
    return (
        FileDifference(path, _text_of(cwd / path) or "", content)
        if isinstance(content, str)
        else None
    )


def _edited(given: Mapping[str, Any], path: str, cwd: Path) -> FileDifference | None:
    edits, before = given.get("edits"), _text_of(cwd / path)
    if not isinstance(edits, list):
        return None
    pairs = [
        (str(edit.get("old", "")), str(edit.get("new", "")), bool(edit.get("all")))
        for edit in cast("list[dict[str, Any]]", edits)
    ]
    after = before
    for old, new, every in pairs:
        if after is None or not old or old not in after:
            return FileDifference(
                path, "\n".join(old for old, _, _ in pairs), "\n".join(new for _, new, _ in pairs)
            )
        after = after.replace(old, new) if every else after.replace(old, new, 1)
    assert before is not None, "there is an edit, or nothing has changed"
    return FileDifference(path, before, after or "")


def _text_of(path: Path) -> str | None:
    """Return the text of a file; None if it is missing, too large or binary."""
    try:
        if not path.is_file() or os.path.getsize(path) > READ_BYTES:
            return None
        return read_checked(path).decode()
    except (OSError, ValueError):  # binary content, or an invalid file name
        return None
