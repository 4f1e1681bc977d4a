"""`glob` finds files by their names, the newest first."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from anyio import from_thread
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import MakeContext, Use
from treadle.tools.builtin import glob
from treadle.tools.builtin.glob import Glob, GlobArguments
from treadle.tools.builtin.patterns import GlobPattern
from treadle.tools.builtin.walk import walk
from treadle.tools.tool import InvalidArguments, ToolFailed

GLOB = Glob()


def tree(root: Path, *paths: str) -> None:
    """Makes files, each older than the one before."""
    for age, path in enumerate(paths):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        os.utime(file, (1_700_000_000 - age, 1_700_000_000 - age))


async def test_the_newest_file_comes_first(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, "new.py", "b/older.py", "a/oldest.py", "b/c.txt")
    assert await use(GLOB, pattern="**/*.py") == "new.py\nb/older.py\na/oldest.py"


async def test_a_pattern_is_relative_to_path_and_paths_to_the_working_directory(
    use: Use, tmp_path: Path
) -> None:
    tree(tmp_path, "src/a.py", "src/b/c.py", "d.py")
    assert await use(GLOB, pattern="*.py", path="src") == "src/a.py"
    assert await use(GLOB, pattern="./src/*/*.py") == "src/b/c.py"


async def test_hidden_files_are_found_and_version_control_is_not(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, ".github/x.yml", ".git/x.yml", ".hg/x.yml", "sub/.git/x.yml")
    assert await use(GLOB, pattern="**/*.yml") == ".github/x.yml"


async def test_what_gitignore_excludes_is_left_out(use: Use, tmp_path: Path) -> None:
    tree(
        tmp_path,
        "a.log",
        "keep.log",
        "sub/b.log",
        "sub/c.log",
        "build/x.py",
        "sub/build/x.py",
        "x.py",
    )
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/build/\n!\n")
    (tmp_path / "sub" / ".gitignore").write_bytes(b"!b.log\r\n\xff\n")
    assert (await use(GLOB, pattern="**/*.log")).split("\n") == ["keep.log", "sub/b.log"]
    assert (await use(GLOB, pattern="**/*.py")).split("\n") == ["sub/build/x.py", "x.py"]
    assert await use(GLOB, pattern="*.py", path="build") == "build/x.py"


async def test_a_gitignore_above_holds_up_to_the_root_of_the_repository(
    use: Use, tmp_path: Path
) -> None:
    tree(
        tmp_path,
        "repo/.git/HEAD",
        "repo/a/b/x.log",
        "repo/a/b/y.txt",
        "repo/ignored/z.log",
        "repo/ignored/z.txt",
        "repo/inner/.git/HEAD",
        "repo/inner/x.log",
    )
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\nignored/\n")
    assert await use(GLOB, pattern="**/*", path="repo/a/b") == "repo/a/b/y.txt"
    assert (await use(GLOB, pattern="*", path="repo/ignored")).split("\n") == [
        "repo/ignored/z.log",
        "repo/ignored/z.txt",
    ]
    assert await use(GLOB, pattern="*.log", path="repo/inner") == "repo/inner/x.log"


async def test_links_to_directories_are_never_followed(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, "work/real/a.txt", "outside/secret.txt")
    (tmp_path / "work" / "out").symlink_to("../outside")
    (tmp_path / "work" / "self").symlink_to(".")
    (tmp_path / "work" / "link.txt").symlink_to("real/a.txt")
    (tmp_path / "work" / "dangling.txt").symlink_to("gone")
    shown = await use(GLOB, pattern="**/*", path="work")
    assert set(shown.split("\n")) == {"work/real/a.txt", "work/link.txt", "work/dangling.txt"}


async def test_a_hundred_files_are_shown_and_the_rest_counted(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, *(f"{i:03}.txt" for i in range(103)))
    lines = (await use(GLOB, pattern="*")).split("\n")
    assert lines[:2] == ["000.txt", "001.txt"]
    assert lines[100:] == [
        "(100 of 103 files, the newest; 3 are left out: take a narrower pattern or path)"
    ]


async def test_paths_too_long_for_the_result_are_left_out_and_counted(
    use: Use, tmp_path: Path
) -> None:
    deep = "/".join(["d" * 200] * 3)
    tree(tmp_path, *(f"{deep}/{i:03}.txt" for i in range(60)))
    shown = await use(GLOB, pattern="**/*.txt")
    assert len(shown) <= GLOB.max_output
    assert " of 60 files, the newest;" in shown


async def test_nothing_found_says_what_is_near(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, "a/setup.py", "out/gen.txt")
    (tmp_path / ".gitignore").write_text("out/\n")
    assert (
        await use(GLOB, pattern="setup.py")
        == "No file matches 'setup.py' in '.'. In other directories, or excluded by .gitignore, there is a/setup.py."
    )
    assert "excluded by .gitignore, there is out/gen.txt" in await use(GLOB, pattern="**/gen.txt")
    assert await use(GLOB, pattern="nothing.like.it") == "No file matches 'nothing.like.it' in '.'."


async def test_a_file_or_a_missing_directory_as_path_is_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(ToolFailed, match="'f' is a file: path takes the directory"):
        await use(GLOB, pattern="*", path="f")
    with pytest.raises(ToolFailed, match="'gone' does not exist"):
        await use(GLOB, pattern="*", path="gone")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "the pattern is empty"),
        ("/etc/*", "'/etc/\\*' is absolute: pass the directory as path"),
        ("~/x", "is absolute"),
        ("../**/*.txt", "leaves the directory with '..'"),
        ("{..,src}/*", "leaves the directory with '..'"),
        ("src/", "names a directory; only files are found: src/\\*\\* finds those in it"),
        (".", "names a directory"),
        ("a{b,c", "is never closed"),
        ("{1,2,3,4,5,6,7,8,9,10}" * 3, "more than 100 patterns"),
    ],
)
async def test_a_pattern_that_cannot_be_is_told(use: Use, pattern: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        await use(GLOB, pattern=pattern)


async def test_patterns_that_take_others_for_ever_are_quick(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, "/".join("abcdefghij" * 2) + "/file.txt", "a" * 200)
    with anyio.fail_after(20):
        assert "No file matches" in await use(GLOB, pattern="**/" * 40 + "x")
        assert "No file matches" in await use(GLOB, pattern="*a" * 50 + "b")


async def test_a_deep_tree_and_names_that_are_no_utf8_are_walked(use: Use, tmp_path: Path) -> None:
    tree(tmp_path, "/".join("d" * 150) + "/x.txt")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).touch()
    shown = await use(GLOB, pattern="**/*.txt")
    assert "d/d/d/x.txt" in shown
    assert r"\udcff.txt" in shown


async def test_a_walk_that_is_cancelled_stops(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(600):
        (tmp_path / str(i)).touch()
    matched: list[str] = []

    def cancelling(pattern: GlobPattern, path: str) -> bool:
        matched.append(path)
        if len(matched) == 1:
            from_thread.run_sync(scope.cancel)
        return True

    monkeypatch.setattr(GlobPattern, "matches", cancelling)
    with anyio.fail_after(20), anyio.CancelScope() as scope:
        await GLOB.execute(make_context(tmp_path), GlobArguments(pattern="**/*"))
    assert scope.cancelled_caught
    assert len(matched) < 600


async def test_a_walk_that_takes_too_long_gives_what_it_has(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, *(f"{i:03}" for i in range(300)))
    monkeypatch.setattr(glob, "MAX_SECONDS", -1.0)
    assert (
        await use(GLOB, pattern="0*")
        == "No file matches '0*' in '.'.\n(stopped after -1 s; there may be more: take a narrower path)"
    )


async def test_a_directory_that_cannot_be_opened_is_passed_over(use: Use, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may open everything")
    tree(tmp_path, "open/a", "closed/b")
    (tmp_path / "closed").chmod(0)
    assert await use(GLOB, pattern="**/*") == "open/a"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("**", "d/a", True),
        ("d/**", "d/a/b", True),
        ("d/**", "d", False),
        ("d/**/a", "d/a", True),
        ("?.[ab]", "x.b", True),
        ("?.[!ab]", "x.c", True),
        ("?.[^ab]", "x.a", False),
        ("[id].tsx", "[id].tsx", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("{a,b/{c,d}}/x", "b/d/x", True),
        ("{a,b/{c,d}}/x", "b/x", False),
        ("*", ".hidden", True),
        ("A", "a", False),
        ("a**b", "axxb", True),
        ("a\nb", "a\nb", True),
    ],
)
def test_what_patterns_mean(pattern: str, path: str, matches: bool) -> None:
    assert GlobPattern(pattern).matches(path) is matches


NAMES = st.lists(st.sampled_from(["a", "b", "ab", "a.b"]), min_size=1, max_size=5).map("/".join)
PARTS = st.lists(st.sampled_from(["a", "*", "**", "a*", "{a,b}", "?"]), min_size=1, max_size=5).map(
    "/".join
)


@given(pattern=PARTS, path=NAMES)
def test_a_directory_that_holds_a_match_is_never_passed_over(pattern: str, path: str) -> None:
    glob = GlobPattern(pattern)
    if glob.matches(path):
        directories = path.split("/")[:-1]
        assert all(
            glob.may_contain("/".join(directories[: i + 1])) for i in range(len(directories))
        )


def test_the_walk_is_in_the_order_of_names_and_leaves_nothing_open(tmp_path: Path) -> None:
    tree(tmp_path, "b", "a/z", "a/b/c", "a.d/x", "a.txt", "Z")
    assert [found.path for found in walk(str(tmp_path.resolve()))] == [
        "Z",
        "a/b/c",
        "a/z",
        "a.d/x",
        "a.txt",
        "b",
    ]
    if not Path("/proc/self/fd").exists():
        pytest.skip("open descriptors are counted in /proc")
    before = len(os.listdir("/proc/self/fd"))
    abandoned = walk(str(tmp_path.resolve()))
    next(abandoned)
    next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before
