"""`read` shows a page of a file, whatever the file is like."""

from __future__ import annotations

import base64
import os
import socket
import tracemalloc
from pathlib import Path

import anyio
import pytest

from tests.tools.conftest import MakeContext, Use
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.builtin.files import digest_of
from treadle.tools.builtin.read import Read, ReadArguments
from treadle.tools.tool import InvalidArguments, ToolFailed, Touched

READ = Read()
IS_ROOT = os.geteuid() == 0


async def test_lines_are_numbered_from_one(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert await use(READ, path="a.txt") == "     1\tone\n     2\ttwo"


async def test_a_page_says_where_it_stands_and_how_to_read_on(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"l{i}\n" for i in range(1, 11)))
    assert (
        await use(READ, path="a.txt", offset=3, limit=2)
        == "     3\tl3\n     4\tl4\n\n(lines 3-4 of 10; use offset=5 to read on)"
    )
    assert (
        await use(READ, path="a.txt", offset=9)
        == "     9\tl9\n    10\tl10\n\n(lines 9-10: the end of the file)"
    )


async def test_a_negative_offset_counts_from_the_end(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc")
    assert (await use(READ, path="a.txt", offset=-1)).startswith("     3\tc")
    assert (await use(READ, path="a.txt", offset=-99)).startswith("     1\ta")


async def test_an_empty_file_and_an_offset_past_the_end_are_told_apart(
    use: Use, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf")
    (tmp_path / "short").write_text("x\n")
    assert await use(READ, path="empty") == "(the file is empty)"
    assert await use(READ, path="bom") == "(the file is empty)"
    with pytest.raises(ToolFailed, match=r"offset 2 is past the end of 'short', which has 1 lines"):
        await use(READ, path="short", offset=2)


async def test_two_thousand_lines_come_whole_and_more_come_in_pages(
    use: Use, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("x\n" * 2_000)
    (tmp_path / "b").write_text("x\n" * 2_001)
    assert (await use(READ, path="a")).count("\n") == 1_999
    shown = await use(READ, path="b")
    assert len(shown.split("\n")) <= 2_000
    assert "use offset=1998 to read on" in shown


async def test_a_page_stays_within_what_a_result_may_hold(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("y" * 100 + "\n" * 1 + ("z" * 100 + "\n") * 5_000)
    shown = await use(READ, path="a")
    assert 25_000 < len(shown) <= READ.max_output
    assert "of 5,001; use offset=" in shown


async def test_a_huge_line_is_cut_with_a_mark(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 300_000 + "\nnext\n")
    first, second = (await use(READ, path="a")).split("\n")
    assert len(first) <= 7 + 2_000
    assert first.endswith("[… cut: 300,000 characters in this line]")
    assert second == "     2\tnext"


async def test_a_huge_file_is_streamed(make_context: MakeContext, tmp_path: Path) -> None:
    with open(tmp_path / "huge", "w") as file:
        for i in range(400_000):
            file.write(f"line {i:>60}\n")
    context = make_context(tmp_path)
    tracemalloc.start()
    try:
        page = await READ.execute(context, ReadArguments(path="huge", offset=300_000, limit=1))
        end = await READ.execute(context, ReadArguments(path="huge", offset=-1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (
        page
        == f"300000\tline {299_999:>60}\n\n(lines 300,000-300,000 of a very large file; use offset=300001 to read on)"
    )
    assert f"line {399_999:>60}" in str(end)
    assert peak < 5_000_000
    with pytest.raises(ToolFailed, match="which has 400,000 lines"):
        await READ.execute(context, ReadArguments(path="huge", offset=400_001))


async def test_a_page_of_two_gigabytes_is_read_without_the_rest(
    make_context: MakeContext, tmp_path: Path
) -> None:
    with open(tmp_path / "huge", "wb") as file:
        for i in range(1, 5_001):
            file.write(b"line %d\n" % i)
        file.truncate(2 * 1024**3)
    tracemalloc.start()
    try:
        page = str(
            await READ.execute(
                make_context(tmp_path), ReadArguments(path="huge", offset=1_001, limit=200)
            )
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lines = page.split("\n")
    assert (lines[0], lines[199], lines[-1]) == (
        "  1001\tline 1001",
        "  1200\tline 1200",
        "(lines 1,001-1,200 of a very large file; use offset=1201 to read on)",
    )
    assert peak < 5_000_000


async def test_a_sparse_file_of_ten_gigabytes_is_refused_at_once(use: Use, tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(10 * 1024**3)
    with pytest.raises(ToolFailed, match="'sparse' is binary data of 10,737,418,240 bytes"):
        await use(READ, path="sparse")


async def test_a_read_that_is_cancelled_stops(make_context: MakeContext, tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.write(b"text\n" * 2_000)
        file.truncate(200 * 1024**3)
    with anyio.fail_after(20), anyio.move_on_after(0.05) as limit:
        await READ.execute(make_context(tmp_path), ReadArguments(path="sparse", offset=-1))
    assert limit.cancelled_caught


# ---------------------------------------------------------------- encodings


async def test_utf8_with_a_byte_order_mark_is_shown_without_it(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfz\xc5\x82oto\n")
    assert (
        await use(READ, path="a")
        == "     1\tzłoto\n\n(this file is UTF-8 with a byte order mark; write and edit keep that)"
    )


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
async def test_wide_encodings_are_known_by_their_mark(use: Use, tmp_path: Path, codec: str) -> None:
    (tmp_path / "a").write_bytes("\ufeffone\nżółć\r\nĊ three".encode(codec))
    shown = await use(READ, path="a")
    assert shown.startswith("     1\tone\n     2\tżółć\n     3\tĊ three\n")
    assert f"{codec[:6].upper()} with a byte order mark" in shown


async def test_bytes_that_are_no_utf8_are_shown_as_latin1_and_said_to_be(
    use: Use, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"plain\n" * 100_000 + "Grüße\n".encode("latin-1"))
    shown = await use(READ, path="a", offset=-1)
    assert "Grüße" in shown
    assert "not UTF-8; it is shown as Latin-1" in shown


async def test_carriage_returns_at_line_ends_are_not_shown(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    assert await use(READ, path="a") == "     1\tone\n     2\ttwo"


async def test_a_utf8_character_cut_by_the_end_of_a_chunk_is_whole(
    use: Use, tmp_path: Path
) -> None:
    line = "ż" * 999
    (tmp_path / "a").write_text(f"{line}\n" * 500)
    assert f"   262\t{line}" in await use(READ, path="a", offset=262, limit=3)
    assert "\ufffd" not in await use(READ, path="a", offset=255, limit=12)


# ---------------------------------------------------------------- what is no text


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7 text", "a PDF document"),
        (b"PK\x03\x04\x00", "a ZIP archive"),
        (b"\x7fELF\x00", "an ELF program"),
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"abc\x00def", "binary data"),
        (bytes(range(1, 9)) * 10, "binary data"),
    ],
)
async def test_binary_files_are_refused_with_what_they_are(
    use: Use, tmp_path: Path, data: bytes, kind: str
) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ToolFailed, match=f"'a' is {kind}"):
        await use(READ, path="a")


@pytest.mark.parametrize(
    ("magic", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
    ],
)
async def test_images_are_media(use: Use, tmp_path: Path, magic: bytes, media_type: str) -> None:
    data = magic + b"\x00" * 20
    (tmp_path / "picture.bin").write_bytes(data)
    text, media = await use(READ, path="picture.bin")
    assert text == TextPart(text=f"picture.bin: {media_type}, {len(data)} bytes")
    assert media == MediaPart(
        media_type=media_type, data=base64.b64encode(data).decode(), name="picture.bin"
    )


async def test_an_image_that_is_too_large_is_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20 * 1024 * 1024))
    with pytest.raises(ToolFailed, match="larger than 20 MiB"):
        await use(READ, path="a.png")


async def test_a_directory_points_to_ls(use: Use, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for path in ("d", "d/", ".", "/"):
        with pytest.raises(ToolFailed, match=r"is a directory\. Use ls"):
            await use(READ, path=path)


async def test_what_would_block_is_never_opened(use: Use, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "to-device").symlink_to("/dev/zero")
    with anyio.fail_after(20):
        for path, kind in (
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
            ("/dev/null", "a device"),
            ("to-device", "a device"),
        ):
            with pytest.raises(ToolFailed, match=f"{path}' is {kind}, not a file"):
                await use(READ, path=path)


async def test_the_environment_of_a_process_is_not_read(use: Use) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("there is no /proc here")
    for path in ("/proc/self/environ", "/proc/thread-self/environ", f"/proc/{os.getpid()}/environ"):
        with pytest.raises(ToolFailed, match="holds the environment of a process"):
            await use(READ, path=path)


# ---------------------------------------------------------------- names


async def test_a_missing_file_names_what_is_like_it(use: Use, tmp_path: Path) -> None:
    for name in ("config.yaml", "config.yml", "conf", "other"):
        (tmp_path / name).touch()
    with pytest.raises(
        ToolFailed,
        match=r"^'config.yam' does not exist. Did you mean 'conf' or 'config.yaml' or 'config.yml'\?$",
    ):
        await use(READ, path="config.yam")
    with pytest.raises(ToolFailed, match=r"^'zzz' does not exist. Use glob or ls to find it.$"):
        await use(READ, path="zzz")


async def test_a_file_that_lies_deeper_is_named(use: Use, tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "deep" / "app.py").write_text("x")
    with pytest.raises(
        ToolFailed, match=r"^'app\.py' does not exist\. Did you mean 'src/deep/app\.py'\?$"
    ):
        await use(READ, path="app.py")
    with pytest.raises(
        ToolFailed, match=r"^'../app\.py' does not exist\. Use glob or ls to find it\.$"
    ):
        await use(READ, path="../app.py")


async def test_a_path_from_the_wrong_root_is_recognised(use: Use, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").touch()
    for path in ("/src/app.py", "project/src/app.py"):
        with pytest.raises(ToolFailed, match=r"Did you mean 'src/app.py'\?"):
            await use(READ, path=path)


async def test_tilde_and_dollar_are_characters(use: Use, tmp_path: Path) -> None:
    (tmp_path / "$HOME").write_text("dollar\n")
    assert "dollar" in await use(READ, path="$HOME")
    with pytest.raises(ToolFailed, match="'~' is not expanded"):
        await use(READ, path="~/.bashrc")


@pytest.mark.parametrize("name", ["-n", "ż ółw.txt", " lead", "a\nb", "😀", "$(x)", ";x", "..."])
async def test_strange_names_are_only_names(use: Use, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("here\n")
    assert await use(READ, path=name) == "     1\there"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("x" * 5_000, "5,000 characters"),
        ("\ud800", "lone surrogate"),
    ],
)
async def test_what_can_be_no_path_is_an_invalid_argument(use: Use, path: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        await use(READ, path=path)


async def test_links_are_read_and_loops_are_an_error(use: Use, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("t\n")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    os.link(tmp_path / "target", tmp_path / "hard")
    assert await use(READ, path="link") == await use(READ, path="hard") == "     1\tt"
    with pytest.raises(ToolFailed, match="leads back to itself"):
        await use(READ, path="loop")
    with pytest.raises(ToolFailed, match=r"is not a directory|loop of symbolic links"):
        await use(READ, path="loop/x")
    with pytest.raises(ToolFailed, match=r"does not exist \(it is a symbolic link to 'gone'\)"):
        await use(READ, path="nowhere")


async def test_a_file_in_the_way_is_told(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(ToolFailed, match="on the way to it is not a directory"):
        await use(READ, path="f/x")


@pytest.mark.skipif(IS_ROOT, reason="root may read everything")
async def test_no_permission_is_told(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0o000)
    (tmp_path / "d").mkdir(mode=0o000)
    for path in ("f", "d/x"):
        with pytest.raises(ToolFailed, match="No permission to read"):
            await use(READ, path=path)


# ---------------------------------------------------------------- arguments and memory


def test_harmless_slips_in_the_arguments_are_mended() -> None:
    assert READ.parse('{"path": "x", "offset": "5", "limit": null}') == ReadArguments(
        path="x", offset=5
    )
    assert READ.parse('{"path": "x", "offset": 2.0}').offset == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            '{"file_path": "x"}',
            r"there is no 'file_path' \(did you mean 'path'\?\). The fields are path \(required\), offset, limit",
        ),
        ("{}", "'path' is missing"),
        ("", "'path' is missing"),
        ('{"path": 5}', "path must be a string, not 5"),
        ('{"path": null}', "path must be a string, not null"),
        ('{"path": "x", "offset": "many"}', 'offset must be an integer, not "many"'),
        ('{"path": "x", "offset": 0}', "cannot be 0"),
        ('{"path": "x", "limit": 0}', "at least 1"),
        ('["x"]', "must be an object"),
        ('{"path": "x"', "no valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"path": "\\ud800"}', "lone surrogate"),
    ],
)
def test_a_wrong_call_is_told_how_to_be_right(arguments: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said) as raised:
        READ.parse(arguments)
    assert len(raised.value.message) < 500


async def test_what_was_read_is_remembered_by_its_real_path(
    make_context: MakeContext, tmp_path: Path
) -> None:
    (tmp_path / "real").write_text("text\n")
    (tmp_path / "link").symlink_to("real")
    context = make_context(tmp_path)
    await READ.execute(context, ReadArguments(path="link", limit=1))
    assert context.seen_files == {str((tmp_path / "real").resolve()): digest_of(b"text\n")}


async def test_what_was_not_shown_as_text_is_not_remembered(
    make_context: MakeContext, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    context = make_context(tmp_path)
    await READ.execute(context, ReadArguments(path="a.png"))
    assert context.seen_files == {}


def test_the_definition_is_one_object_with_its_text_from_the_file_beside_it() -> None:
    assert READ.definition is READ.definition
    assert READ.definition.description.startswith("Reads a file")
    assert READ.definition.parameters["additionalProperties"] is False
    assert (READ.effect, READ.parallel, READ.touches(ReadArguments(path="x"), Path("/"))) == (
        "pure",
        True,
        Touched(reads=("x",)),
    )
