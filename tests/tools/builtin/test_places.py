"""Files as all tools use them: bounds to the byte, what is kept and told before a change, and the
words for each way to fail.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from pathlib import Path

import pytest

from tests.tools.conftest import MakeContext
from treadle.tools.builtin import files
from treadle.tools.builtin import folder as folders
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.folder import NotARegularFile, OpenFolder, kind_of
from treadle.tools.file_history import Before, content_hash
from treadle.tools.tool import InvalidArguments, ToolFailed

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc is Linux's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


# ---------------------------------------------------------------- paths


def test_what_can_be_no_path_is_told_at_once() -> None:
    files.check_path("a" * 4096)
    for path, says in {
        "": "The path is empty",
        "a\0b": "contains a NUL character",
        "a" * 4097: "is 4,097 characters long; at most 4,096 are possible",
    }.items():
        with pytest.raises(InvalidArguments, match=says):
            files.check_path(path)


def test_a_call_opens_the_place_that_was_judged(make_context: MakeContext, root: Path) -> None:
    (root / "link").symlink_to("real")
    context = make_context(root, places={"a": "/judged/a"})
    assert files.place_of("a", context) == Path("/judged/a")
    assert files.place_of("link", context) == root / "real"


def test_a_name_and_a_line_are_shown_in_one_line() -> None:
    odd = "a\tb\nc\x1b\x7f\x9f\u2028\u2029\udcffż~"
    assert files.printable(odd) == r"a\tb\nc\x1b\x7f\x9f\u2028\u2029\udcffż~"
    assert files.printable_line(odd) == "a\tb" + "\ufffd" + "c" + "\ufffd" * 6 + "ż~"


def test_the_working_directory_is_known_by_where_it_leads(root: Path) -> None:
    (root / "real").mkdir()
    (root / "name").symlink_to("real")
    assert files.shown(root / "real/a", root / "name") == "a"
    assert files.shown(f"{root}/real/", root / "name") == f"{root}/real/"


# ---------------------------------------------------------------- opening


@needs_proc
def test_of_proc_only_environments_are_refused(root: Path) -> None:
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/task/{os.getpid()}/environ"):
        with pytest.raises(
            ToolFailed, match="holds the environment of a process, and keys with it: it is not read"
        ):
            files.open_file(Path(path))
    os.close(files.open_file(Path(f"/proc/{os.getpid()}/status")))
    for path in ("environ", "proc/environ"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).touch()
        os.close(files.open_file(root / path))


def test_what_is_no_file_is_not_opened_and_called_by_its_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "folder").mkdir()
    (root / "link").symlink_to("folder")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(root)  # the path of a socket must be short
        listening.bind("socket")
        kinds = {
            "folder": "a directory",
            "link": "a symbolic link",
            "pipe": "a named pipe",
            "socket": "a socket",
        }
        for name, kind in kinds.items():
            with pytest.raises(NotARegularFile, match=f"^it is {kind}$"):
                files.open_file(root / name)
    for place, kind in {"/": "a directory", "/dev/null": "a device"}.items():
        with pytest.raises(NotARegularFile, match=kind):
            files.open_file(Path(place))
    assert [kind_of(mode) for mode in (stat.S_IFBLK, stat.S_IFCHR, stat.S_IFREG)] == [
        "a device",
        "a device",
        "a file",
    ]


def test_a_descriptor_goes_to_no_child_process(root: Path) -> None:
    (root / "a").touch()
    with OpenFolder.at(str(root)) as folder:
        opened = [files.open_file(root / "a"), folder.create_file("b", 0o600), folder.descriptor()]
        assert [os.get_inheritable(fd) for fd in opened if fd is not None] == [False] * 3
        assert os.stat(opened[2] or -1).st_ino == root.stat().st_ino
        for fd in opened:
            os.close(fd or -1)


def test_a_folder_knows_where_its_links_lead_and_removes_empty_folders(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "file").touch()
    for name, target in {"to-folder": "sub", "to-file": "file", "to-nothing": "gone"}.items():
        (root / name).symlink_to(target)
    with OpenFolder.at(str(root)) as folder:
        assert [
            folder.leads_to_directory(name) for name in ("to-folder", "to-file", "to-nothing")
        ] == [True, False, False]
        assert folder.link_target("to-nothing") == "gone"
        assert stat.S_ISLNK(folder.stat("to-folder").st_mode)
        with pytest.raises(OSError, match="not empty"):
            OpenFolder.at(str(root.parent)).remove_folder(root.name)
        folder.remove_folder("sub")
    assert not (root / "sub").exists()


def test_a_folder_may_be_left_twice_and_the_root_is_one(root: Path) -> None:
    with OpenFolder.at("/") as folder:
        assert folder.path == "/"
        with folder.folder(root.parts[1]) as below:
            assert below.path == f"/{root.parts[1]}"
    folder.__exit__()


def test_only_missing_directories_are_made_and_only_where_that_is_wanted(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OpenFolder.at(str(root / "a/b"))
    assert not (root / "a").exists()
    for _ in range(2):
        with OpenFolder.at(str(root / "a/b"), create=True) as folder:
            assert folder.path == str(root / "a/b")
    (root / "file").touch()
    with pytest.raises(NotADirectoryError):
        OpenFolder.at(str(root / "file/b"), create=True)


def test_where_there_are_no_descriptors_a_path_stands_for_the_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_BY_DESCRIPTOR", False)
    with pytest.raises(FileNotFoundError):
        OpenFolder.at(str(root / "a/b"))
    for _ in range(2):
        OpenFolder.at(str(root / "a/b"), create=True).sync()
    (root / "a/link").symlink_to("b")
    with OpenFolder.at(str(root)) as top, top.folder("a") as below:
        assert (
            below.path,
            below.descriptor(),
            below.link_target("link"),
            below.leads_to_directory("link"),
        ) == (str(root / "a"), None, "b", True)
        below.remove_folder("b")
        with below.entries() as entries:
            assert [entry.name for entry in entries] == ["link"]


class Swapped(OpenFolder):
    """Somebody is always quicker: what is looked at is something else when it is opened."""

    def stat(self, name: str) -> os.stat_result:
        found = super().stat(name)
        os.unlink(os.path.join(self.path, name))
        os.rename(os.path.join(self.path, "other"), os.path.join(self.path, name))
        return found


@pytest.mark.parametrize("other", ["a link", "a pipe", "a folder"])
def test_what_is_swapped_between_the_look_and_the_opening_is_not_opened(
    root: Path, other: str
) -> None:
    (root / "a").touch()
    (root / "secret").write_text("secret")
    match other:
        case "a link":
            (root / "other").symlink_to("secret")
        case "a pipe":
            os.mkfifo(root / "other")
        case _:
            (root / "other").mkdir()
    descriptors = Path("/proc/self/fd")
    with Swapped(str(root), os.open(root, os.O_RDONLY)) as folder:
        before = len(os.listdir(descriptors)) if descriptors.exists() else 0
        with pytest.raises(
            OSError, match="symbolic links" if other == "a link" else "no longer a file"
        ):
            folder.open_file("a")
        assert (len(os.listdir(descriptors)) if descriptors.exists() else 0) == before


def test_listing_and_syncing_leave_no_descriptor_open(root: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("open descriptors are counted in /proc")
    with OpenFolder.at(str(root)) as folder:
        before = len(os.listdir(descriptors))
        with folder.entries() as entries:
            assert list(entries) == []
        folder.sync()
        assert len(os.listdir(descriptors)) == before
    assert len(os.listdir(descriptors)) == before - 1


# ---------------------------------------------------------------- reading


def test_up_to_sixteen_mebibytes_a_file_is_read_whole(root: Path) -> None:
    place = root / "large"
    place.touch()
    os.truncate(place, 16 * 1024 * 1024)
    whole = files.load(place)
    assert whole is not None
    assert (whole.is_whole, len(whole.data), whole.digest) == (
        True,
        16 * 1024 * 1024,
        files.digest_of(bytes(16 * 1024 * 1024)),
    )
    os.truncate(place, 16 * 1024 * 1024 + 1)
    part = files.load(place)
    assert part is not None
    assert (part.is_whole, len(part.data), part.digest) == (
        False,
        64 * 1024,
        files.digest_of_large(place.stat()),
    )
    assert files.load(root / "gone/deep/x") is None
    assert not (root / "gone").exists()


def test_a_large_file_is_another_by_size_by_time_and_by_inode(root: Path) -> None:
    for name in ("a", "b"):
        (root / name).write_text("x")
        os.utime(root / name, ns=(1, 1))
    first = files.digest_of_large((root / "a").stat())
    assert files.digest_of_large((root / "b").stat()) != first
    os.utime(root / "a", ns=(1, 2))
    second = files.digest_of_large((root / "a").stat())
    (root / "a").write_text("xx")
    os.utime(root / "a", ns=(1, 2))
    assert len({first, second, files.digest_of_large((root / "a").stat())}) == 3


def test_only_what_was_read_as_it_is_now_may_be_changed(
    make_context: MakeContext, root: Path
) -> None:
    context = make_context(root, seen_files={str(root / "a"): "digest"})
    files.must_be_seen(context, root / "a", "digest")
    with pytest.raises(ToolFailed, match=r"^'a' has changed since you last read it"):
        files.must_be_seen(context, root / "a", "other")
    with pytest.raises(ToolFailed, match=r"^You have not read 'b' in this session"):
        files.must_be_seen(context, root / "b", "digest")


# ---------------------------------------------------------------- writing


def test_what_a_file_was_is_kept_before_anything_is_made(root: Path) -> None:
    kept: list[Before] = []

    def keep(before: Before) -> None:
        kept.append(before)
        assert not (root / "new").exists()

    place = root / "new/deep/a"
    assert files.save(place, b"one", None, keep) == files.digest_of(b"one")
    assert files.save(
        place, b"two", files.load(place), lambda before: kept.append(before)
    ) == files.digest_of(b"two")
    first, second = kept
    assert (first.path, first.content, first.after, first.made) == (
        str(place),
        None,
        content_hash(b"one"),
        (str(root / "new"), str(root / "new/deep")),
    )
    assert (second.path, second.content, second.after, second.made) == (
        str(place),
        b"one",
        content_hash(b"two"),
        (),
    )
    assert first.temporary != second.temporary
    assert all(re.fullmatch(r"\.treadle-[0-9a-f]{16}\.tmp", before.temporary) for before in kept)
    assert [path.name for path in place.parent.iterdir()] == ["a"]


def test_of_a_file_that_is_too_large_nothing_is_kept(root: Path) -> None:
    place, kept = root / "large", list[Before]()
    place.touch()
    os.truncate(place, files.MAX_WHOLE_BYTES + 1)
    files.save(place, b"small", files.load(place), kept.append)
    assert (kept, place.read_bytes()) == ([], b"small")
    large = bytes(files.MAX_WHOLE_BYTES + 1)
    assert files.save(place, large, files.load(place)) == files.digest_of_large(place.stat())


def test_a_new_file_has_the_mode_that_any_program_would_give_it(root: Path) -> None:
    before = os.umask(0o020)
    try:
        files.save(root / "a", b"", None)
    finally:
        os.umask(before)
    assert (root / "a").stat().st_mode & 0o7777 == 0o646


@pytest.mark.parametrize("now", [b"theirs", None], ids=["changed", "gone"])
def test_a_file_that_somebody_else_changes_is_not_replaced(root: Path, now: bytes | None) -> None:
    place = root / "a"
    place.write_bytes(b"old")
    looked_at = files.load(place)
    place.unlink()
    if now is not None:
        place.write_bytes(now)
    with pytest.raises((ToolFailed, FileNotFoundError)):
        files.save(place, b"mine", looked_at)
    assert (place.read_bytes() if place.exists() else None) == now
    assert [path.name for path in root.iterdir() if path.name != "a"] == []
    place.write_bytes(b"theirs")
    with pytest.raises(
        ToolFailed, match="was changed by another process just now, and nothing was written"
    ):
        files.save(place, b"mine", None)
    assert [path.name for path in root.iterdir()] == ["a"]


@pytest.mark.parametrize("mode", [0o444, 0o555, 0o400])
def test_a_read_only_file_is_not_replaced(root: Path, mode: int) -> None:
    place = root / "a"
    place.write_bytes(b"old")
    place.chmod(mode)
    with pytest.raises(
        ToolFailed, match=rf"is read-only \(mode {mode:04o}\), and nothing was written"
    ):
        files.save(place, b"new", files.load(place))
    assert place.read_bytes() == b"old"


def test_other_names_of_a_replaced_file_are_told(root: Path) -> None:
    place = root / "a"
    place.write_bytes(b"old")
    assert files.link_notes(None) == files.link_notes(files.load(place)) == []
    os.link(place, root / "b")
    assert files.link_notes(files.load(place)) == [
        "It had 1 other hard link, which keeps the old content."
    ]
    os.link(place, root / "c")
    assert files.link_notes(files.load(place)) == [
        "It had 2 other hard links, which keep the old content."
    ]


# ---------------------------------------------------------------- what the model is told


@pytest.mark.parametrize(
    ("doing", "error", "words"),
    [
        (
            "read",
            NotARegularFile("a directory"),
            "'x' is a directory. Use ls to list it, or glob and grep to look inside.",
        ),
        (
            "write",
            NotARegularFile("a directory"),
            "'x' is a directory: pass the path of a file inside it. Nothing was written.",
        ),
        (
            "read",
            NotARegularFile("a symbolic link"),
            "'x' is a symbolic link that leads back to itself.",
        ),
        ("write", NotARegularFile("a device"), "'x' is a device, not a file: it was not opened."),
        (
            "read",
            NotADirectoryError(),
            "'x' cannot be: something on the way to it is not a directory.",
        ),
        ("list", PermissionError(), "No permission to list 'x'. Nothing was changed."),
        (
            "read",
            OSError(errno.ELOOP, "loop"),
            "'x' is a loop of symbolic links, or its directories were changed while it was opened.",
        ),
        (
            "write",
            OSError(errno.ENOSPC, "No space left on device"),
            "Could not write 'x': No space left on device.",
        ),
        ("read", OSError("odd"), "Could not read 'x': odd."),
        ("read", FileNotFoundError(), "'x' does not exist. Use glob or ls to find it."),
    ],
)
def test_each_failure_is_told_in_its_own_words(
    root: Path, doing: str, error: OSError, words: str
) -> None:
    with (
        pytest.raises(ToolFailed, match=f"^{re.escape(words)}$") as told,
        telling(doing, "x", root),
    ):
        raise error
    assert told.value.__cause__ is error


def missing(root: Path, path: str) -> str:
    with pytest.raises(ToolFailed) as told, telling("read", path, root):
        raise FileNotFoundError
    return told.value.message


def test_a_link_that_leads_nowhere_and_a_tilde_are_told_of(root: Path) -> None:
    (root / "link").symlink_to("zzz")
    assert (
        missing(root, "link")
        == "'link' does not exist (it is a symbolic link to 'zzz'). Use glob or ls to find it."
    )
    assert (
        missing(root, "~/q")
        == "'~/q' does not exist. '~' is not expanded: pass the whole path. Use glob or ls to find it."
    )


def test_what_is_like_a_missing_file_is_named_at_most_three_times(root: Path) -> None:
    for name in (
        "README.MD",
        "app.test.ts",
        "app.ts",
        "App.tsx",
        "my-app.ts",
        "sub/deep/only.py",
        "sub/x",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    assert missing(root, "readme.md") == "'readme.md' does not exist. Did you mean 'README.MD'?"
    assert (
        missing(root, "APP.TS")
        == "'APP.TS' does not exist. Did you mean 'App.tsx' or 'app.ts' or 'my-app.ts'?"
    )
    assert (
        missing(root, "else/where/sub/x")
        == "'else/where/sub/x' does not exist. Did you mean 'sub/x'?"
    )
    assert missing(root, "only.py") == "'only.py' does not exist. Did you mean 'sub/deep/only.py'?"
    assert (
        missing(root, "sub/only.py")
        == "'sub/only.py' does not exist. Did you mean 'sub/deep/only.py'?"
    )
    assert (
        missing(root / "sub", "../only.py")
        == "'../only.py' does not exist. Use glob or ls to find it."
    )
