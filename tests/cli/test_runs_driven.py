"""`runs resume`, `replay`, `fork` and `kill`: what goes on, what is left alone, and how it is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.conftest import Answer, Cli
from tests.cli.test_runs import CHARGE, crashed, rows
from tests.fork_server import command

EQUAL = "a1=2"
"""Ids of calls are the provider's: one may hold a `=`, and begin with another one."""
ASKING: list[dict[str, Any]] = [
    {
        "text": "May I?",
        "tool_calls": [
            {"name": "bash", "arguments": {"command": "echo a1 >> witness"}, "id": "a1"},
            {"name": "bash", "arguments": {"command": "echo a2 >> witness"}, "id": EQUAL},
        ],
    },
    {"text": "All done."},
]


def waiting(cli: Cli) -> str:
    answer = cli("run", "charge", "--model", cli.script(*ASKING), "--on-ask", "wait")
    assert answer.code == 4
    return rows(cli)[0]["run_id"]


def entries(cli: Cli, run: str = "last") -> list[dict[str, Any]]:
    return cli("runs", "export", run).events


def witness(cli: Cli) -> list[str]:
    file = cli.workspace / "witness"
    return file.read_text().split() if file.exists() else []


# ---------------------------------------------------------------- resume


def test_a_stopped_run_goes_on_and_does_not_do_again_what_had_begun(cli: Cli) -> None:
    run_id = crashed(cli)
    resumed = cli("runs", "resume", run_id, "--output", "stream-json")
    assert resumed.code == 0
    assert resumed.events[-1]["type"] == "run_end"
    assert [event["unknown"] for event in resumed.events if event["type"] == "tool_call_end"] == [
        True
    ]
    assert witness(cli) == ["a1"]


def test_a_finished_run_is_left_alone_and_its_result_printed(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "All done."})).code == 0
    before = entries(cli)
    text = cli("runs", "resume", "last")
    assert (text.code, text.out) == (0, "All done.\n")
    assert "has already finished; this is its result" in text.err
    assert cli("runs", "resume", "last", "-q").err == ""
    end = cli("runs", "resume", "last", "--output", "json").json
    assert (end["type"], end["outcome"], end["text"]) == ("run_end", "completed", "All done.")
    assert [
        event["type"] for event in cli("runs", "resume", "last", "--output", "stream-json").events
    ] == ["run_end"]
    assert entries(cli) == before


def test_a_finished_run_exits_by_its_outcome(cli: Cli) -> None:
    assert (
        cli("run", "x", "--model", cli.script(*CHARGE), "--mode", "full", "--max-turns", "1").code
        == 3
    )
    assert cli("runs", "resume", "last").code == 3
    assert cli("run", "x", "--model", cli.script({"error": {"kind": "auth"}})).code == 1
    assert cli("runs", "resume", "last").code == 1


def test_a_run_that_waits_says_for_what_and_stays_as_it_is(cli: Cli) -> None:
    run_id = waiting(cli)
    before = entries(cli)
    answer = cli("runs", "resume", run_id)
    assert answer.code == 4
    assert f"treadle runs resume {run_id} --approve a1 --approve {EQUAL}" in answer.err
    assert "waits as a1" in answer.err
    assert cli("runs", "resume", run_id, "--output", "json").json["outcome"] == "approval_needed"
    assert entries(cli) == before
    assert rows(cli)[0]["status"] == "waiting"


def test_a_person_answers_each_call_of_its_own(cli: Cli) -> None:
    waiting(cli)
    half = cli("runs", "resume", "last", "--approve", "a1")
    assert half.code == 4
    assert f"waits as {EQUAL}" in half.err
    assert witness(cli) == ["a1"]
    assert cli("runs", "resume", "last", "--deny", f"{EQUAL}=too dear").code == 0
    assert witness(cli) == ["a1"]
    results = {
        entry["call_id"]: entry["entry"]["result"]["content"]
        for entry in entries(cli)
        if entry["type"] == "tool.finished"
    }
    assert "too dear" in results[EQUAL]
    assert "denied by user: too dear" in cli("runs", "show", "last").out


