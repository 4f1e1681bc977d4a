"""Open directories: names are looked up through a descriptor, and symbolic links are never
followed.

Every file that a tool opens, creates or replaces passes through here, so that a decision about a
path still holds when the path is used: if a directory is swapped for a link in between, the
operation fails. Imports little, because the search process starts with this module. Resolving the
model's paths and error messages are in files.py. Entry point: `OpenFolder.at`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from treadle._internal import held_files

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
# O_PATH needs only search permission, like a lookup by path; without it, O_RDONLY also needs read
# permission.
_LOOKUP = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = (
    _NO_FOLLOW
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
# macOS: rejects a link in any component of the path.
_NO_FOLLOW_ANY: int | None = getattr(os, "O_NOFOLLOW_ANY", None)
_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotARegularFile(OSError):
    """Raised for a path that is not a regular file. `kind` names its type."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"it is {kind}")
        self.kind = kind


def kind_of(mode: int) -> str:
    return next((kind for test, kind in _KINDS if test(mode)), "a file")


class OpenFolder:
    """Open directory. Close it, or use it as a context manager. Every method raises OSError.

    Windows has no directory descriptors: there the path is used instead, and swaps are not
    detected.
    """

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def at(cls, path: str, *, create: bool = False) -> OpenFolder:
        """Open an absolute path without `.`, `..` and links. `create`: create missing
        directories.
        """
        if not _BY_DESCRIPTOR:
            os.makedirs(path, exist_ok=True) if create else os.stat(path)
            return cls(path, None)
        if _NO_FOLLOW_ANY is not None and not create:
            return cls(path, os.open(path, (_LOOKUP & ~os.O_NOFOLLOW) | _NO_FOLLOW_ANY))
        here = cls("/", os.open("/", _LOOKUP))
        for name in path.split("/"):
            if name:
                with here:
                    here = here._child_made(name) if create else here.folder(name)
        return here

    def _child_made(self, name: str) -> OpenFolder:
        try:
            return self.folder(name)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(self._name(name), dir_fd=self._fd)
            return self.folder(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _name(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self.path, name)

    def folder(self, name: str) -> OpenFolder:
        path = os.path.join(self.path, name)
        return OpenFolder(
            path, os.open(name, _LOOKUP, dir_fd=self._fd) if self._fd is not None else None
        )

    def stat(self, name: str) -> os.stat_result:
        """Return the status of the name itself, without following a link."""
        return os.stat(self._name(name), dir_fd=self._fd, follow_symlinks=False)

    def leads_to_directory(self, link: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(self._name(link), dir_fd=self._fd).st_mode)
        except OSError:
            return False

    @contextmanager
    def entries(self) -> Generator[Iterator[os.DirEntry[str]]]:
        """Iterate over the entries in no particular order.

        Each `entry.name` is the bare name; other attributes of an entry are available only inside
        the `with`.
        """
        if self._fd is None:
            with os.scandir(self.path) as found:
                yield found
            return
        fd = os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=self._fd)
        try:
            with os.scandir(fd) as found:
                yield found
        finally:
            os.close(fd)

    def descriptor(self) -> int | None:
        """Return a new descriptor of this directory, which the caller closes; None on Windows."""
        return None if self._fd is None else os.open(self._name("."), _LOOKUP, dir_fd=self._fd)

    def link_target(self, name: str) -> str:
        return os.readlink(self._name(name), dir_fd=self._fd)

    def open_file(self, name: str) -> int:
        """Open a file for reading, without blocking.

        Raises NotARegularFile for anything else, and OSError(EBUSY) for a file of an open journal,
        without opening it.
        """
        found = self.stat(name)
        if not stat.S_ISREG(found.st_mode):
            raise NotARegularFile(kind_of(found.st_mode))
        held_files.check(found, name)
        fd = os.open(self._name(name), os.O_RDONLY | _FILE, dir_fd=self._fd)
        held_files.check_opened(fd, name)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotARegularFile("no longer a file")
        return fd

    def create_file(self, name: str, mode: int) -> int:
        """Create a new file for writing."""
        return os.open(
            self._name(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=self._fd
        )

    def replace(self, source: str, target: str) -> None:
        os.replace(self._name(source), self._name(target), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove_file(self, name: str) -> None:
        os.unlink(self._name(name), dir_fd=self._fd)

    def remove_folder(self, name: str) -> None:
        os.rmdir(self._name(name), dir_fd=self._fd)

    def sync(self) -> None:
        """Flush the directory to disk, so that a replaced name survives a crash."""
        if self._fd is None:
            return
        fd = os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
