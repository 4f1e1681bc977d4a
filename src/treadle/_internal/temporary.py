"""Private temporary folders that are removed soon after their process ends, even if it is killed.
Entry point: `TemporaryFolder`.
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
"""Name of a file in the folder that its process holds. If no process does, its process was killed.
"""


class TemporaryFolder:
    """Folder with mode 0700. `close` removes it; if its process is killed first, the next process
    that creates such a folder removes it.

    Raises OSError if it cannot be created.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Create a temporary folder. `parent`: the folder to create it in; by default the system's
        temporary folder.
        """
        parent = parent or Path(tempfile.gettempdir())
        for left in _left_behind(parent):
            shutil.rmtree(left, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._held = hold(self.path / _ALIVE, "")

    def close(self) -> None:
        """Remove the folder and its content. Idempotent."""
        if self._held >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = -1


def _left_behind(parent: Path) -> Iterator[Path]:
    """Yield abandoned folders of our own user. Other users may create folders with such names in a
    folder that everyone can write to.
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
