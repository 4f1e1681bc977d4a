"""`treadle work --workers` and `--detach`: a batch whose runs other processes drive."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.apps.batch.conftest import Work, bash
from tests.cli.workers import a_worker
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_url as postgres_url

DONE = {"text": "Done."}
WRITES = bash("echo done > done.txt")


def test_workers_drive_the_runs_and_this_process_judges_and_reports(cli: Work) -> None:
    with a_worker(cli) as worker:
        answer, rows = cli.work(
            "one",
            "two",
            "--workers",
            "--worktree",
            "--gate",
            "test -f done.txt",
            "--model",
            cli.script(WRITES, DONE),
        )
        assert worker.drained() == 0
    assert answer.code == 0
    assert [(each["outcome"], each["passed"], each["diff"]) for each in rows] == [
        ("completed", True, {"files": 1, "added": 1, "removed": 0})
    ] * 2
    assert worker.said.count("\n< run_") == 2
    assert not (cli.workspace / "done.txt").exists()


def test_a_gate_that_fails_has_another_attempt_queued(cli: Work) -> None:
    model = cli.script(DONE, WRITES, DONE)
    with a_worker(cli):
        answer, rows = cli.work(
            "one",
            "--workers",
            "--worktree",
            "--retries",
            "1",
            "--gate",
            "test -f done.txt",
            "--model",
            model,
        )
    assert (answer.code, rows[0]["attempts"], rows[0]["passed"]) == (0, 2, True)


def test_a_detached_batch_prints_its_id_and_is_reported_by_resume(cli: Work) -> None:
    arguments = (
        "--worktree",
        "--mode",
        "full",
        "--gate",
        "test -f done.txt",
        "--model",
        cli.script(WRITES, DONE),
    )
    begun = cli("work", "one", "two", "--detach", *arguments)
    assert begun.code == 0
    batch = begun.out.strip()
    assert f"2 runs queued; treadle work --resume {batch} waits for them" in begun.err
    assert [run["status"] for run in json.loads(cli("runs", "list", "--json").out)] == [
        "queued",
        "queued",
    ]
    with a_worker(cli):
        answer, rows = cli.resume()
    assert (answer.code, [each["passed"] for each in rows]) == (0, [True, True])
    assert len(json.loads(cli("runs", "list", "--json").out)) == 2


@pytest.mark.parametrize("boundary", range(1, 16, 3))
def test_a_batch_that_is_killed_while_it_queues_submits_nothing_twice(
    cli: Work, boundary: int
) -> None:
    model = cli.script(WRITES, DONE)
    arguments = (
        "work",
        "one",
        "two",
        "--workers",
        "--worktree",
        "--mode",
        "full",
        "--output",
        "json",
        "--model",
        model,
    )
    with a_worker(cli):
        killed = cli(*arguments, TREADLE_CRASH_AT=str(boundary))
        assert killed.code in (-signal.SIGKILL, 0)
        begun = cli.shelf.exists() and any(
            (entry / "entries.jsonl").read_text().count("\n") for entry in cli.shelf.iterdir()
        )
        answer = cli.resumed() if begun else cli(*arguments)
        assert answer.code == 0, answer
    runs = json.loads(cli("runs", "list", "--json").out)
    assert sorted(run["prompt"] for run in runs) == ["one", "two"]
    assert [run["outcome"] for run in runs] == ["completed", "completed"]


def test_a_signal_ends_the_runs_of_the_batch_and_it_can_go_on(cli: Work) -> None:
    model = cli.script(bash("touch begun; while [ ! -e go ]; do sleep 0.02; done"), DONE)
    command = [
        sys.executable,
        "-m",
        "treadle",
        "work",
        "one",
        "--workers",
        "--mode",
        "full",
        "--output",
        "json",
        "--model",
        model,
    ]
    with a_worker(cli) as worker:
        batch = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cli.workspace,
            env=cli.environment(),
        )
        worker.until("> run_")
        while not (cli.workspace / "begun").exists():
            pass
        batch.send_signal(signal.SIGINT)
        out, err = batch.communicate(timeout=200)
        assert batch.returncode == 130, err
        assert json.loads(out)["rows"][0]["outcome"] == "cancelled"
        (cli.workspace / "go").touch()
        answer, rows = cli.resume()
        assert (answer.code, rows[0]["outcome"]) == (0, "completed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("x", "--queue", "emails"), "add --workers"),
        (("x", "--workers", "--queue", "nope"), "unknown queue 'nope'"),
        (("x", "--workers", "--allow", "ls"), "pass it to `treadle worker`"),
        (("x", "--detach", "--output", "json"), "give it to --resume ID"),
        (("x", "--detach", "-o", "report.txt"), "cannot be used with -o"),
        (("x", "--workers", "--journal", "memory:"), "a batch must be stored"),
    ],
)
def test_what_makes_no_sense_with_workers_is_refused(
    cli: Work, arguments: tuple[str, ...], said: str
) -> None:
    answer = cli("work", *arguments, "--model", cli.script(DONE))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert not cli.shelf.exists()


def test_a_batch_over_postgresql_is_kept_on_this_machine(cli: Work, postgres_url: str) -> None:
    journal = {"TREADLE_JOURNAL": postgres_url}
    with a_worker(cli, **journal):
        answer, rows = cli.work(
            "one", "--workers", "--worktree", "--model", cli.script(WRITES, DONE), **journal
        )
    assert (answer.code, rows[0]["outcome"]) == (0, "completed")
    assert list((cli.home / ".treadle" / "work").iterdir())
