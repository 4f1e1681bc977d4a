"""`ls` lists one directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tools.conftest import Use
from treadle.tools.builtin.ls import Ls
from treadle.tools.tool import ToolFailed

LS = Ls()


async def test_directories_come_first_then_files_with_sizes_and_links_with_targets(
    use: Use, tmp_path: Path
) -> None:
    for name in ("b-dir", ".hidden-dir"):
        (tmp_path / name).mkdir()
    (tmp_path / "a.txt").write_text("x" * 1_234)
    (tmp_path / ".env").touch()
    (tmp_path / "link").symlink_to("b-dir")
    os.mkfifo(tmp_path / "pipe")
    assert (
        await use(LS)
        == ".hidden-dir/\nb-dir/\n.env  0\na.txt  1,234\nlink -> b-dir\npipe (a named pipe)"
    )


async def test_an_empty_directory_is_said_to_be(use: Use, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert await use(LS, path="d/") == "'d/' is an empty directory."


async def test_a_thousand_entries_are_shown_and_the_rest_counted(use: Use, tmp_path: Path) -> None:
    for i in range(1_005):
        (tmp_path / f"{i:04}").touch()
    lines = (await use(LS)).split("\n")
    assert len(lines) == 1_001
    assert lines[0] == "0000  0"
    assert lines[-1] == "(5 more of 1,005 entries are left out: use glob with a pattern)"


async def test_a_list_of_long_names_stays_within_what_a_result_may_hold(
    use: Use, tmp_path: Path
) -> None:
    for i in range(300):
        (tmp_path / f"{i:04}{'x' * 200}").touch()
    shown = await use(LS)
    assert len(shown) <= LS.max_output
    assert shown.endswith("entries are left out: use glob with a pattern)")


async def test_names_that_would_break_the_list_are_escaped(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a\nb").touch()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    assert await use(LS) == "a\\nb  0\n\\udcff  0"


async def test_a_linked_directory_is_listed(use: Use, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").touch()
    (tmp_path / "link").symlink_to("d")
    assert await use(LS, path="link") == "f  0"


async def test_a_file_and_a_missing_directory_are_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolFailed, match="'file' is a file, not a directory: use read"):
        await use(LS, path="file")
    with pytest.raises(ToolFailed, match=r"'fil' does not exist\. Did you mean 'file'"):
        await use(LS, path="fil")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
async def test_no_permission_is_told(use: Use, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o300)
    with pytest.raises(ToolFailed, match="No permission to list 'd'"):
        await use(LS, path="d")


async def test_what_is_no_directory_is_told_with_what_it_is(use: Use, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for name, said in (
        ("pipe", "'pipe' is a named pipe, not a directory."),
        ("file", "'file' is a file, not a directory: use read to see what is in it."),
    ):
        with pytest.raises(ToolFailed) as e:
            await use(LS, path=name)
        assert e.value.message == said
    with pytest.raises(ToolFailed, match="something on the way to it is not a directory"):
        await use(LS, path="file/x")
