"""Test that bubblewrap works on this machine: ten properties, checked from inside in one command,
and cached until something changes, in this process and in Treadle's directory.

escapes.py attempts all known escapes one by one. Entry point: `Trial`.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from treadle._internal.temporary import TemporaryFolder
from treadle.policy.sandboxes.seccomp import MACHINES
from treadle.policy.sandboxes.trial_thread import TrialThread
from treadle.tools.confinement import CommandRoom, SandboxStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WITHIN_S = 10.0
"""Timeout in seconds, for a very busy machine. The test usually takes a twentieth of a second."""
REMEMBERED = "sandbox.json"
_succeeded: dict[tuple[str, ...], _Success] = {}
"""Successes of this process by key, for runtimes with other directories. Forked processes inherit
them.
"""

_ATTEMPTS = r"""
cd "$WORK" || exit 1
{ : > "$OUT"; } 2>/dev/null
echo made > made
{ echo x > .git/config; } 2>/dev/null; { echo x > .git/hooks/pre-commit; } 2>/dev/null
mv .git moved 2>/dev/null
{ read -r line < "$SECRET"; } 2>/dev/null && echo 'a secret was read'
{ exec 3<>/dev/tcp/127.0.0.1/$PORT; } 2>/dev/null && echo 'the network was reached'
{ read -rd '' first < /proc/1/cmdline; } 2>/dev/null; [ "$first" = "$BWRAP" ] || echo 'other processes are in view'
while read -r name value; do
    case $name in
        CapPrm: | CapEff: | CapBnd:) [ "${value//0/}" ] && echo 'capabilities were kept' ;;
        NoNewPrivs:) [ "$value" = 1 ] || echo 'privileges could be gained' ;;
        Seccomp:) [ "$value" = 2 ] || echo 'system calls are not filtered' ;;
    esac
