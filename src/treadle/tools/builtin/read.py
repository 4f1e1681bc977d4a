"""The `read` tool: a page of a text file with line numbers, an image, the cells of a notebook, or
the pages of a PDF. Text is streamed, so files may have any size.

See also: access checks (files.py), decoding (text.py), notebooks (notebook.py), PDFs
(pdf_pages.py). Entry point: `Read`.
"""

from __future__ import annotations

import codecs
import os
from binascii import b2a_base64
from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from anyio import to_thread
from typing_extensions import override

from treadle.errors import AgentError
from treadle.messages import images
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.builtin import files, pdf_pages
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.survey import Survey, chunks, survey
from treadle.tools.builtin.text import (
    SNIFF_BYTES,
    UTF_8,
    Encoding,
    binary_kind,
    image_type,
)
from treadle.tools.tool import (
    MAX_LINE_CHARS,
    MAX_OUTPUT_LINES,
    InvalidArguments,
    ToolContext,
    ToolFailed,
    ToolOutput,
    Touched,
)

_HINT_CHARS = 300
_HINT_LINES = 3


class ReadArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    offset: int = 1
    limit: int = MAX_OUTPUT_LINES
    pages: str | None = None
    raw: bool = False


class Read(Builtin[ReadArguments]):
    name = "read"
    effect = "pure"
    arguments = ReadArguments
    example = '{"path": "src/app.py", "offset": 1, "limit": 200}'
    parameters = closed_object(
        {
            "path": {
                "type": "string",
                "description": "The file: absolute, or relative to the working directory.",
            },
            "offset": {
                "type": "integer",
                "description": (
                    "First line to show, from 1. Negative: counted from the end. Default 1."
                ),
            },
            "limit": {
                "type": "integer",
                "description": "Number of lines to show, at least 1. Default and maximum: 2000.",
            },
            "pages": {
                "type": "string",
                "description": 'PDF files: the pages to show, such as "3", "3-7" or "3-".',
            },
            "raw": {
                "type": "boolean",
                "description": "Notebooks: show the raw file, which `edit` needs.",
            },
        },
        required=["path"],
    )

    @override
    def check(self, arguments: ReadArguments) -> None:
        files.check_path(arguments.path)
        if arguments.offset == 0:
            raise InvalidArguments(
                "offset counts lines from 1 (or, negative, from the end of the file); it cannot "
                "be 0."
            )
        if arguments.limit < 1:
            raise InvalidArguments(f"limit must be at least 1, not {arguments.limit}.")
        if arguments.pages is not None:
            pdf_pages.page_range(arguments.pages)

    @override
    def touches(self, arguments: ReadArguments, cwd: Path) -> Touched:
        return Touched(reads=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: ReadArguments) -> ToolOutput:
        """Read the file. Cancellation stops between two pieces of it."""
        if arguments.path.lower().endswith(".pdf") and (
            document := await pdf_pages.shown(ctx, arguments.path, arguments.pages, self.max_output)
        ):
            return document
        looked = await to_thread.run_sync(_look, ctx, arguments, self.max_output)
        if looked.digest is not None:
            ctx.seen_files[os.fspath(looked.place)] = looked.digest
        return looked.output


class _Looked(msgspec.Struct, frozen=True):
    output: ToolOutput
    place: Path
    digest: str | None
    """Digest of the shown text. None if no text was shown, so that the file cannot be
    overwritten.
    """


def _look(ctx: ToolContext[Any], arguments: ReadArguments, max_chars: int) -> _Looked:
    place = files.place_of(arguments.path, ctx)
    with (
        telling("read", arguments.path, ctx.cwd),
        os.fdopen(files.open_file(place), "rb") as file,
    ):
        head = file.read(SNIFF_BYTES)
        if (media_type := image_type(head)) is not None:
            return _Looked(_image(file, arguments.path, media_type), place, None)
        if (kind := binary_kind(head)) is not None:
            size = os.fstat(file.fileno()).st_size
            raise ToolFailed(
                f"{arguments.path!r} is {kind} of {size:,} bytes, not text, and is not shown. "
                "Use bash (file, strings, xxd, a script) to look inside."
            )
        if (cells := _cells(file, arguments, max_chars)) is not None:
            return _Looked(cells, place, None)
        found = survey(file, head, to_the_end=arguments.offset < 0)
        page = _page(file, found, arguments, max_chars)
    return _Looked(page, place, found.digest)


def _image(file: BinaryIO, path: str, media_type: str) -> ToolOutput:
    """Return the image. Raises ToolFailed for one that models do not support."""
    file.seek(0)
    data = file.read(images.FILE_BYTES_MAX + 1)
    if len(data) > images.FILE_BYTES_MAX:
        raise ToolFailed(
            f"{path!r} is an image larger than {images.FILE_BYTES_MAX // 1024 // 1024} MiB: make "
            "a smaller copy with bash and read that."
        )
    whole = MediaPart(
        media_type=media_type, data=b2a_base64(data, newline=False).decode(), name=Path(path).name
    )
    try:
        image, note = images.fitted(whole)
    except AgentError as e:
        raise ToolFailed(e.message) from e  # unsupported by every model
    said = f"{path}: {media_type}, {len(data):,} bytes"
    return TextPart(text=f"{said} ({note})" if note else said), image


