"""Configuration files on disk, read without blocking and written for the owner only.

document.py and keys.py interpret the text. Entry points: `read_text`, `read_bytes`, `decoded`,
`write_text`.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from treadle._internal import held_files
from treadle.errors import AgentError

if TYPE_CHECKING:
    from pathlib import Path

SIZE_MAX_BYTES = 1 << 20

UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
"""Characters that YAML forbids, and those that change the text direction."""


class Broken(Exception):
    """Raised if a file cannot be read as a configuration; `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


class Unreadable(Broken):
    """Raised if the path is not a regular file, or reading is denied."""


class FileContent(NamedTuple):
    data: bytes
    mode: int
    """Permission bits; 0o600 on systems without them."""


class OpenedText(NamedTuple):
    text: str
    mode: int
    data: bytes
    """Bytes that the text was decoded from."""


def read_text(
    path: Path, *, own: bool = False, size_max_bytes: int = SIZE_MAX_BYTES
) -> OpenedText | None:
    """Read a file as `read_bytes` does. Raises Broken also if it is not printable UTF-8."""
    read = read_bytes(path, own=own, size_max_bytes=size_max_bytes)
    return (
        None
        if read is None
        else OpenedText(
            decoded(read.data, "invalid YAML: the character {!r} is not allowed"),
            read.mode,
            read.data,
        )
    )


def read_bytes(
    path: Path, *, own: bool = False, size_max_bytes: int = SIZE_MAX_BYTES
) -> FileContent | None:
    """Return the content of a regular file of at most 1 MiB, or None if it does not exist.

    Never blocks on a FIFO and never opens a device. `own`: True for the user's own file, which is
    rejected if others can write to it. Raises Broken.
    """
    try:
        # stat before open: opening alone can rewind a tape
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(1, "is not a regular file")
        held_files.check(found, str(path))
        descriptor = os.open(
            path,
            os.O_RDONLY
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_NOCTTY", 0)
            | getattr(os, "O_BINARY", 0),
        )
        held_files.check_opened(descriptor, str(path))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(1, "is not a regular file")
            mode = stat.S_IMODE(status.st_mode) if os.name == "posix" else 0o600
            if own and mode & 0o022:
                raise Broken(
                    1,
                    (
                        f"is writable by others (mode {mode:04o}), so it is ignored: "
                        f"{owned_alone(path)}"
                    ),
                )
            data = file.read(size_max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise Unreadable(1, f"cannot be read: {e.strerror or e}") from e
    if len(data) > size_max_bytes:
        raise Broken(1, f"is larger than {size_max_bytes} bytes: too large for a configuration")
    return FileContent(data, mode)


def owned_alone(path: Path) -> str:
    """Return the command that makes a file private to its owner."""
    import shlex  # noqa: PLC0415  only for a message

    return f"chmod 600 {shlex.quote(str(path))}"


def decoded(data: bytes, refused: str) -> str:
    """Decode UTF-8 and reject invisible characters.

    `refused`: the error message for such a character, which replaces `{!r}` in it. Raises Broken
    with the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise Broken(
            data.count(b"\n", 0, e.start) + 1, f"is not UTF-8 text: byte {data[e.start]:#04x}"
        ) from e
    if strange := UNPRINTABLE.search(text):
        raise Broken(text.count("\n", 0, strange.start()) + 1, refused.format(strange[0]))
    return text


def write_text(path: Path, text: str) -> None:
    """Replace the file atomically, readable by its owner only (0600, in a folder of 0700).

    A symlink is kept. Raises AgentError(invalid).
    """
    import tempfile  # noqa: PLC0415  only `config set` writes

    path = path.resolve()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".config-", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as e:
        raise AgentError("invalid", f"{path}: cannot be written: {e.strerror or e}") from e
