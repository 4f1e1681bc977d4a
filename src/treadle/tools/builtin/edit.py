"""The `edit` tool: applies text replacements to one file, all or none.

See also: finding the text (matching.py), replacing the file (files.py). Entry point: `Edit`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread
from typing_extensions import override

from treadle.tools.builtin import files, matching
from treadle.tools.builtin.base import Arguments, Builtin, closed_object, to_its_end
from treadle.tools.builtin.difference import short_difference
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.text import (
    Encoding,
    TextDocument,
    binary_kind,
    image_type,
    to_line_feeds,
)
from treadle.tools.tool import (
    DidNotHappen,
    Happened,
    InvalidArguments,
    ProbeAnswer,
    ToolContext,
    ToolFailed,
    Touched,
)


class Replacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: str
    new: str
    all: bool = False


class EditArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    edits: tuple[Replacement, ...]


_REPLACEMENT = closed_object(
    {
        "old": {
            "type": "string",
            "description": "Text that is in the file, exactly; only once, unless all is true.",
        },
        "new": {"type": "string", "description": "Replacement text."},
        "all": {"type": "boolean", "description": "Replace every occurrence. Default false."},
    },
    required=["old", "new"],
)


class Edit(Builtin[EditArguments]):
    name = "edit"
    effect = "once"
    arguments = EditArguments
    example = '{"path": "src/app.py", "edits": [{"old": "retries = 1", "new": "retries = 3"}]}'
    parameters = closed_object(
        {
            "path": {
                "type": "string",
                "description": "The file: absolute, or relative to the working directory.",
            },
            "edits": {
                "type": "array",
                "items": _REPLACEMENT,
                "description": "Applied in order; all of them or none.",
            },
        },
        required=["path", "edits"],
    )

    @override
    def check(self, arguments: EditArguments) -> None:
        files.check_path(arguments.path)
        if not arguments.edits:
            raise InvalidArguments(
                f"edits is empty, so there is nothing to change. A right call: {self.example}"
            )
        for i, edit in enumerate(arguments.edits):
            if not edit.old:
                raise InvalidArguments(
                    f"edits[{i}].old is empty. To insert, give a line of the file as old, and "
                    "that line with the addition as new; to make a file, use write."
                )
            if edit.old == edit.new:
                raise InvalidArguments(
                    f"edits[{i}]: old and new are identical, so there is nothing to change."
                )

    @override
    def touches(self, arguments: EditArguments, cwd: Path) -> Touched:
        return Touched(writes=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: EditArguments) -> str:
        """Apply the edits. Cancellation does not interrupt them, so their outcome is always
        known.
        """
        return await to_its_end(_edit, ctx, arguments)

    @override
    async def probe(self, ctx: ToolContext[Any], arguments: EditArguments) -> ProbeAnswer:
        """Compare the file with its states before and after this edit. None if the result is
        ambiguous.
        """
        return await to_thread.run_sync(_probe, ctx, arguments)


def _edit(ctx: ToolContext[Any], arguments: EditArguments) -> str:
    place = files.place_of(arguments.path, ctx)
    name = files.shown(place, ctx.cwd)
    with files.changing(place), telling("edit", arguments.path, ctx.cwd):
        old = existing(place, arguments.path)
        files.must_be_seen(ctx, place, old.digest)
        encoding, document = decoded(old, name)
        before = document.text
        count, notes = _apply(document, arguments.edits)
        data = encoded(encoding, document, arguments.path)
        if data == old.data:
            return f"{name} already has this content: nothing was changed."
        ctx.seen_files[os.fspath(place)] = files.save(place, data, old, ctx.before_change)
    done = f"Edited {name}: {count} replacement{'s' if count > 1 else ''}."
    return "\n".join(
        [" ".join([done, *files.link_notes(old)]), *notes, short_difference(before, document.text)]
    )


def existing(place: Path, path: str) -> files.Loaded:
    """Return the whole file. Raises OSError if it does not exist, ToolFailed if it is too large to
    edit.
    """
    old = files.load(place)
    if old is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not old.is_whole:
        raise ToolFailed(
            f"{path!r} is larger than {files.MAX_WHOLE_BYTES // 1024 // 1024} MiB: change it "
            "with a command (sed, a script) through bash."
        )
    return old


def decoded(old: files.Loaded, name: str) -> tuple[Encoding, TextDocument]:
    """Return the file's text and encoding. Raises ToolFailed for binary data."""
    if (kind := image_type(old.data) or binary_kind(old.data)) is not None:
        raise ToolFailed(f"{name} is {kind}, not text: it cannot be edited.")
    encoding = Encoding.of(old.data)
    try:
        return encoding, TextDocument(encoding.decode(old.data))
    except UnicodeDecodeError as e:
        raise ToolFailed(
            (
                f"{name} begins as {encoding.label}, but byte {e.start} does not fit: it cannot be "
                "edited as text."
            ),
            happened=False,
        ) from e


