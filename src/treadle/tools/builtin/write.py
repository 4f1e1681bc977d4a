"""The `write` tool: creates or replaces a whole file atomically.

See also: the replacement itself (files.py), partial changes (edit.py). Entry point: `Write`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typing_extensions import override

from treadle._internal.units import count
from treadle.tools.builtin import files
from treadle.tools.builtin.base import Arguments, Builtin, closed_object, to_its_end
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.text import (
    UTF_8,
    Encoding,
    binary_kind,
    image_type,
    is_crlf_throughout,
    to_line_feeds,
)
from treadle.tools.tool import InvalidArguments, ToolContext, ToolFailed, Touched


class WriteArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    content: str


class Write(Builtin[WriteArguments]):
    name = "write"
    effect = "idempotent"
    arguments = WriteArguments
    example = '{"path": "src/app.py", "content": "print(1)\\n"}'
    parameters = closed_object(
        {
            "path": {
                "type": "string",
                "description": (
                    "The file: absolute, or relative to the working directory. Missing "
                    "directories are made."
                ),
            },
            "content": {"type": "string", "description": "The whole new content of the file."},
        },
        required=["path", "content"],
    )

    @override
    def check(self, arguments: WriteArguments) -> None:
        files.check_path(arguments.path)
        if arguments.path.endswith("/"):
            raise InvalidArguments(
                f"{arguments.path!r} names a directory; write takes the path of a file and "
                "creates its directories."
            )

    @override
    def touches(self, arguments: WriteArguments, cwd: Path) -> Touched:
        return Touched(writes=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: WriteArguments) -> str:
        """Write the file. Cancellation does not interrupt it, so its outcome is always known."""
        return await to_its_end(_write, ctx, arguments)


def _write(ctx: ToolContext[Any], arguments: WriteArguments) -> str:
    place = files.place_of(arguments.path, ctx)
    name = files.shown(place, ctx.cwd)
    with files.changing(place), telling("write", arguments.path, ctx.cwd):
        old = files.load(place)
        data, notes = _in_the_style_of(old, arguments)
        if old is not None and old.is_whole and old.data == data:
            ctx.seen_files[os.fspath(place)] = old.digest
            return f"{name} already has exactly this content: nothing was changed."
        if old is not None and old.data:
            files.must_be_seen(ctx, place, old.digest)
        ctx.seen_files[os.fspath(place)] = files.save(place, data, old, ctx.before_change)
    lines = arguments.content.count("\n") + (
        not arguments.content.endswith("\n") and arguments.content != ""
    )
    notes += files.link_notes(old)
    return " ".join(
        [
            (
                f"{'Created' if old is None else 'Overwrote'} {name}: {count(lines, 'line')}, "
                f"{count(len(data), 'byte')}."
            ),
            *notes,
        ]
    )


def _in_the_style_of(
    old: files.Loaded | None, arguments: WriteArguments
) -> tuple[bytes, list[str]]:
    """Return the bytes to write, in the file's existing encoding, byte order mark and CRLF line
    ends, and notes for the model.
    """
    content = arguments.content
    if old is None or not old.data:
        return _encoded(UTF_8, content), []
    if (kind := image_type(old.data) or binary_kind(old.data)) is not None:
        raise ToolFailed(
            f"{arguments.path!r} is {kind}, not text, and was not overwritten. Remove it first if "
            "you want to replace it."
        )
    encoding = Encoding.of(old.data, whole=old.is_whole)
    notes: list[str] = []
    if is_crlf_throughout(old.data[len(encoding.bom) :].decode(encoding.codec, "replace")):
        content = to_line_feeds(content).replace("\n", "\r\n")
        notes.append("Its CRLF line endings were kept.")
    if encoding.is_guess and not encoding.can_encode(content):
        encoding = UTF_8
        notes.append("It was read as Latin-1, which cannot represent this text, and is now UTF-8.")
    elif encoding.is_guess and not content.isascii():
        notes.append("It is still Latin-1.")
    elif encoding.bom:
        content = content.removeprefix("\ufeff")
        notes.append(f"It is still {encoding.label}.")
    return _encoded(encoding, content), notes


def _encoded(encoding: Encoding, content: str) -> bytes:
    try:
        return encoding.encode(content)
    except UnicodeEncodeError as e:
        raise ToolFailed(
            f"The content contains {content[e.start]!r} at character {e.start}, half of a "
            "surrogate pair, which no file can contain. Nothing was written."
        ) from e
