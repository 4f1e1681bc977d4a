"""Index of the file names below a directory, for completions: built in the background and searched
by letters. Entry points: `FileNames`.

Completions are displayed by suggestions.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, NamedTuple

FRESH_S: Final = 5.0
"""Age in seconds at which the list is rebuilt. The old one is used in the meantime."""
FILES_MAX: Final = 200_000
GIT_S: Final = 20.0
FOUND_MAX: Final = 50

_GIT: Final = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.untrackedCache=false",
)
"""Options that keep git from starting programs that the repository configures."""
_UNSHOWABLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


class _Joined(NamedTuple):
    """Texts joined with newlines, so that one search covers all of them."""

    text: str
    starts: Sequence[int]
    """Position of each newline, and of the end."""


class _Names(NamedTuple):
    """Parallel lists, shortest path first, because short paths are the likeliest matches."""

    paths: Sequence[str]
    """Paths with `/` as separator and after directories."""
    folded: Sequence[str]
    """Paths with case folded."""
    last_at: Sequence[int]
    """Start of the last component of each path."""
    letters: Sequence[int]
    """Bit set of the letters in each path."""
    whole: _Joined
    """Folded paths, joined."""
    last: _Joined
    """Last components, joined."""


class FileNames:
    """Searchable index of file names. Thread-safe; `find` blocks until the first list exists."""

    def __init__(
        self,
        cwd: Path,
        *,
        secrets: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an index. `secrets`: names to remove from the environment of git."""
        self._cwd, self._secrets, self._clock = Path(os.path.realpath(cwd)), secrets, clock
        self._names = _sorted(())
        self._narrowed: tuple[_Names, str, Sequence[int]] = (self._names, "", ())
        """Last search with its candidates. Longer input can only match among these."""
        self._made_at: float | None = None
        self._making = threading.Lock()
        """Lock that lets one build run at a time. Callers wait only for the first one."""
        self._thread: threading.Thread | None = None

    def find(self, typed: str) -> list[str]:
        """Return at most 50 paths relative to the directory, best matches first.

        `typed` holds letters in order; if empty, return the entries of the directory itself.
        """
        names = self._current()
        if _UNSHOWABLE.search(typed):
            return []
        found = _shallow(names) if not typed else self._ranked(names, typed.casefold())
        return [*islice((path for path in found if os.path.lexists(self._cwd / path)), FOUND_MAX)]

    def refresh(self) -> None:
        """Build a new list now and wait for it."""
        with self._making:
            self._make()

    def _ranked(self, names: _Names, typed: str) -> Iterator[str]:
        """Yield matches once each, by rank: the name starts with the text; the path does; the name
        contains it; the path does; the name has its letters in order; the path does.
        """
        given: set[int] = set()
        for joined, text in (
            (names.last, f"\n{typed}"),
            (names.whole, f"\n{typed}"),
            (names.last, typed),
            (names.whole, typed),
        ):
            for at in _holding(joined, text):
                if at not in given:
                    given.add(at)
                    yield names.paths[at]
        able = self._able(names, typed)
        in_order = _letters_in_order(typed).match
        folded, last_at = names.folded, names.last_at
        for named in (True, False):
            for at in able:
                if at not in given and (not named or in_order(folded[at], last_at[at])):
                    given.add(at)
                    yield names.paths[at]

    def _able(self, names: _Names, typed: str) -> Sequence[int]:
        """Return the paths that contain these letters in order."""
        of, before, able = self._narrowed
        if of is not names or not before or not typed.startswith(before):
            able = range(len(names.paths))
        wanted, letters, folded = _bits(typed), names.letters, names.folded
        in_order = _letters_in_order(typed).match
        able = [at for at in able if letters[at] & wanted == wanted and in_order(folded[at])]
        self._narrowed = (names, typed, able)
        return able

    def _current(self) -> _Names:
        if self._made_at is None:
            with self._making:
                if self._made_at is None:  # another thread may have built it in the meantime
                    self._make()
        elif self._clock() - self._made_at > FRESH_S and (
            self._thread is None or not self._thread.is_alive()
        ):
            self._thread = threading.Thread(
                target=self.refresh, name="treadle-file-names", daemon=True
            )
            self._thread.start()
        return self._names

    def _make(self) -> None:
        self._names = _sorted(self._listed())
        self._made_at = self._clock()

    def _listed(self) -> Iterable[str]:
        listed = _from_git(self._cwd, self._secrets)
        return islice(_walked(self._cwd) if listed is None else listed, FILES_MAX)


# ---------------------------------------------------------------- listing


def _from_git(cwd: Path, secrets: Collection[str]) -> list[str] | None:
    """Return the files known to git, or None outside a repository and if git fails."""
    if not any(os.path.lexists(folder / ".git") for folder in (cwd, *cwd.parents)):
        return None
    from treadle._internal.environment import child_environment, path_outside  # noqa: PLC0415  not needed for the first frame

    environment = {
        name: value
        for name, value in child_environment(secrets).items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_")
    }
    program = shutil.which("git", path=path_outside(environment.get("PATH"), cwd))
    if program is None:
        return None
    command = [
        program,
        "--no-optional-locks",
        *_GIT,
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ]
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else os.fsdecode(done.stdout).split("\0")


def _walked(cwd: Path) -> Iterator[str]:
    from treadle.tools.builtin.walk import walk  # noqa: PLC0415  most projects are repositories

    try:
        yield from (found.path for found in walk(str(cwd)))
    except OSError:
        return


def _sorted(listed: Iterable[str]) -> _Names:
    """Sort paths and their directories by length; drop paths that cannot be displayed."""
    paths: set[str] = set()
    for path in listed:
        if not path or _UNSHOWABLE.search(path):
            continue
        paths.add(path)
        end = path.rfind("/")
        while end > 0 and (folder := path[: end + 1]) not in paths:
            paths.add(folder)
            end = path.rfind("/", 0, end)
    ordered = sorted(sorted(paths), key=len)
    folded = [path if (small := path.casefold()) == path else small for path in ordered]
    last_at = [path.rfind("/", 0, -1) + 1 for path in folded]
    last = _joined([path[at:] for path, at in zip(folded, last_at, strict=True)])
    return _Names(ordered, folded, last_at, [*map(_bits, folded)], _joined(folded), last)


def _joined(texts: Sequence[str]) -> _Joined:
    return _Joined(
        "\n".join(("", *texts)), [*accumulate((len(text) + 1 for text in texts), initial=0)]
    )


_BITS: Final[dict[str, int]] = {chr(code): 1 << (code & 63) for code in range(128)}


def _bits(text: str) -> int:
    bits = 0
    for character in set(text):
        bits |= _BITS.get(character) or 1 << (ord(character) & 63)
    return bits


# ---------------------------------------------------------------- search


def _shallow(names: _Names) -> Iterator[str]:
    return iter(
        sorted((path for path in names.paths if path.find("/", 0, -1) < 0), key=str.casefold)
    )


def _holding(joined: _Joined, text: str) -> Iterator[int]:
    """Yield the indices of the texts that contain `text`."""
    at = joined.text.find(text)
    while at >= 0:
        found = bisect_right(joined.starts, at) - 1
        yield found
        at = joined.text.find(text, joined.starts[found + 1])


def _letters_in_order(typed: str) -> re.Pattern[str]:
    """Compile a pattern for letters in order that does not backtrack."""
    return re.compile(
        "".join(f"[^{re.escape(letter)}]*+{re.escape(letter)}" for letter in typed), re.DOTALL
    )
