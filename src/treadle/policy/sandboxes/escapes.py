"""Every way out of the sandbox that we know, really tried: what `treadle doctor --full` does, and
the tests of each protection.

An attempt says ESCAPED where it got through, or leaves a trace outside. Entry: `ATTEMPTS`,
`try_escape`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from treadle._internal.temporary import TemporaryFolder
from treadle.policy.sandboxes.limits import MIB, CommandLimits
from treadle.tools.confinement import CommandRoom, Ruled

if TYPE_CHECKING:
    from treadle.policy.sandboxes.bubblewrap import Bubblewrap

AS_IT_WAS = "as it was\n"
WITHIN_S = 10.0
SMALL = CommandLimits(memory_bytes=256 * MIB, processes=48, file_bytes=16 * MIB)

_PYTHON = r"""
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
def call(x86, arm, *args):
    return libc.syscall(ctypes.c_long(x86 if X86 else arm), *(ctypes.c_long(a) for a in args))
def got(what):
    print("ESCAPED:", what)
def opened(kind, *rest):
    try:
        socket.socket(kind, *rest)
        return True
    except OSError:
        return False
name = sys.argv[1]
if name == "userns" and call(272, 97, 0x10000000) == 0: got("a user namespace was made")
if name == "clone" and call(56, 220, 0x10000000 | 17, 0, 0, 0, 0) >= 0: got("a process in a user namespace was made")
if name == "clone3":
    call(435, 435, 0, 0)
    if ctypes.get_errno() != errno.ENOSYS: got("clone3 is there, whose flags nobody can look at")
if name == "ptrace":
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.ptrace(0, 0, 0, 0) == -1 else 7)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7: got("a process could be traced")
if name == "keyctl" and call(250, 219, 0, -3, 1) != -1: got("the keyring of the session is in reach")
if name == "io_uring":
    if call(425, 425, 4, ctypes.addressof(ctypes.create_string_buffer(256))) != -1: got("io_uring is there")
if name == "bpf":
    call(321, 280, 0, 0, 0)
    if ctypes.get_errno() != errno.EPERM: got("bpf answers")
if name == "perf":
    call(298, 241, 0, 0, -1, -1, 0)
    if ctypes.get_errno() != errno.EPERM: got("perf_event_open answers")
if name == "x32" and X86:
    if libc.syscall(ctypes.c_long(0x40000000 + 39)) != -1 or ctypes.get_errno() != errno.ENOSYS: got("calls are there under other numbers")
    call(0x40000000 + 272, 0, 0x10000000)
    if ctypes.get_errno() != errno.ENOSYS: got("unshare is there under another number")
if name == "netlink" and opened(16, socket.SOCK_RAW, 0): got("a netlink socket")
if name == "unix" and opened(1): got("a Unix socket")
if name == "vsock" and opened(40): got("a vsock")
if name == "packet" and opened(17, socket.SOCK_RAW): got("a packet socket")
if name == "terminal":
    import fcntl, pty
    _, terminal = pty.openpty()
    for request in (0x5412, 0x541C):
        try:
            fcntl.ioctl(terminal, request, b"x")
            got("a terminal was typed into")
        except OSError as e:
            if e.errno != errno.EPERM: got(f"the request to type into a terminal was looked at: {e}")
if name == "memory":
    parts = []
    for _ in range(40): parts.append(b"x" * (32 << 20))
    got("more than a gigabyte of memory was used")
if name == "share":
    import time
    part = b"x" * (100 << 20)
    time.sleep(2)
    print("alive")
if name == "forks":
    import time
    count = 0
    while count < 400:
        try:
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
        except OSError:
            break
        count += 1
    if count >= 400: got("400 processes were started")
if name == "big":
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with open("big", "wb") as file:
            for _ in range(64): file.write(b"x" * (1 << 20))
        got("a file of 64 MiB was written")
    except OSError: pass
if name == "tcp":
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2)
        got("a server of the host was reached")
    except OSError: pass