def test_a_person_says_what_a_call_gave(cli: Cli) -> None:
    run_id = crashed(cli)
    assert cli("runs", "resume", run_id, "--on-unknown", "wait").code == 4
    answer = cli("runs", "resume", run_id, "--result", "a1=charged = yes")
    assert answer.code == 0
    assert [
        entry["entry"]["result"]["content"]
        for entry in entries(cli)
        if entry["type"] == "tool.finished"
    ] == ["charged = yes"]
    assert witness(cli) == ["a1"]
    assert "supplied" in cli("runs", "show", "last").out


def test_answers_that_make_no_sense_are_refused_and_nothing_is_done(cli: Cli) -> None:
    waiting(cli)
    before = entries(cli)
    for options in (
        ["--approve", "a1", "--deny", "a1"],
        ["--result", "a1"],
        ["--approve", "nope"],
        ["--cwd", "nowhere"],
        ["--model", "nonsense"],
    ):
        answer = cli("runs", "resume", "last", *options)
        assert answer.code == 2
        assert len(answer.err.splitlines()) == 1
    assert entries(cli) == before


def test_another_mode_lets_waiting_calls_run(cli: Cli) -> None:
    waiting(cli)
    assert cli("runs", "resume", "last", "--mode", "full").code == 0
    assert sorted(witness(cli)) == ["a1", "a2"]
    assert "now with mode full" in cli("runs", "show", "last").out


def test_a_run_whose_directory_is_gone_needs_another_one(cli: Cli, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    run_id = cli(
        "run",
        "x",
        "--model",
        cli.script(*ASKING),
        "--on-ask",
        "wait",
        "--cwd",
        str(gone),
        "--output",
        "json",
    ).json["run_id"]
    gone.rmdir()
    answer = cli("runs", "resume", run_id, "--approve", "a1", "--approve", EQUAL)
    assert answer.code == 2
    assert "--cwd" in answer.err
    assert (
        cli(
            "runs",
            "resume",
            run_id,
            "--approve",
            "a1",
            "--approve",
            EQUAL,
            "--cwd",
            str(cli.workspace),
        ).code
        == 0
    )
    assert sorted(witness(cli)) == ["a1", "a2"]


PROGRAM = """
import sys
import anyio
from treadle import Agent, Runtime, ToolContext, tool
from treadle.testing import ScriptedModel

leaf = Agent(name="leaf", description="", model=ScriptedModel([{"text": "found"}]))

@tool
async def research(ctx: ToolContext, question: str) -> str:
    return (await ctx.spawn(leaf, question)).text

@tool(needs_approval=True)
async def pay() -> str:
    return "paid"

script = [{"tool_calls": [{"name": "research", "arguments": {"question": "where?"}}]}, {"tool_calls": [{"name": "pay", "arguments": {}}]}]
boss = Agent(name="boss", description="", model=ScriptedModel(script), tools=[research, pay])

async def main() -> None:
    async with Runtime.open(sys.argv[1]) as runtime:
        await runtime.run(boss, "go", on_ask="wait")

anyio.run(main)
"""


def test_an_agent_from_code_is_resumed_there_and_its_runs_are_a_tree(cli: Cli) -> None:
    url = f"sqlite:///{cli.home / 'code.db'}"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, url],
        check=True,
        cwd=cli.workspace,
        env=cli.environment(),
        timeout=200,
    )
    listed = {row["agent"]: row for row in rows(cli, "--journal", url)}
    assert listed["leaf"]["parent_run_id"] == listed["boss"]["run_id"]
    shown = cli("runs", "show", "last", "--journal", url).out
    assert shown.startswith(listed["boss"]["run_id"])
    assert f"↳ leaf  {listed['leaf']['run_id']}" in shown
    for words in (["resume", "last", "--mode", "full"], ["fork", "last", "--turn", "1"]):
        answer = cli("runs", *words, "--journal", url)
        assert answer.code == 2
        assert "the agent 'boss'" in answer.err


# ---------------------------------------------------------------- replay and fork


def test_a_replay_prints_what_the_run_had_printed(cli: Cli) -> None:
    script = cli.script(*CHARGE)
    first = cli("run", "x", "--model", script, "--mode", "full", "--output", "stream-json")
    Path(script.removeprefix("script:")).unlink()
    again = cli("runs", "replay", "last", "--output", "stream-json")
    assert again.code == 0
    assert [without_place(event) for event in again.events] == [
        without_place(event) for event in first.events if "id" in event
    ]
    assert cli("runs", "replay", "last").out == "All done.\n"
    assert witness(cli) == ["a1"]


