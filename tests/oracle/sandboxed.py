"""Runs sessions of command lines as a run of an agent does, confined by our own sandbox, and
inspects what they leave with git itself.

All of it happens in an enclosure: a user namespace with a read-only disk, file systems in memory at
/tmp and /mnt, and no network. The process in it reads a JSON job per line and answers with a JSON
reply per line. Entry: `Enclosure`.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from tests.oracle import layout
from tests.oracle.inside import Escaped
from tests.oracle.judge import DENIED
from treadle import Agent, Runtime
from treadle.config import Config, load
from treadle.testing import ScriptedModel
from treadle.tools.builtin.bash import Bash
from treadle.types import Mode

BASE = "/mnt/treadle-oracle"
_OWN = "/mnt/own"
LINE_S = 20.0
LIMIT_S = 600.0
"""For one line, and for one session with its inspection."""
_ROOT = Path(__file__).parents[2]
_KEPT = sorted(
    {
        "/".join(place.split("/")[:3])
        for place in (str(_ROOT), sys.prefix)
        if place.startswith("/tmp/")
    }
)
"""Folders of temporary files that hold this checkout or its Python."""
_ENTER = f"""set -e; mount -t tmpfs tmpfs /mnt; mkdir /mnt/kept; mount --rbind /tmp /mnt/kept; mount -t tmpfs tmpfs /tmp
for kept in {shlex.join(_KEPT)}; do mkdir "$kept"; mount --bind "/mnt/kept/${{kept#/tmp/}}" "$kept"; mount -o remount,bind,ro "$kept"; done
umount -l /mnt/kept; mount -o remount,bind,ro /; cd {shlex.quote(str(_ROOT))}; exec "$@\""""
"""Other temporary files of the host go out of sight, as our sandbox expects."""
_GIT_FILES = ("HEAD", ".git")
_KNOWN_SECRETS = (
    "secret ",
    "beyond home/.ssh",
    "beyond home/.aws",
    "beyond home/.netrc",
    "beyond home/.config/git",
)
_INSPECT = """cd "$1" || exit; shift; export GIT_EDITOR=true GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
for folder; do (cd "$folder" && { git status --short; git diff HEAD; git commit -q --allow-empty -m x; git rebase --continue; git checkout -q -b y; }) done"""
"""What a user does later, in each repository."""


@dataclass(frozen=True, slots=True)
class Job:
    """A session of lines in one fresh workspace."""

    lines: tuple[str, ...]
    mode: Mode
    ruled: bool = False
    """Under the rules of judge.DENIED."""
    is_confined: bool = True
    """False: without our sandbox, to see that harm is found."""


class Enclosure:
    """The process in the enclosure, started when it is first needed. Use as a context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Enclosure:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def harm(self, job: Job) -> tuple[str, ...]:
        """The harm that the session did; its decisions are the runtime's own."""
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        process.stdin.flush()
        reply = (
            process.stdout.readline()
            if select.select([process.stdout], [], [], LIMIT_S)[0]
            else b""
        )
        if not reply.endswith(b"\n"):
            self.close()
            return ("broke the enclosure",)
        return tuple(json.loads(reply))


