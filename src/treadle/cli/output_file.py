"""The file that `-o` names, which receives the output in place of stdout. Entry points:
`OutputFile`, `write_out`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from io import BytesIO, FileIO
from pathlib import Path

from typing_extensions import override

from treadle._internal.safe_open import open_in_place
from treadle.cli.exits import CommandFailed
from treadle.cli.terminal import put_bytes

_PRIVATE = partial(os.open, mode=0o600)
"""Opener that makes new files readable only by their owner, whatever the umask, because they
contain a conversation.

An existing file keeps its mode.
"""


class OutputFile(BytesIO):
    """Output file that is written at each flush. The first flush truncates it, so that a run that
    fails to start leaves it unchanged.

    If a write fails, the output goes to stdout instead, and the run continues.
    """

    def __init__(self, path: Path) -> None:
        """Check that the file can be written. Raises CommandFailed if it obviously cannot. Does not
        touch it.
        """
        super().__init__()
        self._path, self._place = path, Path(os.path.realpath(path))
        self._file: FileIO | None = None
        self._size_bytes = 0
        """Size of the complete pieces in the file, in bytes."""
        self._lost: OSError | None = None
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CommandFailed(
                f"-o {str(path)!r} cannot be written: check that its directory exists and is yours"
            )
        # Opening a pipe waits for its reader; Ctrl-C still works here.
        if path.exists() and not path.is_file():
            try:
                self._file = FileIO(path, "w", opener=_PRIVATE)
            except OSError as e:
                raise CommandFailed(f"-o {str(path)!r} cannot be written: {e.strerror or e}") from e

    @override
    def flush(self) -> None:
        """Write the buffered output. Raises OSError if stdout, as the fallback, fails too."""
        piece = self.getvalue()
        self.seek(0)
        self.truncate()
        if self._lost is None:
            try:
                self._write(piece)
                return
            except OSError as e:
                self._lost = e
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    def finish(self) -> None:
        """Flush and close the file, which exists afterwards even if there was no output.

        Raises CommandFailed if part of the output went to stdout.
        """
        self.flush()
        if self._lost is not None:
            raise CommandFailed(
                (
                    f"-o {str(self._path)!r} could not be written "
                    f"({self._lost.strerror or self._lost}): the rest is on stdout"
                ),
                1,
            )
        try:
            self.close()
        except OSError as e:  # a network file system may report a full disk only here
            raise CommandFailed(
                f"-o {str(self._path)!r} may be incomplete: {e.strerror or e}", 1
            ) from e

    @override
    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def _write(self, piece: bytes) -> None:
        """Write the whole piece, or nothing."""
        if self._file is None:
            self._file = FileIO(
                open_in_place(self._place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w"
            )
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError:
            with suppress(OSError):  # a pipe has nothing to cut
                self._file.truncate(self._size_bytes)
            raise
        self._size_bytes += len(piece)


def write_out(data: bytes, output_file: Path | None) -> None:
    """Write complete data to the file, or to stdout.

    Raises CommandFailed, or the exception for an unwritable stdout.
    """
    if output_file is None:
        put_bytes(data)
        return
    with OutputFile(output_file) as out:
        out.write(data)
        out.finish()
