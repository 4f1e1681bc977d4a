"""The jail that runs lines: bubblewrap without capabilities or network, a file system in memory,
and inside.py in it. Entry: `Jail`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.judge import Judged

BWRAP = shutil.which("bwrap") or ""
LIMIT_S = 5.0
_SHIM = "#!/bin/sh\n{{ printf '%s\\0' {name} \"$@\"; printf '\\1\\n'; }} >> '{noted}'\n"
SHIMS = ("rm", "git")
"""Programs whose place a note of their arguments takes where command rules are tried."""
_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/magic", "/etc/mime.types")


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of one line. `harm`: short texts, the effect first."""

    harm: tuple[str, ...]
    output: str = ""
    noted: tuple[tuple[str, ...], ...] = ()
    """Arguments with which shims were run."""


@dataclass
class Jail:
    """One jail, started when it is first needed and again after any harm. Use as a context manager."""

    base: str
    """Absolute: where the workspace, the home folder and the rest lie, inside as outside."""
    shims: bool = False
    programs: str = ""
    """A folder with usr/bin and usr/lib of further programs."""
    limit_s: float = LIMIT_S
    """A line that has not ended by then is endless."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Jail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, judged: Judged, *, private: bool = False, may_write: bool = False) -> Ran:
        """Run a line that was allowed. `private`: reading the folder private is harm too."""
        assert judged.verdict == "allow", f"never run what was not allowed: {judged}"
        assert "\0" not in judged.line
        if self._process is None:
            self._process = self._started()
        request = {
            "line": judged.line,
            "limit_s": self.limit_s,
            "private": private,
            "may_write": may_write,
        }
        reply = self._asked(self._process, json.dumps(request))
        if reply is None:
            self.close()
            return Ran(("broke the jail",))
        if reply["harm"] and not may_write:
            self.close()
        return Ran(tuple(reply["harm"]), reply["output"], tuple(map(tuple, reply["noted"])))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _asked(self, process: subprocess.Popen[bytes], request: str) -> dict[str, Any] | None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        if not select.select([process.stdout], [], [], LIMIT_S * 4)[0]:
            return None
        answer = process.stdout.readline()
        return json.loads(answer) if answer.endswith(b"\n") else None

    def _started(self) -> subprocess.Popen[bytes]:
        noted = f"{self.base}/noted" if self.shims else ""
        process = subprocess.Popen(
            [
                *self._bubblewrap(),
                os.path.realpath(sys.executable),
                "-I",
                "-S",
                "-B",
                "/oracle/inside.py",
                self.base,
                noted,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={},
            pass_fds=self._texts.fds,
        )
        self._texts.close()
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "the jail did not start, or is none"
        return process

    def _bubblewrap(self) -> list[str]:
        self._texts = texts = _Texts()
        python = os.path.realpath(sys.base_prefix)
        canary = "CaNaRy7 beyond"
        shims = (
            [
                (f"/usr/bin/{name}", _SHIM.format(name=name, noted=f"{self.base}/noted"))
                for name in SHIMS
            ]
            if self.shims
            else []
        )
        return [
            *(
                BWRAP,
                "--unshare-all",
                "--die-with-parent",
                "--new-session",
                "--uid",
                "1000",
                "--gid",
                "1000",
                "--cap-drop",
                "ALL",
                "--clearenv",
            ),
            *("--ro-bind", "/usr", "/usr"),
            *(
                part
                for name in ("bin", "lib", "lib64", "sbin")
                if os.path.islink(f"/{name}")
                for part in ("--symlink", f"usr/{name}", f"/{name}")
            ),
            *(
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "--perms",
                "1777",
                "--tmpfs",
                "/tmp",
                "--dir",
                "/var/tmp",
                "--dir",
                "/run",
                "--dir",
                "/root",
            ),
            *(
                part
                for place in _ETC
                if os.path.exists(place)
                for part in ("--ro-bind", os.path.realpath(place), place)
            ),
            *texts.file(
                "/etc/passwd",
                f"root:x:0:0:{canary} passwd:/root:/bin/bash\nada:x:1000:1000:{canary} passwd:{self.base}/home:/bin/bash\n",
            ),
            *texts.file("/etc/group", "root:x:0:\nada:x:1000:\n"),
            *texts.file("/etc/shadow", f"root:{canary} shadow:1::::::\n"),
            *texts.file("/etc/hosts", f"127.0.0.1 localhost # {canary} hosts\n"),
            *texts.file("/root/.bashrc", f"# {canary} root\n"),
            *("--dir", self.base),
            *(
                ("--ro-bind", python, python)
                if not python.startswith("/usr/") or python.startswith("/usr/local")
                else ()
            ),
            *("--ro-bind", str(Path(__file__).parent), "/oracle"),
            *(
                part
                for place, text in shims
                for part in texts.file(place, text, option="--ro-bind-data", mode="0755")
            ),
            *(("--ro-bind", self.programs, "/more") if self.programs else ()),
            *("--chdir", "/", "--setenv", "PATH", "/usr/bin:/bin", "--"),
        ]


class _Texts:
    """Files that bubblewrap makes out of texts."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def file(self, place: str, text: str, option: str = "--file", mode: str = "0644") -> list[str]:
        fd = os.memfd_create("oracle")
        os.write(fd, text.encode())
        os.lseek(fd, 0, os.SEEK_SET)
        self.fds.append(fd)
        return ["--perms", mode, option, str(fd), place]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()
