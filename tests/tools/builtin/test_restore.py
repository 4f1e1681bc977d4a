"""What `write` and `edit` changed goes back, where nothing else has changed it since."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profiles import BY_CHANCE
from tests.tools.conftest import MakeContext
from treadle.tools.builtin.edit import Edit
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.restore import Restored, restore
from treadle.tools.builtin.write import Write
from treadle.tools.file_history import Before, Undo, content_hash
from treadle.tools.tool import ToolFailed

READ, WRITE, EDIT = Read(), Write(), Edit()


class Desk:
    """A workspace in which calls are made, and undone."""

    def __init__(self, make_context: MakeContext, root: Path) -> None:
        self.root = root / "work"
        self.root.mkdir()
        self.undo = Undo(root / "undo")
        self._make, self._calls = make_context, list[str]()

    async def _call(self, tool: Any, **arguments: Any) -> None:
        call_id = f"call_{len(self._calls)}"
        self._calls.append(call_id)
        context = self._make(self.root, before_change=partial(self.undo.keep, "run_1", call_id))
        await tool.execute(context, tool.arguments(**arguments))

    async def write(self, path: str, content: str) -> None:
        if (self.root / path).exists():
            await self._call(READ, path=path)
        await self._call(WRITE, path=path, content=content)

    async def edit(self, path: str, old: str, new: str) -> None:
        await self._call(READ, path=path)
        edits: Any = EDIT.parse(
            f'{{"path": "{path}", "edits": [{{"old": "{old}", "new": "{new}"}}]}}'
        ).edits
        await self._call(EDIT, path=path, edits=edits)

    def back(self, *, apply: bool = True) -> list[Restored]:
        changes = self.undo.changes("run_1")
        return restore(
            [change for c in self._calls for change in changes.get(c, [])],
            partial(self.undo.content, "run_1"),
            apply=apply,
        )

    def told(self) -> dict[str, str]:
        return {
            str(Path(one.path).relative_to(self.root)): f"{one.action} {one.why}".strip()
            for one in self.back()
        }


@pytest.fixture
def desk(make_context: MakeContext, tmp_path: Path) -> Desk:
    return Desk(make_context, tmp_path.resolve())


async def test_a_file_goes_back_over_several_calls_byte_for_byte(desk: Desk) -> None:
    data = "\ufeffza\u017c\u00f3\r\nb\r\n".encode()
    (desk.root / "a").write_bytes(data)
    (desk.root / "a").chmod(0o640)
    await desk.edit("a", "b", "c")
    await desk.write("a", "all new\n")
    await desk.edit("a", "new", "newer")
    assert desk.told() == {"a": "restored"}
    assert (desk.root / "a").read_bytes() == data
    assert (desk.root / "a").stat().st_mode & 0o777 == 0o640
    assert desk.told() == {"a": "unchanged"}


async def test_what_was_made_is_removed_with_its_directories_where_they_are_empty(
    desk: Desk,
) -> None:
    (desk.root / "old").mkdir()
    await desk.write("old/new/deep/a", "x\n")
    await desk.write("old/more/b", "x\n")
    (desk.root / "old/more/mine").write_text("")
    assert desk.told() == {"old/new/deep/a": "removed", "old/more/b": "removed"}
    assert sorted(str(path.relative_to(desk.root)) for path in desk.root.rglob("*")) == [
        "old",
        "old/more",
        "old/more/mine",
    ]


async def test_a_directory_of_several_new_files_goes_with_the_last(desk: Desk) -> None:
    await desk.write("d/e/a", "x\n")
    await desk.write("d/b", "x\n")
    desk.back()
    assert [*desk.root.iterdir()] == []


async def test_what_somebody_changed_since_is_left_and_said(desk: Desk) -> None:
    for name in ("changed", "removed", "made", "linked"):
        if name != "made":
            (desk.root / name).write_text("old\n")
        await desk.write(name, "new\n")
    (desk.root / "changed").write_text("mine\n")
    (desk.root / "removed").unlink()
    (desk.root / "made").write_text("mine\n")
    (desk.root / "linked").unlink()
    (desk.root / "linked").symlink_to("changed")
    told = desk.told()
    assert told["changed"] == told["made"] == "refused it has been changed since"
    assert told["removed"] == "refused it has been removed since"
    assert told["linked"].startswith("refused ")
    assert {(desk.root / name).read_text() for name in ("changed", "made", "linked")} == {"mine\n"}


async def test_a_change_between_two_calls_is_not_undone_with_them(desk: Desk) -> None:
    await desk.write("a", "one\n")
    (desk.root / "a").write_text("one\nby a command\n")
    await desk.write("a", "two\n")
    assert desk.told() == {"a": "refused something else changed it between two of these calls"}


async def test_a_change_that_was_announced_and_never_made_does_not_count(desk: Desk) -> None:
    (desk.root / "a").write_text("old\n")
    await desk.write("a", "one\n")
    desk.undo.keep(
        "run_1", "call_9", Before(path=str(desk.root / "a"), content=b"one\n", after="never")
    )
    desk._calls.append("call_9")  # pyright: ignore[reportPrivateUsage]  a call that died
    assert desk.told() == {"a": "restored"}
    assert (desk.root / "a").read_text() == "old\n"


async def test_it_is_kept_before_anything_is_made_or_changed(
    make_context: MakeContext, tmp_path: Path
) -> None:
    found: list[tuple[str, bytes | None, list[str]]] = []

    def keep(before: Before) -> None:
        names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
        found.append((Path(before.path).name, before.content, names))

    (tmp_path / "a").write_text("old\n")
    context = make_context(tmp_path, before_change=keep)
    await READ.execute(context, READ.parse('{"path": "a"}'))
    await WRITE.execute(context, WRITE.parse('{"path": "d/b", "content": "x"}'))
    await EDIT.execute(
        context, EDIT.parse('{"path": "a", "edits": [{"old": "old", "new": "new"}]}')
    )
    assert found == [("b", None, ["a"]), ("a", b"old\n", ["a", "d", "d/b"])]
    with pytest.raises(ToolFailed):
        await EDIT.execute(
            context, EDIT.parse('{"path": "a", "edits": [{"old": "nothing", "new": "new"}]}')
        )
    assert len(found) == 2


async def test_a_call_that_failed_at_the_last_moment_is_in_nobodys_way(desk: Desk) -> None:
    (desk.root / "a").write_text("old\n")
    await desk.write("a", "one\n")
    desk.undo.keep(
        "run_1",
        "call_9",
        Before(
            path=str(desk.root / "a"), content=b"one\n", after="never", temporary=".treadle-x.tmp"
        ),
    )
    (desk.root / ".treadle-x.tmp").write_text("half")
    (desk.root / "a").write_text("mine\n")
    changes = [change for of_call in desk.undo.changes("run_1").values() for change in of_call]
    alone = [change for change in changes if change.call_id == "call_9"]
    told = restore(alone, partial(desk.undo.content, "run_1"), failed={"call_9"}, apply=True)
    assert [one.action for one in told] == ["unchanged"]
    assert not (desk.root / ".treadle-x.tmp").exists()
    assert (desk.root / "a").read_text() == "mine\n"


async def test_of_a_call_that_was_repeated_after_a_crash_nothing_is_left(desk: Desk) -> None:
    """The first attempt had made the folder, and half of the file in it."""
    folder = desk.root / "new"
    place = str(folder / "a")
    desk.undo.keep(
        "run_1",
        "call_9",
        Before(
            path=place, content=None, after="x", made=(str(folder),), temporary=".treadle-1.tmp"
        ),
    )
    folder.mkdir()
    (folder / ".treadle-1.tmp").write_text("half")
    desk.undo.keep(
        "run_1",
        "call_9",
        Before(path=place, content=None, after=content_hash(b"one\n"), temporary=".treadle-2.tmp"),
    )
    (folder / "a").write_text("one\n")
    changes = [change for of_call in desk.undo.changes("run_1").values() for change in of_call]
    assert [
        one.action for one in restore(changes, partial(desk.undo.content, "run_1"), apply=True)
    ] == ["removed"]
    assert not folder.exists()


async def test_content_that_is_not_kept_any_more_is_said(desk: Desk) -> None:
    (desk.root / "a").write_text("old\n")
    await desk.write("a", "new\n")
    for path in desk.undo.folder.rglob("*"):
        if path.is_file() and path.suffix != ".json":
            path.unlink()
    assert desk.told() == {"a": "refused its earlier content is no longer stored"}


async def test_looking_changes_nothing(desk: Desk) -> None:
    await desk.write("a/b", "new\n")
    assert [one.action for one in desk.back(apply=False)] == ["removed"]
    assert (desk.root / "a/b").read_text() == "new\n"


async def test_what_is_undone_may_be_read_only_or_gone_with_its_directory(desk: Desk) -> None:
    (desk.root / "a").write_text("old\n")
    await desk.write("a", "new\n")
    (desk.root / "a").chmod(0o444)
    await desk.write("d/b", "new\n")
    (desk.root / "d" / "b").unlink()
    (desk.root / "d").rmdir()
    told = desk.told()
    assert "is read-only" in told["a"]
    assert told["d/b"] == "unchanged"


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "d/c"]), st.sampled_from(["", "one\n", "two\n", "zażółć"])
    ),
    max_size=8,
)


@settings(
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=40,
)
@given(
    existing=st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["", "one\n", "three"])),
    changes=CHANGES,
)
async def test_any_number_of_writes_is_undone(
    make_context: MakeContext,
    tmp_path_factory: pytest.TempPathFactory,
    existing: dict[str, str],
    changes: list[tuple[str, str]],
) -> None:
    desk = Desk(make_context, tmp_path_factory.mktemp("desk").resolve())
    for name, content in existing.items():
        (desk.root / name).write_text(content)
    for path, content in changes:
        await desk.write(path, content)
    desk.back()
    assert {
        str(path.relative_to(desk.root)): path.read_text()
        for path in desk.root.rglob("*")
        if path.is_file()
    } == existing
    assert not (desk.root / "d").exists()
