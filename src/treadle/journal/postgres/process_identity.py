"""The identity of a process, by which another process of its host can prove that it is gone. Entry:

`identity`, `fate`.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal, TypeAlias

Fate: TypeAlias = Literal["alive", "gone", "unknown"]
"""unknown: the process runs elsewhere, or the system does not tell."""

_PROC = Path("/proc")


def identity() -> str | None:
    """Host, namespaces, id and start time of this process.

    None where the system does not tell, as on macOS and Windows.
    """
    host, pid = _host(), os.getpid()
    started = _started(pid)
    return None if host is None or started is None else f"{host} {pid} {started}"


def fate(known: str | None) -> Fate:
    """Look for the process with this `identity`.

    "gone" is certain: a process that was stopped is alive, and so is one not reaped yet.
    """
    host, pid, started = (
        (known or "").rsplit(" ", 2) if known and known.count(" ") > 1 else ("", "", "")
    )
    if not host or host != _host():
        return "unknown"
    try:
        os.kill(int(pid), 0)  # reaches processes that /proc may hide
    except ProcessLookupError:
        return "gone"
    except OSError:
        pass
    return "alive" if _started(int(pid)) in (None, started) else "gone"


def _started(pid: int) -> str | None:
    """Field 22 of proc_pid_stat(5), in clock ticks since boot.

    The second field may hold spaces and parentheses.
    """
    try:
        return (
            (_PROC / str(pid) / "stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    except (OSError, IndexError):
        return None


def _host() -> str | None:
    """This boot of this machine and this container.

    The name of the host tells copies of a running virtual machine apart.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespaces = [os.readlink(_PROC / "self/ns" / kind) for kind in ("pid", "time")]
    except (OSError, ValueError):
        return None
    return " ".join((socket.gethostname(), boot, *namespaces))
