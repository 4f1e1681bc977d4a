"""Escapes through the system: processes, the network, the kernel, resource exhaustion.

Entry points: `SYSTEM_ESCAPES`, `PROGRAM`.
"""

from __future__ import annotations

import os
import time

from treadle.policy.sandboxes.escape_attempt import (
    EscapeAttempt,
    EscapeGround,
)

PROGRAM = r"""
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
    if ctypes.get_errno() != errno.ENOSYS: got("clone3 is available, and its flags cannot be filtered")
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
"""Program of the attempts that a shell cannot make. Its first argument selects the attempt."""


def _all_alive(ground: EscapeGround) -> bool:
    file = ground.place / "work/alive"
    return file.exists() and len(file.read_text().splitlines()) == 6


def _neighbour_died(ground: EscapeGround) -> bool:
    return ground.neighbour.poll() is not None


def _goes_on(ground: EscapeGround) -> bool:
    """Return True if the beat goes on for a second. The kernel may need a moment to end the
    processes of a sandbox after the first of them.
    """
    beat = ground.place / "work/beat"

    def size() -> int:
        return beat.stat().st_size if beat.exists() else 0

    for _ in range(4):
        before = size()
        time.sleep(0.25)
        if size() == before:
            return False
    return True


def _received(ground: EscapeGround) -> bool:
    ground.udp.settimeout(0.2)
    try:
        return bool(ground.udp.recv(10))
    except OSError:
        return False


_BEAT = "trap '' TERM HUP INT; for i in {1..200}; do echo . >> beat; sleep 0.02; done"

SYSTEM_ESCAPES = (
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
    EscapeAttempt(
        "reach a server while only looking",
        "$PY tcp $TCP; exec 3<>/dev/tcp/127.0.0.1/$TCP && echo ESCAPED",
        only_looks=True,
    ),
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
    # ---- resource limits
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
