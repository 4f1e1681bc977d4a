"""Where a journal may lie: directories that are ours alone, and no file system on which locks cannot be trusted.

What is inside the file is schema.py's. Entry: `prepare`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from treadle.errors import AgentError

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "coda", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "pvfs2"}
    | {"gfs2", "ocfs2", "davfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs"}
    | {"fuse.davfs2", "fuse.cifs", "fuse.curlftpfs"}
)


def prepare(path: Path) -> None:
    """Makes what is missing: directories for their owner alone, an empty file likewise.

    Raises AgentError(invalid) for a network file system (looked at on Linux only) and for what cannot be written.
    """
    folder = path.parent
    try:
        _make_folders(folder)
    except OSError as e:
        raise AgentError("invalid", f"the directory {str(folder)!r} of the journal cannot be made ({e.strerror or e}): choose another one") from e
    kind = mount_kind(folder)
    if kind in NETWORK:
        reason = "locks cannot be trusted there, and two processes could drive one run"
        raise AgentError("invalid", f"the journal {str(path)!r} would lie on a network file system ({kind}): {reason}. Choose a directory on a local disk")
    if path.is_dir():
        raise AgentError("invalid", f"{str(path)!r} is a directory: name the journal's file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AgentError("invalid", f"the directory {str(folder)!r} of the journal cannot be written: make it writable, or choose another one")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise AgentError("invalid", f"the journal {str(path)!r} cannot be read and written: change who may, or choose another file")
    try:
        _make_file(path)
    except OSError as e:
        raise AgentError("invalid", f"the journal {str(path)!r} cannot be made ({e.strerror or e}): choose another directory") from e


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _make_file(path: Path) -> None:
    """Never opened where it exists: closing it would drop the locks that SQLite has on it in this process."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    if sys.platform != "win32":  # the name must be as durable as what will stand in the file
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def mount_kind(folder: Path, mounts: str | None = None) -> str:
    """The type of the file system that holds the directory; empty where that is not known.

    `mounts`: the text of /proc/self/mountinfo, as proc(5) describes it.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return ""
    kind, longest = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        mount = _unescaped(fields[4])
        if len(mount) >= longest and (folder == Path(mount) or Path(mount) in folder.parents):
            kind, longest = after.split(" ")[0], len(mount)
    return kind


def _unescaped(name: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(code, character)
    return name
