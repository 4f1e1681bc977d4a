"""What files were is kept whole and private, by hash, and bounded."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from treadle.tools import file_history as undo_module
from treadle.tools.file_history import Before, Undo, content_hash


@pytest.fixture
def undo(tmp_path: Path) -> Undo:
    return Undo(tmp_path / "home" / "undo")


def before(path: str = "/w/a", content: bytes | None = b"old", after: str = "new") -> Before:
    return Before(path=path, content=content, after=after)


def test_what_is_kept_comes_back_by_call_and_hash(undo: Undo) -> None:
    undo.keep("run_1", "call/../1", before(content=b"\0old\xff"))
    undo.keep("run_1", "call_2", before("/w/b", None))
    changes = undo.changes("run_1")
    assert [(c.path, c.before, c.after) for c in (*changes["call/../1"], *changes["call_2"])] == [
        ("/w/a", content_hash(b"\0old\xff"), "new"),
        ("/w/b", None, "new"),
    ]
    assert undo.content("run_1", content_hash(b"\0old\xff")) == b"\0old\xff"
    assert undo.content("run_1", content_hash(b"gone")) is None
    assert undo.changes("run_2") == {}


def test_a_call_that_is_repeated_has_its_last_change(undo: Undo) -> None:
    undo.keep("run_1", "c", before(content=b"one"))
    undo.keep("run_1", "c", before(content=b"two"))
    (change,) = undo.changes("run_1")["c"]
    assert change.before == content_hash(b"two")


def test_it_is_private(undo: Undo) -> None:
    undo.keep("run_1", "c", before())
    (folder,) = undo.folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert all(".tmp" not in path.name for path in folder.iterdir())


def test_equal_contents_are_kept_once(undo: Undo) -> None:
    for call in "abc":
        undo.keep("run_1", call, before(f"/w/{call}"))
    (folder,) = undo.folder.iterdir()
    assert len([*folder.iterdir()]) == 4


def test_content_that_is_not_what_it_was_is_none(undo: Undo) -> None:
    undo.keep("run_1", "c", before())
    (folder,) = undo.folder.iterdir()
    (folder / content_hash(b"old")).write_bytes(b"else")
    (folder / "strange.json").write_text("{")
    assert undo.content("run_1", content_hash(b"old")) is None
    assert [*undo.changes("run_1")] == ["c"]


def test_old_runs_go_first_and_one_run_is_bounded(
    undo: Undo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(undo_module, "MAX_BYTES", 30_000)
    monkeypatch.setattr(undo_module, "MAX_RUN_BYTES", 10_000)
    for i in range(4):
        run = f"run_{i}"
        undo.keep(run, "c", before(content=bytes([i]) * 9_000))
        folder = max(undo.folder.iterdir(), key=os.path.getctime)
        os.utime(folder, (i, i))
    Undo(undo.folder).keep("run_new", "c", before(content=b"x" * 9_000))
    assert [bool(undo.changes(f"run_{i}")) for i in range(4)] == [False, False, True, True]
    undo.keep("run_3", "d", before(content=b"y" * 9_000))
    assert [*undo.changes("run_3")] == ["c"]
    assert "are kept already" in caplog.text


def test_what_was_too_much_takes_no_room(undo: Undo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_module, "MAX_RUN_BYTES", 100)
    undo.keep("run_1", "call_1", before(content=b"x" * 101))
    undo.keep("run_1", "call_2", before(content=b"x" * 99))
    assert [*undo.changes("run_1")] == ["call_2"]


def test_what_is_forgotten_is_gone(undo: Undo) -> None:
    undo.keep("run_1", "c", before())
    undo.forget(["run_1", "run_2"])
    assert undo.changes("run_1") == {}


def test_what_cannot_be_kept_is_said_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    Undo(tmp_path / "file" / "undo").keep("run_1", "c", before())
    assert "what '/w/a' was before call c of run run_1 could not be kept" in caplog.text
