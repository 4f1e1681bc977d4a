"""A file that Treadle writes during a run is not written where a command of the run has put a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle._internal.safe_open import open_in_place

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
linux = pytest.mark.skipif(
    not os.path.exists("/proc/self/fd"),
    reason="the kernel tells where a file was found on Linux only",
)


def test_a_new_file_is_for_its_owner_alone_and_an_old_one_is_emptied(tmp_path: Path) -> None:
    place = tmp_path / "out"
    for text in (b"first and longer", b"second"):
        with open(open_in_place(place, FLAGS), "wb") as file:
            file.write(text)
    assert place.read_bytes() == b"second"
    assert place.stat().st_mode & 0o777 == 0o600


def test_a_link_or_a_pipe_in_its_place_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    target = tmp_path / "bashrc"
    target.write_text("mine")
    (tmp_path / "out").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    for name in ("out", "pipe"):
        with pytest.raises(OSError):
            open_in_place(tmp_path / name, FLAGS)
    assert target.read_text() == "mine"


@linux
def test_a_link_above_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/out").write_text("mine")
    (tmp_path / "folder").symlink_to("real")
    with pytest.raises(OSError, match="a link in the path now leads elsewhere"):
        open_in_place(tmp_path / "folder/out", FLAGS)
    assert (tmp_path / "real/out").read_text() == "mine"
