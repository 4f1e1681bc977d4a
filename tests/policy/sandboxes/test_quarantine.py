"""Where leftovers go, whatever they hold and are called."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes.planting import EVIL, Leave, make, moved, repository
from treadle.policy.sandboxes.control_files import ControlFiles


@pytest.mark.parametrize("folder", ["n", "日" * 80, "日" * 80 + "/" + "b" * 200])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_nothing_keeps_a_leftover_where_it_is(work: Path, folder: str, elsewhere: bool) -> None:
    if elsewhere and not (
        Path("/dev/shm").is_dir() and Path("/dev/shm").stat().st_dev != work.stat().st_dev
    ):
        pytest.skip("there is no other file system here")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if elsewhere else work.parent) as away:
        files = ControlFiles(work)
        files.enter(is_open=True)
        repository(work / folder / ".git", EVIL)
        make(work, f"{folder}/.vscode/tasks.json", f"{folder}/.mcp.json")
        os.mkfifo(work / folder / ".git/pipe")
        os.mkfifo(work / folder / ".vscode/pipe")
        with (work / folder / ".git/holes").open("wb") as holes:
            holes.truncate(1 << 40)
        said = files.leave(lambda: Path(away), is_open=True)
        assert moved(said) == {f"{folder}/.git", f"{folder}/.vscode", f"{folder}/.mcp.json"}
        assert all(": it was moved to " in text for text in said)
        assert all(name.startswith(".treadle-moved-") for name in os.listdir(work / folder))
        assert len(os.listdir(work / folder)) == (3 if elsewhere else 0)
        files.enter(is_open=True)
        assert files.leave(lambda: Path(away), is_open=True) == []


def test_what_lies_too_deep_to_be_listed_is_moved(work: Path, enter: Callable[..., Leave]) -> None:
    leave = enter()
    here = os.open(work, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        here, above = os.open("d" * 250, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)
    (said,) = leave()
    assert "is nested too deeply to be inspected" in said
    assert ": it was moved to " in said


def test_settings_that_came_up_while_a_command_ran_are_undone(
    work: Path, enter: Callable[..., Leave]
) -> None:
    repository(work / ".git")
    make(work, "AGENTS.md")
    old = (work / ".git/config").read_text()
    leave = enter()
    (work / "new").write_text(f"{old}{EVIL}")
    (work / "new").rename(work / ".git/config")
    (work / "other").write_text("evil")
    (work / "other").rename(work / "AGENTS.md")
    said = leave()
    assert moved(said) == {".git/config", "AGENTS.md"}
    assert (work / ".git/config").read_text() == old


def test_plain_settings_of_the_user_stay(work: Path, enter: Callable[..., Leave]) -> None:
    repository(work / ".git")
    leave = enter()
    with (work / ".git/config").open("a") as config:
        config.write('[branch "main"]\n\tremote = origin\n')
    assert leave() == []
    assert "origin" in (work / ".git/config").read_text()
