"""All known escapes from the sandbox, actually attempted: used by `treadle doctor --full` and by
the tests of each protection.

An attempt prints ESCAPED if it succeeds, or leaves a trace outside. Entry: `ATTEMPTS`,
`try_escape`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from treadle._internal.temporary import TemporaryFolder
from treadle.policy.sandboxes.escape_attempt import (
    AS_IT_WAS,
    EscapeAttempt,
    EscapeGround,
)
from treadle.policy.sandboxes.file_escapes import FILE_ESCAPES
from treadle.policy.sandboxes.limits import MIB, CommandLimits
from treadle.policy.sandboxes.system_escapes import PROGRAM, SYSTEM_ESCAPES
from treadle.tools.confinement import CommandRoom, Ruled

if TYPE_CHECKING:
    from treadle.policy.sandboxes.bubblewrap import Bubblewrap

WITHIN_S = 10.0
SMALL = CommandLimits(memory_bytes=256 * MIB, processes=48, file_bytes=16 * MIB)

ATTEMPTS = (*FILE_ESCAPES, *SYSTEM_ESCAPES)
"""Escape attempts, by the effect that must be prevented."""


def try_escape(sandbox: Bubblewrap, attempt: EscapeAttempt, base: Path) -> str:
    """Return the evidence of success; empty if the attempt was prevented. `base`: an existing,
    writable directory, preferably not a temporary one.

    Blocks, usually for a tenth of a second. Raises RuntimeError if it could not be attempted.
    """
    with _ground(base) as ground:
        tried = sandbox.twin(home=ground.place / "home", own=ground.place / "own", limits=SMALL)
        room = _room(ground.place, is_read_only=attempt.only_looks)
        settings = "".join(f"{name}='{value}'\n" for name, value in ground.settings.items())
        python = next(
            (
                p
                for p in ("/usr/bin/python3", os.path.realpath(sys.executable))
                if os.access(p, os.X_OK)
            ),
            "",
        )
        (ground.place / "work/attempt.py").write_text(PROGRAM)
        names = f"{settings}PY='{python} -I -S attempt.py'; PY_='{python} -I -S'"
        script = (
            f"exec 2>/dev/null; cd '{room.workspace}' || exit 1\n{names}\n{attempt.script}\necho "
            "to the end"
        )
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TREADLE_TRIAL": "1"}
        cage = tried.make_cage(["/bin/bash", "-c", script], room.workspace, environment, room)
        said = ""
        try:
            _, said = cage.run_blocking(0.5 if attempt.times_out else WITHIN_S)
        except subprocess.TimeoutExpired as e:
            if not attempt.times_out:
                raise RuntimeError(f"did not end within {WITHIN_S:.0f} s") from e
        ground.quarantined.extend(cage.quarantined)
        if "ESCAPED" in said:
            return said.partition("ESCAPED")[2].split("\n")[0].strip(": ") or "it succeeded"
        if attempt.traces(ground):
            return "it left a trace outside"
        if "to the end" not in said and not attempt.times_out:
            raise RuntimeError(said.strip()[-300:] or "nothing was said")
        return ""


def _room(place: Path, *, is_read_only: bool) -> CommandRoom:
    """Return a room with rules about `private`, `prod` and `later`, the last of which does not
    exist yet.
    """
    work = place / "work"

    def ruled() -> Ruled:
        denied = [str(work / name) for name in ("prod", "later") if (work / name).exists()]
        return Ruled(hidden=[str(work / "private")], fixed=denied, denied=denied)

    quarantine = place / "own"
    return CommandRoom(
        workspace=work,
        scratch=lambda: place / "scratch",
        quarantine=lambda: Path(tempfile.mkdtemp(dir=quarantine)),
        is_read_only=is_read_only,
        ruled=ruled,
    )


_FILES = (
    "home/.ssh/id_rsa",
    "home/.aws/credentials",
    "home/.netrc",
    "own/config.yaml",
    "out/file",
    "work/.env",
    "work/.git/config",
    "work/.git/HEAD",
    "work/.git/hooks/a.sample",
    "work/.treadle/config.yaml",
    "work/AGENTS.md",
    "work/sub/deep/.envrc",
    "work/own.txt",
    "home/.config/pypoetry/auth.toml",
    "work/sub/deep/server.key",
    "work/sub/secrets/any",
    "work/private/file",
    "work/prod/file",
    "scratch/x",
)
"""Files in the environment of the attempts."""


@contextmanager
def _ground(base: Path) -> Generator[EscapeGround]:
    folder, everybodys = TemporaryFolder(base), TemporaryFolder()
    place, public = folder.path, everybodys.path / "public"
    public.write_text(AS_IT_WAS)
    lasting = Path(f"/var/tmp/{place.name}")
    with suppress(OSError):
        lasting.touch()
    neighbour = subprocess.Popen(
        ["sleep", "60"], env={"NEIGHBOURS_SECRET": "x", "PATH": os.environ.get("PATH", "")}
    )
    try:
        for file in _FILES:
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_text(AS_IT_WAS)
        (place / "work/link").symlink_to("../out/file")
        (place / "work/CLAUDE.md").symlink_to("AGENTS.md")
        with (
            socket.create_server(("127.0.0.1", 0)) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        ):
            udp.bind(("127.0.0.1", 0))
            yield EscapeGround(place, tcp, udp, public, neighbour, [])
    finally:
        neighbour.kill()
        neighbour.wait()
        with suppress(OSError):
            lasting.unlink()
        folder.close()
        everybodys.close()
