"""System calls that a confined command cannot make, as a classic BPF program that bubblewrap passes
to the kernel.

All others are allowed, because this is one layer of several, such as the namespaces
(bubblewrap.py). Entry point: `seccomp_filter`.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux 6.18;
a test compares them with the headers of the machine.
"""

from __future__ import annotations

import struct
from errno import EAFNOSUPPORT, ENOSYS, EPERM
from typing import NamedTuple

X86_64, AARCH64 = 0xC000003E, 0xC00000B7

_COMMON = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
}
_ON_X86_64 = {
    "ptrace": 101,
    "syslog": 103,
    "vhangup": 153,
    "pivot_root": 155,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_ON_AARCH64 = {
    "lookup_dcookie": 18,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "vhangup": 58,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "ptrace": 117,
    "reboot": 142,
    "sethostname": 161,
    "setdomainname": 162,
    "settimeofday": 170,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "swapoff": 225,
    "migrate_pages": 238,
    "move_pages": 239,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "clock_adjtime": 266,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}


class Machine(NamedTuple):
    audit: int
    refused: dict[str, int]
    judged: dict[str, int]
    """System calls that are filtered by their arguments."""


MACHINES = {
    "x86_64": Machine(
        X86_64, _ON_X86_64 | _COMMON, {"ioctl": 16, "socket": 41, "clone": 56, "clone3": 435}
    ),
    "aarch64": Machine(
        AARCH64, _ON_AARCH64 | _COMMON, {"ioctl": 29, "socket": 198, "clone": 220, "clone3": 435}
    ),
}
"""Machines by `platform.machine()`. On any other, the sandbox does not work, because an incomplete
filter is no protection.
"""

NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
AF_INET, AF_INET6, AF_NETLINK = 2, 10, 16
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""ioctls that inject input into a terminal on behalf of its user."""
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def seccomp_filter(machine: str, *, network: bool = False) -> bytes:
    """Return the program for the kernel of a `machine` in MACHINES. `network`: also allow asking
    the kernel for addresses and routes.

    The visible network is the namespace's: without a proxy, internet sockets reach only the
    sandbox's own loopback. Unix sockets are denied, because those of the host are in its file
    system, which is readable; a socketpair is unaffected.
    """
    audit, refused, judged = MACHINES[machine]
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if audit == X86_64:  # the same calls under other numbers
        program += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERROR | ENOSYS)]
    for number in sorted(refused.values()):
        program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ERROR | EPERM)]
    # its flags are in memory, out of reach of the filter: libc falls back to clone
    program += [_step(_EQUAL, judged["clone3"], 0, 1), _step(_RETURN, _ERROR | ENOSYS)]
    program += _case(
        judged["clone"],
        [_load_argument(0), _step(_ANY_BIT, NEW_NAMESPACES, 0, 1), _step(_RETURN, _ERROR | EPERM)],
    )
    program += _case(
        judged["ioctl"],
        [
            _load_argument(1),
            _step(_EQUAL, TIOCSTI, 1, 0),
            _step(_EQUAL, TIOCLINUX, 0, 1),
            _step(_RETURN, _ERROR | EPERM),
        ],
    )
    families = [AF_INET, AF_INET6]
    accepted = [
        step
        for family in families
        for step in (_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW))
    ]
    if network:  # protocol 0, NETLINK_ROUTE, without which programs cannot detect IPv6
        accepted += [
            _step(_EQUAL, AF_NETLINK, 0, 3),
            _load_argument(2),
            _step(_EQUAL, 0, 0, 1),
            _step(_RETURN, _ALLOW),
        ]
    program += _case(
        judged["socket"], [_load_argument(0), *accepted, _step(_RETURN, _ERROR | EAFNOSUPPORT)]
    )
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _case(number: int, steps: list[bytes]) -> list[bytes]:
    """Return `steps` for one system call. Calls that they do not decide are allowed."""
    return [_step(_EQUAL, number, 0, len(steps) + 1), *steps, _step(_RETURN, _ALLOW)]


def _load_argument(index: int) -> bytes:
    """Load the lower half of an argument, which is all that these calls use."""
    return _step(_LOAD, 16 + 8 * index)


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
