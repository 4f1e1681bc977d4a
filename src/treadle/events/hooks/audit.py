"""Who did what, in a file: one line of JSON for each thing that a run did, as it is in the journal,
without known secrets. Entry: `Audit`.

It is no log of how things went (telemetry/), and nothing is read from it again.
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
    """Each line is a whole event of `stream-json`, and is with the operating system before the run
    goes on: it outlives the process, not a power cut.

    The file has mode 0600 and is opened anew for each line, so it may be moved away at any time;
    several processes may share one. One that cannot be written is told once (a `warning` event, and
    the log), tried again with each line, and harms no run.
    """

    def __init__(self, path: str | Path) -> None:
        """Nothing is opened yet: what is wrong with the place is told in the first run."""
        self.path = Path(path).expanduser()
        self._place = Path(os.path.realpath(self.path))
        self._broken = False

    @override
    def on_event(self, event: Event) -> None:
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
        """With one write where the system takes it whole: lines of several processes do not mix."""
        fd = open_in_place(self._place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            while line:
                line = line[os.write(fd, line) :]
        finally:
            os.close(fd)
