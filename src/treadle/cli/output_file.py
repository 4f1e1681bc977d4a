"""FILE of `-o`: takes what would be printed. How a run looks there is render.py's. Entry:

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
"""Makes a new file for its owner alone, whatever the umask is: it holds a conversation.

A file that is there keeps its mode.
"""


class OutputFile(BytesIO):
    """Each flush writes what was said since the last one. The first makes FILE anew: a run that
    could not start leaves it as it was.

    What FILE does not take goes to stdout whole, and the run goes on.
    """

    def __init__(self, path: Path) -> None:
        """Raises Failed where FILE cannot be written, as far as that can be seen without touching
        it.
        """
        super().__init__()
        self._path, self._place = path, Path(os.path.realpath(path))
        self._file: FileIO | None = None
        self._size_bytes = 0
        """What FILE holds of whole pieces."""
        self._lost: OSError | None = None
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CommandFailed(
                f"-o {str(path)!r} cannot be written: is its directory there, and yours?"
            )
        # a pipe waits here for its reader, where Ctrl-C still ends the wait
        if path.exists() and not path.is_file():
            try:
                self._file = FileIO(path, "w", opener=_PRIVATE)
            except OSError as e:
                raise CommandFailed(f"-o {str(path)!r} cannot be written: {e.strerror or e}") from e

    @override
    def flush(self) -> None:
        """Raises OSError where stdout, in FILE's place, takes no more."""
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
        """After the run; FILE is there even where nothing was said.

        Raises Failed where a part of it stands elsewhere.
        """
        self.flush()
        if self._lost is not None:
            raise CommandFailed(
                (
                    f"-o {str(self._path)!r} could not be written "
                    f"({self._lost.strerror or self._lost}): what it lacks stands on stdout"
                ),
                1,
            )
        try:
            self.close()
        except OSError as e:  # where a file system in the network first says that it is full
            raise CommandFailed(
                f"-o {str(self._path)!r} may not be whole: {e.strerror or e}", 1
            ) from e

    @override
    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def _write(self, piece: bytes) -> None:
        """All of the piece, or nothing of it."""
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
    """What stands whole already: to FILE, or to stdout.

    Raises as `OutputFile` does, and what ends a command where stdout takes no more.
    """
    if output_file is None:
        put_bytes(data)
        return
    with OutputFile(output_file) as out:
        out.write(data)
        out.finish()
