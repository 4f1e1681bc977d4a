"""Index entries that lead outside the places where a checkout may write, and those whose changes
`git status` does not show.

Git verifies paths when it adds them, but not when it reads an index. Source: gitformat-index(5) and
git 2.39 read-cache.c, 2026-11-22. Entry: `index_at`, `is_astray`.
"""

from __future__ import annotations

import os
import re
import struct
from typing import NamedTuple

from treadle._internal.stamps import Stamp, stamp_of

MAX_BYTES = 1 << 28
UNREADABLE = frozenset({b"\0"})
_STAT = 40
_EXTENDED = 0x4000
_ASSUMED_VALID = 0x8000
_SKIPPED = 0x4000
"""Flag in the second half of extended flags."""
_LENGTH = 0x0FFF
_FOLDER_MODE = 0o040000
_IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that HFS+ omits from a name."""
MAX_VEILED = 2_000
"""Maximum number of paths marked as unchanged that are stored. A sparse checkout may have more:
none are stored then.
"""


class Index(NamedTuple):
    astray: frozenset[bytes]
    """Paths that are absolute or have a component such as `..` or `.git`; `UNREADABLE` if the index
    is in another format.
    """
    veiled: frozenset[bytes] = frozenset()
    """Paths that are marked as unchanged or as not checked out, so that git ignores the files'
    contents.
    """


_known: dict[Stamp, Index] = {}


def index_at(place: str, hash_size: int) -> Index:
    """Read an index. The result is cached until it changes."""
    try:
        stamp = stamp_of(os.lstat(place))._replace(size=hash_size)
        if (known := _known.get(stamp)) is not None:
            return known
        is_settled = stamp.is_settled()
        with open(
            os.open(
                place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            ),
            "rb",
        ) as file:
            data = file.read(MAX_BYTES)
        found = _read(data, hash_size) if data else Index(frozenset())
    except (OSError, ValueError, struct.error, IndexError):
        return Index(UNREADABLE)
    if is_settled:
        if len(_known) > 1_000:
            _known.clear()
        _known[stamp] = found
    return found


def is_astray(path: bytes) -> bool:
    return any(_is_forbidden(name) for name in path.split(b"/"))


def _is_forbidden(name: bytes) -> bool:
    folded = _IGNORABLE.sub("", name.decode("utf-8", "surrogateescape")).casefold()
    return folded in ("", ".", "..") or folded.partition(":")[0].rstrip(" .") in (".git", "git~1")


def _read(data: bytes, hash_size: int) -> Index:
    sign, version, count = struct.unpack_from(">4sII", data)
    if sign != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index")
    at, name, starts, astray, veiled, empty = (
        12,
        b"",
        dict[int, tuple[int, bool]](),
        list[bytes](),
        list[bytes](),
        0,
    )
    for number in range(count):
        begin, before = at, name
        (mode,) = struct.unpack_from(">I", data, at + 24)
        at += _STAT + hash_size
        (flags,) = struct.unpack_from(">H", data, at)
        more = struct.unpack_from(">H", data, at + 2)[0] if flags & _EXTENDED and version > 2 else 0
        at += 4 if flags & _EXTENDED and version > 2 else 2
        kept = 0
        if version == 4:
            strip, at = _number(data, at)
            if strip > len(name):
                raise ValueError("more is taken off than there is")
            kept = len(name) - strip
        end = data.index(b"\0", at)
        name = before[:kept] + data[at:end]
        at = end + 1 if version == 4 else begin + (end - begin + 8) // 8 * 8
        if flags & _LENGTH != min(len(name), _LENGTH):
            raise ValueError("git would read the name differently")
        starts[begin] = number, kept == 0
        empty += not name
        if flags & _ASSUMED_VALID or more & _SKIPPED:
            veiled.append(name)
        path = name[:-1] if mode == _FOLDER_MODE and name.endswith(b"/") else name
        if name and is_astray(path):
            astray.append(name)
    names = _checked_extensions(data, at, len(data) - hash_size, hash_size, starts, count)
    # an entry that replaces one in the shared index has no name
    if empty and b"link" not in names:
        astray.append(b"")
    return Index(frozenset(astray), frozenset(veiled if len(veiled) <= MAX_VEILED else ()))


def _number(data: bytes, at: int) -> tuple[int, int]:
    byte, value = data[at], data[at] & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = (value + 1 << 7) + (byte & 127)
    return value, at + 1


def _checked_extensions(
    data: bytes, at: int, end: int, hash_size: int, starts: dict[int, tuple[int, bool]], count: int
) -> set[bytes]:
    """Check two extensions from which git takes the bounds of the entries: they must agree with the
    entries. Raises ValueError.
    """
    names, begin, is_told = set[bytes](), at, False
    while at < end:
        name, size = struct.unpack_from(">4sI", data, at)
        content = data[at + 8 : at + 8 + size]
        if name == b"EOIE" and struct.unpack_from(">I", content)[0] != begin:
            raise ValueError("the entries end elsewhere")
        if name == b"IEOT":
            following = 0
            for offset, number in struct.iter_unpack(">II", content[4:]):
                if starts.get(offset) != (following, True):
                    raise ValueError("the entries begin elsewhere")
                following += number
            if following != count:
                raise ValueError("there are more entries")
        is_told = is_told or name == b"EOIE"
        names.add(name)
        at += 8 + size
    last = end - hash_size - 12
    if at != end or (data[last : last + 4] == b"EOIE" and not is_told):
        raise ValueError("the extensions do not end with the file")
    return names
