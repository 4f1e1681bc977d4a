"""Guarded places that something outside the sandbox renames while a command runs, which takes the
mount off.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import confined, ground
from tests.policy.sandboxes.planting import Leave, make, moved, repository
from treadle.policy.sandboxes import replaced as module

GUARDED = {
    "AGENTS.md": "AGENTS.md",
    ".vscode/a/b.json": ".vscode",
    ".git/hooks/pre-commit": ".git/hooks",
    "svc/r/.git/info/attributes": "svc",
}


def placed(work: Path) -> dict[str, str]:
    for folder in (".git", "svc/r/.git"):
        repository(work / folder)
    make(work, *GUARDED, "svc/.envrc", text="old\n")
    return {str(path): path.read_text() for path in work.rglob("*") if path.is_file()}


@pytest.mark.parametrize("guarded", GUARDED)
def test_content_that_came_up_at_a_guarded_place_is_undone(
    work: Path, enter: Callable[..., Leave], guarded: str
) -> None:
    old = placed(work)
    leave = enter()
    top = work / GUARDED[guarded]
    top.rename(work.parent / "aside")
    shutil.copytree(work.parent / "aside", top) if top != work / guarded else None
    make(work, guarded, text="evil\n")
    assert moved(leave()) == {guarded}
    assert {str(path): path.read_text() for path in work.rglob("*") if path.is_file()} == old


@pytest.mark.parametrize(
    "new",
    [".vscode/evil.json", ".vscode/c/d.json", ".git/hooks/post-commit", ".git/info/attributes"],
)
def test_what_came_up_in_a_guarded_folder_goes(
    work: Path, enter: Callable[..., Leave], new: str
) -> None:
    placed(work)
    make(work, ".git/info/exclude", ".vscode/settings.json")
    leave = enter()
    make(work, new)
    (said,) = moved(leave())
    assert new.startswith(said)
    assert not (work / new).exists()


def test_a_hook_that_became_executable_is_undone(work: Path, enter: Callable[..., Leave]) -> None:
    placed(work)
    leave = enter()
    shutil.copy(work / ".git/hooks/pre-commit", work / "new")
    (work / "new").chmod(0o755)
    (work / "new").rename(work / ".git/hooks/pre-commit")
    assert moved(leave()) == {".git/hooks/pre-commit"}
    assert (
        not os.access(work / ".git/hooks/pre-commit", os.X_OK)
        or os.stat(work / ".git/hooks/pre-commit").st_mode & 0o111 == 0
    )


def test_the_same_content_in_another_inode_stays(work: Path, enter: Callable[..., Leave]) -> None:
    old = placed(work)
    leave = enter()
    shutil.copytree(work, work.parent / "copy")
    (work.parent / "old").mkdir()
    for name in ("AGENTS.md", ".vscode", ".git", "svc"):
        shutil.move(work / name, work.parent / "old" / name)
        shutil.move(work.parent / "copy" / name, work / name)
    assert leave() == []
    assert {str(path): path.read_text() for path in work.rglob("*") if path.is_file()} == old


def test_what_the_user_writes_in_place_stays(work: Path, enter: Callable[..., Leave]) -> None:
    placed(work)
    leave = enter()
    for name in GUARDED:
        (work / name).write_text("mine\n")
    (work / ".git/hooks/pre-commit").chmod(0o755)
    assert leave() == []
    assert {(work / name).read_text() for name in GUARDED} == {"mine\n"}


@pytest.mark.parametrize("most", [0, 3])
def test_a_folder_with_too_much_to_remember_keeps_what_it_has(
    work: Path, enter: Callable[..., Leave], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MAX_STATES", most)
    placed(work)
    make(work, *(f".vscode/{n}.json" for n in range(5)))
    leave = enter()
    make(work, ".vscode/new.json")
    assert leave() == []


@needs_bubblewrap
def test_a_command_gains_nothing_where_the_user_renames_what_is_mounted() -> None:
    with ground() as place:
        work = place / "work"
        make(work, ".vscode/tasks.json", "AGENTS.md", text="old\n")
        shutil.copytree(work / ".vscode", place / "copy")

        def user() -> None:
            while not (work / "ready").exists():
                pass
            (work / ".vscode").rename(place / "aside")
            (place / "copy").rename(work / ".vscode")
            (place / "new").write_text("old\n")
            (place / "new").rename(work / "AGENTS.md")
            (work / "go").touch()

        thread = threading.Thread(target=user)
        thread.start()
        said = confined(
            place,
            "touch ready; until [ -e go ]; do :; done; echo evil > .vscode/tasks.json; echo evil > AGENTS.md",
        )
        thread.join()
        assert moved(said) == {".vscode/tasks.json", "AGENTS.md"}
        assert ((work / ".vscode/tasks.json").read_text(), (work / "AGENTS.md").read_text()) == (
            "old\n",
            "old\n",
        )
