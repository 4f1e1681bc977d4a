"""Removing and pruning runs takes their messages out of their session: in memory, SQLite,
PostgreSQL and shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.doubles import agent
from tests.doubles import says as answer
from tests.journal.runs import answers, asks, at, finished, keeps, late, message, says, started
from treadle import AgentError, Runtime
from treadle._internal.json_text import encode_json
from treadle.journal.entries import Compaction, Fork, ToolFinished
from treadle.journal.journal import Journal
from treadle.journal.receipts import Summary, SummaryCost
from treadle.messages.message import Message, ToolResult
from treadle.types import Usage


async def remembered(journal: Journal, run_id: str, session: str) -> None:
    """Tell the sessions what an ended run said, as a runtime does."""
    state = await journal.load(run_id)
    is_fork = state.started is not None and state.started.fork is not None
    said = state.context.history[:] if is_fork else state.context.said
    journal.sessions.remember(session, said, run_id=run_id)


async def converses(
    journal: Journal, run_id: str, text: str, reply: str, *, session: str = "s", **more: Any
) -> None:
    await says(journal, run_id, text, reply, session=session, **more)
    await remembered(journal, run_id, session)


async def _three(journal: Journal) -> None:
    """Runs of a session, in minutes 0 to 2, with a message of its own after the first."""
    await converses(journal, "run_0", "zero", "0", minute=0)
    journal.sessions.add_message("s", message("by hand"))
    await converses(journal, "run_1", "one", "1", minute=1)
    await converses(journal, "run_2", "two", "2", minute=2)


def _texts(messages: Sequence[Message]) -> list[str]:
    return [one.text for one in messages]


async def _view(journal: Journal) -> list[str]:
    """The messages in view, which every way to read the session shows."""
    texts = _texts((await journal.view("s")).messages)
    assert _texts(journal.sessions.get_messages("s")) == texts
    for _ in range(2):  # counted, and kept
        assert [info.message_count for info in journal.sessions.list()] == [len(texts)]
    await journal.begin(started("next", session="s", minute=9))
    assert _texts((await journal.load("next")).context.history)[:-1] == texts
    return texts


@pytest.mark.parametrize(
    ("run_id", "text", "left"),
    [
        ("run_0", "zero", ["by hand", "one", "1", "two", "2"]),
        ("run_1", "one", ["zero", "0", "by hand", "two", "2"]),
        ("run_2", "two", ["zero", "0", "by hand", "one", "1"]),
    ],
)
async def test_a_removed_run_leaves_the_conversation(
    journal: Journal, run_id: str, text: str, left: list[str]
) -> None:
    await _three(journal)
    mark = (await journal.view("s")).mark
    assert len(journal.sessions.search(text)) == 1
    await journal.remove([run_id])
    assert (await journal.view("s")).mark != mark
    assert journal.sessions.search(text) == []
    assert len(journal.sessions.search("hand")) == 1
    assert _texts(journal.sessions.everything("s")) == left
    assert await _view(journal) == left


async def test_a_pruned_run_leaves_the_conversation(journal: Journal) -> None:
    await _three(journal)
    mark = (await journal.view("s")).mark
    await journal.prune(at(2), apply=False)
    assert (await journal.view("s")).mark == mark
    assert (await journal.prune(at(2), apply=True)).runs == ("run_0", "run_1")
    assert (await journal.view("s")).mark != mark
    assert _texts(journal.sessions.everything("s")) == ["by hand", "two", "2"]
    assert await _view(journal) == ["by hand", "two", "2"]


async def test_later_runs_lose_the_messages_of_a_removed_one(journal: Journal) -> None:
    await _three(journal)
    await journal.remove(["run_0"])
    state = await journal.load("run_2")
    assert _texts(state.context.history) == ["by hand", "one", "1", "two", "2"]


async def test_a_session_without_anything_left_is_deleted(journal: Journal) -> None:
    await converses(journal, "run_0", "zero", "0")
    await journal.remove(["run_0"])
    assert journal.sessions.list() == []
    await converses(journal, "run_1", "one", "1")
    assert await _view(journal) == ["one", "1"]


async def test_a_session_with_messages_of_its_own_stays(journal: Journal) -> None:
    await _three(journal)
    await journal.remove(["run_0", "run_1", "run_2"])
    assert await _view(journal) == ["by hand"]


async def test_a_cleared_session_stays_cleared(journal: Journal) -> None:
    await converses(journal, "run_0", "zero", "0")
    journal.sessions.clear_messages("s")
    await converses(journal, "run_1", "one", "1")
    await journal.remove(["run_0"])
    assert await _view(journal) == ["one", "1"]


async def test_what_a_run_began_with_before_a_clear_goes_too(journal: Journal) -> None:
    await converses(journal, "run_0", "zero", "0")
    await converses(journal, "run_1", "one", "1")
    journal.sessions.clear_messages("s")
    assert _texts((await journal.load("run_1")).context.history) == ["zero", "0", "one", "1"]
    await journal.remove(["run_0"])
    assert _texts((await journal.load("run_1")).context.history) == ["one", "1"]
    assert await _view(journal) == []


async def test_a_removed_run_is_added_again_as_it_was_cut(journal: Journal) -> None:
    async with Runtime(journal=journal) as rt:
        first = await rt.run(agent([answer("one")]), "go", session="s", run_id="run_1")
        entries = await journal.read_bytes("run_1")
        await journal.remove(["run_1"])
        await journal.add_run(entries[:2])
        assert await rt.messages("s") == []
        second = await rt.resume("run_1", agent([answer("two")]))
        assert (first.text, _texts(second.messages)) == ("one", ["go", "two"])
        assert _texts(await rt.messages("s")) == ["go", "two"]


async def test_a_removed_child_is_no_child_any_more(journal: Journal) -> None:
    await says(journal, "root", "hello", "hi")
    await says(journal, "child", "hello", "hi", parent="root")
    assert (await journal.remove(["child"])).runs == ("child",)
    assert await journal.children("root") == []
    assert (await journal.remove(["root"])).runs == ("root",)


async def test_the_id_of_a_removed_run_is_free_in_another_session(journal: Journal) -> None:
    await _three(journal)
    await journal.remove(["run_2"])
    await journal.begin(started("run_2", session="other"))
    assert await journal.holder("s") is None
    await journal.begin(started("run_3", session="s"))


# ---------------------------------------------------------------- compactions


async def _compacts(journal: Journal, compaction: Compaction) -> None:
    writer = await journal.begin(started("run_2", "two", session="s", minute=2))
    await writer.append([compaction, *answers("run_2", "2", minute=2)])
    await writer.append([finished(turns=1, minute=2)])
    await writer.release()
    await remembered(journal, "run_2", "s")


def _summary() -> Compaction:
    summary = Summary(
        pinned=("msg_run_0",),
        kept_from="msg_run_2",
        dropped=3,
        message=message("in short", message_id="msg_short"),
        spent=SummaryCost(model="m", usage=Usage()),
    )
    return Compaction(at=at(2), receipt=encode_json(summary).decode())


BOTH = pytest.mark.parametrize(
    "compaction", [keeps("msg_run_0", "msg_run_2", 3), _summary()], ids=["window", "summary"]
)


@BOTH
async def test_without_the_run_that_compacted_it_the_conversation_is_whole_again(
    journal: Journal, compaction: Compaction
) -> None:
    await converses(journal, "run_0", "zero", "0", minute=0)
    await converses(journal, "run_1", "one", "1", minute=1)
    await _compacts(journal, compaction)
    assert "one" not in _texts((await journal.view("s")).messages)
    await converses(journal, "run_3", "three", "3", minute=3)
    await journal.remove(["run_2"])
    left = ["zero", "0", "one", "1", "three", "3"]
    assert journal.sessions.search("short") == []
    assert _texts(journal.sessions.everything("s")) == left
    assert await _view(journal) == left


@BOTH
async def test_a_compaction_holds_without_a_run_that_it_removed_from_view(
    journal: Journal, compaction: Compaction
) -> None:
    await converses(journal, "run_0", "zero", "0", minute=0)
    await converses(journal, "run_1", "one", "1", minute=1)
    await _compacts(journal, compaction)
    view = _texts((await journal.view("s")).messages)
    await journal.remove(["run_1"])
    assert "one" not in _texts(journal.sessions.everything("s"))
    assert await _view(journal) == view


@BOTH
async def test_a_compaction_for_messages_that_were_removed_leaves_the_others(
    journal: Journal, compaction: Compaction
) -> None:
    await converses(journal, "run_0", "zero", "0", minute=0)
    await converses(journal, "run_1", "one", "1", minute=1)
    await _compacts(journal, compaction)
    await converses(journal, "run_3", "three", "3", minute=3)
    await journal.remove(["run_0"])
    left = ["one", "1", "two", "2", "three", "3"]
    assert _texts((await journal.load("run_3")).context.history) == left
    assert await _view(journal) == left


# ---------------------------------------------------------------- late results


async def test_late_results_of_a_removed_run_are_neither_in_view_nor_accepted(
    journal: Journal,
) -> None:
    journal.sessions.create(session_id="s")
    journal.sessions.add_message("s", message("by hand"))
    writer = await journal.begin(started("run_0", "zero", session="s"))
    unknown = ToolResult(call_id="c", name="t", content="?", is_error=True, unknown=True)
    result = ToolFinished(at=at(0), status="unknown", result=unknown)
    await writer.append([*asks(1, "c"), result, finished(turns=1, tool_calls=1)])
    await writer.append([late("c")])
    assert (await journal.view("s")).late == {"run_0": 7}
    await journal.remove(["run_0"])
    assert (await journal.view("s")).late == {}
    with pytest.raises(AgentError, match="run_0"):
        await writer.append([late("c", "once more")])
    journal.sessions.remember("s", [message("it happened")], run_id="run_0")
    assert (await journal.view("s")).late == {}
    assert await _view(journal) == ["by hand"]


# ---------------------------------------------------------------- forks


async def test_a_removed_fork_leaves_its_session_and_not_its_origin(journal: Journal) -> None:
    await converses(journal, "run_0", "zero", "0", session="other")
    fork = Fork(run_id="run_0", turn=1, seq=2)
    await converses(journal, "fork", "rather", "that", fork=fork, minute=1)
    await converses(journal, "run_2", "two", "2", minute=2)
    await journal.remove(["fork"])
    assert _texts(journal.sessions.get_messages("s")) == ["two", "2"]
    assert _texts(journal.sessions.get_messages("other")) == ["zero", "0"]
