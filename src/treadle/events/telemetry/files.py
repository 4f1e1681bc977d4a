"""Private log file, to which several processes can append lines. Entry point: `LogFile`."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.errors import AgentError


class LogFile:
    """Log file for appending, created if missing. Each `write` is appended as a whole."""

    def __init__(self, path: str) -> None:
        """Open the file. Raises AgentError(invalid) if it cannot be opened."""
        file = Path(path).expanduser()
        # opening a pipe without a reader would block; Windows lacks the flag
        at_once: int = getattr(os, "O_NONBLOCK", 0)
        try:
            self._fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | at_once, 0o600)
        except OSError as e:
            raise AgentError(
                "invalid", f"telemetry.log_file: {str(file)!r} cannot be written: {e.strerror}"
            ) from e
        if at_once:
            os.set_blocking(self._fd, True)

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._fd, data) :]
        return len(text)

    def flush(self) -> None:
        """Do nothing, because lines are not buffered."""

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def close(self) -> None:
        os.close(self._fd)
