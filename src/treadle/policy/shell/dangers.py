"""Commands that never run, regardless of rules and mode: those that destroy the machine or the home
directory.

Entry points: `danger_of`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch

from treadle.config.command_matching import program_of
from treadle.policy.shell.find import read_find
from treadle.policy.shell.options import names

REMOVES = names("rm unlink rmdir srm shred trash")
"""Needed by: `cd $x; ROW a` (deny)."""
_CHANGES_OWNERS = names("chmod chown chgrp chattr setfacl")
"""Needed by: `ROW -R x /` (deny)."""
_STOPS = names("shutdown reboot halt poweroff")
"""Needed by: `ROW` (deny)."""
_DESTROYS = re.compile(r"mkfs(?:\.\w+)?|mke2fs|mkswap|wipefs|blkdiscard|sgdisk|killall5|cryptsetup")
_DISK = re.compile(
    r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|dm-|md|loop|mem$|kmem$|port$)"
)
_SYSTEM = names(
    "usr etc var lib lib32 lib64 bin sbin boot dev proc sys opt root home srv mnt media run nix "
    "snap System Library Users Applications Volumes private"
)
"""Needed by: `rm -r /usr` (deny)."""
_SYSTEM_PARENTS = names("usr etc home Users System boot lib var Library")
"""System directories whose entries are all vital too. Needed by: `rm -r /ROW/x` (deny)."""
_OFF = re.compile(
    r"(?:poweroff|reboot|halt|shutdown|kexec|emergency|rescue|suspend|hibernate)(?:\.target)?"
)
PROGRAMS = (
    (REMOVES - {"rmdir", "unlink"})
    | _CHANGES_OWNERS
    | _STOPS
    | names(
        "dd kill pkill killall killall5 init telinit systemctl loginctl kexec mv find tee cp mkfs "
        "mke2fs mkswap wipefs blkdiscard sgdisk cryptsetup badblocks parted sfdisk nvme hdparm"
    )
)
"""Names to search for in a command line that cannot be parsed. Needed by: `a#; ROW -R x /` (deny),
`a#; ROW` (deny), `a#; ROW x /dev/sda` (deny), `a#; ROW of=/dev/sda` (deny), `a#; ROW -9 -1` (deny),
`a#; ROW 0` (deny), `a#; ROW poweroff` (deny), `a#; ROW -e` (deny), `a#; ROW format x` (deny), `a#;
ROW --security-erase` (deny), `a#; ROW .` (deny), `a#; ROW / -delete` (deny).
"""

_BY_ARGUMENTS = ("rm", "dd", "tee", "find", "kill")
"""One program of each kind that is dangerous with certain arguments. Needed by: `$x -r /` (ask in
mode full), `$x -9 -1` (ask in mode full), `$x / -delete` (ask in mode full), `$x of=/dev/sda` (ask
in mode full), `$x /dev/sda` (ask in mode full).
"""


def dangerous_with(
    words: Sequence[str], cwds: Sequence[str], workspace: str, home: str
) -> str | None:
    """Return a program that never runs with these arguments, or None. Use it if the program is
    unknown before the command runs.
    """
    dangerous = (
        program
        for program in _BY_ARGUMENTS
        if danger_of([program, *words], cwds=cwds, workspace=workspace, home=home) is not None
    )
    return next(dangerous, None)


def danger_of(
    argv: Sequence[str], *, cwds: Sequence[str], workspace: str, home: str, is_sure: bool = True
) -> str | None:
    """Return the reason why a command never runs, or None.

    `cwds`: possible working directories. `is_sure`: False if an unknown word may be an option.
    """
    if not argv:
        return None
    program, words = program_of(argv[0]), argv[1:]
    if program in _STOPS or (program in ("init", "telinit") and words[:1] in (["0"], ["6"])):
        return "it stops the machine"
    if (program in ("systemctl", "loginctl") and any(map(_OFF.fullmatch, words))) or (
        program == "kexec" and "-e" in words
    ):
        return "it stops the machine"
    if _DESTROYS.fullmatch(program) or (
        program in ("dd", "tee", "cp", "mv", "shred", "badblocks", "parted", "sfdisk")
        and _writes_disk(program, words)
    ):
        return "it destroys a disk, or all processes"
    if (program == "nvme" and {"format", "sanitize"} & set(words)) or (
        program == "hdparm" and any("security-erase" in word for word in words)
    ):
        return "it destroys a disk, or all processes"
    if program in ("pkill", "killall") and any(
        re.fullmatch(r"[.^*$]*", word) for word in words if not word.startswith("-")
    ):
        return "it ends every process that it can"
    if program == "kill" and any(word == "-1" for word in words[1:]):
        return "it ends every process that it can"
    places = _Places(cwds, workspace, home)
    if program in REMOVES | _CHANGES_OWNERS:
        return _recursive(program, words, places, is_sure=is_sure)
    into = any(word.startswith(("-t", "--t")) for word in words)
    if program == "mv" and any(
        places.are_vital(word)
        for word in (words if into else words[:-1])
        if not word.startswith("-")
    ):
        return "it moves a folder that the machine or its user needs"
    if program == "find":
        return _find(words, places)
    return None


def _writes_disk(program: str, words: Sequence[str]) -> bool:
    if program == "dd":
        return any(
            word.startswith("of=") and _DISK.match(os.path.normpath(word[3:])) for word in words
        )
    return any(
        _DISK.match(os.path.normpath(word))
        for word in (words[-1:] if program in ("cp", "mv") else words)
    )


def _recursive(program: str, words: Sequence[str], places: _Places, *, is_sure: bool) -> str | None:
    options = [word for word in words if word.startswith("-") and len(word) > 1]
    if any(word.startswith("--no-p") for word in options):
        return "it disables the protection of the file system's root"
    letters = "".join(word[1:] for word in options if not word.startswith("--"))
    long = [word for word in options if word.startswith("--r") and "--recursive".startswith(word)]
    if program in ("rmdir", "unlink", "shred") or not (
        long or "r" in letters or "R" in letters or not is_sure
    ):
        return None
    if any(places.are_vital(word) for word in words if word not in options):
        return "it removes or changes everything in a folder that the machine or its user needs"
    return None


def _find(words: Sequence[str], places: _Places) -> str | None:
    found = read_find(words)
    acts = found.deletes or any(
        program_of(run[0]) in REMOVES | _CHANGES_OWNERS for run in found.runs if run
    )
    if acts and any(places.are_vital(start) for start in found.starts):
        return "it removes or changes everything in a folder that the machine or its user needs"
    return None


class _Places:
    def __init__(self, cwds: Sequence[str], workspace: str, home: str) -> None:
        self._cwds, self._workspace, self._home = cwds, workspace, home

    def are_vital(self, word: str) -> bool:
        if not word:
            return False
        path = re.sub(r"(?:/(?:[.]?[*]+|\{[^}]*\}|[.][.]?\[\^.\][*]))+/?$", "/", word)
        alone = path != word or word in ("*", ".*", "./*")
        base = "." if word in ("*", ".*") else path
        if base == path and re.search(r"[*?[]", path):
            return any(
                self._may_match(os.path.normpath(os.path.join(cwd, path))) for cwd in self._cwds
            )
        return any(
            self._is_vital(os.path.normpath(os.path.join(cwd, base)), alone) for cwd in self._cwds
        )

    def _may_match(self, pattern: str) -> bool:
        """Return True if a pattern may match a vital place, or everything in one."""
        above, name = os.path.dirname(pattern), os.path.basename(pattern)
        if re.search(r"[*?[]", above):
            return False
        if not re.search(r"\w", re.sub(r"\[[^]]*\]", "", name)):
            return self._is_vital(above, True)
        vital = (
            [f"/{each}" for each in _SYSTEM]
            + [f"/usr/{each}" for each in ("bin", "lib", "lib64", "sbin", "share", "local")]
            + [self._home]
        )
        return any(
            os.path.dirname(place) == (above.rstrip("/") or "/")
            and fnmatch(os.path.basename(place), name)
            for place in vital
            if place
        )

    def _is_vital(self, place: str, contents: bool) -> bool:
        """Return True if a place is vital. `contents`: only its entries are affected."""
        place = "/" + place.lstrip("/")
        try:
            real = os.path.realpath(place)
        except RecursionError:  # the kernel does not follow such a chain of links either
            real = place
        for each in {place, real}:
            parts = [part for part in each.split("/") if part]
            if (
                not parts
                or each == self._home
                or ((self._workspace + "/").startswith(each + "/") and each != self._workspace)
            ):
                return True
            if parts[0] in _SYSTEM and (
                len(parts) == 1 or (len(parts) == 2 and parts[0] in _SYSTEM_PARENTS)
            ):
                return True
        return False
