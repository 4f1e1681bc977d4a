"""Arguments of find: its starting points, the commands that it runs, and tests or actions that may
do more than read. Entry points: `read_find`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.policy.shell.options import names

_ALONE = names(
    "-depth -d -xdev -mount -daystart -noleaf -ignore_readdir_race -noignore_readdir_race -warn "
    "-nowarn -empty -executable -readable -writable -nouser -nogroup -true -false -print -print0 "
    "-ls -prune -quit -not -and -or -a -o ! ( ) ,"
)
"""Needed by: `find . -true 'ROW'` (allow)."""
_WITH_VALUE = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname "
    "-type -xtype -maxdepth -mindepth -size -mtime -ctime -atime -mmin -cmin -amin -used -perm "
    "-user -group -uid -gid -links -inum -fstype -printf"
)
"""Needed by: `find . ROW 1` (allow)."""
_WITH_PATH = names("-newer -anewer -cnewer -samefile")
"""Needed by: `find . ROW a.txt` (allow)."""
_RUNS = names("-exec -execdir -ok -okdir")
"""Needed by: `find / ROW rm {} +` (deny)."""


@dataclass(slots=True)
class Find:
    starts: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    """Reference files of tests such as `-newer`."""
    runs: list[list[str]] = field(default_factory=list[list[str]])
    """Commands of -exec and similar actions; `{}` represents the file found."""
    deletes: bool = False
    unknown: str | None = None
    """The first word that may do more than read."""


def read_find(argv: Sequence[str]) -> Find:
    """Parse the arguments of find, without its name."""
    found, i = Find(), 0
    while i < len(argv) and (
        argv[i] in ("-H", "-P", "-L", "-D") or re.fullmatch(r"-O\d*", argv[i])
    ):
        if argv[i] not in ("-H", "-P"):
            found.unknown = found.unknown or argv[i]
        i += 2 if argv[i] == "-D" else 1
    while (
        i < len(argv)
        and not (argv[i].startswith("-") and len(argv[i]) > 1)
        and argv[i] not in ("(", "!", ",")
    ):
        found.starts.append(argv[i])
        i += 1
    found.starts = found.starts or ["."]
    while i < len(argv):
        i += _word(argv, i, found)
    return found


def _word(argv: Sequence[str], i: int, found: Find) -> int:
    word = argv[i]
    if word in _ALONE:
        return 1
    if word in _WITH_VALUE and i + 1 < len(argv):
        return 2
    if (word in _WITH_PATH or (word.startswith("-newer") and len(word) == 8)) and i + 1 < len(argv):
        found.paths += [] if word.endswith("t") else [argv[i + 1]]
        return 2
    found.unknown = found.unknown or word
    if word == "-delete":
        found.deletes = True
    if word in _RUNS:
        end = next(
            (
                j
                for j in range(i + 1, len(argv))
                if argv[j] == ";" or (argv[j] == "+" and argv[j - 1] == "{}")
            ),
            len(argv),
        )
        found.runs.append(list(argv[i + 1 : end]))
        return end - i + 1
    return 1
