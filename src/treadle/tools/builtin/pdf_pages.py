"""PDF pages for `read`: as documents for models that accept them, else as text.

Extraction is in pdf_text.py. Entry points: `shown`, `page_range`.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import Any, BinaryIO, Final

from anyio import to_thread

from treadle.messages.message import PDF, MediaPart, TextPart
from treadle.tools.builtin import files, pdf_text
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.text import SNIFF_BYTES
from treadle.tools.tool import InvalidArguments, ToolContext, ToolFailed, ToolOutput

HINT_CHARS: Final = 300
DOCUMENTS_MAX: Final = 20
"""Maximum number of pages per call as documents: each costs 1,500 to 3,000 tokens."""
DOCUMENT_BYTES_MAX: Final = 6_000_000
"""Maximum total size of the documents, in bytes of base64."""


async def shown(
    ctx: ToolContext[Any], path: str, wanted: str | None, max_chars: int
) -> ToolOutput | None:
    """Return the pages of a PDF. None if the content is no PDF, regardless of the file's name."""
    file = await to_thread.run_sync(_opened, ctx, path)
    if file is None:
        return None
    first, last = page_range(wanted or "1-")
    with file:
        if ctx.documents and (pages := await _documents(file, path, first, last)):
            return pages
        try:
            count, pages = await pdf_text.extracted(file, first, last, max_chars - HINT_CHARS)
        except pdf_text.NotExtracted as e:
            raise ToolFailed(f"{path!r} is a PDF that is not shown: {e}.") from e
    _check(path, first, count)
    texts = [
        f"[page {number} of {count}]\n{text or '(no text; it may be a picture)'}"
        for number, text in pages.items()
    ]
    end = max(pages, default=first)
    if end < min(last or count, count):
        texts.append(f'(pages {first}-{end} of {count}; use pages="{end + 1}-" to read on)')
    return _within("\n\n".join(texts), max_chars)


async def _documents(file: BinaryIO, path: str, first: int, last: int | None) -> ToolOutput | None:
    """Return the pages as documents. None if they cannot be extracted; their text may still be
    available.
    """
    end = min(last or first + DOCUMENTS_MAX - 1, first + DOCUMENTS_MAX - 1)
    try:
        count, pages = await pdf_text.cut(file, first, end, DOCUMENT_BYTES_MAX)
    except pdf_text.NotExtracted:
        return None
    _check(path, first, count)
    end, stem = max(pages, default=first), PurePath(path).stem
    more = f'; use pages="{end + 1}-" to read on' if end < min(last or count, count) else ""
    return [
        TextPart(text=f"{path}: pages {first}-{end} of {count}, one document each{more}"),
        *(
            MediaPart(media_type=PDF, data=data, name=f"{stem}, page {number}.pdf")
            for number, data in pages.items()
        ),
    ]


def _check(path: str, first: int, count: int) -> None:
    if first > count:
        raise ToolFailed(f"{path!r} has {count} pages; there is no page {first}.")


def _within(text: str, max_chars: int) -> str:
    mark = "\n(this page is longer than can be shown)"
    return text if len(text) <= max_chars else text[: max_chars - len(mark)] + mark


def _opened(ctx: ToolContext[Any], path: str) -> BinaryIO | None:
    with telling("read", path, ctx.cwd):
        file = os.fdopen(files.open_file(files.place_of(path, ctx)), "rb")
    if not file.read(SNIFF_BYTES).startswith(b"%PDF-"):
        file.close()
        return None
    if (size := os.fstat(file.fileno()).st_size) > pdf_text.FILE_BYTES_MAX:
        file.close()
        raise ToolFailed(
            f"{path!r} is a PDF of {size:,} bytes; {pdf_text.FILE_BYTES_MAX:,} are the most that "
            "read shows. Extract the pages with bash."
        )
    return file


def page_range(pages: str) -> tuple[int, int | None]:
    """Parse a range into first and last page; a last page of None means to the end. Raises
    InvalidArguments.
    """
    found = re.fullmatch(r"\s*(\d{1,6})\s*(-\s*(\d{1,6})?)?\s*", pages)
    if found is not None:
        first = int(found[1])
        last = first if found[2] is None else int(found[3]) if found[3] else None
        if first >= 1 and (last is None or last >= first):
            return first, last
    raise InvalidArguments(f'pages is like "3", "3-7" or "3-", counted from 1, not {pages!r}.')