def without_place(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("seq", "at")}


def test_a_replay_of_a_run_that_is_not_finished_ends_all_the_same(cli: Cli) -> None:
    run_id = crashed(cli)
    assert cli("runs", "replay", run_id, "--output", "stream-json").events[-1]["outcome"] == "error"
    waits = cli("runs", "replay", waiting(cli), "--output", "json")
    assert (waits.code, waits.json["outcome"]) == (0, "approval_needed")


def test_a_fork_goes_on_with_another_text_and_another_result(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script(*CHARGE), "--mode", "full").code == 0
    parent = rows(cli)[0]["run_id"]
    forked = cli(
        "runs",
        "fork",
        parent,
        "--turn",
        "1",
        "--text",
        "Go on.",
        "--result",
        "a1=declined",
        "--model",
        cli.script({"text": "Sorry."}),
        "-o",
        "answer.txt",
    )
    assert (forked.code, forked.out) == (0, "")
    assert (cli.workspace / "answer.txt").read_text() == "Sorry.\n"
    assert witness(cli) == ["a1"]
    assert "declined" in cli("sessions", "show", "last").out


def test_a_fork_beyond_the_end_is_refused(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    answer = cli("runs", "fork", "last", "--turn", "7")
    assert answer.code == 2
    assert "has 1 turn" in answer.err
    assert len(rows(cli)) == 1


# ---------------------------------------------------------------- kill


def started(cli: Cli) -> subprocess.Popen[str]:
    """Start a run in a process of its own. Returns when its call runs."""
    slow = {"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 60"}, "id": "s1"}]}
    options = ("--mode", "full", "--output", "stream-json")
    words = command(
        "treadle", "run", "slow", "--model", cli.script(slow, {"text": "late"}), *options
    )
    process = subprocess.Popen(
        words,
        cwd=cli.workspace,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == "tool_call_start":
            return process
    raise AssertionError(process.communicate())


def ended(process: subprocess.Popen[str]) -> Answer:
    out, err = process.communicate(timeout=200)
    return Answer(process.returncode, out, err)


def test_a_run_is_ended_in_the_process_that_drives_it(cli: Cli) -> None:
    process = started(cli)
    try:
        assert rows(cli)[0]["status"] == "running"
        assert "… running" in cli("runs", "show", "last").out
        busy = cli("runs", "resume", "last")
        assert busy.code == 1
        assert "busy" not in busy.err
        assert "Traceback" not in busy.err
        words = command("treadle", "runs", "resume", "last", "--wait")
        waiting = subprocess.Popen(
            words,
            cwd=cli.workspace,
            env=cli.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr is not None
        assert "waiting until no other process drives run" in waiting.stderr.readline()
        killed = cli("runs", "kill", "last")
        assert (killed.code, killed.out.split()[-1]) == (0, "cancelled")
        assert ended(process).code == 130
        assert ended(waiting).code == 130, "the result of the run that ended meanwhile"
    finally:
        process.kill()
        process.wait()
    assert rows(cli)[0]["outcome"] == "cancelled"
    again = cli("runs", "kill", "last", "--json")
    assert again.json["outcome"] == "cancelled"


def test_a_stopped_run_is_closed(cli: Cli) -> None:
    run_id = crashed(cli)
    assert cli("runs", "kill", run_id).code == 0
    shown = cli("runs", "show", run_id).out
    assert "cancelled" in shown.splitlines()[0]
    assert [entry["type"] for entry in entries(cli)][-1] == "run.finished"
    assert "already finished" in cli("runs", "kill", run_id).out


def test_the_command_line_of_the_next_step_names_the_journal_that_was_named(cli: Cli) -> None:
    url = f"sqlite:///{cli.home / 'else where.db'}"
    assert (
        cli("run", "x", "--model", cli.script(*ASKING), "--on-ask", "wait", "--journal", url).code
        == 4
    )
    answer = cli("runs", "resume", "last", "--journal", url)
    assert f"--journal '{url}'" in answer.err
    assert json.loads(cli("runs", "list", "--json").out) == []
