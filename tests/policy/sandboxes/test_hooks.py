"""Folders of hooks that settings name: in every worktree, and in repositories that come up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import confined, ground, jailed
from tests.policy.sandboxes.planting import EVIL, PLAIN, make, moved, repository
from treadle.policy.sandboxes.control_files import ControlFiles


def worktree(git: Path, name: str, folder: Path) -> None:
    make(git / f"worktrees/{name}", "HEAD", text="ref: refs/heads/w\n")
    make(git / f"worktrees/{name}", "commondir", text="../..\n")
    make(git / f"worktrees/{name}", "gitdir", text=f"{folder}/.git\n")
    make(folder, ".git", text=f"gitdir: {git}/worktrees/{name}\n")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def left(files: ControlFiles, work: Path) -> set[str]:
    return moved(files.leave(lambda: work.parent / "away", is_open=True))


HOOKS = PLAIN + "[core]\n\thooksPath = tools/hooks\n"


def test_hooks_are_named_in_each_worktree_there_is(work: Path) -> None:
    repository(work / "main/.git", HOOKS)
    worktree(work / "main/.git", "a", work / "a")
    worktree(work / "main/.git", "b", work / "b")
    make(work, "a/tools/hooks/pre-commit")
    files = ControlFiles(work)
    assert "a/tools/hooks" in files.enter(is_open=True).guarded
    make(work, "b/tools/hooks/pre-commit")
    assert left(files, work) == {"b/tools/hooks"}


def test_hooks_are_named_in_worktrees_that_come_up(work: Path) -> None:
    repository(work / "main/.git", HOOKS)
    files = ControlFiles(work)
    files.enter(is_open=True)
    worktree(work / "main/.git", "new", work / "new")
    make(work, "new/tools/hooks/pre-commit", "new/src/x")
    assert left(files, work) == {"new/tools/hooks"}


@pytest.mark.parametrize("value", ["ci/hooks", "./ci/../ci/hooks/"])
def test_hooks_of_the_user_s_settings_are_named_in_every_repository(
    work: Path, home: Path, value: str
) -> None:
    make(home, ".gitconfig", text=f"[core]\n\thooksPath = {value}\n")
    repository(work / "old/.git")
    files = ControlFiles(work)
    files.enter(is_open=True)
    repository(work / "new/.git")
    repository(work / "bare.git")
    make(
        work,
        "old/ci/hooks/pre-commit",
        "new/ci/hooks/pre-commit",
        "bare.git/ci/hooks/update",
        "other/ci/hooks/x",
    )
    assert left(files, work) == {"old/ci/hooks", "new/ci/hooks", "bare.git/ci/hooks"}


def test_hooks_that_lie_in_the_worktree_itself_are_named_one_by_one(work: Path) -> None:
    repository(work / "main/.git", PLAIN + "[core]\n\thooksPath = .\n")
    make(work, "main/src")
    files = ControlFiles(work)
    assert "main" not in files.enter(is_open=True).guarded
    make(work, "main/pre-commit", "main/other")
    assert left(files, work) == {"main/pre-commit"}


def test_hooks_of_the_workspace_that_is_a_worktree_are_named(work: Path) -> None:
    repository(work.parent / "main/.git", HOOKS)
    worktree(work.parent / "main/.git", "w", work)
    files = ControlFiles(work)
    files.enter(is_open=True)
    make(work, "tools/hooks/pre-commit")
    assert left(files, work) == {"tools/hooks"}


def test_what_a_planted_repository_names_is_not_moved_with_it(work: Path) -> None:
    make(work, "src/x")
    files = ControlFiles(work)
    files.enter(is_open=True)
    repository(work / "r/.git", f"{EVIL}\thooksPath = ../src\n")
    repository(work / "store", f"{EVIL}\thooksPath = {work}/src\n")
    make(work, "s/.git", text="gitdir: ../store\n")
    assert left(files, work) == {"r/.git", "store/HEAD", "store/config", "s/.git"}


_NEW = """git worktree add -q new; for d in tree new; do
mkdir -p $d/ci/hooks; printf '#!/bin/sh\\necho x > %s/ran/0\\n' PLACE > $d/ci/hooks/pre-commit; chmod +x $d/ci/hooks/pre-commit; done"""


@needs_bubblewrap
def test_git_runs_no_hook_that_came_up_in_a_worktree() -> None:
    with ground() as place:
        jailed(place, "git config core.hooksPath ci/hooks", ())
        assert moved(confined(place, _NEW.replace("PLACE", str(place)))) >= {
            "tree/ci/hooks",
            "new/ci/hooks",
        }
        jailed(place, "for d in tree new; do git -C $d commit -q --allow-empty -m x; done", ())
        assert list((place / "ran").iterdir()) == []
