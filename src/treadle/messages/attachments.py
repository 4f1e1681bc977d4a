"""A user's file as a message part: images, PDFs and sounds unchanged, other files as text.

Fronts decide which files to attach. Entry points: `attachment`.
"""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path

from treadle._internal.held_files import read_checked
from treadle.errors import AgentError
from treadle.messages.message import MediaPart, Part, TextPart
from treadle.messages.parts import media_type_of

FILE_BYTES_MAX = 20 * 1024 * 1024


def attachment(path: Path, *, named: str | None = None, in_place: bool = False) -> Part:
    """Read a file as a message part.

    `named`: name of the file in errors, by default its path. `in_place`: `path` is resolved, and a
    symlink that has replaced it since is not followed. Raises AgentError(invalid) if the file
    cannot be read, exceeds `FILE_BYTES_MAX`, or is neither an image, a PDF, audio nor UTF-8 text.
    """
    named = named or repr(str(path))
    data = content(path, named, in_place=in_place)
    media = media_type(path) or _sound_type(data)
    if media is not None:
        return MediaPart(media_type=media, data=base64.b64encode(data).decode(), name=path.name)
    try:
        return as_text(str(path), data.decode())
    except UnicodeDecodeError as e:
        text = f"{named} is neither an image, a PDF, audio nor UTF-8 text"
        raise AgentError("invalid", text) from e


def content(path: Path, named: str, *, in_place: bool = False) -> bytes:
    """Return the content of a regular file. Arguments and errors as for `attachment`."""
    try:
        if not path.is_file():
            fault = "is not a regular file" if path.exists() else "does not exist"
            raise AgentError("invalid", f"{named} {fault}")
        if path.stat().st_size > FILE_BYTES_MAX:
            raise AgentError(
                "invalid", f"{named} is larger than {FILE_BYTES_MAX // 1024 // 1024} MiB"
            )
        return read_checked(path, in_place=in_place)
    except OSError as e:
        raise AgentError("invalid", f"cannot read {named}: {e.strerror or e}") from e


def media_type(path: Path) -> str | None:
    """Return the media type of an image or a PDF, guessed from its name; None for other files."""
    guessed = mimetypes.guess_type(path.name)[0] or ""
    return guessed if guessed.startswith("image/") or guessed == "application/pdf" else None


def _sound_type(data: bytes) -> str | None:
    kind = media_type_of(data) or ""
    return kind if kind.startswith("audio/") else None


def as_text(path: str, text: str, *, lines: str = "") -> TextPart:
    """Wrap a file's text in a `<file>` element. `lines`: its range, like "10-20"; "" for all."""
    return TextPart(
        text=f"<file path={path!r}{f' lines={lines!r}' if lines else ''}>\n{text}\n</file>"
    )
