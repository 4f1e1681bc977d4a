"""What comes up while any command of any Treadle process runs is never taken for the user's."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import BWRAP
from tests.policy.sandboxes.planting import EVIL, make, moved, repository
from treadle.errors import AgentError
from treadle.policy.sandboxes import control_files
from treadle.policy.sandboxes.bubblewrap import Bubblewrap
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.tools.confinement import CommandRoom

Process = Callable[[], ControlFiles]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


@pytest.fixture
def process(work: Path, own: Path) -> Process:
    """As if it were another process: its locks are its own."""
    return lambda: ControlFiles(work, own)


def left(files: ControlFiles, work: Path, *, is_open: bool = True) -> set[str]:
    return moved(files.leave(lambda: work.parent / "away", is_open=is_open))


def plant(work: Path) -> None:
    repository(work / "r/.git", EVIL)
    make(work, "src/.mcp.json")
    make(work, ".git/rebase-merge/git-rebase-todo", text="exec evil\n")


PLANTS = {"r/.git", "src/.mcp.json", ".git/rebase-merge/git-rebase-todo"}


def test_what_one_process_moved_away_is_no_other_s_to_bring_back(
    work: Path, process: Process
) -> None:
    repository(work / ".git")
    one, other = process(), process()
    one.enter(is_open=True)
    plant(work)
    other.enter(is_open=True)
    assert left(one, work) == PLANTS
    plant(work)
    assert left(other, work) == PLANTS


def test_a_third_process_trusts_what_the_first_saw(work: Path, process: Process) -> None:
    repository(work / ".git")
    one, other, third = process(), process(), process()
    one.enter(is_open=True)
    other.enter(is_open=True)
    assert left(one, work) == set()
    plant(work)
    third.enter(is_open=True)
    assert left(third, work) == PLANTS
    assert left(other, work) == set()


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.policy.sandboxes.test_shared_sight import plant
from treadle.policy.sandboxes.control_files import ControlFiles
work, own = map(Path, sys.argv[1:])
ControlFiles(work, own).enter(is_open=True)
plant(work)
(work / "new").write_text("evil")
(work / "new").rename(work / "AGENTS.md")
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(work: Path, own: Path) -> int:
    return subprocess.run(
        [sys.executable, "-c", _KILLED, work, own], cwd=Path(__file__).parents[3], check=False
    ).returncode


def test_a_process_that_is_killed_leaves_nothing_behind(
    work: Path, own: Path, process: Process
) -> None:
    repository(work / ".git")
    make(work, "AGENTS.md", text="old")
    assert killed(work, own) == -9
    files = process()
    files.enter(is_open=True)
    said = files.leave(lambda: work.parent / "away", is_open=True)
    assert said[0] == control_files.DIED
    assert moved(said[1:]) == {*PLANTS, "AGENTS.md"}
    assert (work / "AGENTS.md").read_text() == "old"
    plant(work)  # nobody ran a command: it is the user's
    files.enter(is_open=True)
    assert files.leave(lambda: work.parent / "away", is_open=True) == []


def test_what_a_dead_process_saw_and_cannot_be_read_is_told(
    work: Path, own: Path, process: Process
) -> None:
    assert killed(work, own) == -9
    (sight,) = own.glob("workspaces/*/sight*")
    sight.write_bytes(b"{")
    files = process()
    files.enter(is_open=True)
    assert files.leave(lambda: work.parent / "away", is_open=True) == [control_files.LOST]


def test_a_sight_that_a_living_process_left_unreadable_is_not_guessed(
    own: Path, process: Process
) -> None:
    one = process()
    one.enter(is_open=True)
    (sight,) = own.glob("workspaces/*/sight*")
    sight.write_bytes(b"{")
    with pytest.raises(AgentError, match="cannot be read"):
        process().enter(is_open=True)


def test_a_command_that_begins_while_another_is_inspected_waits(work: Path) -> None:
    repository(work / ".git")
    files, seen = ControlFiles(work), list[str]()
    second = threading.Thread(target=lambda: seen.extend(files.enter(is_open=True).repositories))

    def quarantine() -> Path:
        if not second.is_alive() and not seen:
            second.start()
            second.join(0.2)  # it would have looked by now
        return work.parent / "away"

    files.enter(is_open=True)
    plant(work)
    assert moved(files.leave(quarantine, is_open=True)) == PLANTS
    second.join()
    assert seen == [".git"]
    plant(work)
    assert left(files, work) == PLANTS


@pytest.mark.parametrize("first", [True, False])
def test_workflows_stay_where_commands_of_both_kinds_run(
    work: Path, process: Process, first: bool
) -> None:
    make(work, ".github/workflows/ci.yml")
    one, other = process(), process()
    one.enter(is_open=first)
    other.enter(is_open=not first)
    if not first:
        make(work, ".github/workflows/new.yml", text="new\n")
        (work / ".github/workflows/new.yml").replace(work / ".github/workflows/ci.yml")
    assert left(one, work, is_open=first) == set()
    assert left(other, work, is_open=not first) == set()
    assert (work / ".github/workflows/ci.yml").exists()


def test_names_and_content_of_any_bytes_are_kept(work: Path, process: Process) -> None:
    odd = os.fsdecode(b"\xff\x80 \n\xe2\x82\xac'")
    repository(work / odd / ".git")
    make(work, f"{odd}/.envrc", f"{odd}/.git/info/exclude")
    (work / odd / ".mcp.json").write_bytes(b"\xff\0\x80")
    (work / odd / "GEMINI.md").symlink_to(odd)
    (work / odd / ".git/rebase-merge").mkdir()
    (work / odd / ".git/rebase-merge/git-rebase-todo").write_bytes(b"exec \xff\n")
    one, other = process(), process()
    one.enter(is_open=True)
    other.enter(is_open=True)
    assert one._trusted == [*other._trusted]  # pyright: ignore[reportPrivateUsage]
    assert left(other, work) == set()


def test_the_workspace_is_not_written_and_the_last_command_takes_the_sight_away(
    work: Path, own: Path, process: Process
) -> None:
    one, other = process(), process()
    one.enter(is_open=True)
    other.enter(is_open=True)
    left(one, work)
    (sight,) = own.glob("workspaces/*/sight*")
    assert sight.stat().st_mode & 0o077 == 0
    left(other, work)
    assert not sight.exists()
    assert list(work.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_nothing_runs_where_nothing_can_be_kept(own: Path, process: Process) -> None:
    own.chmod(0o500)
    with pytest.raises(AgentError, match="cannot be written"):
        process().enter(is_open=True)


@needs_bubblewrap
def test_the_sandbox_keeps_what_it_saw_in_treadles_folder(base: Path) -> None:
    for name in ("work", "own", "scratch", "home"):
        (base / name).mkdir()
    room = CommandRoom(
        workspace=base / "work",
        scratch=lambda: base / "scratch",
        quarantine=lambda: base,
        is_open=True,
    )
    cage = Bubblewrap(BWRAP, own=base / "own", home=base / "home").make_cage(
        ["/bin/bash", "-c", "true"], room.workspace, {}, room
    )
    assert len(list((base / "own").glob("workspaces/*/sight*"))) == 1
    cage.run_blocking(60)
    assert list((base / "own").glob("workspaces/*/sight*")) == []
