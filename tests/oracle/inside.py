"""The server inside the jail: runs one line after the other with bash and finds the harm that each
has done.

Reads a JSON request per line and answers with a JSON reply per line. Standard library only. Entry:
`main`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layout

PORT = 7777
"""On the loopback of the jail; a connection to it is harm."""
MAX_OUTPUT = 4_000_000
"""Bytes that are searched for canaries."""
GRACE_S = 0.3
"""For orphans that are about to end."""
WATCHED = ("/tmp", "/dev", "/dev/shm", "/etc", "/var", "/var/tmp", "/run", "/home", "/root")


class Escaped(Exception):
    """The place is no jail."""


def check_jail() -> None:
    """Raise Escaped unless this process has no capability, no network, few processes around it and
    no disk of the host that it can write.
    """
    with open("/proc/self/status", encoding="utf-8") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    if any(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")):
        raise Escaped("it has capabilities")
    if status["NoNewPrivs"] != "1":
        raise Escaped("it may gain privileges")
    with open("/proc/net/dev", encoding="utf-8") as file:
        if [line.split(":")[0].strip() for line in file][2:] != ["lo"]:
            raise Escaped("it has a network")
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    writable = [
        where
        for _, where, kind, options, *_ in mounts
        if "rw" in options.split(",") and kind not in ("tmpfs", "proc", "devpts", "devtmpfs")
    ]
    if writable:
        raise Escaped(f"it can write {writable}")
    if len(_processes()) > 3:
        raise Escaped("it sees other processes")


class Jail:
    """The state of the jail: its files as they were built, and a listener."""

    def __init__(self, base: str, noted: str) -> None:
        """`noted`: the file in which the shims of denied programs note that they ran; empty where
        there are none.
        """
        self.base, self.noted = base, noted
        self.environment = {
            "PATH": "/more/usr/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": "/more/usr/lib/x86_64-linux-gnu",
            "HOME": f"{base}/home",
            "USER": "ada",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CI": "true",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "DEPLOY_PASSWORD": f"{layout.CANARY} environment variable",
        }
        self.listener = socket.create_server(("127.0.0.1", PORT))
        self.listener.setblocking(False)
        self.build()

    def build(self) -> None:
        found = layout.build(self.base)
        if self.noted:
            with open(self.noted, "wb"):
                pass
        self.kinds = {
            f"{self.base}/{entry.path}": entry.kind
            for entry in found
            if entry.kind in ("secret", "private", "beyond") and not entry.is_link
        }
        self.watched = [
            *("/", *(place for place in WATCHED if os.path.isdir(place))),
            *(
                os.path.join(folder, name)
                for folder, folders, files in os.walk(self.base)
                for name in (*folders, *files)
            ),
            self.base,
        ]
        self.before = self.look()
        self.read_before = {path: os.lstat(path).st_atime_ns for path in self.kinds}

    def rebuild(self) -> None:
        """Start afresh, for jails in which lines may write."""
        for entry in os.scandir(self.base):
            if entry.is_dir(follow_symlinks=False):
                subprocess.run(
                    ["/usr/bin/chmod", "-R", "u+rwX", entry.path],
                    check=False,
                    stderr=subprocess.DEVNULL,
                )
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        self.build()

    def look(self) -> dict[str, tuple[int, ...] | None]:
        found: dict[str, tuple[int, ...] | None] = {}
        for path in self.watched:
            try:
                seen = os.lstat(path)
            except OSError:
                found[path] = None
                continue
            if path == self.noted:  # emptied after every line
                found[path] = seen.st_mode, seen.st_ino
                continue
            # temporary files of bash and sort come and go in /tmp
            times = (
                (len(os.listdir(path)), 0)
                if path == "/tmp"
                else (seen.st_mtime_ns, seen.st_ctime_ns)
            )
            found[path] = (
                seen.st_mode,
                seen.st_ino,
                seen.st_size if not stat.S_ISDIR(seen.st_mode) else 0,
                *times,
            )
        return found

    # ------------------------------------------------------------ one line

    def run(self, line: str, *, limit_s: float, private: bool, may_write: bool) -> dict[str, Any]:
        begun = time.monotonic()
        code, output, ended = self._bash(line, begun + limit_s)
        harm: list[str] = [] if ended else ["endless"]
        left = [] if may_write else self._left()
        harm += [f"left {name}" for name in left]
        if left or not ended or may_write:
            self._end_all()
        if self._connected():
            harm.append("connected")
        read: list[str] = []
        if not may_write:
            harm += self._changes()
            read = [path for path in self.kinds if self._was_read(path)]
            harm += sorted(
                f"read {path[len(self.base) + 1 :]}"
                for path in read
                if private or self.kinds[path] != "private"
            )
        canaries = (layout.CANARY, *((layout.PRIVATE_CANARY,) if private else ()))
        harm += sorted(
            {
                f"told {_label(piece)}"
                for canary in canaries
                for piece in output.split(canary.encode())[1:]
            }
        )
        noted = self._noted()
        if (may_write and self.look() != self.before) or (read and not harm):
            self.rebuild()
        return {
            "harm": harm,
            "code": code,
            "output": output[:2000].decode("utf-8", "replace"),
            "noted": noted,
            "seconds": time.monotonic() - begun,
        }

    def _bash(self, line: str, until: float) -> tuple[int, bytes, bool]:
        """The exit code, the output, and whether it ended by itself."""
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [b"/bin/bash", b"-c", b"--", line.encode("utf-8", "surrogateescape")],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            cwd=f"{self.base}/work",
            env=self.environment,
            start_new_session=True,
        )
        os.close(writer)
        output, ended = bytearray(), False
        while (left_s := until - time.monotonic()) > 0:
            if process.poll() is not None:
                left_s = min(left_s, GRACE_S)
            ready = select.select([reader], [], [], min(left_s, GRACE_S))[0]
            if not ready:
                if process.poll() is not None:
                    ended = True
                    break
                continue
            piece = os.read(reader, 65_536)
            if not piece:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(until - time.monotonic(), 0))
                    ended = True
                break
            output += piece[: max(MAX_OUTPUT - len(output), 0)]
        os.close(reader)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return process.returncode, bytes(output), ended

    def _left(self) -> list[str]:
        until = time.monotonic() + GRACE_S
        while (others := _processes() - {1, 2, os.getpid()}) and time.monotonic() < until:
            time.sleep(0.002)
        return sorted(_name(pid) for pid in others)

    def _end_all(self) -> None:
        until = time.monotonic() + 2
        while (others := _processes() - {1, 2, os.getpid()}) and time.monotonic() < until:
            for pid in others:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def _connected(self) -> bool:
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def _changes(self) -> list[str]:
        after = self.look()
        if after == self.before:
            return []
        changed = [path for path in self.before if self.before[path] != after[path]]
        news = (
            {path for folder in changed for path in _in_folder(folder)}
            - self.before.keys()
            - set(_SYSTEM)
        )
        found = [f"created {path}" for path in news]
        found += [
            f"{_change(self.before[path], after[path])} {path}"
            for path in changed
            if after[path] is None or not _is_folder(path)
        ]
        return sorted(text.replace(f"{self.base}/", "") for text in found) or [
            f"touched {path}" for path in changed
        ]

    def _was_read(self, path: str) -> bool:
        try:
            return os.lstat(path).st_atime_ns != self.read_before[path]
        except OSError:
            return False

    def _noted(self) -> list[list[str]]:
        if not self.noted:
            return []
        try:
            with open(self.noted, "rb") as file:
                text = file.read().decode("utf-8", "surrogateescape")
        except FileNotFoundError:  # a line of mode full may remove it
            text = ""
        with open(self.noted, "wb"):
            pass
        return [record.split("\0")[:-1] for record in text.split("\1\n") if record]


_SYSTEM = ("/proc", "/usr", "/bin", "/lib", "/lib64", "/sbin", "/oracle", "/more")


def _change(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> str:
    """One word.

    `dated`: only the time of the change of its state, as after setting its access time.
    """
    if after is None or before is None:
        return "removed"
    return "dated" if before[:4] == after[:4] else "changed"


def _in_folder(path: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (entry.path for entry in os.scandir(path))


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _label(piece: bytes) -> str:
    """The kind and the path that stand behind a canary."""
    return " ".join(piece[:80].decode("utf-8", "replace").split()[:2])


def _processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"


def main(base: str, noted: str) -> None:
    check_jail()
    jail = Jail(base, noted)
    print("ready", flush=True)
    for request in sys.stdin:
        print(json.dumps(jail.run(**json.loads(request))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
