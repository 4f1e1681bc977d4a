"""Temporary folders: gone when closed, and taken away after a kill by whoever comes next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle._internal.temporary import TemporaryFolder

HOLDS_ONE = "import os, sys, pathlib; from treadle._internal.temporary import TemporaryFolder as T; f = T(pathlib.Path(sys.argv[1])); print(f.path, flush=True); sys.stdin.read()"


def folders(parent: Path) -> set[Path]:
    return set(parent.iterdir())


def test_a_folder_is_private_and_goes_when_it_is_closed(tmp_path: Path):
    folder = TemporaryFolder(tmp_path)
    (folder.path / "deep").mkdir()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.close()
    folder.close()
    assert folders(tmp_path) == set()


def test_the_folder_of_a_living_process_stays_and_that_of_a_killed_one_goes(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        beside = TemporaryFolder(tmp_path)
        assert folders(tmp_path) == {theirs, beside.path}
        other.kill()
    after = TemporaryFolder(tmp_path)
    assert folders(tmp_path) == {beside.path, after.path}
    beside.close()
    after.close()


def test_what_is_not_ours_stays(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".alive").touch()
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "treadle-link").symlink_to(outside)
    (shared / "treadle-of-a-person").mkdir()
    (shared / "treadle-file").touch()
    before = folders(shared)
    TemporaryFolder(shared).close()
    assert folders(shared) == before
    assert outside.is_dir()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can make the folder of somebody else",
)
def test_that_of_another_user_stays(tmp_path: Path):
    other = tmp_path / "treadle-theirs"
    other.mkdir()
    (other / ".alive").touch()
    os.chown(other, 65534, 65534)
    TemporaryFolder(tmp_path).close()
    assert folders(tmp_path) == {other}
