"""Repositories that git keeps inside another one: submodules of worktrees, worktrees of submodules."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import confined, ground, jailed
from tests.policy.sandboxes.planting import EVIL, Leave, make, moved, repository
from treadle.policy.sandboxes.control_files import ControlFiles

NESTED = [
    "worktrees/w/modules/s",
    "modules/s/worktrees/w",
    "worktrees/w/modules/a/s/modules/t",
    "modules/a/s/worktrees/w/modules/t",
]


def nested(git: Path, inner: str) -> None:
    """Make each repository of a path such as `modules/s/worktrees/w`."""
    repository(git)
    for end in range(2, len(inner.split("/")) + 1):
        names = inner.split("/")[:end]
        if names[-1] in ("s", "t", "w"):
            repository(git.joinpath(*names))
            make(git.joinpath(*names), "hooks/x.sample")
        if names[-1] == "w":
            make(git.joinpath(*names), "commondir", text="../..\n")


@pytest.mark.parametrize("inner", NESTED)
def test_control_entries_of_nested_repositories_are_read_only(work: Path, inner: str) -> None:
    nested(work / ".git", inner)
    guarded = ControlFiles(work).look(is_open=True).guarded
    assert {f".git/{inner}/config", f".git/{inner}/hooks"} <= guarded.keys()


@pytest.mark.parametrize("inner", NESTED)
@pytest.mark.parametrize(
    "name",
    [
        "config.worktree",
        "hooks/pre-commit",
        "info/attributes",
        "commondir",
        "rebase-merge/git-rebase-todo",
    ],
)
def test_what_comes_up_in_nested_repositories_goes(
    work: Path, enter: Callable[..., Leave], inner: str, name: str
) -> None:
    nested(work / ".git", inner)
    (work / f".git/{inner}/commondir").unlink(missing_ok=True)
    shutil.rmtree(work / f".git/{inner}/hooks")
    leave = enter()
    make(work / f".git/{inner}", name, text=f"exec evil\n{EVIL}")
    (said,) = moved(leave())
    assert f".git/{inner}/{name}".startswith(said)


@pytest.mark.parametrize("inner", ["modules/s", "modules/a/s/worktrees/w", "modules/s/modules/t"])
def test_repositories_below_the_worktree_that_is_the_workspace_are_inspected(
    work: Path, enter: Callable[..., Leave], inner: str
) -> None:
    main = work.parent / "main/.git"
    nested(main, f"worktrees/w/{inner}")
    make(main / "worktrees/w", "gitdir", text=f"{work}/.git\n")
    make(work, ".git", text=f"gitdir: {main}/worktrees/w\n")
    leave = enter()
    make(main / f"worktrees/w/{inner}", "config.worktree", text=EVIL)
    repository(main / "worktrees/w/modules/new", EVIL)
    assert moved(leave()) == {
        f".git/worktrees/w/{inner}/config.worktree",
        ".git/worktrees/w/modules/new",
    }


_SUBMODULE = """set -e; cd "$W"; git worktree add -q ../other; cd ../other; git submodule --quiet update --init sub; git -C sub rev-parse --git-dir"""


@needs_bubblewrap
def test_a_worktree_commits_in_its_submodule_and_cannot_configure_it() -> None:
    with ground() as place:
        said = jailed(place, _SUBMODULE, ()).stdout
        module = place / "work/.git/worktrees/other/modules/sub"
        assert said == f"{module}\n"
        old = (module / "config").read_bytes()
        script = f"cd {module}; printf evil >> config; cp /bin/true hooks/pre-commit; mv ../sub ../sub2; mv ../../modules ../../modules2; "
        script += f"cd {place}/other/sub; git config user.name x; echo 1 > new; git add new; git commit -qm made"
        assert confined(place, script, workspace=place / "other") == []
        assert (module / "config").read_bytes() == old
        assert not (module / "hooks/pre-commit").exists()
        assert "made" in jailed(place, "git -C ../other/sub log -1", ()).stdout
