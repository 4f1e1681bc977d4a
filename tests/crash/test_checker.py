"""The checker can fail: with each guard taken away in turn it turns red, and with all of them in
place it is green.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.crash.accounts import Bounds
from tests.crash.checker import check
from tests.crash.copies import backup, judged
from tests.crash.drive import Task
from tests.crash.nursery import Nursery
from tests.crash.stories import World
from tests.crash.sweep import Stage, sweep
from tests.crash.zombies import Sleeper, zombie

AROUND_THE_FIRST_CALL = range(5, 13)


def test_it_is_green_where_nothing_is_taken_away(nursery: Nursery, tmp_path: Path) -> None:
    swept = sweep(nursery, tmp_path, "one", at=AROUND_THE_FIRST_CALL)
    assert swept.points == len(AROUND_THE_FIRST_CALL)
    assert not swept.rules


def test_without_the_start_of_a_call_it_is_run_again_and_the_checker_sees_it(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "one", at=AROUND_THE_FIRST_CALL, without=("start",))
    assert {"once", "no effect without a start"} <= swept.rules


def test_without_the_second_barrier_what_the_model_was_told_is_lost_and_the_checker_sees_it(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "one", at=AROUND_THE_FIRST_CALL, without=("barrier",))
    assert {"turn", "nothing acknowledged is lost"} <= swept.rules


@pytest.mark.parametrize("stop_at", ["model", "look", "effect"])
def test_a_driver_that_wakes_up_after_its_run_moved_on_writes_nothing(
    nursery: Nursery, tmp_path: Path, stop_at: str
) -> None:
    verdict, said = zombie(nursery, tmp_path / "x", stop_at)
    assert not verdict.violations
    assert verdict.finished == verdict.runs == 1
    assert "is no longer held by this driver" in said
    assert verdict.unknown == (stop_at == "effect"), "whoever took it over cannot know"
    assert verdict.had_happened == verdict.unknown, "the sleeper did it late, and once"


def test_without_the_fence_it_goes_on_and_the_checker_sees_it(
    nursery: Nursery, tmp_path: Path
) -> None:
    verdict, _ = zombie(nursery, tmp_path / "x", "model", without=("fence",))
    assert {"once", "one end"} <= verdict.rules


def test_where_the_fence_fails_the_index_still_refuses_a_second_result(
    nursery: Nursery, tmp_path: Path
) -> None:
    kept, said = zombie(nursery, tmp_path / "with", "look", without=("fence",))
    assert not kept.violations
    assert "rejected the operation" in said
    lost, _ = zombie(nursery, tmp_path / "without", "look", without=("fence", "index"))
    assert "one result" in lost.rules


@pytest.fixture
def journal(nursery: Nursery, tmp_path: Path) -> Path:
    """Of a whole run, without a write-ahead log, and without the triggers that keep its entries."""
    task = Task(journal=tmp_path / "journal.db", witness=tmp_path / "witness", story="mixed")
    assert nursery.drive(task).said == "completed\n"
    assert nursery.drive(msgspec.structs.replace(task, do="examine")).code == 0
    with sqlite3.connect(task.journal) as db:
        db.executescript(
            "drop trigger entries_stay; drop trigger entries_are_kept; drop index one_result; drop index one_start"
        )
    db.close()
    return task.journal


FORGERIES = {
    "delete from entries where type = 'tool.finished' and seq = (select max(seq) from entries where type = 'tool.finished')": {
        "order",
        "turn",
    },
    "delete from entries where seq = 3": {"order", "turn"},
    "delete from entries where type = 'run.finished'": {"order", "one end"},
    "update runs set finished = null": {"one end", "end"},
    "update runs set head = head + 1": {"order"},
    "update runs set fence = 0": {"fence"},
    "insert into entries(place, type, call, body) select place + 100, type, call, body from entries where type = 'tool.finished'": {
        "one result",
        "order",
    },
    "insert into entries(place, type, call, attempt, body) select place + 100, type, call, 9, body from entries where type = 'tool.started'": {
        "one start"
    },
    """update entries set body = cast(replace(cast(body as text), '"tool_calls":5', '"tool_calls":4') as blob) where type = 'run.finished'""": {
        "count"
    },
    """update entries set body = cast(replace(cast(body as text), 'done: ', 'none: ') as blob) where type = 'tool.finished'""": {
        "nothing acknowledged is lost"
    },
    """update entries set body = cast(replace(cast(body as text), '"status":"ok"', '"status":"cancelled"') as blob) where type = 'tool.finished'""": {
        "no effect of what was not run"
    },
    """update entries set body = cast(replace(cast(body as text), ':call', ':other') as blob) where type = 'tool.started'""": {
        "key"
    },
    "delete from runs": {"file", "no effect without a start", "nothing acknowledged is lost"},
}


@pytest.mark.parametrize("statement", FORGERIES)
def test_it_sees_what_was_changed_in_the_file(
    journal: Path, tmp_path: Path, statement: str
) -> None:
    witness = tmp_path / "witness"
    assert not check(journal, witness).violations
    db = sqlite3.connect(journal)
    db.execute(statement)
    db.commit()
    db.close()
    assert FORGERIES[statement] <= check(journal, witness).rules


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("did mark-x-0-1 key", "once"),
        ("did mark-x-0-2 key", "key"),
        ("did mark-nowhere", "no effect without a start"),
        (
            'told {"call": "nowhere", "is_error": false, "unknown": false, "content": ""}',
            "nothing acknowledged is lost",
        ),
        ("published nowhere 1.0 run_start", "nothing acknowledged is lost"),
        ("asked x", "paid"),
        ("answered x resp_lost 1 1.0", "paid"),
        ('shown {"run": "x", "pid": 0, "kept": 0, "more": [["user", "d", [], []]]}', "replay"),
        (
            'shown {"run": "?", "pid": 0, "kept": 0, "more": [["user", "d", [], []], ["assistant", "e", ["c"], []], ["user", "f", [], []]]}',
            "history",
        ),
        (
            'shown {"run": "?", "pid": 0, "kept": 0, "more": [["user", "d", [], []], ["tool", "e", [], ["c"]]]}',
            "history",
        ),
        (
            'shown {"run": "?", "pid": 0, "kept": 0, "more": [["assistant", "e", ["a", "b"], []], ["tool", "f", [], ["b", "a"]]]}',
            "history",
        ),
        ('view {"session": "s", "count": -3054, "messages": 2}', "view"),
    ],
)
def test_it_sees_what_the_world_saw(journal: Path, tmp_path: Path, line: str, rule: str) -> None:
    witness = tmp_path / "witness"
    with witness.open("a") as file:
        file.write(line + "\n")
    assert rule in check(journal, witness).rules


def test_it_sees_a_caller_that_was_told_another_end(journal: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    lines = witness.read_text().splitlines()
    witness.write_text(
        "\n".join(
            line.replace('"outcome": "completed"', '"outcome": "cancelled"')
            if line.startswith("result ")
            else line
            for line in lines
        )
    )
    assert check(journal, witness).rules == {"replay", "caller"}


def test_it_sees_an_outcome_that_is_unknown_although_its_tool_had_returned(
    nursery: Nursery, tmp_path: Path
) -> None:
    stage = Stage(nursery, tmp_path / "x", "zombie")
    with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at="effect")):
        assert stage.go_on(force=True).said == "completed\n"
    assert "unknown" not in stage.judge_open().rules
    call = next(
        line.split()[2]
        for line in stage.witness.read_text().splitlines()
        if line.startswith("entered ")
    )
    world = World(stage.witness)
    world.saw("returned", "mark-x-1-0", call, "1", "1000.0")
    assert "unknown" in stage.judge_open().rules
    for beat in range(4):  # then the machine did not let the process run
        world.saw("alive", "1", f"{1000.2 + beat / 5:.1f}")
    assert "unknown" not in stage.judge_open().rules
    world.saw("alive", "1", "1001.0")
    assert "unknown" in stage.judge_open().rules


def test_it_sees_what_was_charged_beyond_the_limit(nursery: Nursery, tmp_path: Path) -> None:
    stage = Stage(nursery, tmp_path / "x", "budget")
    assert stage.start().said == "token_limit\n"
    assert not stage.judge_open().rules
    World(stage.witness).saw("billed", "x-0-1", "10000")
    assert stage.judge_open().rules == {"bill"}


def test_it_sees_an_effect_that_is_missing(journal: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    witness.write_text(
        "\n".join(line for line in witness.read_text().splitlines() if not line.startswith("did "))
    )
    assert check(journal, witness).rules == {"no result without its effect"}


def test_it_sees_a_backup_and_an_export_that_hold_what_the_journal_does_not(
    journal: Path, tmp_path: Path
) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    assert backup(journal, copies / "1.db") == 0
    with closing(sqlite3.connect(journal)) as db:
        run, seq, body = db.execute(
            "select runs.id, place & 0xffffffff, body from entries join runs on runs.num = place >> 32 where type = 'run.finished'"
        ).fetchone()
        assert "copy" not in check(journal, tmp_path / "witness").rules
        line = {"seq": seq, "type": "run.finished", "entry": {**json.loads(body), "turns": 99}}
        (copies / f"{run}.2.jsonl").write_text(f"{json.dumps(line)}\n")
        assert "copy" in check(journal, tmp_path / "witness").rules
        (copies / f"{run}.2.jsonl").unlink()
        db.execute("delete from entries where type = 'run.finished'")
        db.commit()
    assert "copy" in check(journal, tmp_path / "witness").rules


def test_it_tells_the_right_time_where_a_clock_was_wrong_by_hours(
    nursery: Nursery, tmp_path: Path
) -> None:
    stage = Stage(nursery, tmp_path / "x", "zombie")
    with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at="effect")):
        assert stage.go_on(force=True).said == "completed\n"
    with closing(sqlite3.connect(stage.journal)) as db:
        call, text = db.execute(
            "select call, cast(body as text) from entries where cast(body as text) like '%\"unknown\"%' and type = 'tool.finished'"
        ).fetchone()
        right = datetime.fromisoformat(json.loads(text)["at"])
        wrong = (right - timedelta(hours=3)).isoformat().replace("+00:00", "Z")
        db.executescript("drop trigger entries_stay")
        changed = text.replace(json.loads(text)["at"], wrong).encode()
        db.execute(
            "update entries set body = ? where call = ? and type = 'tool.finished'", (changed, call)
        )
        db.commit()
    World(stage.witness).saw("returned", "mark-x-1-0", call, "1", f"{right.timestamp() - 5:.3f}")
    assert "unknown" not in check(stage.journal, stage.witness).rules
    assert "unknown" in check(stage.journal, stage.witness, bounds=Bounds(clocks=True)).rules


def test_a_copy_that_was_made_before_the_tables_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "1.db").touch()
    assert list(judged(tmp_path, {})) == []