# ---------------------------------------------------------------- documents


def _cells(file: BinaryIO, arguments: ReadArguments, max_chars: int) -> ToolOutput | None:
    """Render a notebook as cells; None for anything else."""
    if arguments.raw or not arguments.path.lower().endswith(".ipynb"):
        return None
    from treadle.tools.builtin import notebook  # noqa: PLC0415  few files are notebooks

    file.seek(0)
    data = file.read(files.MAX_WHOLE_BYTES + 1)
    if len(data) > files.MAX_WHOLE_BYTES:
        return None
    first, limit = arguments.offset, arguments.limit
    try:
        return notebook.shown(data, arguments.path, first=first, limit=limit, max_chars=max_chars)
    except notebook.NotAsCells:
        return None


# ---------------------------------------------------------------- survey of the whole file


# ---------------------------------------------------------------- the page


def _page(file: BinaryIO, found: Survey, arguments: ReadArguments, max_chars: int) -> str:
    if found.lines == 0:
        return "(the file is empty)"
    first = (
        arguments.offset
        if arguments.offset > 0
        else max((found.lines or 0) + arguments.offset + 1, 1)
    )
    texts = _lines(file, found.encoding, first)
    lines, more = _fitting(
        texts, first, min(arguments.limit, MAX_OUTPUT_LINES), max_chars - _HINT_CHARS
    )
    if not lines:
        total = (
            found.lines
            if found.lines is not None
            else survey(file, found.encoding.bom, to_the_end=True).lines
        )
        raise ToolFailed(
            f"offset {arguments.offset} is past the end of {arguments.path!r}, which has "
            f"{total:,} lines."
        )
    if len(lines) > MAX_OUTPUT_LINES - _HINT_LINES and (
        more or first > 1 or found.encoding is not UTF_8
    ):
        lines, more = lines[: MAX_OUTPUT_LINES - _HINT_LINES], True
    hints = [
        *_place_hint(first, first + len(lines) - 1, found.lines, more=more),
        *_encoding_hint(found.encoding),
    ]
    return "\n".join([*lines, *(["", *hints] if hints else [])])


def _fitting(
    texts: Generator[str], first: int, limit: int, max_chars: int
) -> tuple[list[str], bool]:
    """Return the numbered lines that fit, and whether there are more."""
    lines: list[str] = []
    for number, text in enumerate(texts, first):
        line = f"{number:6d}\t{text}"
        max_chars -= len(line) + 1
        if max_chars < 0 or len(lines) == limit:
            texts.close()
            return lines, True
        lines.append(line)
    return lines, False


def _place_hint(first: int, last: int, total: int | None, *, more: bool) -> Iterator[str]:
    if more:
        of = (
            f"lines {first:,}-{last:,} of {total:,}"
            if total is not None
            else f"lines {first:,}-{last:,} of a very large file"
        )
        yield f"({of}; use offset={last + 1} to read on)"
    elif first > 1:
        yield f"(lines {first:,}-{last:,}: the end of the file)"


def _encoding_hint(encoding: Encoding) -> Iterator[str]:
    if encoding.is_guess:
        yield (
            "(this file is not UTF-8; it is shown as Latin-1, so letters beyond ASCII may be wrong)"
        )
    elif encoding is not UTF_8:
        yield f"(this file is {encoding.label}; write and edit keep that)"


def _lines(file: BinaryIO, encoding: Encoding, first: int) -> Generator[str]:
    """Yield the lines from number `first` on, without line ends, each truncated to 2,000
    characters. Holds at most one chunk and one line in memory.
    """
    decoder = codecs.getincrementaldecoder(encoding.codec)("replace")
    skip, line, length = first - 1, "", 0
    for chunk in chunks(file, len(encoding.bom)):
        text = decoder.decode(chunk)
        if skip:
            skip, text = _after_breaks(text, skip)
        pieces = text.split("\n")
        for piece in pieces[:-1]:
            yield _shown(line + piece, length + len(piece))
            line, length = "", 0
        line = (line + pieces[-1])[: MAX_LINE_CHARS + 1]
        length += len(pieces[-1])
    line, length = line + (rest := decoder.decode(b"", True)), length + len(rest)
    if length:
        yield _shown(line, length)


def _after_breaks(text: str, skip: int) -> tuple[int, str]:
    """Return the number of line breaks still to skip, and the text after those in this piece."""
    breaks = text.count("\n")
    if breaks < skip:
        return skip - breaks, ""
    at = next(islice((i for i, c in enumerate(text) if c == "\n"), skip - 1, None))
    return 0, text[at + 1 :]


def _shown(line: str, length: int) -> str:
    if length > MAX_LINE_CHARS:
        mark = f" [… cut: {length:,} characters in this line]"
        line = line[: MAX_LINE_CHARS - len(mark)] + mark
    return line.removesuffix("\r").replace("\0", "\ufffd")
