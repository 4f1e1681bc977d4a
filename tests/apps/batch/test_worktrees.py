"""Worktrees: made whole or not at all, and taken away only where nothing is lost by it."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.apps.batch.conftest import git, repository
from treadle.apps.batch.batch import Batch, Terms
from treadle.apps.batch.changes import WorkingTreeChanges
from treadle.apps.batch.git import GitCommands
from treadle.apps.batch.logbook import WorkPlace
from treadle.apps.batch.worktrees import BatchRepository, Worktrees, worktree_shelf
from treadle.errors import AgentError

TERMS = Terms(model="script:x", cwd="/", mode="full", worktree=True)


async def worktrees_of(folder: Path, shelf: Path, batch: str = "work_01") -> Worktrees:
    found = await BatchRepository.of(folder, os.environ)
    return found.worktrees(
        Batch(id=batch, prompts=("a", "b"), terms=TERMS, base=await found.head()), shelf
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
async def worktrees(folder: Path, tmp_path: Path) -> Worktrees:
    return await worktrees_of(folder, tmp_path / "shelf")


def left(folder: Path) -> tuple[int, str]:
    """Worktrees beside the checkout, and branches."""
    return git(folder, "worktree", "list", "--porcelain").count("worktree ") - 1, git(
        folder, "branch", "--list", "treadle/*"
    )


async def is_clean(folder: Path, worktrees: Worktrees, place: WorkPlace) -> bool:
    assert place.root
    git_there = GitCommands(Path(place.root), os.environ)
    return await worktrees.is_clean(
        place, await WorkingTreeChanges(git_there, folder.parent / "objects").moment()
    )


async def test_one_is_made_and_taken_away_again(
    folder: Path, worktrees: Worktrees, tmp_path: Path
) -> None:
    place = worktrees.place(1)
    assert left(folder) == (0, "")
    await worktrees.make(place)
    assert (Path(place.folder) / "cart.py").read_text() == "one\ntwo\nthree\n"
    assert place.branch == "treadle/work_01-1"
    assert git(Path(place.folder), "rev-parse", "--abbrev-ref", "HEAD") == place.branch
    assert await is_clean(folder, worktrees, place)
    assert await worktrees.remove(place)
    assert left(folder) == (0, "")
    assert not list((tmp_path / "shelf").iterdir())


async def test_many_at_once_of_several_batches_are_made_and_taken_away(
    folder: Path, tmp_path: Path
) -> None:
    """Without a lock git takes some of those that are half made for broken ones."""

    async def one(worktrees: Worktrees, number: int) -> None:
        await worktrees.make(worktrees.place(number))
        assert await worktrees.remove(worktrees.place(number))

    async with anyio.create_task_group() as group:
        for batch in ("work_01", "work_02"):
            worktrees = await worktrees_of(folder, tmp_path / "shelf", batch)
            for number in range(1, 16):
                group.start_soon(one, worktrees, number)
    assert left(folder) == (0, "")


@pytest.mark.parametrize("done", ["changed", "new", "committed", "moved"])
async def test_one_with_anything_in_it_is_not_clean(
    folder: Path, worktrees: Worktrees, done: str
) -> None:
    place = worktrees.place(1)
    await worktrees.make(place)
    there = Path(place.folder)
    match done:
        case "changed":
            (there / "cart.py").write_text("other\n")
        case "new":
            (there / "new.txt").touch()
        case "committed":
            git(there, "commit", "-q", "--allow-empty", "-m", "x")
        case _:
            git(there, "checkout", "-q", "-b", "elsewhere")
            git(there, "commit", "-q", "--allow-empty", "-m", "x")
    assert not await is_clean(folder, worktrees, place)


async def test_git_itself_refuses_to_take_away_what_would_be_lost(
    folder: Path, worktrees: Worktrees
) -> None:
    place = worktrees.place(1)
    await worktrees.make(place)
    (Path(place.folder) / "new.txt").touch()
    assert not await worktrees.remove(place)
    assert (Path(place.folder) / "new.txt").exists()
    assert left(folder)[0] == 1


async def test_a_branch_that_has_moved_stays(folder: Path, worktrees: Worktrees) -> None:
    place = worktrees.place(1)
    await worktrees.make(place)
    git(Path(place.folder), "commit", "-q", "--allow-empty", "-m", "x")
    await worktrees.remove(place)
    assert left(folder)[1].strip() == place.branch


async def test_half_of_one_is_discarded_whatever_is_there_of_it(
    folder: Path, worktrees: Worktrees
) -> None:
    place = worktrees.place(1)
    await worktrees.discard(place)
    assert place.root
    assert place.branch
    Path(place.root).mkdir(parents=True)
    (Path(place.root) / "half.txt").touch()
    git(folder, "branch", place.branch)
    await worktrees.discard(place)
    assert left(folder) == (0, "")
    await worktrees.make(place)
    git(folder, "worktree", "lock", place.root)
    await worktrees.discard(place)
    assert left(folder) == (0, "")
    await worktrees.make(place)


async def test_one_that_cannot_be_made_leaves_nothing(
    folder: Path, worktrees: Worktrees, tmp_path: Path
) -> None:
    place = worktrees.place(1)
    git(folder, "branch", place.branch or "")
    git(folder, "checkout", "-q", place.branch or "")
    git(folder, "commit", "-q", "--allow-empty", "-m", "somebody's")
    with pytest.raises(AgentError, match="already exists"):
        await worktrees.make(place)
    assert not (tmp_path / "shelf" / "work_01-1").exists()
    assert left(folder)[1].lstrip("* ") == place.branch, "a branch that moved is somebody's"
    (tmp_path / "shelf").rmdir()
    (tmp_path / "shelf").touch()
    with pytest.raises(AgentError, match="cannot be created"):
        await worktrees.make(worktrees.place(2))


async def test_cancelled_in_the_middle_nothing_is_left(folder: Path, worktrees: Worktrees) -> None:
    place = worktrees.place(1)
    for checkpoints in range(12):
        async with anyio.create_task_group() as group:
            group.start_soon(worktrees.make, place)
            for _ in range(checkpoints):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        if left(folder)[0] == 0:
            assert left(folder) == (0, "")
        else:
            await worktrees.remove(place)


async def test_they_lie_where_tools_may_write(tmp_path: Path) -> None:
    assert worktree_shelf({"HOME": "/home/ada"}) == Path("/home/ada/.local/share/treadle/worktrees")
    assert worktree_shelf({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}) == Path(
        "/data/treadle/worktrees"
    )
    assert worktree_shelf({"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}) == Path(
        "/home/ada/.local/share/treadle/worktrees"
    )
    from treadle.policy.guarded_paths import guard_of

    assert guard_of("/home/ada/.local/share/treadle/worktrees/work_01-1/repo/cart.py") is None


async def test_what_is_missing_is_fetched_from_nowhere(
    folder: Path, worktrees: Worktrees, tmp_path: Path
) -> None:
    """A repository could say that a program of its own is the remote that has what it lacks."""
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {tmp_path}/fired",
        "protocol.ext.allow": "always",
    }.items():
        git(folder, "config", key, value)
    blob = git(folder, "rev-parse", "HEAD:cart.py")
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(AgentError):
        await worktrees.make(worktrees.place(1))
    assert not (tmp_path / "fired").exists()
    assert left(folder) == (0, "")


async def test_a_repository_at_the_root_of_the_disk_has_worktrees_in_folders_of_their_own(
    worktrees: Worktrees, tmp_path: Path
) -> None:
    """As in a container.

    What goes with a worktree is the folder above it, which must not be the shelf with all the
    others.
    """
    at_the_root = Worktrees(
        GitCommands(Path("/"), os.environ),
        Batch(id="work_02", prompts=("a",), terms=TERMS, base="HEAD"),
        tmp_path / "shelf",
        "",
    )
    place = at_the_root.place(1)
    assert place.root
    assert Path(place.root).parent == tmp_path / "shelf" / "work_02-1"


async def test_a_line_end_in_the_name_of_a_folder_leads_nowhere_else(tmp_path: Path) -> None:
    folder = repository(tmp_path / "a\nb")
    (folder / "inner").mkdir()
    (folder / "inner" / "x").touch()
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "second")
    worktrees = await worktrees_of(folder / "inner", tmp_path / "shelf")
    place = worktrees.place(1)
    await worktrees.make(place)
    assert place.folder == f"{tmp_path}/shelf/work_01-1/a\nb/inner"
    assert await is_clean(folder, worktrees, place)
