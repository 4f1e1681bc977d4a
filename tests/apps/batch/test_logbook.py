"""The logbook of a batch: what is kept, by whom, and what a crash or a full disk leaves of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.apps.batch.batch import Batch, Terms
from treadle.apps.batch.logbook import ENTRIES, Logbook, WorkPlace, batches, find_batch
from treadle.apps.batch.report import Diff, GateResult, ReportRow
from treadle.errors import AgentError
from treadle.types import Limits

TERMS = Terms(model="script:x", cwd="/", mode="full", limits=Limits(turns=3), gates=("make test",))
BATCH = Batch(id="work_01", prompts=("one", "two\udce9", "three"), terms=TERMS, base="abc")
ROW = ReportRow(
    number=2,
    prompt="two\udce9",
    gates=(GateResult(command="make test", passed=True, exit_code=0),),
    diff=Diff(files=1, added=2, removed=3),
)
PLACE = WorkPlace(folder="/w/2/repo", root="/w/2/repo", branch="treadle/work_01-2", tree="abc")


async def filled(shelf: Path) -> Logbook:
    logbook = Logbook.begin(shelf, BATCH)
    await logbook.place(2, PLACE)
    await logbook.done(ROW)
    return logbook


async def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    (await filled(tmp_path)).close()
    async with Logbook.open(tmp_path, "work_01") as logbook:
        assert logbook.batch == BATCH
        assert logbook.places == {2: PLACE}
        assert logbook.rows == {2: ROW}
        assert logbook.pending == [1, 3]
        other = Terms(model="script:y", cwd="/", mode="ask")
        await logbook.resume_on(other)
    async with Logbook.open(tmp_path, "work_01") as logbook:
        assert logbook.batch.terms == other
        assert logbook.batch.prompts == BATCH.prompts


async def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    async with await filled(tmp_path / "shelf") as logbook:
        assert [
            stat.S_IMODE(path.stat().st_mode)
            for path in (tmp_path / "shelf", logbook.folder, logbook.folder / ENTRIES)
        ] == [0o700, 0o700, 0o600]


async def test_one_that_is_open_is_held(tmp_path: Path) -> None:
    async with await filled(tmp_path):
        with pytest.raises(AgentError) as refused:
            Logbook.open(tmp_path, "work_01")
        assert refused.value.kind == "busy"
    Logbook.open(tmp_path, "work_01").close()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_however_much_of_the_last_line_is_there_the_rest_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    import anyio

    shelf = tmp_path_factory.mktemp("shelf")
    anyio.run(filled, shelf).close()
    file = shelf / "work_01" / ENTRIES
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    cut = data.draw(st.integers(len(lines[0]), len(whole)))
    file.write_bytes(whole[:cut])
    logbook = Logbook.open(shelf, "work_01")
    assert logbook.places == ({2: PLACE} if cut >= len(lines[0]) + len(lines[1]) else {})
    assert logbook.rows == ({2: ROW} if cut == len(whole) else {})
    anyio.run(logbook.place, 3, PLACE)
    logbook.close()
    again = Logbook.open(shelf, "work_01")
    assert 3 in again.places
    again.close()


async def test_a_batch_that_was_never_begun_is_told_apart_from_a_newer_one(tmp_path: Path) -> None:
    (await filled(tmp_path)).close()
    file = tmp_path / "work_01" / ENTRIES
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0][:50])
    with pytest.raises(AgentError, match="was never started"):
        Logbook.open(tmp_path, "work_01")
    file.write_bytes(
        lines[0].replace(b'"batch.begun"', b'"batch.begun","version":2') + b"".join(lines[1:])
    )
    with pytest.raises(AgentError, match="line 1: this version cannot read it"):
        Logbook.open(tmp_path, "work_01")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_shelf_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(AgentError, match="cannot be stored"):
        Logbook.begin(tmp_path / "shelf", BATCH)
    tmp_path.chmod(0o700)


async def test_an_entry_that_the_disk_does_not_take_is_an_error_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await filled(tmp_path) as logbook:
        before = (logbook.folder / ENTRIES).read_bytes()
        write = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
        with pytest.raises(AgentError, match="the disk is full"):
            await logbook.done(ROW)
        monkeypatch.undo()
        assert (logbook.folder / ENTRIES).read_bytes() == before
        await logbook.place(3, PLACE)
    Logbook.open(tmp_path, "work_01").close()


def test_a_batch_is_found_by_the_beginning_of_its_id_or_as_the_last(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="there are none yet"):
        find_batch(tmp_path, "last")
    for name in ("work_01a", "work_01b", "work_02"):
        Logbook.begin(tmp_path, Batch(id=name, prompts=("x",), terms=TERMS)).close()
    (tmp_path / "work_99").mkdir()
    assert batches(tmp_path) == ["work_01a", "work_01b", "work_02"]
    assert find_batch(tmp_path, "last") == "work_02"
    assert find_batch(tmp_path, "01b") == find_batch(tmp_path, "work_01b") == "work_01b"
    with pytest.raises(AgentError, match="the beginning of 2"):
        find_batch(tmp_path, "01")
    with pytest.raises(AgentError, match="the newest is work_02"):
        find_batch(tmp_path, "nobody")


def test_one_that_cannot_be_begun_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be the `last` one."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    with pytest.raises(AgentError, match=r"cannot be stored in .*: the disk is full"):
        Logbook.begin(tmp_path / "shelf", BATCH)
    assert not list((tmp_path / "shelf").iterdir())