done < /proc/self/status
{ exec 4>/proc/sys/kernel/core_pattern; } 2>/dev/null && echo 'settings of the kernel could be written'
[ -e "$PUBLIC" ] && echo 'the temporary files of others are in view'
[ "$TREADLE_TRIAL" ] && echo 'a variable was passed on'
echo 'to the end'
"""  # noqa: E501


class _Success(msgspec.Struct, frozen=True):
    key: tuple[str, ...]
    text: str
    disable_userns: bool


class TrialCage(Protocol):
    """Confined command that is ready to run."""

    def run_blocking(self, timeout_s: float) -> tuple[int, str]: ...


class TrialSandbox(Protocol):
    """Interface of a bubblewrap sandbox that a test uses."""

    program: str

    def twin(self, *, home: Path, own: Path) -> TrialSandbox:
        """Return the same sandbox with another home directory."""
        ...

    def make_cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> TrialCage: ...


class Trial:
    """Test of one bubblewrap program, in its own thread."""

    def __init__(self, sandbox: TrialSandbox, own: Path | None) -> None:
        self._sandbox = sandbox
        self._remembered = own / REMEMBERED if own is not None else None
        self._thread = TrialThread("bubblewrap", self._found_out)
        self.knows_disable_userns = False

    def begin(self) -> None:
        self._thread.begin()

    async def standing(self) -> SandboxStatus:
        return await self._thread.standing()

    async def aclose(self) -> None:
        await self._thread.aclose()

    def forget(self) -> None:
        """Discard the result, so that the next process tests again."""
        if self._remembered is not None:
            self._remembered.unlink(missing_ok=True)
        _succeeded.pop(self._key(), None)

    # ------------------------------------------------------------ in the thread

    def _found_out(self) -> SandboxStatus:
        if (success := self._recalled()) is None:
            if (success := _succeeded.get(self._key())) is None:
                return self._tried()
            self._remember(success)
        self.knows_disable_userns = success.disable_userns
        return SandboxStatus(works=True, text=success.text)

    def _tried(self) -> SandboxStatus:
        if platform.machine() not in MACHINES:
            return SandboxStatus(
                works=False,
                text=f"its filter of system calls is not known for {platform.machine()} machines",
            )
        version = self._version()
        self.knows_disable_userns = version >= (0, 8)
        words = ".".join(map(str, version))
        escaped = self._attempted()
        if escaped:
            return SandboxStatus(
                works=False, text=f"bubblewrap {words} does not confine commands here: {escaped}"
            )
        text = f"bubblewrap {words} confines commands"
        self._remember(_Success(self._key(), text, self.knows_disable_userns))
        return SandboxStatus(works=True, text=text)

    def _version(self) -> tuple[int, ...]:
        said = subprocess.run(
            [self._sandbox.program, "--version"],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=True,
        ).stdout
        return tuple(int(number) for number in re.findall(r"\d+", said)[:3])

    def _attempted(self) -> str:
        """Return the first failure; empty if everything works."""
        own = self._remembered.parent if self._remembered is not None else None
        with _fixture(own if own is not None and os.access(own, os.W_OK) else None) as (
            place,
            port,
            public,
        ):
            twin = self._sandbox.twin(home=place / "home", own=place / "own")
            room = CommandRoom(
                workspace=place / "work",
                scratch=lambda: place / "scratch",
                quarantine=lambda: place / "own",
            )
            settings = {
                "WORK": room.workspace,
                "OUT": place / "out",
                "SECRET": place / "home/.ssh/id_rsa",
                "PORT": port,
                "BWRAP": twin.program,
                "PUBLIC": public,
            }
            script = "".join(f"{name}='{value}'\n" for name, value in settings.items()) + _ATTEMPTS
            environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TREADLE_TRIAL": "1"}
            cage = twin.make_cage(["/bin/bash", "-c", script], room.workspace, environment, room)
            code, said = cage.run_blocking(WITHIN_S)
            lines = said.strip().split("\n")
            if code != 0 or lines[-1] != "to the end":
                return _explained(said)
            wrong = [*lines[:-1], *_traces(place)]
            return "; ".join(wrong)

    # ------------------------------------------------------------ cached result

    def _key(self) -> tuple[str, ...]:
        system, program = os.uname(), os.stat(self._sandbox.program)
        parts = (
            system.release,
            system.version,
            self._sandbox.program,
            program.st_mtime_ns,
            program.st_size,
            os.geteuid(),
            getattr(sys.modules["treadle"], "__version__", ""),
        )
        return tuple(str(part) for part in parts)

    def _recalled(self) -> _Success | None:
        """Return a cached success. Failures are not cached, because their cause may have been
        fixed.
        """
        if self._remembered is None:
            return None
        with suppress(OSError, ValueError):
            known = msgspec.json.decode(self._remembered.read_bytes(), type=_Success)
            if known.key == self._key():
                return known
        return None

    def _remember(self, success: _Success) -> None:
        _succeeded[success.key] = success
        if self._remembered is None or not self._remembered.parent.is_dir():
            return
        data = msgspec.json.encode(success)
        with suppress(OSError):
            handle, name = tempfile.mkstemp(prefix=".sandbox-", dir=self._remembered.parent)
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(name, self._remembered)


@contextmanager
def _fixture(base: Path | None) -> Generator[tuple[Path, int, str]]:
    """Create the fixture of the test: a home directory, a workspace, files outside, a listening
    port, and a directory in the shared temporary directory.
    """
    folder, public = TemporaryFolder(base), TemporaryFolder()
    place = folder.path
    try:
        for name in ("home/.ssh", "own", "scratch", "work/.git/hooks"):
            (place / name).mkdir(parents=True)
        for file in ("home/.ssh/id_rsa", "out", "work/.git/config"):
            (place / file).write_text("as it was\n")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            yield place, listening.getsockname()[1], str(public.path)
    finally:
        folder.close()
        public.close()


def _traces(place: Path) -> Iterator[str]:
    if (place / "out").read_text() != "as it was\n":
        yield "a file outside the workspace was written"
    if not (place / "work/made").exists():
        yield "nothing could be written in the workspace"
    if (
        (place / "work/moved").exists()
        or (place / "work/.git/config").read_text() != "as it was\n"
        or any((place / "work/.git/hooks").iterdir())
    ):
        yield "a control file was changed"


def _explained(said: str) -> str:
    words = said.strip().split("\n")[-1][:300]
    if "Operation not permitted" in said or "Permission denied" in said or "No permissions" in said:
        return (
            f"{words!r}. User namespaces are refused: inside a container start it with them "
            "allowed, on Ubuntu 24.04 and later give bwrap an AppArmor profile"
        )
    return words or "it said nothing"
