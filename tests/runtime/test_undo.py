"""What several runs of a session changed goes back as one, with what they had started; what cannot
go back is said, file by file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import asks, call, open_runtime, says
from treadle import Agent, AgentError, Runtime
from treadle.journal.run_info import RunInfo
from treadle.journal.sqlite import SqliteJournal
from treadle.messages import events
from treadle.runtime.run_stream import RunStream
from treadle.runtime.undo import changed_files, undone, undone_since
from treadle.testing import ScriptedModel
from treadle.tools.builtin.bash import Bash
from treadle.tools.builtin.edit import Edit
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.write import Write
from treadle.tools.file_history import UNDO_FOLDER

TOOLS = (Read(), Write(), Edit(), Bash())


class Desk:
    """A session in a directory, whose runs call what a test says, always with the same ids."""

    def __init__(self, runtime: Runtime, root: Path) -> None:
        self.runtime, self.root = runtime, root
        self.journal = runtime.journal

    async def ran(self, *calls: dict[str, Any], tools: Any = TOOLS) -> RunInfo:
        script = [*(asks(each) for each in calls), says("Done.")]
        agent = Agent[Any, Any](name="tester", model=ScriptedModel(script), tools=tools)
        result = await self.runtime.run(
            agent, "go", session="talk", cwd=str(self.root), mode="full"
        )
        assert result.outcome == "completed"
        return await self.journal.info(result.run_id)

    def lying(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    root = (tmp_path / "work").resolve()
    root.mkdir()
    async with open_runtime(journal=SqliteJournal.open(tmp_path / "journal.db")) as runtime:
        yield Desk(runtime, root)


def write(path: str, content: str) -> dict[str, Any]:
    return call("write", "call_1", path=path, content=content)


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return call("edit", "call_2", path=path, edits=[{"old": old, "new": new}])


def read(path: str) -> dict[str, Any]:
    return call("read", "call_0", path=path)


async def three_runs(desk: Desk) -> list[RunInfo]:
    """Each changes what the one before had made."""
    (desk.root / "a").write_text("one\n")
    return [
        await desk.ran(read("a"), edit("a", "one", "two")),
        await desk.ran(write("new/b", "made\n"), read("a"), edit("a", "two", "three")),
        await desk.ran(
            read("new/b"), write("new/b", "made again\n"), read("a"), edit("a", "three", "four")
        ),
    ]


async def test_runs_are_undone_as_one_in_whatever_order_they_are_given(desk: Desk) -> None:
    runs = await three_runs(desk)
    rewound = await undone_since(desk.journal, [runs[2], runs[0], runs[1]], apply=True)
    assert {Path(file.path).name: file.action for file in rewound.files} == {
        "a": "restored",
        "b": "removed",
    }
    assert rewound.runs == tuple(run.run_id for run in runs)
    assert (desk.lying(), (desk.root / "new").exists()) == ({"a": "one\n"}, False)
    assert {file.action for file in (await undone_since(desk.journal, runs, apply=True)).files} == {
        "unchanged"
    }


async def test_the_newest_runs_are_undone_up_to_a_point(desk: Desk) -> None:
    runs = await three_runs(desk)
    rewound = await undone_since(desk.journal, runs[1:], apply=True)
    assert desk.lying() == {"a": "two\n"}
    assert [
        name.split("/")[0]
        for file in rewound.files
        for name in file.calls
        if Path(file.path).name == "a"
    ] == [run.run_id for run in runs[1:]]


async def test_a_dry_run_says_the_same_and_does_nothing(desk: Desk) -> None:
    runs = await three_runs(desk)
    before = desk.lying()
    told = await undone_since(desk.journal, runs, apply=False)
    assert (desk.lying(), told.applied) == (before, False)
    assert told.files == (await undone_since(desk.journal, runs, apply=True)).files


async def test_what_somebody_changed_since_is_refused_alone(desk: Desk) -> None:
    runs = await three_runs(desk)
    (desk.root / "a").write_text("mine\n")
    rewound = await undone_since(desk.journal, runs, apply=True)
    assert {Path(file.path).name: (file.action, file.why) for file in rewound.files} == {
        "a": ("refused", "it has been changed since"),
        "b": ("removed", ""),
    }
    assert desk.lying() == {"a": "mine\n"}


async def test_what_a_command_changed_between_two_runs_is_refused(desk: Desk) -> None:
    first = await desk.ran(write("a", "one\n"))
    second = await desk.ran(call("bash", "call_1", command="echo more >> a"))
    third = await desk.ran(read("a"), edit("a", "one", "two"))
    rewound = await undone_since(desk.journal, [first, second, third], apply=True)
    assert [(file.action, file.why) for file in rewound.files] == [
        ("refused", "something else changed it between two of these calls")
    ]
    assert [(left.run_id, left.name) for left in rewound.not_undoable] == [(second.run_id, "bash")]
    assert desk.lying() == {"a": "two\nmore\n"}


async def test_what_their_agents_changed_goes_back_with_them(desk: Desk) -> None:
    (desk.root / "a").write_text("one\n")
    helper = Agent[Any, Any](
        name="helper",
        description="Helps.",
        model=ScriptedModel([asks(read("a")), asks(edit("a", "two", "three")), says("ok")]),
        tools=TOOLS,
    )
    calls = (
        read("a"),
        edit("a", "one", "two"),
        call("helper", "h", prompt="Go on."),
        write("b", "x\n"),
        read("a"),
        edit("a", "three", "four"),
    )
    run = await desk.ran(*calls, tools=(*TOOLS, helper))
    (child,) = await desk.journal.children(run.run_id)
    assert desk.lying() == {"a": "four\n", "b": "x\n"}
    alone = await undone(desk.journal, run, apply=False)
    assert ([file.action for file in alone.files], alone.other_runs) == (
        ["refused", "removed"],
        (child.run_id,),
    )
    rewound = await undone_since(desk.journal, [run], apply=True)
    assert ({file.action for file in rewound.files}, rewound.runs) == (
        {"restored", "removed"},
        (run.run_id, child.run_id),
    )
    assert desk.lying() == {"a": "one\n"}


async def test_a_run_under_way_is_not_undone(desk: Desk) -> None:
    agent = Agent[Any, Any](
        name="tester",
        model=ScriptedModel([asks(call("bash", command="sleep 60")), says("no")]),
        tools=TOOLS,
    )
    async with desk.runtime.stream(agent, "go", cwd=str(desk.root), mode="full") as stream:
        info = await desk.journal.info(await _begun(stream))
        for undoing in (
            undone(desk.journal, info, apply=True),
            undone_since(desk.journal, [info], apply=True),
        ):
            with pytest.raises(AgentError, match=f"run {info.run_id} is under way") as caught:
                await undoing
            assert caught.value.kind == "busy"
        assert await changed_files(desk.journal, [info]) == []


async def _begun(stream: RunStream[Any]) -> str:
    with anyio.fail_after(10):
        async for event in stream:
            if isinstance(event, events.ToolCallStart):
                return event.run_id
    raise AssertionError("it ended before")


async def test_a_turn_that_there_is_not_is_told(desk: Desk) -> None:
    with pytest.raises(AgentError, match="has 2 turns: there is no turn 9"):
        await undone(desk.journal, await desk.ran(write("a", "x")), turn=9, apply=True)


# ---------------------------------------------------------------- what they changed


async def test_what_runs_changed_is_what_was_before_the_first_and_what_is_now(desk: Desk) -> None:
    runs = await three_runs(desk)
    a, b = str(desk.root / "a"), str(desk.root / "new/b")
    assert [
        (file.path, file.before, file.now) for file in await changed_files(desk.journal, runs)
    ] == [(a, b"one\n", b"four\n"), (b, None, b"made again\n")]
    assert [(file.before, file.now) for file in await changed_files(desk.journal, runs[2:])] == [
        (b"three\n", b"four\n"),
        (b"made\n", b"made again\n"),
    ]
    (desk.root / "a").write_bytes(b"mine")
    (desk.root / "new/b").unlink()
    assert [
        (file.path, file.before, file.now) for file in await changed_files(desk.journal, runs)
    ] == [(a, b"one\n", b"mine")]


async def test_what_was_before_and_is_not_kept_any_more_is_said(desk: Desk) -> None:
    runs = await three_runs(desk)
    for kept in (desk.root.parent / "home" / UNDO_FOLDER).rglob("*"):
        if kept.is_file() and kept.suffix != ".json":
            kept.unlink()
    assert [
        (file.before, file.now, file.why) for file in await changed_files(desk.journal, runs)
    ] == [
        (None, None, "its earlier content is no longer stored"),
        (None, b"made again\n", ""),
    ]
