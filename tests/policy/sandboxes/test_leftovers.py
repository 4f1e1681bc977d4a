"""No command leaves behind anything that the user's git, shell or editor runs later; what git
itself makes stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes import leftovers
from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.planting import EVIL, PLAIN, Leave, make, moved, repository
from treadle.policy.sandboxes import control_files
from treadle.policy.sandboxes.control_files import ControlFiles

# ---------------------------------------------------------------- git is asked


@needs_bubblewrap
@pytest.mark.parametrize("space", range(len(leftovers.plants(7, 30))))
def test_git_runs_nothing_that_a_command_planted(space: int) -> None:
    assert leftovers.ran(leftovers.plants(7, 30)[space])[0] == []


@needs_bubblewrap
def test_the_plants_bite_where_nothing_is_moved_away() -> None:
    named = {plant.name: plant for space in leftovers.plants(1, 60) for plant in space}
    chosen = [
        "hook",
        "strategy",
        "configured hooks",
        "git file/fsmonitor/plain",
        "module/fsmonitor/plain",
        "dot git/fsmonitor/far",
    ]
    assert leftovers.ran([named[name] for name in chosen], clears=False)[0] == chosen


# ---------------------------------------------------------------- what stays

WORKFLOWS = {
    "init and commit": "git init -q a; cd a; echo 1 > f; git add f; git commit -q -m 1; git config user.name 'Ünal'; git gc -q; git stash list",
    "clone": "git clone -q upstream copy; cd copy; git checkout -q -b b; git commit -q --allow-empty -m x; git push -q -u origin b; git fetch -q",
    "bare": "git init -q --bare b.git; git push -q b.git main; git clone -q b.git c",
    "submodule": "git init -q s; cd s; git submodule --quiet add ../upstream sub; git commit -q -m sub; git submodule update --remote",
    "worktree": "git worktree add -q tree; cd tree; git commit -q --allow-empty -m x; git worktree list",
    "worktree of a new repository": "git clone -q upstream c; git -C c worktree add -q ../c2; git -C c2 commit -q --allow-empty -m x",
    "sparse": "git clone -q --sparse upstream copy; git -C copy sparse-checkout set d",
    "rebase that stops": "echo 3 > f; git commit -qam 3; git checkout -q -b side HEAD~1; echo 4 > f; git commit -qam 4; git rebase main; git status",
    "rebase that goes on": "echo 3 > f; git commit -qam 3; git checkout -q -b side HEAD~1; echo 4 > f; git commit -qam 4; git rebase -q main;"
    " echo 5 > f; git add f; GIT_EDITOR=true git rebase --continue",
    "interactive": "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -i HEAD~1",
    "cherry-pick and merge": "git checkout -q -b side HEAD~1; echo 4 > f; git commit -qam 4; git cherry-pick main; git cherry-pick --abort; git merge -q main",
    "several picks": "git checkout -q -b side HEAD~1; echo 4 > f; git commit -qam 4; git cherry-pick -x HEAD~1..main main",
    "am": "git format-patch -q -1; git reset -q --hard HEAD~1; echo z > f; git commit -qam z; git am 0001*",
    "bisect": "git bisect start -q HEAD HEAD~1 -- f",
}


@needs_bubblewrap
@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_git_makes_in_daily_work_stays(name: str) -> None:
    moved = leftovers.worked(WORKFLOWS[name])
    assert [said for said in moved if "/.gitmodules' is new" not in said] == []


# ---------------------------------------------------------------- what goes


@pytest.mark.parametrize(
    "config",
    [
        PLAIN + "\n" * 90_000 + EVIL,
        PLAIN + "\n" * 2_000_000,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "[core] fsmonitor = x\n",
        "[core]\n\tbare = false \\\n\tfsmonitor = x\n",
        '[core]\n\tbare = "false"\n',
        "[core]\n\tbare\n",
        "[core]\n\tbare = false # x\n",
        "[core]\n\tbare = false\0\n",
        "[user]\n\tname =" + " " * 50_000 + "x#\n",
        "[user]\n\tname =" + "a\t " * 50_000 + "\x01\n",
        "[user]\n" + " " * 900_000 + "\x01\n",
        "[core]\n\x0b\tbare = false\n",
        "[remote.origin]\n\turl = https://host/x\n",
        '[remote "x"]\n\turl = foo::bar\n',
        '[remote "x"]\n\turl = -oProxyCommand=x\n',
        '[branch "x"]\n\tremote = ext::sh\n',
        "[core]\n\tworktree = ../../..\n",
        "[core]\n\trepositoryformatversion = 2\n",
        '[submodule "x"]\n\tupdate = !evil\n',
        "[commit]\n\tgpgsign = true\n",
        '[url "x"]\n\tinsteadOf = y\n',
    ],
)
def test_a_config_that_is_not_read_whole_and_in_one_way_is_not_plain(
    work: Path, enter: Callable[..., Leave], config: str
) -> None:
    leave = enter()
    repository(work / "r/.git", config)
    assert moved(leave()) == {"r/.git"}
    assert not (work / "r/.git").exists()


@pytest.mark.parametrize(("length", "stays"), [(4_000, True), (5_000, False)])
def test_a_line_of_settings_is_read_to_a_bound(
    work: Path, enter: Callable[..., Leave], length: int, stays: bool
) -> None:
    leave = enter()
    repository(work / "r/.git", "[user]\n\tname = " + "x" * length + "\n")
    assert (moved(leave()) == set()) is stays


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(
    "folder",
    [
        "r",
        "a/b/r",
        "node_modules/x",
        "target/r",
        ".venv/src/r",
        ".github/workflows/r",
        "x/objects/y",
    ],
)
def test_a_repository_is_found_wherever_it_lies(
    work: Path, enter: Callable[..., Leave], folder: str, is_open: bool
) -> None:
    leave = enter(is_open=is_open)
    repository(work / folder / ".git", EVIL)
    said = leave()
    assert len(said) == 1
    assert f"{folder}/.git".startswith(moved(said).pop())
    assert not (work / folder / ".git").exists()


def test_a_repository_needs_no_objects_where_it_names_another_folder(
    work: Path, enter: Callable[..., Leave]
) -> None:
    leave = enter()
    repository(work / "store", PLAIN + "[extensions]\n\tworktreeConfig = true\n")
    make(work, "r/HEAD", text="ref: refs/heads/main\n")
    make(work, "r/commondir", text="../store\n")
    make(work, "r/config.worktree", text=EVIL)
    assert moved(leave()) == {"r/HEAD", "r/commondir", "r/config.worktree"}


@pytest.mark.parametrize(
    "place", ["hooks", "config", "info", "modules", "objects", "rebase-merge", "worktrees"]
)
def test_a_link_in_a_new_repository_counts_also_when_it_leads_nowhere(
    work: Path, enter: Callable[..., Leave], place: str
) -> None:
    leave = enter()
    repository(work / "r/.git", PLAIN)
    if (work / "r/.git" / place).is_dir():
        (work / "r/.git" / place).rename(work / "elsewhere")
    (work / "r/.git" / place).unlink(missing_ok=True)
    (work / "r/.git" / place).symlink_to("../nowhere")
    assert moved(leave()) == {"r/.git"}


@pytest.mark.parametrize(
    "path",
    [
        "config.worktree",
        "commondir",
        "gitdir",
        "info/attributes",
        "hooks/pre-commit",
        "modules/x/hooks/y",
        "remotes/origin",
        "worktrees/x/commondir",
    ],
)
def test_in_an_old_repository_what_is_new_and_names_programs_goes_alone(
    work: Path, enter: Callable[..., Leave], path: str
) -> None:
    repository(work / ".git", EVIL)
    leave = enter()
    make(work / ".git", path, text="evil::x\n")
    if path.startswith("modules"):
        make(work / ".git/modules/x", "HEAD")
    said = leave()
    assert len(said) == 1
    assert f".git/{path}".startswith(moved(said).pop())
    assert (work / ".git/config").read_text() == EVIL


@pytest.mark.parametrize(
    "guarded", ["AGENTS.md", ".envrc", ".vscode", ".git/hooks", ".github/instructions", ".git"]
)
def test_what_comes_up_behind_an_old_link_is_moved_and_the_link_stays(
    work: Path, enter: Callable[..., Leave], guarded: str
) -> None:
    if guarded == ".git/hooks":
        repository(work / ".git")
    (work / guarded).parent.mkdir(exist_ok=True)
    (work / guarded).symlink_to(work / "nowhere")
    leave = enter()
    make(work, "nowhere/x") if guarded != "AGENTS.md" else make(work, "nowhere")
    assert moved(leave()) == {"nowhere"}
    assert (work / guarded).is_symlink()
    assert not (work / "nowhere").exists()


def test_a_link_in_place_of_a_folder_above_a_guarded_file_is_guarded(
    work: Path, enter: Callable[..., Leave]
) -> None:
    leave = enter()
    make(work, "x/instructions/evil.md")
    (work / ".github").symlink_to("x")
    assert moved(leave()) == {".github"}


def test_todo_lists_gain_no_line_that_runs_a_program(
    work: Path, enter: Callable[..., Leave]
) -> None:
    repository(work / ".git")
    todo = work / ".git/rebase-merge/git-rebase-todo"
    make(work, ".git/rebase-merge/git-rebase-todo", text="pick 1 a\nexec make test\nbreak\n# x\n")
    leave = enter()
    todo.write_text("exec make test\npick 2 b\n")
    assert leave() == []
    leave = enter()
    todo.write_text("pick 1 a\n  x evil\n")
    (said,) = leave()
    assert "leads git to a program or out of the workspace: it was moved to " in said
    assert said.endswith("/away/moved-.git-rebase-merge-git-rebase-todo'")
    assert not todo.exists()


def test_folders_of_hooks_that_settings_name_are_guarded_before_and_afterwards(
    work: Path, enter: Callable[..., Leave]
) -> None:
    repository(
        work / ".git",
        '[core]\n\tbare = false\n\thooksPath = tools/hooks\n[include]\n\tpath = ../shared\n[includeIf "onbranch:x"]\n\tpath = ../other\n',
    )
    make(work, "shared", text="[user]\n\tname = x\n")
    files = ControlFiles(work)
    assert {"shared"} <= files.enter(is_open=True).guarded.keys()
    make(work, "tools/hooks/pre-commit", "other", "tools/x")
    assert moved(files.leave(lambda: work.parent / "away", is_open=True)) == {
        "tools/hooks",
        "other",
    }
    assert (work / "tools/x").exists()


def test_submodules_and_worktrees_are_guarded_one_by_one_where_more_may_come(work: Path) -> None:
    repository(work / ".git")
    for name in ("modules/a", "modules/deep/b", "modules/a/modules/c", "worktrees/d"):
        repository(work / ".git" / name)
        make(work, f".git/{name}/hooks/x.sample")
    guarded = ControlFiles(work).look(is_open=True).guarded
    for name in ("modules/a", "modules/deep/b", "modules/a/modules/c", "worktrees/d"):
        assert {f".git/{name}/config", f".git/{name}/hooks"} <= guarded.keys()
    assert not {".git/modules", ".git/worktrees"} & guarded.keys()
    assert {".git/modules", ".git/worktrees"} <= ControlFiles(work).look(
        is_open=False
    ).guarded.keys()


def test_a_file_that_leads_to_a_repository_stays_only_where_that_one_does(
    work: Path, enter: Callable[..., Leave]
) -> None:
    leave = enter()
    repository(work / "good")
    repository(work / "bad", EVIL)
    make(work, "a/.git", text="gitdir: ../good\n")
    make(work, "b/.git", text="gitdir: ../bad\n")
    make(work, "c/.git", text="gitdir: /tmp/elsewhere\n")
    assert moved(leave()) == {"bad/HEAD", "bad/config", "b/.git", "c/.git"}


def test_deep_names_and_names_alike_are_moved_too(work: Path, enter: Callable[..., Leave]) -> None:
    leave = enter()
    deep = "/".join(["d" * 40] * 20)
    make(work, f"{deep}/.mcp.json", "a/b/.mcp.json", "a-b/.mcp.json")
    assert moved(leave()) == {f"{deep}/.mcp.json", "a/b/.mcp.json", "a-b/.mcp.json"}
    assert len(list((work.parent / "away").iterdir())) == 3


def test_more_folders_than_are_looked_into_are_reported(
    work: Path, enter: Callable[..., Leave], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_files, "MAX_FOLDERS", 5)
    leave = enter()
    for name in "abcdef":
        (work / name).mkdir()
    assert [text for text in leave() if "more than 5 folders" in text] != []


def test_a_repository_too_deep_to_be_guarded_is_inspected_when_it_changed(
    work: Path, enter: Callable[..., Leave], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_files, "MAX_GUARDED", 1)
    repository(work / "a/.git", EVIL)
    repository(work / "b/.git", EVIL)
    leave = enter()
    (work / "a/.git/config").write_text(EVIL + EVIL)
    assert moved(leave()) == {"a/.git/config"}


def test_an_old_repository_among_packages_is_inspected_when_it_changed(
    work: Path, enter: Callable[..., Leave], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_files, "CLOCK_STEP_NS", 0)
    repository(work / "node_modules/a/.git", EVIL)
    repository(work / "node_modules/b/.git", EVIL)
    wait_for_the_clock(work.parent)
    leave = enter()
    wait_for_the_clock(work.parent)
    (work / "node_modules/a/.git/config").write_text(EVIL + EVIL)
    assert moved(leave()) == {"node_modules/a/.git"}


@pytest.mark.parametrize(
    "path",
    [
        "commondir",
        "config.worktree",
        "rebase-merge/git-rebase-todo",
        "worktrees/w/rebase-merge/git-rebase-todo",
    ],
)
def test_the_repository_of_a_worktree_is_inspected_too(
    work: Path, enter: Callable[..., Leave], path: str
) -> None:
    main = work.parent / "main/.git"
    repository(main)
    make(main / "worktrees/w", "HEAD", text="ref: refs/heads/w\n")
    make(main / "worktrees/w", "commondir", text="../..\n")
    make(main / "worktrees/w", "gitdir", text=f"{work}/.git\n")
    make(work, ".git", text=f"gitdir: {main}/worktrees/w\n")
    leave = enter()
    make(main, path, text="exec evil\n")
    assert moved(leave()) == {f".git/{path}"}
    assert not (main / path).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root lists every folder")
@pytest.mark.parametrize("closed", [["r/.git", "r"], ["r"], ["r/.git"], ["r/.git/config"]])
def test_rights_that_were_taken_away_hide_nothing(
    work: Path, enter: Callable[..., Leave], closed: list[str]
) -> None:
    leave = enter()
    repository(work / "r/.git", EVIL)
    for path in closed:
        (work / path).chmod(0o111)
    assert moved(leave()) == {"r/.git"}


def wait_for_the_clock(place: Path) -> None:
    """Until a change has a later ctime than any before."""
    (place / "clock").write_text("x")
    first = (place / "clock").stat().st_ctime_ns
    while (place / "clock").stat().st_ctime_ns == first:
        (place / "clock").write_text("x")
