"""Jupyter notebooks for `read`: cells with their numbers, sources, outputs and images.

The cost of a notebook is bounded before it is parsed. Entry point: `shown`. Source:
nbformat.readthedocs.io, "The Notebook file format", version 4.5.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from treadle.errors import AgentError
from treadle.messages import images
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.tool import ToolFailed, ToolOutput

IMAGES_MOST: Final = 10
OUTPUT_CHARS: Final = 2_000
SOURCE_CHARS: Final = 10_000
_OBJECTS_MOST: Final = 100_000
_QUOTES_MOST: Final = 2_000_000
"""Limits on the memory used to parse one file: about 150 MB."""
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HINT_CHARS: Final = 200

Text: TypeAlias = str | list[str]


class NotAsCells(Exception):
    """Raised, with a reason, for a file that cannot be shown as cells."""


class _Data(msgspec.Struct):
    plain: Text | None = msgspec.field(default=None, name="text/plain")
    markdown: Text | None = msgspec.field(default=None, name="text/markdown")
    png: Text | None = msgspec.field(default=None, name="image/png")
    jpeg: Text | None = msgspec.field(default=None, name="image/jpeg")
    gif: Text | None = msgspec.field(default=None, name="image/gif")
    webp: Text | None = msgspec.field(default=None, name="image/webp")

    @property
    def image(self) -> Text | None:
        return self.png or self.jpeg or self.gif or self.webp


class _Output(msgspec.Struct):
    output_type: str = ""
    name: str = ""
    text: Text = ""
    data: _Data = msgspec.field(default_factory=_Data)
    ename: str = ""
    evalue: str = ""
    traceback: Text = ""


class _Cell(msgspec.Struct):
    cell_type: str = "raw"
    source: Text = ""
    execution_count: int | None = None
    outputs: list[_Output] = []


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


def shown(data: bytes, path: str, *, first: int, limit: int, max_chars: int) -> ToolOutput:
    """Render as many cells as fit, starting at number `first`; a negative number counts from the
    end.

    Raises NotAsCells, and ToolFailed for a cell that does not exist.
    """
    cells = _parsed(data).cells
    if first < 0:
        first = max(len(cells) + first + 1, 1)
    if not cells:
        return "(the notebook has no cells)"
    if first > len(cells):
        raise ToolFailed(
            f"offset {first} is past the end of {path!r}, which has {len(cells)} cells."
        )
    texts: list[str] = []
    pictures: list[MediaPart] = []
    left = max_chars - _HINT_CHARS
    last = first - 1
    for number, cell in enumerate(cells[first - 1 : first - 1 + limit], first):
        own: list[MediaPart] = []
        text = "\n".join(_lines(cell, number, own, IMAGES_MOST - len(pictures)))
        if texts and len(text) > left:
            break
        texts.append(_cut(text, max(left, 0)))
        pictures += own
        left -= len(text) + 2
        last = number
    if last < len(cells):
        texts.append(f"(cells {first}-{last} of {len(cells)}; use offset={last + 1} to read on)")
    elif first > 1:
        texts.append(f"(cells {first}-{last}: the end of the notebook)")
    text = "\n\n".join(texts)
    return (TextPart(text=text), *pictures) if pictures else text


def _parsed(data: bytes) -> _Notebook:
    if data.count(b"{") > _OBJECTS_MOST or data.count(b'"') > _QUOTES_MOST:
        raise NotAsCells("it has too many parts")
    try:
        return msgspec.json.decode(data, type=_Notebook)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise NotAsCells(f"it is not a notebook of format 4 ({type(e).__name__})") from e


def _lines(cell: _Cell, number: int, pictures: list[MediaPart], images_left: int) -> Iterator[str]:
    ran = f", run {cell.execution_count}" if cell.execution_count is not None else ""
    yield f"[cell {number}: {cell.cell_type[:20]}{ran}]"
    yield _cut(_joined(cell.source), SOURCE_CHARS)
    for output in cell.outputs:
        match output.output_type:
            case "stream":
                yield f"[output: {output.name[:20]}]\n{_output(output.text)}"
            case "error":
                yield (
                    f"[output: error {output.ename[:100]}: {output.evalue[:500]}]\n"
                    f"{_output(output.traceback, between=chr(10))}"
                )
            case _:
                text = output.data.plain or output.data.markdown
                if output.data.image is not None:
                    yield _picture(output.data.image, number, pictures, images_left)
                elif text is not None:
                    yield f"[output]\n{_output(text)}"
                else:
                    yield "[output of a kind that is not shown]"


def _picture(data: Text, number: int, pictures: list[MediaPart], images_left: int) -> str:
    if len(pictures) >= images_left:
        return "[output: an image, not shown: too many at once; read fewer cells]"
    text = re.sub(r"\s+", "", _joined(data))
    try:
        if len(text) > images.FILE_BYTES_MAX * 4 // 3:
            return "[output: an image, not shown: it is too large]"
        kind = images.image_type(b64decode(text[:64], validate=True))
        if kind is None:
            return "[output: an image of a kind that is not shown]"
        b64decode(text, validate=True)
        whole = MediaPart(media_type=kind, data=text, name=f"cell {number}")
        image, note = images.fitted(whole)
    except (binascii.Error, ValueError):
        return "[output: an image, not shown: its data is broken]"
    except AgentError as e:
        return f"[output: an image, not shown: {e.message}]"
    pictures.append(image)
    scaled = f" ({note})" if note else ""
    return f"[output: {kind}, shown below as image {len(pictures)} of this cell{scaled}]"


def _output(text: Text, *, between: str = "") -> str:
    """Render an output. If it is long, show its beginning and end."""
    whole = _ESCAPES.sub("", _joined(text, between)).rstrip("\n")
    if len(whole) <= OUTPUT_CHARS:
        return whole
    half = OUTPUT_CHARS // 2
    return f"{whole[:half]}\n[… {len(whole) - 2 * half:,} characters left out …]\n{whole[-half:]}"


def _joined(text: Text, between: str = "") -> str:
    return text if isinstance(text, str) else between.join(text)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[… cut: {len(text):,} characters]"
