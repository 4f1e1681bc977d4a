"""`write` makes and replaces whole files, in one step, and only what the model has seen."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.tools.conftest import MakeContext, Use
from treadle.tools.builtin import files
from treadle.tools.builtin.edit import Edit
from treadle.tools.builtin.folder import OpenFolder
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.write import Write, WriteArguments
from treadle.tools.tool import InvalidArguments, ToolFailed, Touched

READ, WRITE, EDIT = Read(), Write(), Edit()
IS_ROOT = os.geteuid() == 0


async def test_a_new_file_is_made_with_its_directories(use: Use, tmp_path: Path) -> None:
    assert (
        await use(WRITE, path="a/b/c.txt", content="one\ntwo")
        == "Created a/b/c.txt: 2 lines, 7 bytes."
    )
    assert (tmp_path / "a/b/c.txt").read_text() == "one\ntwo"


async def test_a_new_file_has_the_mode_that_the_umask_leaves(use: Use, tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        await use(WRITE, path="a", content="x")
    finally:
        os.umask(umask)
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o640


async def test_an_existing_file_must_have_been_read(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("precious\n")
    with pytest.raises(ToolFailed, match="You have not read 'a' in this session"):
        await use(WRITE, path="a", content="x")
    assert (tmp_path / "a").read_text() == "precious\n"
    await use(READ, path="a", limit=1)
    assert await use(WRITE, path="a", content="x\n") == "Overwrote a: 1 line, 2 bytes."


async def test_a_file_that_changed_since_is_not_overwritten(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    await use(READ, path="a")
    (tmp_path / "a").write_text("new")
    with pytest.raises(ToolFailed, match="'a' has changed since you last read it"):
        await use(WRITE, path="a", content="x")
    assert (tmp_path / "a").read_text() == "new"


async def test_what_was_written_counts_as_seen(use: Use, tmp_path: Path) -> None:
    await use(WRITE, path="a", content="1")
    await use(WRITE, path="a", content="2")
    await use(EDIT, path="a", edits=[{"old": "2", "new": "3"}])
    assert (tmp_path / "a").read_text() == "3"


async def test_writing_the_same_twice_is_a_success_even_unread(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("same")
    before = (tmp_path / "a").stat()
    assert (
        await use(WRITE, path="a", content="same")
        == "a already has exactly this content: nothing was changed."
    )
    assert (tmp_path / "a").stat().st_ino == before.st_ino


async def test_an_empty_file_need_not_be_read(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert (await use(WRITE, path="a", content="x")).startswith("Overwrote a")


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
async def test_the_mode_is_kept(use: Use, tmp_path: Path, mode: int) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(mode)
    await use(READ, path="a")
    await use(WRITE, path="a", content="y")
    assert (tmp_path / "a").stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(not IS_ROOT, reason="only root may give files away")
async def test_the_owner_is_kept_where_that_is_allowed(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.chown(tmp_path / "a", 12345, 12346)
    await use(READ, path="a")
    await use(WRITE, path="a", content="y")
    status = (tmp_path / "a").stat()
    assert (status.st_uid, status.st_gid) == (12345, 12346)


async def test_a_read_only_file_stays(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0o444)
    await use(READ, path="a")
    with pytest.raises(ToolFailed, match=r"is read-only \(mode 0444\)"):
        await use(WRITE, path="a", content="y")
    assert (tmp_path / "a").read_text() == "x"


async def test_crlf_line_ends_are_kept_where_all_were_such(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "mixed").write_bytes(b"one\r\ntwo\n")
    await use(READ, path="a")
    await use(READ, path="mixed")
    assert "Its CRLF line endings were kept." in await use(WRITE, path="a", content="1\n2\r\n3\n")
    await use(WRITE, path="mixed", content="1\n2\r\n")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\r\n3\r\n"
    assert (tmp_path / "mixed").read_bytes() == b"1\n2\r\n"


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le"])
async def test_byte_order_mark_and_encoding_are_kept(use: Use, tmp_path: Path, codec: str) -> None:
    (tmp_path / "a").write_bytes("\ufeffold\r\n".encode(codec))
    await use(READ, path="a")
    assert "It is still UTF-" in await use(WRITE, path="a", content="żółw\n")
    assert (tmp_path / "a").read_bytes() == "\ufeffżółw\r\n".encode(codec)


async def test_latin1_is_kept_while_it_can_hold_the_text(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("Grüße\n".encode("latin-1"))
    await use(READ, path="a")
    assert "It is still Latin-1." in await use(WRITE, path="a", content="Straße\n")
    assert (tmp_path / "a").read_bytes() == "Straße\n".encode("latin-1")
    assert "is now UTF-8" in await use(WRITE, path="a", content="żółw\n")
    assert (tmp_path / "a").read_text() == "żółw\n"


async def test_a_symbolic_link_stays_and_its_target_is_written(use: Use, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "target").write_text("x")
    (tmp_path / "link").symlink_to("d/target")
    (tmp_path / "new-link").symlink_to("d/new")
    await use(READ, path="link")
    await use(WRITE, path="link", content="y")
    await use(WRITE, path="new-link", content="z")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "d" / "target").read_text() == "y"
    assert (tmp_path / "d" / "new").read_text() == "z"


async def test_other_hard_links_keep_the_old_content_and_the_model_is_told(
    use: Use, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("old")
    os.link(tmp_path / "a", tmp_path / "b")
    await use(READ, path="a")
    assert "It had 1 other hard link, which keeps the old content." in await use(
        WRITE, path="a", content="new"
    )
    assert (tmp_path / "b").read_text() == "old"


async def test_a_binary_file_is_not_overwritten(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(ToolFailed, match="is image/png, not text"):
        await use(WRITE, path="a.png", content="x")


async def test_a_directory_a_pipe_and_a_file_in_the_way_are_refused(
    use: Use, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    os.mkfifo(tmp_path / "pipe")
    with anyio.fail_after(20):
        for path, said in (
            ("d", "is a directory: pass the path of a file inside it"),
            ("f/x", "on the way to it is not a directory"),
            ("pipe", "is a named pipe"),
        ):
            with pytest.raises(ToolFailed, match=said):
                await use(WRITE, path=path, content="x")
    with pytest.raises(InvalidArguments, match="names a directory"):
        await use(WRITE, path="new/", content="x")


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
async def test_no_permission_in_the_directory_is_told(use: Use, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o500)
    with pytest.raises(ToolFailed, match="No permission to write 'd/x'"):
        await use(WRITE, path="d/x", content="x")


async def test_a_failed_write_leaves_the_old_file_and_no_litter(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old")
    await use(READ, path="a")

    def full(folder: OpenFolder, source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(OpenFolder, "replace", full)
    with pytest.raises(ToolFailed, match="Could not write 'a': No space left on device"):
        await use(WRITE, path="a", content="new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


async def test_a_change_at_the_last_moment_is_seen(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old")
    await use(READ, path="a")
    create = OpenFolder.create_file

    def meanwhile(folder: OpenFolder, name: str, mode: int) -> int:
        (tmp_path / "a").write_text("somebody else's")
        return create(folder, name, mode)

    monkeypatch.setattr(OpenFolder, "create_file", meanwhile)
    with pytest.raises(
        ToolFailed, match="changed by another process just now, and nothing was written"
    ):
        await use(WRITE, path="a", content="mine")
    assert (tmp_path / "a").read_text() == "somebody else's"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


async def test_a_cancelled_write_is_finished_first(
    make_context: MakeContext, tmp_path: Path
) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await WRITE.execute(make_context(tmp_path), WriteArguments(path="a", content="whole"))
    assert (tmp_path / "a").read_text() == "whole"


async def test_a_large_file_that_was_read_can_be_overwritten(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"line\r\n" * (files.MAX_WHOLE_BYTES // 6 + 1))
    with pytest.raises(ToolFailed, match="You have not read"):
        await use(WRITE, path="a", content="small\n")
    await use(READ, path="a", limit=1)
    await use(WRITE, path="a", content="small\n")
    assert (tmp_path / "a").read_bytes() == b"small\r\n"


@pytest.mark.parametrize("name", ["-n.txt", "$(x).txt", "a b", "zażółć", ";x"])
async def test_strange_names_are_only_names(use: Use, tmp_path: Path, name: str) -> None:
    await use(WRITE, path=name, content="x")
    assert [p.name for p in tmp_path.iterdir()] == [name]


async def test_a_name_that_is_too_long_is_told(use: Use) -> None:
    with pytest.raises(ToolFailed, match="File name too long"):
        await use(WRITE, path="x" * 300, content="x")


def test_the_one_file_that_it_changes_is_known_beforehand(tmp_path: Path) -> None:
    assert WRITE.touches(WriteArguments(path="link/../link/new", content=""), tmp_path) == Touched(
        writes=("link/../link/new",)
    )
    assert WRITE.effect == "idempotent"
