"""A batch that is stopped, killed or crashes at any point goes on with `--resume`, and nothing is
done twice or lost.

Each prompt's run has one call that must never run twice; it leaves a mark in a file outside of the
worktree.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apps.batch.conftest import Work, bash, git, lives
from tests.fork_server import command

HAS_PROC = os.path.isdir("/proc")


class Batch:
    """A batch of three prompts in worktrees with a gate, and a witness of what was done."""

    OPTIONS = (
        "--worktree",
        "--no-sandbox",
        "--gate",
        "test -s done.txt",
        "--retries",
        "7",
        "--mode",
        "full",
        "--output",
        "json",
    )

    def __init__(
        self, cli: Work, *, first: str = "true", gate: str | None = None, parallel: int = 2
    ) -> None:
        self.cli = cli
        self.witness = cli.home / "witness"
        once = f"echo $(basename $(dirname $PWD)) >> {self.witness}; {first}"
        done = [bash("echo done > done.txt"), {"text": "Done."}]
        self.model = cli.script(bash(once), *done * 8)
        gates = () if gate is None else ("--gate", gate)
        self.arguments = (
            "work",
            "one",
            "two",
            "three",
            "--parallel",
            str(parallel),
            "--model",
            self.model,
            *self.OPTIONS,
            *gates,
        )

    @contextmanager
    def started(self, **environment: str) -> Iterator[subprocess.Popen[str]]:
        cli = self.cli
        process = subprocess.Popen(
            command("treadle", *self.arguments),
            cwd=cli.workspace,
            env=cli.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def to_its_end(self) -> list[dict[str, Any]]:
        """As a person would get there: where no batch is, they type it again."""
        begun = self.cli.shelf.exists() and [
            entry
            for entry in self.cli.shelf.iterdir()
            if (entry / "entries.jsonl").read_text(errors="replace").count("\n")
        ]
        answer = self.cli.resumed() if begun else self.cli(*self.arguments)
        assert answer.code == 0, answer
        return json.loads(answer.out)["rows"]

    def judge(self, rows: list[dict[str, Any]]) -> None:
        cli = self.cli
        assert [(row["prompt"], row["outcome"], row["passed"]) for row in rows] == [
            (name, "completed", True) for name in ("one", "two", "three")
        ]
        marks = self.witness.read_text().split() if self.witness.exists() else []
        assert len(marks) == len(set(marks)), f"a call ran twice: {marks}"
        assert sorted(cli.worktrees()) == sorted(Path(row["folder"]).resolve() for row in rows)
        assert cli.branches() == sorted(row["branch"] for row in rows)
        assert all((Path(row["folder"]) / "done.txt").read_text() == "done\n" for row in rows)
        assert all(row["diff"] == {"files": 1, "added": 1, "removed": 0} for row in rows)
        assert git(cli.workspace, "status", "--porcelain") == ""
        assert git(cli.workspace, "rev-parse", "--abbrev-ref", "HEAD") == "main"
        for run in json.loads(cli("runs", "list", "--all", "--json").out):
            assert run["status"] == "finished", run
        assert not list((cli.home / ".local/share/treadle/worktrees").glob("*/.git/index.lock"))


def wait_for(process: subprocess.Popen[str], said: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return
    raise AssertionError(f"it never said {said!r}")


# ---------------------------------------------------------------- a person stops it


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_what_there_is_and_it_can_go_on(cli: Work, number: int) -> None:
    batch = Batch(cli, first="sleep 30", parallel=1)
    with batch.started() as process:
        wait_for(process, "working: one")
        while not batch.witness.exists():
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=200)
    assert process.returncode == 130
    report = json.loads(out)
    assert report["stopped"]
    assert [(row["outcome"], row["attempts"]) for row in report["rows"]] == [
        ("cancelled", 1),
        (None, 0),
        (None, 0),
    ]
    assert f"treadle work --resume {report['id']}" in err
    assert [str(path) for path in cli.worktrees()] == [
        str(Path(report["rows"][0]["folder"]).resolve())
    ]
    batch.model = ""
    Path(batch.arguments[batch.arguments.index("--model") + 1].removeprefix("script:")).write_text(
        json.dumps(
            [
                bash("true"),
                {"text": "Went on."},
                bash("echo done > done.txt"),
                {"text": "Done."},
                {"text": "Done."},
            ]
        )
    )
    answer, rows = cli.resume()
    assert answer.code == 0
    assert [row["passed"] for row in rows] == [True] * 3
    assert rows[0]["attempts"] == 2


def test_an_interrupted_gate_is_ended_and_run_again(cli: Work) -> None:
    gate = f"echo gate >> {cli.home}/gates; test -e {cli.home}/go || sleep 60"
    batch = Batch(cli, gate=gate, parallel=1)
    with batch.started() as process:
        wait_for(process, "gate echo gate")
        gates = cli.home / "gates"
        while not (gates.exists() and gates.read_text()):  # the shell makes it, then writes
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=200)
    assert process.returncode == 130
    row = json.loads(out)["rows"][0]
    assert (row["outcome"], row["passed"], row["gates"]) == ("completed", False, [])
    (cli.home / "go").touch()
    batch.judge(batch.to_its_end())
    assert (cli.home / "gates").read_text().count("gate") == 4


# ---------------------------------------------------------------- it is killed


@pytest.mark.parametrize(
    ("number", "again"), [(1, 0), (4, 0), (9, 2), (14, 0), (22, 9), (31, 0), (44, 3)]
)
def test_a_batch_that_is_killed_at_a_boundary_goes_on(cli: Work, number: int, again: int) -> None:
    """`again`: where it is killed once more as it goes on; 0: nowhere."""
    killed, verdict = killed_at(cli, number, again)
    assert killed
    verdict()


def killed_at(cli: Work, number: int, again: int) -> tuple[bool, Callable[[], None]]:
    """Whether it came so far, and what checks how it goes on."""
    batch = Batch(cli)
    with batch.started(TREADLE_CRASH_AT=str(number)) as process:
        process.communicate(timeout=200)
    if again and cli.shelf.exists():
        first, batch.arguments = batch.arguments, ("work", "--resume", "last")
        with batch.started(TREADLE_CRASH_AT=str(again)) as resumed:
            resumed.communicate(timeout=200)
        batch.arguments = first
    return process.returncode == -signal.SIGKILL, lambda: batch.judge(batch.to_its_end())


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_that_is_killed_at_any_moment_goes_on(cli: Work, seed: int) -> None:
    """Kills at moments that nobody chose, again and again, until it comes to its end."""
    chance = random.Random(seed)
    batch = Batch(cli, first="sleep 0.05")
    for _ in range(4):
        with batch.started() as process:
            wait_for(process, "work_")  # from here on there is a batch
            try:
                process.communicate(timeout=chance.random() * 1.5)
            except subprocess.TimeoutExpired:
                process.kill()
        batch.arguments = ("work", "--resume", "last", "--output", "json")
    answer, rows = cli.resume()
    assert answer.code == 0, answer
    batch.judge(rows)


@pytest.mark.skipif(not HAS_PROC, reason="without /proc they are not found")
def test_what_a_killed_process_left_running_is_ended_before_it_goes_on(cli: Work) -> None:
    gate = f"test -e {cli.home}/go || {{ setsid sh -c 'echo $$ > {cli.home}/pid.new; mv {cli.home}/pid.new {cli.home}/pid; sleep 300'; }}"
    batch = Batch(cli, gate=gate, parallel=1)
    with batch.started() as process:
        while not (cli.home / "pid").exists():
            assert process.poll() is None
        process.kill()
        process.communicate()
    left = int((cli.home / "pid").read_text())
    assert lives(left), "it outlived the batch"
    (cli.home / "go").touch()
    batch.judge(batch.to_its_end())
    assert not lives(left)


def test_a_batch_is_in_one_process_at_a_time(cli: Work) -> None:
    batch = Batch(cli, first="sleep 30", parallel=1)
    with batch.started() as process:
        wait_for(process, "working: one")
        answer = cli("work", "--resume", "last")
        assert answer.code == 1
        assert "in use by another process" in answer.err
        process.kill()
        process.communicate()


def test_what_is_done_is_not_done_again(cli: Work) -> None:
    batch = Batch(cli)
    first = batch.to_its_end()
    batch.judge(first)
    before = json.loads(cli("runs", "list", "--all", "--json").out)
    assert batch.to_its_end() == first
    assert json.loads(cli("runs", "list", "--all", "--json").out) == before


def test_other_terms_count_from_the_resume_on(cli: Work) -> None:
    """The batch is killed before its first run; the model of its terms says nothing then."""
    batch = Batch(cli)
    with batch.started(TREADLE_CRASH_AT="2") as process:
        process.communicate(timeout=200)
    assert process.returncode == -signal.SIGKILL
    model = cli.script({"text": "By another one."})
    answer, rows = cli.resume(
        "--model", model, "--gate", "true", "--retries", "0", "--parallel", "3"
    )
    assert answer.code == 0
    assert [row["text"] for row in rows] == ["By another one."] * 3
    assert [[gate["command"] for gate in row["gates"]] for row in rows] == [["true"]] * 3


# ---------------------------------------------------------------- what went wrong meanwhile


def stopped_in_the_first(cli: Work) -> Batch:
    """A batch that a person stopped while its first prompt was worked: there is work in its
    worktree.
    """
    batch = Batch(cli, first="echo mine > mine.txt; sleep 30", parallel=1)
    with batch.started() as process:
        while not list((cli.home / ".local/share/treadle/worktrees").glob("*/work/mine.txt")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=200)
    Path(batch.model.removeprefix("script:")).write_text(
        json.dumps([bash("echo done > done.txt"), {"text": "Done."}] * 4)
    )
    return batch


@pytest.mark.parametrize("again", ["going on", "beginning nothing"])
def test_work_in_a_worktree_outlives_its_runs_in_the_journal(cli: Work, again: str) -> None:
    """Runs and conversations may be deleted while a batch rests."""
    stopped_in_the_first(cli)
    assert cli("runs", "prune", "--older-than", "0h", "--yes").code == 0
    if again == "beginning nothing":
        cli("work", "--resume", "last", "--model", "script:nowhere.json")
        (there,) = cli.worktrees()
    else:
        answer, rows = cli.resume()
        assert answer.code == 0
        there = Path(rows[0]["folder"])
        assert (there / "done.txt").exists()
    assert (there / "mine.txt").read_text() == "mine\n"


def test_a_prompt_whose_run_cannot_be_read_keeps_no_other_from_its_end(cli: Work) -> None:
    stopped_in_the_first(cli)
    with sqlite3.connect(cli.home / ".treadle" / "journal.db") as db:
        db.execute("drop trigger entries_stay")
        db.execute("update entries set body = x'7b7d'")
    db.close()
    answer, rows = cli.resume()
    assert answer.code == 1
    assert [row["passed"] for row in rows] == [False, True, True]
    assert rows[0]["outcome"] == "error"
    assert rows[0]["folder"], "its work stays"