def _apply(document: TextDocument, edits: Sequence[Replacement]) -> tuple[int, list[str]]:
    """Apply the edits in order. Return the number of replacements, and notes for the model.

    Raises ToolFailed; the document is then unusable.
    """
    count, notes = 0, list[str]()
    for i, edit in enumerate(edits, 1):
        old, new = to_line_feeds(edit.old), to_line_feeds(edit.new)
        try:
            found = matching.find(document.text, old, new, every=edit.all)
        except ToolFailed as e:
            which = f"Edit {i} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolFailed(f"{which}{e.message} Nothing was changed.") from e
        document.replace(found.spans, found.new)
        count += len(found.spans)
        notes += [found.note] if found.note is not None else []
    return count, notes


def encoded(encoding: Encoding, document: TextDocument, path: str) -> bytes:
    """Encode the whole file. Raises ToolFailed for a character that the encoding cannot
    represent.
    """
    try:
        return encoding.encode(document.render())
    except UnicodeEncodeError as e:
        wrong = e.object[e.start]
        raise ToolFailed(
            f"{wrong!r} cannot occur in {path!r}, which is {encoding.label}. Nothing was changed.",
            happened=False,
        ) from e


# ---------------------------------------------------------------- afterwards


def _probe(ctx: ToolContext[Any], arguments: EditArguments) -> ProbeAnswer:
    """Decide from the file's text alone: records of what the model has read are lost with the
    process, or may be newer than the edit.
    """
    place = files.place_of(arguments.path, ctx)
    try:
        now = files.load(place)
        if now is None or not now.is_whole:
            return None
        _, document = decoded(now, arguments.path)
    except (OSError, ToolFailed):
        return None
    before, can_still_be = (
        _undone(document, arguments.edits),
        _made(document, arguments.edits) is not None,
    )
    if before is not None and not can_still_be:
        return Happened(
            f"Edited {files.shown(place, ctx.cwd)}, as its content shows.\n"
            f"{short_difference(before.text, document.text)}"
        )
    if can_still_be and not _may_be_result(document.text, arguments.edits[-1]):
        return DidNotHappen()
    return None


def _undone(document: TextDocument, edits: Sequence[Replacement]) -> TextDocument | None:
    """Return the text before the edits. None if applying them to it would not give exactly this
    text.
    """
    before = TextDocument(document.render())
    for edit in reversed(edits):
        spans = matching.exact(before.text, to_line_feeds(edit.new)) if edit.new else ()
        if not spans or (len(spans) > 1 and not edit.all):
            return None
        before.replace(spans, to_line_feeds(edit.old))
    return before if _made(before, edits) == document.text else None


def _made(document: TextDocument, edits: Sequence[Replacement]) -> str | None:
    """Return the text after the edits; None if they cannot be applied."""
    after = TextDocument(document.render())
    try:
        _apply(after, edits)
    except ToolFailed:
        return None
    return after.text


def _may_be_result(text: str, last: Replacement) -> bool:
    """Return False if `old` occurs where the edit cannot have inserted or kept it, which proves
    that the edit was not applied.

    After an edit, `old` occurs only in inserted text or across its edges. White space is ignored,
    because the replacement of a match that ignored it was reindented. If nothing was inserted, the
    edges may be anywhere.
    """
    old, new, plain = to_line_feeds(last.old), _without_space(last.new), _without_space(text)
    width = len(_without_space(old))
    at = done = 0
    for start, _ in matching.exact(text, old):
        at, done = at + len(_without_space(text[done:start])), start
        if new not in plain[max(at - len(new), 0) : at + width + len(new)]:
            return False
    return True


def _without_space(text: str) -> str:
    return "".join(text.split())
