"""Contract of every journal: exports and imports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.apps.testing.contracts.kinds import JournalKind
from treadle.apps.testing.contracts.runs import (
    answers,
    asks,
    at,
    fact,
    finished,
    gives,
    late,
    refuses,
    says,
    started,
)
from treadle.journal.entries import (
    Fork,
)
from treadle.journal.journal import Journal

# ---------------------------------------------------------------- export and import


async def test_a_run_is_taken_in_elsewhere_as_it_is(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.append(
        [
            *asks(1, "c"),
            gives("c", "x" * 20_000),
            *answers("run_1", "done"),
            finished(turns=2, tool_calls=1),
        ]
    )
    await writer.release()
    await writer.append([late("c")])
    data = await journal.read_bytes("run_1")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        assert await other.add_run(data) == await journal.info("run_1")
        assert await other.read_bytes("run_1") == data
        assert await other.read("run_1") == await journal.read("run_1")
        if kind.durable:
            assert [(one.id, one.message_count) for one in other.sessions.list()] == [("ada", 5)]
        with refuses("invalid", "run_1 is already in this journal"):
            await other.add_run(data)
    finally:
        await other.aclose()


async def test_a_run_that_is_not_finished_can_be_gone_on_with_elsewhere(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        assert (await other.add_run(await journal.read_bytes("run_1"))).status == "stopped"
        assert await (await other.take_over("run_1")).append([fact("b")]) == 3
    finally:
        await other.aclose()


def _cut_entry(data: list[bytes]) -> list[bytes]:
    return [data[0], b'{"type":"tool.late","at":"2026', *data[2:]]


def _strange_entry(data: list[bytes]) -> list[bytes]:
    return [data[0], data[1], b'{"type":"dream","at":"2026-11-20T10:00:00Z"}']


def _no_start(data: list[bytes]) -> list[bytes]:
    return data[1:]


def _two_starts(data: list[bytes]) -> list[bytes]:
    return [data[0], data[0]]


def _nothing(data: list[bytes]) -> list[bytes]:
    return []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_cut_entry, "entry 2"),
        (_strange_entry, "entry 3.*'dream'"),
        (_no_start, "entry 1: a run must begin"),
        (_two_starts, "entry 2: a run must begin"),
        (_nothing, "no entry"),
    ],
)
async def test_a_broken_import_is_refused_with_the_number_of_the_entry(
    kind: JournalKind,
    journal: Journal,
    tmp_path: Path,
    spoil: Callable[[list[bytes]], list[bytes]],
    said: str,
) -> None:
    await says(journal, "run_1", "hello", "hello")
    data = await journal.read_bytes("run_1")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        with refuses("invalid", said):
            await other.add_run(spoil(data))
        assert await other.runs() == []
    finally:
        await other.aclose()


async def test_a_fork_is_taken_in_after_the_run_that_it_came_from(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hello")
    await says(journal, "run_2", "and now?", "now", fork=Fork(run_id="run_1", turn=1, seq=2))
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        with refuses("invalid", "forked from run_1, which is not in this journal"):
            await other.add_run(await journal.read_bytes("run_2"))
        await other.add_run(await journal.read_bytes("run_1"))
        assert (await other.add_run(await journal.read_bytes("run_2"))).forked_from == "run_1"
        assert [said.text for said in (await other.load("run_2")).context.history] == [
            "hello",
            "hello",
            "and now?",
            "now",
        ]
    finally:
        await other.aclose()


async def test_runs_that_are_taken_in_found_what_their_session_had_said_before(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(journal, "run_2", "and now?", "now", session="ada")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        for run_id in ("run_1", "run_2"):
            await other.add_run(await journal.read_bytes(run_id))
        assert [said.text for said in (await other.load("run_1")).context.history] == [
            "hello",
            "hi",
        ]
        assert [said.text for said in (await other.load("run_2")).context.history] == [
            "hello",
            "hi",
            "and now?",
            "now",
        ]
    finally:
        await other.aclose()


async def test_a_run_is_taken_in_although_another_one_of_its_session_is_not_finished(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        await other.begin(started("run_2", "and now?", session="ada"))
        assert (await other.add_run(await journal.read_bytes("run_1"))).status == "finished"
    finally:
        await other.aclose()


async def test_a_fork_that_is_taken_in_brings_its_past_into_its_session(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(
        journal,
        "fork",
        "rather this",
        "that",
        session="new",
        fork=Fork(run_id="run_1", turn=1, seq=2),
    )
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        for run_id in ("run_1", "fork"):
            await other.add_run(await journal.read_bytes(run_id))
        assert [said.text for said in (await other.view("ada")).messages] == ["hello", "hi"]
        assert [said.text for said in (await other.view("new")).messages] == [
            "hello",
            "hi",
            "rather this",
            "that",
        ]
    finally:
        await other.aclose()


async def test_a_part_that_is_taken_in_says_nothing_in_its_session(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started(session="ada"))
    part = await journal.begin(started("part", "look there", session="ada", parent="run_1"))
    await part.append([*answers("part", "nothing there"), finished(turns=1)])
    await writer.append([*answers("run_1", "hi"), finished(turns=1)])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        for run_id in ("run_1", "part"):
            await other.add_run(await journal.read_bytes(run_id))
        assert [said.text for said in (await other.view("ada")).messages] == ["hello", "hi"]
    finally:
        await other.aclose()


async def test_a_run_that_is_taken_in_keeps_its_times(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started(session="ada", minute=1))
    await writer.append([*asks(1, minute=2), finished(turns=1, minute=3)])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await journal.read_bytes("run_1"))
        assert (info.started_at, info.updated_at) == (at(1), at(3))
    finally:
        await other.aclose()


async def _unfinished(journal: Journal) -> list[bytes]:
    """A run of another session, which its driver left."""
    writer = await journal.begin(started("left", session="eve", minute=5))
    await writer.append(asks(1, minute=6))
    await writer.release()
    return await journal.read_bytes("left")


async def test_a_run_that_is_taken_in_and_not_finished_keeps_others_of_its_session_from_beginning(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await _unfinished(journal))
        assert (info.started_at, info.updated_at, info.status) == (at(5), at(6), "stopped")
        with refuses("busy", "left"):
            await other.begin(started("run_2", session="eve"))
        await other.begin(started("run_2", session="ada"))
    finally:
        await other.aclose()


@pytest.mark.parametrize(
    "first", [b"", b"\xff", b"{", b"[]", b'{"schema":"new"}', b'{"schema":[]}']
)
async def test_what_is_no_run_at_all_is_not_taken_in(journal: Journal, first: bytes) -> None:
    with refuses("invalid", "entry 1: "):
        await journal.add_run([first])
    assert await journal.runs() == []