if name == "udp":
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try: udp.sendto(b"x", ("127.0.0.1", int(sys.argv[2])))
        except OSError: pass
if name == "interfaces" and set(n for _, n in socket.if_nameindex()) - {"lo"}: got("interfaces of the host are there")
"""  # noqa: E501


class EscapeGround(NamedTuple):
    """Surroundings of an attempt: a workspace with control files, a home with secrets, and files
    outside.
    """

    place: Path
    tcp: socket.socket
    udp: socket.socket
    public: Path
    """A file among the temporary ones of everybody."""
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
    """Returns True if something outside shows that it got through. Called when everything inside is
    dead.
    """
    times_out: bool = False
    as_root: bool = False
    """True if only root could get through."""
    grouped: bool = False
    """True if only a control group holds it."""
    only_looks: bool = False
    """True for an attempt in a read-only room."""


def _changed(path: str) -> Callable[[EscapeGround], bool]:
    return lambda ground: not ground.is_as_it_was(path)


def _there(path: str) -> Callable[[EscapeGround], bool]:
    return lambda ground: os.path.lexists(ground.place / path)


def _all_alive(ground: EscapeGround) -> bool:
    file = ground.place / "work/alive"
    return file.exists() and len(file.read_text().splitlines()) == 6


def _public_changed(ground: EscapeGround) -> bool:
    return ground.public.read_text() != AS_IT_WAS


def _neighbour_died(ground: EscapeGround) -> bool:
    return ground.neighbour.poll() is not None


def _goes_on(ground: EscapeGround) -> bool:
    beat = ground.place / "work/beat"
    before = beat.stat().st_size if beat.exists() else 0
    time.sleep(0.25)
    return beat.exists() and beat.stat().st_size != before


def _is_no_link(ground: EscapeGround) -> bool:
    return not (ground.place / "work/CLAUDE.md").is_symlink()


def _planted(*paths: str) -> Callable[[EscapeGround], bool]:
    """Return a check that one of the files exists, or was not moved away."""
    return lambda ground: (
        any(os.path.lexists(ground.place / "work" / path) for path in paths)
        or len(ground.quarantined) < len(paths)
    )


def _left_in_etc(_: EscapeGround) -> bool:
    with suppress(FileNotFoundError):
        os.unlink("/etc/treadle-escape")
        return True
    return False


def _received(ground: EscapeGround) -> bool:
    ground.udp.settimeout(0.2)
    try:
        return bool(ground.udp.recv(10))
    except OSError:
        return False


_BEAT = "trap '' TERM HUP INT; for i in {1..200}; do echo . >> beat; sleep 0.02; done"

ATTEMPTS = (
    # ---- the disk
    EscapeAttempt("write a file outside the workspace", "echo x > $OUT/file", _changed("out/file")),
    EscapeAttempt("make a file in the home", "echo x > $HOME_/made", _there("home/made")),
    EscapeAttempt("write through a link that leads out", "echo x > link", _changed("out/file")),
    EscapeAttempt(
        "write through a hard link of its own",
        "ln $OUT/file hard && echo x > hard",
        _changed("out/file"),
    ),
    EscapeAttempt("delete a file outside", "rm -f $OUT/file", _changed("out/file")),
    EscapeAttempt("move a folder outside", "mv $OUT $OUT-moved", _changed("out/file")),
    EscapeAttempt(
        "write in /etc",
        "(: > /etc/treadle-escape) 2>/dev/null && echo ESCAPED",
        _left_in_etc,
        as_root=True,
    ),
    EscapeAttempt(
        "make the disk writable again",
        (
            "mount -o remount,rw / && echo ESCAPED; mount -o remount,rw,bind / / && echo ESCAPED; "
            "echo x > $OUT/file"
        ),
        _changed("out/file"),
    ),
    EscapeAttempt(
        "mount something",
        "mount -t tmpfs none $OUT && echo ESCAPED; mount --bind . $OUT && echo ESCAPED",
    ),
    EscapeAttempt(
        "make a device",
        (
            "mknod disk b 254 0 && echo ESCAPED; for d in /dev/*; do [ -b $d ] && echo ESCAPED: "
            "$d; done"
        ),
    ),
    EscapeAttempt("leave the root by chroot", "chroot / true && echo ESCAPED"),
    # ---- what is private
    EscapeAttempt("see the temporary files of others", "[ -e $PUBLIC ] && echo ESCAPED"),
    EscapeAttempt("leave something among the temporary files", "echo x > $PUBLIC", _public_changed),
    EscapeAttempt(
        "see sockets and files of running services",
        (
            "for f in /run/*; do case $f in '/run/*' | /run/systemd | /run/current-system) ;; *) "
            "echo ESCAPED: $f ;; esac; done"
        ),
    ),
    EscapeAttempt(
        "see the lasting temporary files of others",
        "for f in /var/tmp/.[!.]* /var/tmp/*; do [ -e $f ] && echo ESCAPED: $f; done",
    ),
    # ---- secrets
    EscapeAttempt(
        "read a key of ssh", "cat $HOME_/.ssh/id_rsa | grep -q 'as it was' && echo ESCAPED"
    ),
    EscapeAttempt(
        "read credentials of a cloud",
        "cat $HOME_/.aws/credentials | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read a password of the network", "cat $HOME_/.netrc | grep -q 'as it was' && echo ESCAPED"
    ),
    EscapeAttempt(
        "read Treadle's own files", "cat $OWN/config.yaml | grep -q 'as it was' && echo ESCAPED"
    ),
    EscapeAttempt(
        "read the environment file of the workspace",
        "cat .env | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read the passwords of the system",
        "[ -s /etc/shadow ] && cat /etc/shadow > /dev/null && echo ESCAPED",
        as_root=True,
    ),
    EscapeAttempt("read a variable of ours", '[ "$TREADLE_TRIAL" ] && echo ESCAPED'),
    EscapeAttempt(
        "read a token of a package index",
        "cat $HOME_/.config/pypoetry/auth.toml | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read a secret deep in the workspace",
        "cat sub/deep/server.key sub/secrets/any | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read what a rule denies",
        (
            "grep -rq 'as it was' private && echo ESCAPED; cat private/file | grep -q . && echo "
            "ESCAPED; mv private other; cat other/file && echo ESCAPED"
        ),
        _there("work/other"),
    ),
    # ---- rules about writing, and rooms that are read-only
    EscapeAttempt(
        "write what a rule denies",
        "echo x > prod/file; rm -rf prod; mv prod other; : > prod/new",
        _changed("work/prod/file"),
    ),
    EscapeAttempt(
        "make a file that a rule denies",
        "mkdir -p later && echo x > later/file",
        _there("work/later"),
    ),
    EscapeAttempt(
        "write in the workspace while only looking",
        (
            "echo x > own.txt; rm -f own.txt; mv own.txt o; echo x > made; mkdir dir; touch "
            "own.txt; chmod 777 own.txt && echo ESCAPED"
        ),
        _changed("work/own.txt"),
        only_looks=True,
    ),
    EscapeAttempt(
        "make a file in the workspace while only looking",
        "echo x > made; ln -s own.txt made; mkdir made; mkfifo made",
        _there("work/made"),
        only_looks=True,
    ),
    EscapeAttempt(
        "make the workspace writable again",
        (
            "mount -o remount,rw,bind . && echo ESCAPED; mount -o remount,rw . && echo ESCAPED; "
            "mount --bind /tmp . && echo ESCAPED; echo x > made"
        ),
        _there("work/made"),
        only_looks=True,
    ),
    EscapeAttempt(
        "reach a server while only looking",
        "$PY tcp $TCP; exec 3<>/dev/tcp/127.0.0.1/$TCP && echo ESCAPED",
        only_looks=True,
    ),
    # ---- processes
    EscapeAttempt(
        "see other processes",
        "[ -e /proc/$NEIGHBOUR ] && grep -qz '^sleep' /proc/$NEIGHBOUR/cmdline && echo ESCAPED",
    ),
    EscapeAttempt(
        "read the environment of another process",
        "grep -qsz 'NEIGHBOURS_SECRET' /proc/*/environ && echo ESCAPED",
    ),
    EscapeAttempt("kill another process", "kill -9 $NEIGHBOUR", _neighbour_died),
    EscapeAttempt(
        "outlive the end in a session of its own",
        f'setsid bash -c "{_BEAT}" >/dev/null 2>&1 & sleep 0.1',
        _goes_on,
    ),
    EscapeAttempt(
        "outlive a timeout as an orphan",
        f'(setsid nohup bash -c "{_BEAT}" >/dev/null 2>&1 &) ; {_BEAT}',
        _goes_on,
        times_out=True,
    ),
    EscapeAttempt("trace a process", "$PY ptrace"),
    # ---- the network
    EscapeAttempt(
        "reach a server of this machine",
        "$PY tcp $TCP; exec 3<>/dev/tcp/127.0.0.1/$TCP && echo ESCAPED",
    ),
    EscapeAttempt("send a datagram", "$PY udp $UDP", _received),
    EscapeAttempt("see interfaces", "$PY interfaces"),
    EscapeAttempt("open a Unix socket", "$PY unix"),
    EscapeAttempt("open a netlink socket", "$PY netlink"),
    EscapeAttempt("open a packet socket", "$PY packet"),
    EscapeAttempt("open a vsock", "$PY vsock"),
    # ---- the kernel
    EscapeAttempt(
        "make a user namespace",
        "$PY userns; unshare -U true && echo ESCAPED; unshare -Ur true && echo ESCAPED",
    ),
    EscapeAttempt("make a user namespace by clone", "$PY clone"),
    EscapeAttempt("hide flags in clone3", "$PY clone3"),
    EscapeAttempt("make system calls under other numbers", "$PY x32"),
    EscapeAttempt("read keyrings", "$PY keyctl"),
    EscapeAttempt("use io_uring", "$PY io_uring"),
    EscapeAttempt("load a program into the kernel", "$PY bpf"),
    EscapeAttempt("count events of the processor", "$PY perf"),
    EscapeAttempt("type into a terminal", "$PY terminal"),
    EscapeAttempt(
        "stay in our session",
        "read -r line < /proc/self/stat; set -- ${line##*) }; [ $4 = 0 ] && echo ESCAPED",
    ),
    EscapeAttempt("have a terminal", "(: < /dev/tty) 2>/dev/null && echo ESCAPED"),
    EscapeAttempt(
        "keep a capability",
        (
            "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -qv '0000000000000000$' "
            "&& echo ESCAPED"
        ),
    ),
    EscapeAttempt(
        "gain privileges", "grep -q '^NoNewPrivs:.*1$' /proc/self/status || echo ESCAPED"
    ),
    EscapeAttempt(
        "write settings of the kernel",
        (
            "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/overcommit_memory; do (exec "
            "3>>$f) 2>/dev/null && echo ESCAPED: $f; done"
        ),
        as_root=True,
    ),
    EscapeAttempt(
        "write to the kernel's other files",
        (
            "for f in /proc/sysrq-trigger /proc/irq/default_smp_affinity /proc/mtrr; do (exec "
            "3>>$f) 2>/dev/null && echo ESCAPED: $f; done"
        ),
        as_root=True,
    ),
    EscapeAttempt(
        "rename the machine", "hostname escaped 2>/dev/null && echo ESCAPED", as_root=True
    ),
    *(
        EscapeAttempt(
            f"share the {name} namespace of this machine",
            (
                f"[ $(readlink /proc/self/ns/{name}) = '{os.readlink(f'/proc/self/ns/{name}')}' ] "
                "&& echo ESCAPED"
            ),
        )
        for name in ("user", "pid", "ipc", "uts", "cgroup", "net", "mnt")
        if os.path.exists(f"/proc/self/ns/{name}")
    ),
    # ---- control files
    EscapeAttempt(
        "change the configuration of git",
        "echo x > .git/config; mv .git/config .git/c",
        _changed("work/.git/config"),
    ),
    EscapeAttempt(
        "plant a hook of git",
        (
            "echo x > .git/hooks/pre-commit; mkdir -p .git/hooks && ln -s /bin/true "
            ".git/hooks/post-checkout"
        ),
        _there("work/.git/hooks/pre-commit"),
    ),
    EscapeAttempt(
        "move .git away and make another",
        "mv .git g; mkdir -p .git/hooks && echo x > .git/hooks/pre-commit; rm -rf .git",
        _changed("work/.git/config"),
    ),
    EscapeAttempt(
        "change our own configuration",
        "echo x > .treadle/config.yaml; rm -rf .treadle",
        _changed("work/.treadle/config.yaml"),
    ),
    EscapeAttempt(
        "change the words to agents",
        "echo x > AGENTS.md; mv AGENTS.md b; rm -f AGENTS.md",
        _changed("work/AGENTS.md"),
    ),
    EscapeAttempt(
        "change a control file deep inside",
        "echo x > sub/deep/.envrc; mv sub moved; mkdir -p sub/deep; echo x > sub/deep/.envrc",
        _changed("work/sub/deep/.envrc"),
    ),
    EscapeAttempt(
        "plant a control file",
        "echo '{}' > .mcp.json; mkdir -p new/.vscode && echo x > new/.vscode/settings.json",
        _planted(".mcp.json", "new/.vscode"),
    ),
    EscapeAttempt(
        "plant a repository with a program in it",
        "mkdir -p r/.git/hooks && printf '[core]\\n\\tfsmonitor = ./evil\\n' > r/.git/config",
        _planted("r/.git"),
    ),
    EscapeAttempt(
        "plant a repository without a name",
        (
            "mkdir -p b/objects b/refs && echo x > b/HEAD && printf '[core]\\n\\tfsmonitor = "
            "./evil\\n' > b/config"
        ),
        _planted("b/HEAD"),
    ),
    EscapeAttempt(
        "lead a linked control file elsewhere", "rm -f CLAUDE.md; echo x > CLAUDE.md", _is_no_link
    ),
    # ---- how much
    EscapeAttempt("use much memory", "$PY memory; true"),
    EscapeAttempt(
        "use much memory in many processes",
        "for i in 1 2 3 4 5 6; do $PY_ attempt.py share >> alive & done; wait",
        _all_alive,
        grouped=True,
    ),
    EscapeAttempt("start many processes", "$PY forks", grouped=True),
    EscapeAttempt("write a big file", "$PY big"),
)
"""The name says what must not succeed."""


# ---------------------------------------------------------------- trying


def try_escape(sandbox: Bubblewrap, attempt: EscapeAttempt, base: Path) -> str:
    """Return what got through; empty if it was held. `base`: an existing, writable folder, best not
    among the temporary ones.

    Blocks, usually for a tenth of a second. Raises RuntimeError if it could not be tried.
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
        (ground.place / "work/attempt.py").write_text(_PYTHON)
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
    """Return a room with rules about `private`, `prod` and `later`, of which the last does not
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
        files = (
            "home/.ssh/id_rsa",
            "home/.aws/credentials",
            "home/.netrc",
            "own/config.yaml",
            "out/file",
            "work/.env",
            "work/.git/config",
        )
        more = (
            "work/.git/HEAD",
            "work/.git/hooks/a.sample",
            "work/.treadle/config.yaml",
            "work/AGENTS.md",
            "work/sub/deep/.envrc",
            "work/own.txt",
        )
        more += (
            "home/.config/pypoetry/auth.toml",
            "work/sub/deep/server.key",
            "work/sub/secrets/any",
            "work/private/file",
            "work/prod/file",
        )
        for file in (*files, *more, "scratch/x"):
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