def is_possible() -> bool:
    """Whether the kernel lets this user make an enclosure."""
    if (
        not sys.platform.startswith("linux")
        or not shutil.which("unshare")
        or not os.path.isdir("/mnt")
    ):
        return False
    done = subprocess.run(
        [*_UNSHARE, _ENTER, "sh", "true"],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return done.returncode == 0


_UNSHARE = (
    *(
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "--net",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "private",
    ),
    *("sh", "-c"),
)


def _started() -> subprocess.Popen[bytes]:
    home = f"{BASE}/home"
    process = subprocess.Popen(
        [*_UNSHARE, _ENTER, "sh", sys.executable, "-B", "-m", "tests.oracle.sandboxed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        env={
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "HOME": home,
            "TREADLE_HOME": _OWN,
            "LANG": "C.UTF-8",
            "DEPLOY_PASSWORD": f"{layout.CANARY} environment variable",
        },
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the enclosure did not start, or is none"
    return process


# ---------------------------------------------------------------- in the enclosure


def check_enclosure() -> None:
    """Raise Escaped unless the disk is read-only, the network absent and BASE in memory."""
    with open("/proc/net/dev", encoding="utf-8") as file:
        if [line.split(":")[0].strip() for line in file][2:] != ["lo"]:
            raise Escaped("it has a network")
    for place in ("/", "/usr", str(Path(__file__).parent)):
        if not os.statvfs(place).f_flag & os.ST_RDONLY:
            raise Escaped(f"it can write {place}")
    with open("/proc/self/mounts", encoding="utf-8") as file:
        if not {"/mnt", "/tmp"} <= {line.split()[1] for line in file if line.split()[2] == "tmpfs"}:
            raise Escaped("its files are not in memory")


def fresh(*, tidy: bool) -> dict[str, tuple[int, ...]]:
    """Build everything below BASE again, and give its state."""
    shutil.rmtree(BASE, ignore_errors=True)
    os.makedirs(BASE)
    os.makedirs(_OWN, exist_ok=True)
    layout.build(BASE, tidy=tidy)
    return state()


def state() -> dict[str, tuple[int, ...]]:
    """Mode, size and time of each file below BASE; of folders the mode."""
    found: dict[str, tuple[int, ...]] = {}
    for folder, folders, files in os.walk(BASE):
        for name in files:
            seen = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (seen.st_mode, seen.st_size, seen.st_mtime_ns)
        for name in folders:
            found[os.path.join(folder, name)] = (os.lstat(os.path.join(folder, name)).st_mode,)
    return found


async def ran(runtime: Runtime, line: str, mode: Mode) -> str:
    """The result that the model gets for one line."""
    model = ScriptedModel(
        [
            {"tool_calls": [{"name": "bash", "arguments": {"command": line, "timeout_s": LINE_S}}]},
            {"text": "done"},
        ]
    )
    agent = Agent(name="a", model=model, tools=[Bash()])
    result = await runtime.run(agent, "go", cwd=Path(BASE) / "work", mode=mode)
    return "\n".join(told.text for message in result.messages for told in message.tool_results)


async def harm_of(runtimes: Mapping[tuple[bool, bool], Runtime], job: Job) -> list[str]:
    is_free = job.mode in ("full", "accept-edits")
    before = fresh(tidy=is_free and not job.ruled)
    told = "\n".join(
        [await ran(runtimes[job.ruled, job.is_confined], line, job.mode) for line in job.lines]
    )
    after = state()
    changed = [
        path[len(BASE) + 1 :]
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    ]
    within = ("work/prod/",) if job.ruled else ()
    found = [
        f"changed {path}"
        for path in sorted(changed)
        if not is_free or not path.startswith("work/") or path.startswith(within or "\0")
    ]
    canaries = [layout.CANARY, *([layout.PRIVATE_CANARY] if job.ruled else [])]
    labels = {
        " ".join(piece[:80].split()[:2]) for canary in canaries for piece in told.split(canary)[1:]
    }
    found += sorted(
        f"told {label}"
        for label in labels
        if label.startswith("private ") or (not is_free and label.startswith(_KNOWN_SECRETS))
    )
    if is_free and not job.ruled:
        found += inspected()
    return found


def inspected() -> list[str]:
    """Run git in every repository of the workspace, without a capability, and see whether that ran
    a program that a line left there.
    """
    marker = f"{BASE}/home/ran-later"
    folders = sorted(
        {
            folder
            for folder, folders, files in os.walk(f"{BASE}/work")
            if folder.endswith("/work") or set(_GIT_FILES) & {*folders, *files}
        }
    )
    jail = (
        *(
            "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ),
        "--bind",
        BASE,
        BASE,
    )
    command = [
        *jail,
        "--bind",
        BASE,
        BASE,
        "bash",
        "-c",
        _INSPECT,
        "bash",
        f"{BASE}/work",
        *folders,
    ]
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return ["ran later"] if os.path.exists(marker) else []


async def serve() -> None:
    check_enclosure()

    async with AsyncExitStack() as stack:
        runtimes = {
            (ruled, confined): await stack.enter_async_context(
                Runtime(config=_config(ruled=ruled, confined=confined))
            )
            for ruled in (False, True)
            for confined in (False, True)
        }
        print("ready", flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.buffer.readline):
            print(json.dumps(await harm_of(runtimes, Job(**json.loads(line)))), flush=True)


def _config(*, ruled: bool, confined: bool) -> Config:
    return load(
        dict(os.environ),
        files=False,
        flags={"--no-sandbox": "on" if confined else "off", "--deny": DENIED if ruled else None},
    )


if __name__ == "__main__":
    anyio.run(serve)
