"""Audit trail: one line of JSON for each action of a run, with known secrets masked.

Treadle never reads the file. Logs are in telemetry/. Entry point: `Audit`.
"""

from __future__ import annotations

import os
from pathlib import Path

from typing_extensions import override

from treadle._internal.json_text import encode_json
from treadle._internal.safe_open import open_in_place
from treadle.errors import AgentError
from treadle.events.hooks.hook import Hook
from treadle.messages import events
from treadle.messages.events import Event

_TOLD = (
    events.RunStart,
    events.InputAdded,
    events.MessageAdded,
    events.ToolCallAsked,
    events.ApprovalRequested,
    events.ApprovalResolved,
    events.ToolCallStart,
    events.ToolCallEnd,
    events.Warned,
    events.ChildStart,
    events.RunEnd,
)


class Audit(Hook):
    """Hook that appends each action to a file, as an event in the form of `stream-json`, before the
    run continues. Lines survive a crash of the process, but not a power failure.

    The file has mode 0600. It is opened for each line, so you can move it at any time, and several
    processes can share it. If it cannot be written, a `warning` event and the log report it once,
    and the run continues. Each further line is a new attempt.
    """

    def __init__(self, path: str | Path) -> None:
        """Create an audit. The file is opened with the first line, so errors appear in the first
        run.
        """
        self.path = Path(path).expanduser()
        """File to append to."""
        self._place = Path(os.path.realpath(self.path))
        self._broken = False

    @override
    def on_event(self, event: Event) -> None:
        """Append a line for an event that is an action."""
        if not isinstance(event, _TOLD):
            return
        try:
            self._add(encode_json(event) + b"\n")
        except OSError as e:
            if not self._broken:
                self._broken = True
                raise AgentError(
                    "agent",
                    (
                        f"the audit file {str(self.path)!r} cannot be written: {e.strerror or e}. "
                        "Its lines are lost until it can"
                    ),
                ) from e
        else:
            self._broken = False

    def _add(self, line: bytes) -> None:
        """Append the line in a single write, where the system allows it, so that lines of several
        processes do not mix.
        """
        fd = open_in_place(self._place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            while line:
                line = line[os.write(fd, line) :]
        finally:
            os.close(fd)
