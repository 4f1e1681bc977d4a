"""What was changed in a folder, told by git without touching the folder or its repository."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from shutil import which

import pytest

from tests.apps.batch.conftest import git, repository
from treadle.apps.batch.changes import UNTRACKED_BYTES_MAX, WorkingTreeChanges
from treadle.apps.batch.git import GitCommands, GitFailed
from treadle.apps.batch.report import Diff


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repository(tmp_path / 'repo: "it\'s"')


@pytest.fixture
def changes(folder: Path, tmp_path: Path) -> WorkingTreeChanges:
    return WorkingTreeChanges(GitCommands(folder, os.environ), tmp_path / "objects")


async def since(changes: WorkingTreeChanges, before: str) -> Diff:
    return await changes.between(before, await changes.moment())


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_changed_new_and_deleted_files_count_and_ignored_ones_do_not(
    folder: Path, changes: WorkingTreeChanges
) -> None:
    (folder / "mine.txt").write_text("not committed, before\n")
    before = await changes.moment()
    (folder / "cart.py").write_text("one\n2\nthree\nfour\n")
    (folder / "new\nline.txt").write_text("a\nb\n")
    (folder / "inner").mkdir()
    (folder / "inner" / "deep.txt").write_text("c\n")
    (folder / "x.log").write_text("ignored\n")
    (folder / "mine.txt").unlink()
    (folder / "picture.png").write_bytes(bytes(range(256)))
    os.symlink("cart.py", folder / "link")
    assert await since(changes, before) == Diff(files=6, added=2 + 2 + 1 + 1, removed=1 + 1)


async def test_neither_the_folder_nor_its_repository_is_changed(
    folder: Path, changes: WorkingTreeChanges
) -> None:
    (folder / "cart.py").write_text("other\n")
    git(folder, "add", ".")
    (folder / "cart.py").write_text("still other\n")
    (folder / "new.txt").write_text("new\n")
    before = everything(folder)
    await since(changes, await changes.moment())
    assert everything(folder) == before


async def test_where_nothing_was_changed_there_is_nothing(
    folder: Path, changes: WorkingTreeChanges
) -> None:
    (folder / "cart.py").write_text("dirty before\n")
    assert await since(changes, await changes.moment()) == Diff(files=0, added=0, removed=0)
    assert await since(changes, "HEAD") == Diff(files=1, added=1, removed=3)


async def test_a_large_file_that_git_does_not_know_is_left_out(
    folder: Path, changes: WorkingTreeChanges
) -> None:
    before = await changes.moment()
    with (folder / "large.bin").open("wb") as file:
        file.truncate(UNTRACKED_BYTES_MAX + 1)
    (folder / "small.txt").write_text("a\n")
    assert await since(changes, before) == Diff(files=1, added=1, removed=0)


async def test_a_repository_inside_is_left_alone(folder: Path, changes: WorkingTreeChanges) -> None:
    before = await changes.moment()
    repository(folder / "inner")
    assert await since(changes, before) == Diff(files=0, added=0, removed=0)


async def test_a_moment_outlives_who_took_it(
    folder: Path, changes: WorkingTreeChanges, tmp_path: Path
) -> None:
    (folder / "mine.txt").write_text("a\n")
    before = await changes.moment()
    (folder / "mine.txt").write_text("a\nb\n")
    assert await since(
        WorkingTreeChanges(GitCommands(folder, os.environ), tmp_path / "objects"), before
    ) == Diff(files=1, added=1, removed=0)


async def test_what_git_cannot_tell_is_said(folder: Path, changes: WorkingTreeChanges) -> None:
    with pytest.raises(GitFailed, match="git diff-tree failed"):
        await since(changes, "0" * 40)
    with pytest.raises(GitFailed, match="git rev-parse failed"):
        await GitCommands(
            folder.parent, {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": "/"}
        )("rev-parse", "HEAD")


async def test_a_git_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(GitFailed, match="git is not installed"):
        await GitCommands(folder, {"PATH": "/nowhere"})("status")


async def test_variables_of_the_git_that_started_us_lead_nowhere_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other")
    (other / "more.txt").write_text("x\n")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "second")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert await GitCommands(folder, os.environ)("rev-list", "--count", "HEAD") == "1"


async def test_filters_that_a_repository_configures_are_not_started_and_a_persons_own_are(
    folder: Path, tmp_path: Path
) -> None:
    (folder / ".gitattributes").write_text(
        "*.py filter=evil.o=ne\n*.txt filter=mine\n*.bin filter=lfs\n"
    )
    for key in ("clean", "smudge"):
        git(folder, "config", f"filter.evil.o=ne.{key}", f"touch {tmp_path}/fired; cat")
        git(folder, "config", f"filter.lfs.{key}", f"git-lfs {key} -- %f")
    git(folder, "config", "filter.evil.o=ne.required", "true")
    own = tmp_path / "gitconfig"
    own.write_text(f'[filter "mine"]\n\tclean = "touch {tmp_path}/mine; cat"\n')
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git-lfs").write_text(f"#!/bin/sh\ntouch {tmp_path}/lfs\ncat\n")
    (programs / "git-lfs").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": str(own)}
    before = await WorkingTreeChanges(
        GitCommands(folder, environment), tmp_path / "objects"
    ).moment()
    (folder / "cart.py").write_text("other\n")
    (folder / "new.py").write_text("new\n")
    (folder / "mine.txt").write_text("mine\n")
    (folder / "large.bin").write_text("large\n")
    assert await GitCommands(folder, environment)("status", "--porcelain")
    assert await since(
        WorkingTreeChanges(GitCommands(folder, environment), tmp_path / "objects"), before
    ) == Diff(files=4, added=4, removed=3)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "gitconfig",
        "lfs",
        "mine",
    ]


async def test_a_moment_reads_the_filters_once_and_every_moment_reads_them_again(
    folder: Path, tmp_path: Path
) -> None:
    programs, asked = tmp_path / "bin", tmp_path / "asked"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\necho "$*" >> {asked}\nexec {which("git")} "$@"\n')
    (programs / "git").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    changes = WorkingTreeChanges(GitCommands(folder, environment), tmp_path / "objects")
    await changes.moment()
    assert asked.read_text().count("--get-regexp") == 1
    (folder / ".gitattributes").write_text("*.py filter=late\n")
    git(folder, "config", "filter.late.clean", f"touch {tmp_path}/fired; cat")
    (folder / "cart.py").write_text("other\n")
    await changes.moment()
    assert asked.read_text().count("--get-regexp") == 2
    assert not (tmp_path / "fired").exists()


async def test_a_full_disk_for_temporary_files_is_said(
    changes: WorkingTreeChanges, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(GitFailed, match="cannot be copied"):
        await changes.moment()
