"""Attempt to escape from the sandbox, and its environment. Entry point: `EscapeAttempt`."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    pass

AS_IT_WAS = "as it was\n"


class EscapeGround(NamedTuple):
    """Environment of an escape attempt: a workspace with control files, a home directory with
    secrets, and files outside.
    """

    place: Path
    tcp: socket.socket
    udp: socket.socket
    public: Path
    """File in the shared temporary directory."""
    neighbour: subprocess.Popen[bytes]
    """Another process of this user, with a secret in its environment."""
    quarantined: list[str]

    @property
    def settings(self) -> dict[str, object]:
        paths = {
            "OUT": self.place / "out",
            "HOME_": self.place / "home",
            "OWN": self.place / "own",
            "PUBLIC": self.public,
            "ROOM": self.place,
        }
        return {
            **paths,
            "TCP": self.tcp.getsockname()[1],
            "UDP": self.udp.getsockname()[1],
            "NEIGHBOUR": self.neighbour.pid,
        }

    def is_as_it_was(self, path: str) -> bool:
        with suppress(OSError):
            return (self.place / path).read_text() == AS_IT_WAS
        return False


class EscapeAttempt(NamedTuple):
    name: str
    script: str
    """Script for bash, in the workspace.

    The variables are those of `EscapeGround.settings`; `$PY` runs the part of the program of that
    name.
    """
    traces: Callable[[EscapeGround], bool] = lambda ground: False
    """Return True if something outside shows that the attempt succeeded. Called after everything
    inside has ended.
    """
    times_out: bool = False
    as_root: bool = False
    """True if the attempt could succeed only as root."""
    grouped: bool = False
    """True if only a control group prevents it."""
    only_looks: bool = False
    """True for an attempt in a read-only room."""


def changed(path: str) -> Callable[[EscapeGround], bool]:
    return lambda ground: not ground.is_as_it_was(path)


def there(path: str) -> Callable[[EscapeGround], bool]:
    return lambda ground: os.path.lexists(ground.place / path)
