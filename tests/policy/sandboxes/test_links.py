"""Links that lead to where a look at the workspace does not go."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import confined, ground, jailed
from tests.policy.sandboxes.planting import EVIL, PLAIN, Leave, make, moved, repository
from treadle.policy.sandboxes.control_files import ControlFiles

PLACES = [
    "node_modules/p",
    ".venv/lib/p",
    "a/target/p",
    ".git/refs/p",
    ".git/lfs/x/p",
    "sub/.git/logs/p",
    ".git",
    ".git/modules/s",
    "node_modules",
]


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("link", ["src", "a/b/docs", "node_modules/q"])
@pytest.mark.parametrize("place", PLACES)
def test_a_new_link_to_where_nothing_is_inspected_goes(
    work: Path, enter: Callable[..., Leave], place: str, link: str, absolute: bool
) -> None:
    if link.startswith("node_modules") and ".git" not in place:
        pytest.skip("repositories are looked for among packages, and nothing else is")
    for folder in (".git", "sub/.git", ".git/modules/s"):
        repository(work / folder)
    make(work, f"{place}/x")
    leave = enter()
    make(work, f"{place}/HEAD.lock", f"{link}.txt")
    (work / link).symlink_to(
        work / place if absolute else os.path.relpath(work / place, (work / link).parent)
    )
    assert moved(leave()) == {link}
    assert (work / place / "HEAD.lock").exists()


def test_a_link_to_what_commands_may_write_elsewhere_goes(work: Path) -> None:
    scratch = work.parent / "scratch"
    make(scratch, "p/x")
    files = ControlFiles(work)
    files.enter(is_open=True, scratch=scratch)
    (work / "node_modules").mkdir()
    for link, target in {"docs": "p", "whole": ".", "node_modules/q": "p"}.items():
        (work / link).symlink_to(scratch / target)
    (work / "relative").symlink_to("../scratch/p")
    (work / "usr").symlink_to("/usr")
    assert moved(files.leave(lambda: work.parent / "away", is_open=True)) == {
        "docs",
        "whole",
        "node_modules/q",
        "relative",
    }


@pytest.mark.parametrize("place", ["node_modules/p", ".git/lfs/p"])
def test_what_comes_up_behind_a_link_of_the_user_goes(
    work: Path, enter: Callable[..., Leave], place: str
) -> None:
    repository(work / ".git")
    make(work, f"{place}/AGENTS.md", f"{place}/a/.envrc")
    (work / "src").symlink_to(place)
    assert {f"{place}/AGENTS.md", f"{place}/a/.envrc"} <= ControlFiles(work).look(
        is_open=True, is_before=True
    ).guarded.keys()
    leave = enter()
    make(work, f"{place}/.mcp.json", f"{place}/a/.vscode/tasks.json")
    repository(work / place / "r/.git", EVIL)
    assert moved(leave()) == {f"{place}/.mcp.json", f"{place}/a/.vscode", f"{place}/r/.git"}
    assert (work / "src").is_symlink()


def test_a_link_makes_no_module_pass_for_a_bare_repository(
    work: Path, enter: Callable[..., Leave]
) -> None:
    for folder in (".git", ".git/modules/s"):
        repository(work / folder, EVIL)
    (work / "docs").symlink_to(".git/modules/s")
    leave = enter()
    make(work, ".git/modules/s/unknown")
    assert moved(leave()) == {".git/modules/s/unknown"}


def test_a_link_that_led_nowhere_and_now_hides_a_folder_goes(
    work: Path, enter: Callable[..., Leave]
) -> None:
    repository(work / ".git")
    leave = enter()
    (work / "docs").symlink_to(".git/refs/x")
    assert leave() == []
    leave = enter()
    make(work, ".git/refs/x/y")
    assert moved(leave()) == {"docs"}


@pytest.mark.parametrize(
    "target", ["src", "node_modules/.bin/tool", "/usr/share", "../beside", "nowhere"]
)
def test_other_links_stay(work: Path, enter: Callable[..., Leave], target: str) -> None:
    make(work, "src/x", "node_modules/.bin/tool")
    make(work.parent, "beside/x")
    leave = enter()
    make(work, "node_modules/.store/p/AGENTS.md")
    (work / "node_modules/p").symlink_to(".store/p")
    (work / "link").symlink_to(target)
    assert leave() == []


def test_a_file_git_may_lead_to_packages_and_not_into_a_repository(
    work: Path, enter: Callable[..., Leave]
) -> None:
    repository(work / ".git")
    leave = enter()
    repository(work / "node_modules/p/.git", PLAIN)
    repository(work / "node_modules/q/.git", EVIL)
    repository(work / ".git/refs/r/.git", PLAIN)
    for name, target in {
        "a": "node_modules/p/.git",
        "b": "node_modules/q/.git",
        "c": ".git/refs/r/.git",
    }.items():
        make(work, f"{name}/.git", text=f"gitdir: ../{target}\n")
    assert moved(leave()) == {"b/.git", "c/.git", "node_modules/q/.git"}


_PLANT = """git init -q {0}; printf '[core]\\n\\tfsmonitor = $W/../bin/c\\n' | sed "s|\\$W|$PWD|" >> {0}/.git/config; ln -s {0} docs"""


@needs_bubblewrap
@pytest.mark.parametrize("place", [".git/lfs/p", "node_modules/p", "scratch"])
def test_git_runs_nothing_behind_a_link(place: str) -> None:
    with ground() as ground_place:
        program = ground_place / "bin/c"
        program.write_text(f"#!/bin/sh\necho x > '{ground_place}/ran/0'\n")
        program.chmod(0o755)
        script = _PLANT.format(place)
        if place == "scratch":
            script = _PLANT.format("/tmp/p").replace(
                "ln -s /tmp/p", f"ln -s {ground_place}/scratch/p"
            )
        assert moved(confined(ground_place, script)) >= {"docs"}
        jailed(ground_place, "cd docs && git status", ())
        assert list((ground_place / "ran").iterdir()) == []
