"""Locations for a journal: private directories on a file system with reliable locks.

schema.py creates the content. Entry point: `prepare`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from treadle.errors import AgentError

NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb2",
        "smb3",
        "smbfs",
        "ncpfs",
        "coda",
        "afs",
        "9p",
        "ceph",
        "glusterfs",
        "lustre",
        "gpfs",
        "beegfs",
        "orangefs",
        "pvfs2",
    }
    | {
        "gfs2",
        "ocfs2",
        "davfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.juicefs",
    }
    | {
        "fuse.davfs2",
        "fuse.cifs",
        "fuse.curlftpfs",
        "fuse.vmhgfs-fuse",
        "fuse.gvfsd-fuse",
        "fuse.mountpoint-s3",
        "fuse.blobfuse2",
        "fuse.mergerfs",
    }
    | {"virtiofs", "vboxsf", "prl_fs"}
)


def prepare(path: Path) -> None:
    """Create missing parts: private directories and an empty file.

    Raises AgentError(invalid) for a network file system (detected on Linux only) and for a location
    that cannot be written.
    """
    folder = path.parent
    try:
        _make_folders(folder)
    except OSError as e:
        raise AgentError(
            "invalid",
            (
                f"the directory {str(folder)!r} of the journal cannot be created "
                f"({e.strerror or e}): choose another one"
            ),
        ) from e
    kind = mount_kind(folder)
    if kind in NETWORK:
        reason = "locks cannot be trusted there, and two processes could drive one run"
        raise AgentError(
            "invalid",
            (
                f"the journal {str(path)!r} would be on a network file system ({kind}): {reason}. "
                "Choose a directory on a local disk"
            ),
        )
    if path.is_dir():
        raise AgentError("invalid", f"{str(path)!r} is a directory: give the path of a file")
    _check_file(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AgentError(
            "invalid",
            (
                f"the directory {str(folder)!r} of the journal cannot be written: make it "
                "writable, or choose another one"
            ),
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise AgentError(
            "invalid",
            (
                f"the journal {str(path)!r} cannot be read and written: change its permissions, "
                "or choose another file"
            ),
        )
    try:
        _make_file(path)
    except OSError as e:
        raise AgentError(
            "invalid",
            (
                f"the journal {str(path)!r} cannot be created ({e.strerror or e}): choose another "
                "directory"
            ),
        ) from e


def _check_file(path: Path) -> None:
    """Check that the file has a single path. SQLite's other files are next to the journal under its
    name, and all its users must see the same ones.
    """
    if str(path) in mount_points():
        text = (
            f"the journal {str(path)!r} is itself a mount point, so its log and its locks would "
            "lie in another place than the file, and be lost with it"
        )
        raise AgentError(
            "invalid",
            (
                f"{text}. Mount the directory that holds the journal (docker run -v ./data:/data), "
                "not the file"
            ),
        )
    with suppress(FileNotFoundError):
        if (names := path.stat().st_nlink) > 1:
            text = (
                f"the journal {str(path)!r} has {names} names (hard links), and each name would "
                "have its own log and locks"
            )
            raise AgentError(
                "invalid",
                (
                    f"{text}. Remove the other names (find {str(path.parent)!r} -samefile "
                    f"{str(path)!r}), or copy the file"
                ),
            )


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _make_file(path: Path) -> None:
    """Create the file if it is missing. It is never opened otherwise, because closing it would drop
    SQLite's locks on it in this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    if sys.platform != "win32":  # the name must be as durable as the content
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def mount_kind(folder: Path, mounts: str | None = None) -> str:
    """Return the type of the file system that contains the directory; empty if unknown.

    `mounts`: the text of /proc/self/mountinfo, in the format of proc(5).
    """
    kind, longest = "", -1
    holding = {str(folder), *map(str, folder.parents)}
    for mount, type_ in _mounts(mounts):
        if len(mount) >= longest and mount in holding:
            kind, longest = type_, len(mount)
    return kind


def mount_points(mounts: str | None = None) -> set[str]:
    """Return the mount points of file systems, directories and single files; empty if unknown."""
    return {mount for mount, _ in _mounts(mounts)}


def _mounts(text: str | None) -> Iterator[tuple[str, str]]:
    """Yield each mount point with the type of its file system, in the order of mounting."""
    if text is None:
        try:
            text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) >= 5 and after:
            yield _unescaped(fields[4]), after.split(" ")[0]


def _unescaped(name: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(code, character)
    return name
