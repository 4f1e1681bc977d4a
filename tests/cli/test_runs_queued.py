"""Queued runs from the command line: followed, woken, killed, and watched by `treadle runs top`."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_worker import detached, held
from tests.cli.workers import a_worker
from tests.fork_server import command
from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import columns
from treadle.cli.runs.top_frame import Stuck, TopFrame
from treadle.cli.runs.top_view import lines_of
from treadle.cli.terminal import Ink
from treadle.journal.queue import Backlog, WorkerCard, WorkerInfo
from treadle.journal.run_info import RunInfo
from treadle.types import Usage, now


def test_a_queued_run_is_killed_where_it_waits(cli: Cli) -> None:
    run_id = detached(cli, "x", "--model", cli.script({"text": "ok"}))
    assert cli("runs", "kill", run_id).out == f"{run_id}: cancelled\n"
    followed = cli("runs", "follow", run_id)
    assert (followed.code, followed.out) == (130, "")
    shown = cli("runs", "show", run_id).out
    assert "queue    default" in shown


def test_following_ends_with_the_code_of_the_run(cli: Cli) -> None:
    call = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}
    run_id = detached(cli, "x", "--max-turns", "1", "--model", cli.script(call, {"text": "never"}))
    with a_worker(cli):
        assert cli("runs", "follow", run_id).code == 3
    assert cli("runs", "follow", "nothing").code == 2


def test_following_from_behind_the_end_is_wrong_use(cli: Cli) -> None:
    run_id = cli("run", "x", "--output", "json", "--model", cli.script({"text": "ok"})).json[
        "run_id"
    ]
    followed = cli("runs", "follow", run_id, "--after", "999.0")
    assert (followed.code, followed.out) == (2, "")
    assert (
        f"run {run_id} has 4 entries, so there are no events after 999: pass the id of one of its events"
        in followed.err
    ), followed


def test_ctrl_c_ends_the_following_and_not_the_run(cli: Cli) -> None:
    run_id = detached(
        cli, "x", "--mode", "full", "--model", cli.script(held(cli, "call"), {"text": "done"})
    )
    words = command("treadle", "runs", "follow", run_id)
    with a_worker(cli) as worker:
        following = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cli.workspace,
            env=cli.environment(),
        )
        assert following.stderr is not None
        assert any("• bash" in line for line in following.stderr)
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=200)
        assert following.returncode == 130
        assert f"treadle runs follow {run_id} follows it again" in err
        (cli.workspace / "call.go").touch()
        worker.until(f"< {run_id} completed")


def test_a_run_that_waits_for_a_person_is_woken_with_the_answer(cli: Cli) -> None:
    call = {
        "tool_calls": [
            {"name": "write", "arguments": {"path": "a.txt", "content": "a"}, "id": "call_1"}
        ]
    }
    run_id = detached(
        cli, "x", "--on-ask", "wait", "--model", cli.script(call, {"text": "written"})
    )
    words = command("treadle", "runs", "follow", run_id)
    with a_worker(cli):
        following = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cli.workspace,
            env=cli.environment(),
        )
        assert following.stderr is not None
        assert any("call_1" in line and "waits" in line for line in following.stderr)
        woken = cli("runs", "wake", run_id, "--approve", "call_1")
        assert woken.code == 0, woken
        out, _ = following.communicate(timeout=200)
        assert (following.returncode, out) == (0, "written\n")
    assert (cli.workspace / "a.txt").read_text() == "a"
    again = cli("runs", "wake", run_id)
    assert again.code == 2
    assert "finished" in again.err


def test_following_a_run_that_nobody_will_drive_says_what_to_do(cli: Cli) -> None:
    model = cli.script({"text": "a", "delay_ms": 60_000})
    command = [sys.executable, "-m", "treadle", "run", "x", "--model", model, "--session", "s"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cli.workspace,
        env=cli.environment(),
    )
    while not (rows := json.loads(cli("runs", "list", "--json").out)):
        pass
    run_id = rows[0]["run_id"]
    process.kill()
    process.communicate()
    followed = cli("runs", "follow", run_id)
    assert (followed.code, followed.out) == (1, "")
    assert f"no process drives it. treadle runs resume {run_id} continues it" in followed.err
    woken = cli("runs", "wake", run_id, "--json")
    assert (woken.json["status"], woken.json["queue"]) == ("queued", "default")


# ---------------------------------------------------------------- top


def test_top_shows_queues_workers_and_what_is_under_way(cli: Cli) -> None:
    assert "There are no runs yet" in cli("runs", "top").out
    run_id = detached(
        cli, "first", "--mode", "full", "--model", cli.script(held(cli, "call"), {"text": "done"})
    )
    detached(cli, "second", "--model", cli.script({"text": "ok"}))
    waiting = cli("runs", "top").out
    assert "No worker is running: treadle worker starts one." in waiting
    with a_worker(cli, "--slots", "1", "--name", "ada", started=True) as worker:
        worker.until(f"> {run_id}")
        while "ada     working" not in (shown := cli("runs", "top").out):
            pass  # a worker says that it is busy a moment after it has begun
        frame = json.loads(cli("runs", "top", "--json").out)
        (cli.workspace / "call.go").touch()
        worker.until(f"< {run_id}")
    assert "ada     working   1/1" in shown
    assert [
        (info["name"], info["running"], info["slots"], info["pid"]) for info in frame["workers"]
    ] == [("ada", 1, 1, worker.process.pid)]
    assert [info["run_id"] for info in frame["under_way"]] == [run_id]
    assert [
        (queue["queue"], queue["running"], queue["ready"] + queue["sent"])
        for queue in frame["queues"]
    ] == [("default", 1, 1)]
    assert (frame["stuck"], frame["rates"]) == ([], None)


def test_what_waits_in_a_queue_that_the_configuration_lost_is_told_what_helps(cli: Cli) -> None:
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle" / "config.yaml").write_text("queues: {emails: {}}\n")
    run_id = detached(cli, "x", "--queue", "emails", "--model", cli.script({"text": "ok"}))
    with sqlite3.connect(cli.home / ".treadle" / "journal.db") as db:
        db.execute("update runs set ready_at_us = 1")
    db.close()
    (stuck,) = json.loads(cli("runs", "top", "--json").out)["stuck"]
    assert stuck["advice"] == "no worker serves this queue: treadle worker --queue emails"
    (cli.home / ".treadle" / "config.yaml").unlink()
    (stuck,) = json.loads(cli("runs", "top", "--json").out)["stuck"]
    assert (
        "has no queue of that name: add it under queues, or treadle runs wake ID --queue default, for each run"
        in stuck["advice"]
    )
    assert cli("runs", "wake", run_id, "--queue", "default", "--json").json["queue"] == "default"


def frame_of(workers: int = 1) -> TopFrame:
    at = now()
    card = {
        "host": "a-host-with-a-long-name.example.org",
        "pid": 4711,
        "version": "0.1.0",
        "engine": "local",
        "queues": ("default", "emails"),
        "slots": 8,
    }
    infos = [
        WorkerInfo(
            worker=f"w{n}",
            card=WorkerCard(name=f"worker-{n}", **card),
            since=at,
            seen_at=at,
            alive=n == 0,
            draining=n == 0,
            running=3,
        )  # pyright: ignore[reportArgumentType]  of a mapping
        for n in range(workers)
    ]
    backlog = Backlog(
        queue="emails",
        ready=12_000,
        later=3,
        sent=2,
        running=8,
        waiting=1,
        parked=1,
        oldest_ready_at=at - timedelta(minutes=3),
    )
    stuck = Stuck(
        run_id="run_01a1fd561490de1f1d87e829af",
        queue="emails",
        why="parked: \x1b[31mno key sk-ant-secret-1",
        since=at,
        advice="fix that, then wake it",
    )
    return TopFrame(
        at=at,
        queues=(backlog,),
        workers=tuple(infos),
        under_way=(),
        stuck=(stuck,) * 12,
        rates=None,
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_frame_fits_the_terminal_and_holds_no_escape_and_no_secret(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = lines_of(
        frame_of(workers=3),
        Redactor(["sk-ant-secret-1"]),
        Ink(colour=False),
        title="treadle · sqlite:////a/b/c.db",
    )
    assert max(columns(line) for line in lines) <= width
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "sk-ant-secret-1" not in text
    assert "12000" in text
    assert "dead" in text
    assert "and 4 more" in text


def test_a_frame_is_cut_to_the_lines_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = lines_of(frame_of(workers=30), Redactor([]), Ink(colour=False), title="t", room=20)
    assert len(lines) == 20
    # dead workers of a day do not hide what is stuck
    assert any("parked" in line for line in lines)
    assert "and 26 more dead workers: --json has them all" in lines


def test_runs_of_one_schedule_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    at = now()
    common = {
        "agent": "a",
        "model": "m",
        "mode": "ask",
        "status": "running",
        "prompt": "What was new?",
        "started_at": at,
        "updated_at": at,
        "cwd": "/",
    }
    common |= {name: None for name in ("session_id", "parent_run_id", "forked_from", "outcome")} | {
        "turns": 1,
        "tool_calls": 0,
        "usage": Usage(),
        "entries": 3,
    }
    ids = [
        "nightly@2026-11-21T02:00:00Z",
        "nightly@2026-11-22T02:00:00Z",
        "run_01a1fd561490de1f1d87e829af",
    ]
    runs = tuple(RunInfo(run_id=run_id, **common) for run_id in ids)  # pyright: ignore[reportArgumentType]  of a mapping
    frame = TopFrame(at=at, queues=(), workers=(), under_way=runs, stuck=(), rates=None)
    lines = lines_of(frame, Redactor([]), Ink(colour=False), title="t")
    assert all(
        any(line.startswith(shown) for line in lines) for shown in (*ids[:2], "01a1fd561490 ")
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_on_a_terminal_it_is_drawn_anew_until_q(cli: Cli, locale: dict[str, str]) -> None:
    import pty

    detached(cli, "x", "--model", cli.script({"text": "ok"}))
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "treadle", "runs", "top", "--interval", "0.1"]
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cli.workspace,
        env=cli.environment(TERM="xterm", COLUMNS="80", LINES="24", **locale),
    )
    os.close(slave)
    seen = b""
    while seen.count(b"default") < 2:
        seen += os.read(master, 65_536)
    os.write(master, b"q")
    while b"\x1b[?1049l" not in seen:
        seen += os.read(master, 65_536)
    assert process.wait(timeout=200) == 0
    os.close(master)
    assert b"runs ended per minute" in seen


def test_a_time_that_is_no_number_is_wrong_use(cli: Cli) -> None:
    answer = cli("runs", "top", "--interval", "nan")
    assert (answer.code, answer.out) == (2, "")
    assert "--interval must be a number of at least 0.1, at most 3600, not nan" in answer.err


def test_the_journal_is_named_without_its_password() -> None:
    from treadle.cli.journal_option import shown_url

    assert shown_url("postgresql://ada:ge:heim@h:5432/x?password=y") == "postgresql://ada@h:5432/x"
    assert shown_url("sqlite:////a/b:c@d.db") == f"sqlite:///{Path('/a/b:c@d.db')}"
