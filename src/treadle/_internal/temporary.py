"""Private folders among the temporary files, which do not outlive their process for long, however
it ends. Entry: `TemporaryFolder`.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from treadle._internal.file_lock import hold, is_held

_PREFIX = "treadle-"
_ALIVE = ".alive"
"""A file in it that its process holds. Where nobody does, the process was killed."""


class TemporaryFolder:
    """Made with mode 0700. It goes with `close`; where its process is killed first, with the next
    one that makes such a folder.

    Raises OSError where it cannot be made.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """`parent`: in place of the system's folder for temporary files."""
        parent = parent or Path(tempfile.gettempdir())
        for left in _left_behind(parent):
            shutil.rmtree(left, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._held = hold(self.path / _ALIVE, "")

    def close(self) -> None:
        """Removes it, with all that is in it. Idempotent."""
        if self._held >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = -1


def _left_behind(parent: Path) -> Iterator[Path]:
    """Yield our own leftovers: in a folder that everyone may write to, others may use such names
    too.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(_PREFIX) and _is_ours(entry.stat(follow_symlinks=False)):
                    alive = Path(entry.path, _ALIVE)
                    if alive.exists() and is_held(alive) is None:
                        yield Path(entry.path)


def _is_ours(told: os.stat_result) -> bool:
    return stat.S_ISDIR(told.st_mode) and (not hasattr(os, "getuid") or told.st_uid == os.getuid())
