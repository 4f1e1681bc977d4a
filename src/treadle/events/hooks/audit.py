"""Audit trail: one line of JSON for each action of a run, as in the journal, without known secrets.

It is not a log (telemetry/), and is never read back. Entry point: `Audit`.
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
    """Writes each line, a whole event of `stream-json`, before the run continues: it survives the
    process, not a power cut.

    The file has mode 0600 and is opened for each line, so you can move it away at any time; several
    processes may share it. If it cannot be written, that is reported once (a `warning` event, and
    the log) and tried again with each line; the run continues.
    """

    def __init__(self, path: str | Path) -> None:
        """Open nothing yet: errors of the path appear in the first run."""
        self.path = Path(path).expanduser()
        """File that the lines are appended to."""
        self._place = Path(os.path.realpath(self.path))
        self._broken = False

    @override
    def on_event(self, event: Event) -> None:
        """Append a line for an event that belongs in an audit."""
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
        """Write the line at once if the system allows it: lines of several processes do not mix."""
        fd = open_in_place(self._place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            while line:
                line = line[os.write(fd, line) :]
        finally:
            os.close(fd)
