"""Commands that no rule and no mode may let run: those that destroy the machine or the home folder. Entry: `danger_of`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from treadle.rules import program_of
from treadle.shell.find import read_find

_REMOVES = frozenset({"rm", "unlink", "rmdir", "srm", "shred", "trash"})
_CHANGES_OWNERS = frozenset({"chmod", "chown", "chgrp", "chattr", "setfacl"})
_STOPS = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_DESTROYS = re.compile(r"mkfs(?:\.\w+)?|mke2fs|mkswap|wipefs|blkdiscard|sgdisk|killall5|cryptsetup")
_DISK = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|dm-|md|loop|mem$|kmem$|port$)")
_SYSTEM = frozenset(
    {"usr", "etc", "var", "lib", "lib32", "lib64", "bin", "sbin", "boot", "dev", "proc", "sys", "opt", "root", "home", "System", "Library", "Users"}
)
PROGRAMS = (
    *_REMOVES,
    *_CHANGES_OWNERS,
    *_STOPS,
    "dd",
    "kill",
    "init",
    "telinit",
    "systemctl",
    "mv",
    "find",
    "tee",
    "cp",
    "mkfs",
    "mke2fs",
    "mkswap",
    "wipefs",
    "blkdiscard",
    "killall5",
)
"""What is looked for where a text cannot be parsed."""


def danger_of(argv: Sequence[str], *, cwds: Sequence[str], workspace: str, home: str) -> str | None:
    """Why it is never run, in words; None where it is no such command. What is not known of an argument counts as nothing."""
    if not argv:
        return None
    program, words = program_of(argv[0]), argv[1:]
    if program in _STOPS or (program in ("init", "telinit") and words[:1] in (["0"], ["6"])):
        return "it stops the machine"
    if program == "systemctl" and set(words) & {"poweroff", "reboot", "halt", "kexec", "emergency", "rescue", "suspend", "hibernate"}:
        return "it stops the machine"
    if _DESTROYS.fullmatch(program) or (program in ("dd", "tee", "cp", "mv", "shred", "badblocks", "parted", "sfdisk") and _writes_disk(program, words)):
        return "it destroys a disk, or all processes"
    if program == "kill" and any(word == "-1" for word in words[1:]):
        return "it ends every process that it may"
    places = _Places(cwds, workspace, home)
    if program in _REMOVES | _CHANGES_OWNERS:
        return _recursive(program, words, places)
    if program == "mv" and any(places.are_vital(word) for word in words[:-1] if not word.startswith("-")):
        return "it moves away what the machine or its user needs"
    if program == "find":
        return _find(words, places)
    return None


def _writes_disk(program: str, words: Sequence[str]) -> bool:
    if program == "dd":
        return any(word.startswith("of=") and _DISK.match(os.path.normpath(word[3:])) for word in words)
    return any(_DISK.match(os.path.normpath(word)) for word in (words[-1:] if program in ("cp", "mv") else words))


def _recursive(program: str, words: Sequence[str], places: _Places) -> str | None:
    options = [word for word in words if word.startswith("-") and len(word) > 1]
    if "--no-preserve-root" in options:
        return "it does not even spare the root of the file system"
    letters = "".join(word[1:] for word in options if not word.startswith("--"))
    long = [word for word in options if word.startswith("--rec")]
    if program in ("rmdir", "unlink", "shred") or not (long or "r" in letters or "R" in letters):
        return None
    if any(places.are_vital(word) for word in words if word not in options):
        return "it removes or changes all that lies below what the machine or its user needs"
    return None


def _find(words: Sequence[str], places: _Places) -> str | None:
    found = read_find(words)
    acts = found.deletes or any(program_of(run[0]) in _REMOVES | _CHANGES_OWNERS for run in found.runs if run)
    if acts and any(places.are_vital(start) for start in found.starts):
        return "it removes or changes all that lies below what the machine or its user needs"
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
        return any(self._is_vital(os.path.normpath(os.path.join(cwd, base)), alone) for cwd in self._cwds)

    def _is_vital(self, place: str, contents: bool) -> bool:
        """`contents`: all that lies in it, which for the workspace is a matter of asking."""
        place = "/" + place.lstrip("/")
        real = os.path.realpath(place)
        for each in {place, real}:
            parts = [part for part in each.split("/") if part]
            if not parts or each == self._home or ((self._workspace + "/").startswith(each + "/") and each != self._workspace):
                return True
            if parts[0] in _SYSTEM and (len(parts) == 1 or (len(parts) == 2 and parts[0] in ("usr", "etc", "home", "Users", "System", "boot", "lib"))):
                return True
        return False
