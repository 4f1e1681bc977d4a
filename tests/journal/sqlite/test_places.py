"""Where a journal may lie."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journal.runs import refuses, started
from treadle.journal.sqlite import SqliteJournal, places
from treadle.journal.sqlite.places import NETWORK, mount_kind, mount_points

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/ada/local\040disk rw - xfs /dev/sdb1 rw
32 22 0:27 / /mnt/remote rw - fuse.sshfs ada@host: rw
33 22 0:28 / /mnt/again rw - ext4 /dev/sdc rw
34 22 0:29 / /mnt/again rw - cifs //server/share rw
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada", "nfs4"),
        ("/home/ada/local disk/x", "xfs"),
        ("/homework", "ext4"),
        ("/mnt/remote/a/b", "fuse.sshfs"),
        ("/mnt/again", "cifs"),
    ],
)
def test_the_nearest_and_newest_mount_counts(folder: str, kind: str) -> None:
    assert mount_kind(Path(folder), MOUNTS) == kind


def test_where_no_mounts_are_told_nothing_is_known() -> None:
    assert mount_kind(Path("/x"), "") == ""


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "fuse.sshfs",
        "glusterfs",
        "virtiofs",
        "vboxsf",
        "fuse.vmhgfs-fuse",
        "fuse.gvfsd-fuse",
        "fuse.mountpoint-s3",
        "fuse.blobfuse2",
        "fuse.mergerfs",
    ],
)
def test_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    assert kind in NETWORK
    monkeypatch.setattr(places, "mount_kind", lambda folder: kind)  # nothing else mounts one
    with refuses("invalid", f"network file system \\({kind}\\).*local disk"):
        SqliteJournal.open(tmp_path / "journal.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells the type of a mount in a file"
)
def test_the_directory_of_this_test_is_on_a_known_file_system(tmp_path: Path) -> None:
    assert mount_kind(tmp_path) not in {"", *NETWORK}


async def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "journal.db"
    before = os.umask(0)
    try:
        journal = SqliteJournal.open(path)
        await journal.begin(started())
        made = [*path.parent.rglob("*"), path.parent, path.parent.parent]
        assert {stat.S_IMODE(one.stat().st_mode) for one in made if one.is_dir()} == {0o700}
        assert {stat.S_IMODE(one.stat().st_mode) for one in made if one.is_file()} == {0o600}
        await journal.aclose()
    finally:
        os.umask(before)


async def test_one_file_by_two_names_is_one_journal(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    first, second = (
        SqliteJournal.open(tmp_path / "journal.db"),
        SqliteJournal.open(tmp_path / "link" / "journal.db"),
    )
    await first.begin(started())
    with refuses("busy"):
        await second.take_over("run_1")
    await first.aclose()
    await second.aclose()


def test_a_directory_is_no_journal(tmp_path: Path) -> None:
    with refuses("invalid", "is a directory"):
        SqliteJournal.open(tmp_path)


def test_a_file_in_place_of_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    with refuses(
        "invalid",
        r"the directory '.*file' of the journal cannot be created \(File exists\): choose another one",
    ):
        SqliteJournal.open(tmp_path / "file" / "journal.db")


def test_a_file_that_cannot_be_made_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(tmp_path))

    monkeypatch.setattr(os, "open", full)
    with refuses(
        "invalid",
        r"the journal '.*journal.db' cannot be created \(Disk quota exceeded\): choose another directory",
    ):
        SqliteJournal.open(tmp_path / "journal.db")


@pytest.mark.parametrize(
    ("place", "right", "said"),
    [
        ("", os.W_OK, "the directory '.*' of the journal cannot be written"),
        ("", os.X_OK, "the directory '.*' of the journal cannot be written"),
        ("journal.db", os.R_OK, "'.*journal.db' cannot be read and written"),
        ("journal.db", os.W_OK, "'.*journal.db' cannot be read and written"),
    ],
)
def test_what_this_user_may_not_use_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, right: int, said: str
) -> None:
    """Also to the superuser, who may everything but what the file system refuses."""
    (tmp_path / "journal.db").touch()
    forbidden, real = tmp_path / place, os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: real(path, mode) and not (path == forbidden and mode & right),
    )
    with refuses("invalid", said):
        SqliteJournal.open(tmp_path / "journal.db")


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="the superuser may write everywhere"
)
def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with refuses("invalid", "cannot be written: make it writable"):
            SqliteJournal.open(tmp_path / "journal.db")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="the superuser may write everywhere"
)
async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await SqliteJournal.open(path).aclose()
    path.chmod(0o400)
    with refuses("invalid", "cannot be read and written"):
        SqliteJournal.open(path)


def test_durability_is_one_of_two(tmp_path: Path) -> None:
    with refuses("invalid", "'process' or 'power', not 'all'"):
        SqliteJournal.open(tmp_path / "journal.db", durability="all")


async def test_a_journal_with_a_second_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await SqliteJournal.open(path).aclose()
    (tmp_path / "second.db").hardlink_to(path)
    with refuses("invalid", "has 2 names .hard links.*find .* -samefile .*, or copy the file"):
        SqliteJournal.open(path)
    (tmp_path / "second.db").unlink()
    await SqliteJournal.open(path).aclose()


async def test_a_journal_that_is_itself_mounted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    # mounting takes rights that a test may not have
    monkeypatch.setattr(places, "mount_points", lambda: {"/", str(path)})
    with refuses(
        "invalid",
        "is itself a mount point.*Mount the directory that holds the journal .docker run -v ./data:/data., not the file",
    ):
        SqliteJournal.open(path)
    assert list(tmp_path.iterdir()) == []


BOUND = """
import asyncio, subprocess, sys
from treadle.errors import AgentError
from treadle.journal.sqlite import SqliteJournal
theirs, ours = sys.argv[1:]
subprocess.run(["mount", "--bind", theirs, ours], check=True)
try:
    SqliteJournal.open(ours)
except AgentError as e:
    print(e.message)
"""


def test_a_journal_that_is_bound_into_a_container_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs.db").touch()
    (tmp_path / "ours.db").touch()
    command = [
        "unshare",
        "--mount",
        "--map-root-user",
        sys.executable,
        "-c",
        BOUND,
        str(tmp_path / "theirs.db"),
        str(tmp_path / "ours.db"),
    ]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command[:3], "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("nothing can be mounted here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert "is itself a mount point" in done.stdout, done.stderr


def test_mount_points_are_read_with_their_blanks() -> None:
    assert mount_points(MOUNTS) == {
        "/",
        "/home",
        "/home/ada/local disk",
        "/mnt/remote",
        "/mnt/again",
    }
