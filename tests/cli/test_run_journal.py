"""`treadle run` and its journal: what is kept where, conversations, what waits, and what is left
after a death.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer, Cli
from treadle import Runtime

SUICIDE = "echo once >> witness; kill -9 $PPID; sleep 20"
"""Ends the process that runs it, in the middle of the call."""


def bash(command: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command, **arguments}}]}


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def runs(cli: Cli) -> list[dict[str, Any]]:
    return json.loads(cli("runs", "list", "--json").out)


def line_of(answer: Answer, beginning: str) -> list[str]:
    """The arguments of a command that stderr says can be typed."""
    return shlex.split(
        next(line for line in answer.err.splitlines() if line.strip().startswith(beginning))
    )[1:]


# ---------------------------------------------------------------- where a run is kept


def test_a_run_is_kept_in_the_home_for_its_owner_alone(cli: Cli):
    assert cli("run", "Weave.", "-q", "--model", cli.script({"text": "Woven."})).code == 0
    folder = cli.home / ".treadle"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "journal.db").stat().st_mode) == 0o600
    (kept,) = runs(cli)
    assert (kept["outcome"], kept["turns"]) == ("completed", 1)


def test_the_option_stands_over_the_variable_and_the_file(cli: Cli):
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle/config.yaml").write_text("journal: sqlite:///configured.db\n")
    model = cli.script({"text": "hi"})
    assert cli("run", "x", "--model", model).code == 0
    assert cli("run", "x", "--model", model, TREADLE_JOURNAL="sqlite:///named.db").code == 0
    assert (
        cli(
            "run",
            "x",
            "--model",
            model,
            "--journal",
            "sqlite:///given.db",
            TREADLE_JOURNAL="sqlite:///named.db",
        ).code
        == 0
    )
    assert {"configured.db", "named.db", "given.db"} <= files_below(cli.workspace)
    assert not (cli.home / ".treadle/journal.db").exists()


@pytest.mark.parametrize("arguments", [("--ephemeral",), ("--journal", "memory:")])
def test_an_ephemeral_run_writes_nothing_anywhere(cli: Cli, arguments: tuple[str, ...]):
    model = cli.script(bash("echo hi"), {"text": "hi"})
    before = files_below(cli.home.parent)
    answer = cli("run", "x", "--mode", "full", *arguments, "--model", model, TMPDIR=str(cli.home))
    assert (answer.code, answer.out) == (0, "hi\n")
    assert files_below(cli.home.parent) == before


def test_an_ephemeral_run_stands_over_the_variable(cli: Cli):
    assert (
        cli(
            "run",
            "x",
            "--ephemeral",
            "--model",
            cli.script({"text": "hi"}),
            TREADLE_JOURNAL="sqlite:///named.db",
        ).code
        == 0
    )
    assert files_below(cli.workspace) == set()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--ephemeral", "--journal", "sqlite:///x.db"), "--journal"),
        (("--ephemeral", "--session", "ada"), "--session"),
        (("--ephemeral", "--continue"), "--continue"),
        (("--ephemeral", "--on-ask", "wait"), "--on-ask wait"),
        (("--ephemeral", "--on-unknown", "wait"), "--on-unknown wait"),
        (("--continue", "--session", "ada"), "--session"),
        (("--session", "a/b"), "'a/b'"),
        (("--session", ""), "not a valid session ID"),
        (("--journal", "runs.db"), "sqlite:///FILE"),
    ],
)
def test_what_contradicts_itself_is_wrong_use(cli: Cli, arguments: tuple[str, ...], named: str):
    answer = cli("run", "x", *arguments, "--model", cli.script({"text": "hi"}))
    assert (answer.code, answer.out) == (2, "")
    assert named in answer.err


def test_a_place_that_cannot_hold_a_journal_is_said_before_the_model_is_asked(cli: Cli):
    (cli.workspace / "text.db").write_text("no journal\n" * 200)
    with closing(sqlite3.connect(cli.workspace / "other.db")) as other:
        other.execute("create table theirs(x)")
    assert (
        cli(
            "run", "x", "--model", cli.script({"text": "hi"}), "--journal", "sqlite:///newer.db"
        ).code
        == 0
    )
    with closing(sqlite3.connect(cli.workspace / "newer.db")) as newer:
        newer.execute("pragma user_version = 9999")
    (cli.workspace / "folder.db").mkdir()
    for name in ("text.db", "other.db", "newer.db", "folder.db", "text.db/journal.db"):
        answer = cli(
            "run",
            "x",
            "--output",
            "stream-json",
            "--model",
            cli.script({"text": "hi"}),
            "--journal",
            f"sqlite:///{name}",
        )
        assert (answer.code, answer.out) == (2, ""), name
        assert "--ephemeral" in answer.err, answer.err
        assert str(cli.workspace / name) in answer.err or "text.db" in answer.err, answer.err


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_home_is_said(cli: Cli):
    (cli.home / ".treadle").mkdir(mode=0o500)
    answer = cli("run", "x", "--model", cli.script({"text": "hi"}))
    assert answer.code == 2
    assert "cannot be written" in answer.err


# ---------------------------------------------------------------- conversations


def test_every_run_begins_a_conversation_of_its_own(cli: Cli):
    model = cli.script({"text": "hi"})
    first, second = (cli("run", "x", "--output", "json", "--model", model).json for _ in range(2))
    assert first["session_id"] != second["session_id"]
    assert [first["text"], second["text"]] == ["hi", "hi"]


async def test_continue_goes_on_with_the_conversation_and_its_script_in_a_new_process(cli: Cli):
    model = cli.script({"text": "Hello, Ada."}, {"text": "Your name is Ada."})
    first = cli("run", "I am Ada.", "--output", "json", "--model", model).json
    second = cli("run", "--continue", "What is my name?", "--output", "json", "--model", model).json
    assert (second["text"], second["session_id"]) == ("Your name is Ada.", first["session_id"])
    async with Runtime.open(f"sqlite:///{cli.home / '.treadle/journal.db'}") as runtime:
        said = [message.text for message in await runtime.messages(first["session_id"])]
    assert said == ["I am Ada.", "Hello, Ada.", "What is my name?", "Your name is Ada."]


def test_continue_means_the_newest_conversation_whose_last_run_worked_here(cli: Cli):
    for name in ("here", "there"):
        (cli.workspace / name).mkdir()
    model = cli.script({"text": "1"}, {"text": "2"}, {"text": "3"})

    def run(*arguments: str) -> str:
        return cli("run", "x", "--output", "json", "--model", model, *arguments).json["session_id"]

    assert run("--session", "stays", "--cwd", "here") == "stays"
    run("--session", "moves", "--cwd", "here")
    run("--session", "moves", "--cwd", "there")
    assert run("--continue", "--cwd", "here") == "stays"
    assert run("--continue", "--cwd", "there") == "moves"


def test_continue_where_nothing_was_begun_says_what_to_do(cli: Cli):
    answer = cli("run", "x", "--continue", "--model", cli.script({"text": "hi"}))
    assert (answer.code, answer.out) == (2, "")
    assert all(
        word in answer.err for word in (str(cli.workspace), "--session", "treadle sessions list")
    )


def test_a_run_that_cannot_start_leaves_no_conversation(cli: Cli):
    assert cli("run", "x", "--session", "ada", "--model", "script:none.json").code == 2
    assert cli("sessions", "list", "--json").json == []


# ---------------------------------------------------------------- a death, and after it


def test_a_killed_run_is_in_the_way_of_its_conversation_until_it_goes_on(cli: Cli):
    model = cli.script(bash(SUICIDE), {"text": "It may have happened: I look."}, {"text": "next"})
    ada = ("--session", "ada", "--model", model)
    killed = cli("run", "x", "--mode", "full", "--no-sandbox", *ada, forked=True)
    assert killed.code == -signal.SIGKILL
    run_id = runs(cli)[0]["run_id"]

    busy = cli("run", "y", "--session", "ada", "--model", model)
    assert (busy.code, busy.out) == (1, "")
    assert f"treadle runs resume {run_id}" in busy.err

    resumed = cli("runs", "resume", run_id)
    assert (resumed.code, resumed.out) == (0, "It may have happened: I look.\n")
    assert (cli.workspace / "witness").read_text() == "once\n"
    assert cli("run", "y", "--continue", "--model", model).out == "next\n"


@pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed: nothing would be confined"
)
def test_going_on_without_the_sandbox_has_to_be_said_again(cli: Cli):
    outside = cli.home.parent / "outside"
    outside.mkdir()
    for number, (options, written) in enumerate(((["--no-sandbox"], True), ([], False))):
        model = cli.script(bash(f"echo out > {outside}/{number}"), {"text": "done"})
        assert (
            cli(
                "run", "x", "--mode", "full", "--no-sandbox", "--model", model, TREADLE_CRASH_AT="4"
            ).code
            == -signal.SIGKILL
        )
        assert cli("runs", "resume", "last", *options).code == 0
        assert (outside / str(number)).exists() is written


@pytest.mark.parametrize(("boundary", "unknown"), [(2, False), (4, False), (6, True)])
def test_a_call_runs_after_a_death_unless_its_start_is_in_the_journal(
    cli: Cli, boundary: int, unknown: bool
):
    model = cli.script(bash("echo once >> witness"), {"text": "done"})
    assert (
        cli("run", "x", "--mode", "full", "--model", model, TREADLE_CRASH_AT=str(boundary)).code
        == -signal.SIGKILL
    )
    assert not (cli.workspace / "witness").exists()
    assert cli("runs", "resume", "last").out == "done\n"
    assert (cli.workspace / "witness").exists() is not unknown
    assert ('"status":"unknown"' in cli("runs", "export", "last").out) is unknown


def test_a_run_that_died_before_it_was_kept_never_began(cli: Cli):
    assert (
        cli("run", "x", "--model", cli.script({"text": "hi"}), TREADLE_CRASH_AT="1").code
        == -signal.SIGKILL
    )
    assert runs(cli) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_is_closed_in_the_journal(cli: Cli, number: signal.Signals):
    os.mkfifo(cli.workspace / "alive")
    model = cli.script(bash("exec 3>alive; echo up >&3; sleep 100"), {"text": "no"}, {"text": "on"})
    command = [sys.executable, "-m", "treadle", "run", "x", "--mode", "full", "--model", model]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.environment(),
        cwd=cli.workspace,
    ) as process:
        with (cli.workspace / "alive").open() as alive:
            assert alive.readline() == "up\n"
            process.send_signal(number)
            assert alive.read() == ""
        _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    (kept,) = runs(cli)
    assert kept["outcome"] == "cancelled"
    shown = line_of(Answer(130, "", err.decode()), "treadle runs show")
    assert shown[:3] == ["runs", "show", kept["run_id"]]
    assert cli("run", "--continue", "go on", "--model", model).code == 0


def test_what_goes_on_with_a_run_is_its_own_conversation_however_new_another_one_is(cli: Cli):
    model = cli.script({"error": {"kind": "invalid"}}, {"text": "on"})
    assert (
        cli("run", "x", "--session", "ada's", "--model", model, TREADLE_CRASH_AT="4").code
        == -signal.SIGKILL
    )
    run_id = runs(cli)[0]["run_id"]
    assert cli("run", "another", "--model", cli.script({"text": "hi"})).code == 0
    ended = cli("runs", "resume", run_id)
    assert ended.code == 1
    assert f"treadle runs show {run_id} shows" in ended.err
    assert """treadle run --session 'ada'"'"'s' … continues it""" in ended.err


# ---------------------------------------------------------------- what waits for a person


def test_a_call_that_needs_a_person_can_wait_for_one(cli: Cli):
    model = cli.script(
        {
            "tool_calls": [
                *bash("echo one >> made")["tool_calls"],
                *bash("echo two >> made")["tool_calls"],
            ]
        },
        {"text": "made"},
    )
    answer = cli("run", "x", "--on-ask", "wait", "--model", model)
    assert (answer.code, answer.out) == (4, "")
    assert "waiting for an answer" in answer.err
    assert "nobody was here" not in answer.err
    assert not (cli.workspace / "made").exists()
    assert runs(cli)[0]["status"] == "waiting"

    approving = line_of(answer, "treadle runs resume")
    assert approving.count("--approve") == 2
    approved = cli(*approving)
    assert (approved.code, approved.out) == (0, "made\n")
    assert sorted((cli.workspace / "made").read_text().split()) == ["one", "two"]


def test_the_command_that_answers_names_the_journal_that_was_given(cli: Cli):
    model = cli.script(bash("echo one >> made"), {"text": "made"})
    answer = cli(
        "run",
        "x",
        "-q",
        "--output",
        "json",
        "--on-ask",
        "wait",
        "--journal",
        "sqlite:///my runs.db",
        "--model",
        model,
    )
    assert (answer.code, answer.json["outcome"]) == (4, "approval_needed")
    assert cli(*line_of(answer, "treadle runs resume")).out == "made\n"


def test_an_outcome_that_nobody_knows_can_wait_for_one_who_does(cli: Cli):
    slow = bash("echo once >> witness; sleep 20", timeout_s=0.3)
    answer = cli(
        "run",
        "x",
        "--mode",
        "full",
        "--on-unknown",
        "wait",
        "--model",
        cli.script(slow, {"text": "told"}),
    )
    assert (answer.code, answer.out) == (4, "")
    assert "it is unknown whether it took effect" in answer.err
    resume = line_of(answer, "treadle runs resume")
    call_id = resume[resume.index("--approve") + 1]
    told = cli("runs", "resume", resume[2], "--result", f"{call_id}=it was done")
    assert (told.code, told.out) == (0, "told\n")
    assert (cli.workspace / "witness").read_text() == "once\n"


def test_an_outcome_that_nobody_knows_can_fail_the_run(cli: Cli):
    slow = bash("sleep 20", timeout_s=0.3)
    answer = cli(
        "run",
        "x",
        "--mode",
        "full",
        "--on-unknown",
        "fail",
        "--output",
        "json",
        "--model",
        cli.script(slow, {"text": "no"}),
    )
    assert (answer.code, answer.json["outcome"]) == (1, "error")


def test_what_is_completed_or_not_kept_names_no_run(cli: Cli):
    assert "treadle runs" not in cli("run", "x", "--model", cli.script({"text": "hi"})).err
    refused = cli.script({"text": "no", "stop": "refusal"})
    assert "treadle runs" not in cli("run", "x", "--ephemeral", "--model", refused).err
    assert "treadle runs" not in cli("run", "x", "-q", "--model", refused).err
    assert "treadle runs show run_" in cli("run", "x", "--output", "json", "--model", refused).err
