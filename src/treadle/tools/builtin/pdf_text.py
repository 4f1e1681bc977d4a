"""Extraction of PDF pages, as text or as one-page documents, by pypdf in a child process with
limits on time and memory.

A hostile file can make any parser loop or allocate without end. This file is therefore also the
program of the child, which imports nothing of Treadle. Entry points: `extracted`, `cut`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final

SECONDS_MOST: Final = 30
MEMORY_MOST: Final = 1024 * 1024 * 1024
FILE_BYTES_MAX: Final = 100 * 1024 * 1024
_DEPTH_MOST: Final = 500
_ANSWER_BYTES: Final = 16_000_000
_LEFT_OUT: Final = ("/Annots", "/B", "/StructParents", "/Metadata", "/PieceInfo")
"""Parts of a page that refer to the rest of the file, or that models do not use."""


class NotExtracted(Exception):
    """Raised with the reason if no pages can be extracted."""


async def extracted(
    file: BinaryIO, first: int, last: int | None, max_chars: int
) -> tuple[int, dict[int, str]]:
    """Return the number of pages, and the text of those that fit, by page number.

    Raises NotExtracted. Cancellation ends the child.
    """
    return await _asked(file, "text", first, last, max_chars)


async def cut(
    file: BinaryIO, first: int, last: int | None, max_bytes: int
) -> tuple[int, dict[int, str]]:
    """Return the number of pages, and those that fit, each as a document in base64.

    Raises NotExtracted, also if the first page is too large. Cancellation ends the child.
    """
    return await _asked(file, "documents", first, last, max_bytes)


async def _asked(
    file: BinaryIO, form: str, first: int, last: int | None, most: int
) -> tuple[int, dict[int, str]]:
    import anyio  # noqa: PLC0415  the child has no use for it

    file.seek(0)
    command = [sys.executable, "-I", __file__, form, str(first), str(last or 0), str(most)]
    try:
        with anyio.fail_after(SECONDS_MOST):
            done = await anyio.run_process(
                command, stdin=file, stderr=subprocess.DEVNULL, check=False, env={}
            )
    except TimeoutError as e:
        raise NotExtracted(f"it took longer than {SECONDS_MOST} s to read") from e
    answer: dict[str, Any] = {}
    with suppress(ValueError):
        answer = json.loads(done.stdout[:_ANSWER_BYTES])
    if not answer:
        raise NotExtracted("it is broken, or takes more memory or time to read than is allowed")
    if "error" in answer:
        raise NotExtracted(str(answer["error"]))
    return int(answer["count"]), {int(number): str(text) for number, text in answer["pages"]}


# ---------------------------------------------------------------- the child


def _limit() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415  not on every system

        for kind, most in (
            (resource.RLIMIT_CPU, SECONDS_MOST),
            (resource.RLIMIT_AS, MEMORY_MOST),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(ValueError, OSError):
                resource.setrlimit(kind, (most, most))
    sys.setrecursionlimit(_DEPTH_MOST)


def _answer(form: str, first: int, last: int, most: int) -> dict[str, object]:
    try:
        from pypdf import PdfReader  # noqa: PLC0415  in the child only
    except ImportError:
        return {
            "error": "reading PDF files needs pypdf; install it with: pip install 'treadle[files]'"
        }
    _limit()
    try:
        reader = PdfReader(sys.stdin.buffer)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "it is encrypted with a password"}
        count = len(reader.pages)
        pages = _pages if form == "text" else _documents
        return {"count": count, "pages": list(pages(reader, first, last or count, most))}
    except _TooLarge:
        return {"error": "one page has too many bytes"}
    except Exception as e:  # noqa: BLE001  pypdf raises errors of many kinds for broken files
        return {"error": f"it cannot be read ({type(e).__name__})"}


def _pages(reader: Any, first: int, last: int, max_chars: int) -> Iterator[tuple[int, str]]:
    for number in range(first, min(last, len(reader.pages)) + 1):
        text = str(reader.pages[number - 1].extract_text()).strip()[: max_chars + 1]
        if len(text) > max_chars and number > first:
            return
        yield number, text
        max_chars -= len(text)
        if max_chars <= 0:
            return


class _TooLarge(Exception):
    pass


def _documents(reader: Any, first: int, last: int, max_bytes: int) -> Iterator[tuple[int, str]]:
    import base64  # noqa: PLC0415  in the child only
    import io  # noqa: PLC0415

    from pypdf import PdfWriter  # noqa: PLC0415

    for number in range(first, min(last, len(reader.pages)) + 1):
        writer, file = PdfWriter(), io.BytesIO()
        writer.add_page(reader.pages[number - 1], excluded_keys=_LEFT_OUT)
        writer.write(file)
        document = base64.b64encode(file.getvalue()).decode()
        max_bytes -= len(document)
        if max_bytes < 0:
            if number == first:
                raise _TooLarge
            return
        yield number, document


if __name__ == "__main__":
    print(json.dumps(_answer(sys.argv[1], *(int(word) for word in sys.argv[2:5]))))
