"""`treadle work` as a person uses it: where prompts come from, what is worked where, how it is
judged and told.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.apps.batch.conftest import Work, bash, git
from tests.cli.conftest import KEY

DONE = {"text": "Done."}


def test_each_prompt_is_worked_in_a_conversation_of_its_own(cli: Work) -> None:
    answer, rows = cli.work("first", "second", "--model", cli.script({"text": "All done."}))
    assert answer.code == 0
    assert [
        (row["number"], row["prompt"], row["outcome"], row["text"], row["attempts"], row["turns"])
        for row in rows
    ] == [
        (1, "first", "completed", "All done.", 1, 1),
        (2, "second", "completed", "All done.", 1, 1),
    ]
    runs = json.loads(cli("runs", "list", "--json").out)
    assert [(run["prompt"], run["run_id"], run["session_id"]) for run in reversed(runs)] == [
        (row["prompt"], row["run_id"], row["session_id"]) for row in rows
    ]
    assert len({row["session_id"] for row in rows}) == 2
    assert all(
        row["tokens"] > 0 and row["duration_s"] > 0 and row["cost_usd"] is None for row in rows
    )


# ---------------------------------------------------------------- prompts


def test_prompts_come_from_arguments_and_from_the_lines_of_a_file(cli: Work) -> None:
    (cli.workspace / "todo.txt").write_text("second\n\n  third  \n")
    _, rows = cli.work("first", "--from", "todo.txt", "--model", cli.script(DONE))
    assert [row["prompt"] for row in rows] == ["first", "second", "third"]


def test_prompts_come_from_the_files_of_a_folder(cli: Work) -> None:
    folder = cli.workspace / "prompts"
    folder.mkdir()
    (folder / "b.md").write_text("the second\nhas two lines\n")
    (folder / "a.md").write_text("the first\n")
    (folder / ".hidden").write_text("nobody\n")
    (folder / "inner").mkdir()
    _, rows = cli.work("--from", "prompts", "--model", cli.script(DONE))
    assert [row["prompt"] for row in rows] == ["the first", "the second\nhas two lines"]


def test_prompts_come_from_standard_input(cli: Work) -> None:
    _, rows = cli.work("--from", "-", "--model", cli.script(DONE), stdin="one\ntwo\n")
    assert [row["prompt"] for row in rows] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "there is no prompt"),
        (("",), "a PROMPT is empty"),
        (("--from", "nowhere"), "cannot read 'nowhere'"),
        (("--from", "empty"), "'empty/nothing' is empty"),
        (("--from", "binary"), "not UTF-8"),
        (("x", "--resume", "last"), "--resume continues a batch with its original options"),
        (("--resume", "last", "--worktree"), "--worktree"),
        (("--resume", "last"), "there are none yet"),
        (("x", "--cwd", "nowhere"), "is not a directory"),
        (("x", "--model", "nobody:x"), "nobody"),
        (("x", "--model", "script:nowhere.json"), "nowhere.json"),
        (("x", "--model", "anthropic:claude-haiku-5-5"), "key"),
        (("x", "--file", "nowhere.png"), "nowhere.png"),
        (("x", "--journal", "memory:"), "a batch must be stored"),
        (("x", "--parallel", "0"), "--parallel"),
        (("x", "--gate-timeout", "inf"), "--gate-timeout"),
        (("x", "--gate-timeout", "nan"), "--gate-timeout"),
    ],
)
def test_what_is_wrong_before_the_first_run_is_said_and_leaves_nothing(
    cli: Work, arguments: tuple[str, ...], said: str
) -> None:
    (cli.workspace / "empty").mkdir()
    (cli.workspace / "empty" / "nothing").write_text("\n")
    (cli.workspace / "binary").write_bytes(b"\xff\xfe\x00")
    before = cli.checkout()
    answer = cli("work", *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert answer.out == ""
    assert not cli.shelf.exists() or not list(cli.shelf.iterdir())
    assert (cli.worktrees(), cli.branches(), cli.checkout()) == ([], [], before)


def test_a_worktree_of_a_batch_that_could_not_begin_is_gone(cli: Work) -> None:
    answer = cli(
        "work", "a", "b", "--parallel", "2", "--worktree", "--model", "script:nowhere.json"
    )
    assert answer.code == 2
    assert (cli.worktrees(), cli.branches()) == ([], [])
    assert not list((cli.home / ".local/share/treadle/worktrees").iterdir())
    assert not list(cli.shelf.iterdir())


def test_a_file_goes_with_every_prompt(cli: Work) -> None:
    (cli.workspace / "note.txt").write_text("mind the gap\n")
    _, rows = cli.work("a", "b", "--file", "note.txt", "--model", cli.script(DONE))
    for row in rows:
        entries = cli("runs", "export", row["run_id"]).events
        assert "mind the gap" in json.dumps(entries[0]["entry"]["input"])


# ---------------------------------------------------------------- worktrees


def test_each_prompt_has_a_checkout_of_its_own_and_the_persons_is_not_touched(cli: Work) -> None:
    (cli.workspace / "cart.py").write_text("one\ntwo\nthree\nmine, not committed\n")
    (cli.workspace / "mine.txt").write_text("not even added\n")
    before = cli.checkout()
    model = cli.script(
        bash("printf 'one\\n2\\n' > cart.py; echo new > new.txt; echo x > x.log; pwd"), DONE
    )
    answer, rows = cli.work("first", "second", "--worktree", "--parallel", "2", "--model", model)
    assert answer.code == 0
    assert cli.checkout() == before
    assert "uncommitted changes" in answer.err
    assert [row["diff"] for row in rows] == [{"files": 2, "added": 2, "removed": 2}] * 2
    assert sorted(cli.worktrees()) == sorted(Path(row["folder"]).resolve() for row in rows)
    assert cli.branches() == sorted(row["branch"] for row in rows)
    for row in rows:
        assert row["branch"] == f"treadle/{row['session_id']}"
        assert (Path(row["folder"]) / "new.txt").read_text() == "new\n"
        assert not (Path(row["folder"]) / "mine.txt").exists()
        assert Path(row["folder"]).name == cli.workspace.name
        assert ".treadle" not in Path(row["folder"]).parts


def test_a_worktree_without_changes_is_taken_away_with_its_branch(cli: Work) -> None:
    answer, rows = cli.work(
        "look", "--worktree", "--model", cli.script(bash("cat cart.py; echo x > ignored.log"), DONE)
    )
    assert answer.code == 0
    assert rows[0]["diff"] == {"files": 0, "added": 0, "removed": 0}
    assert (rows[0]["folder"], rows[0]["branch"]) == (None, None)
    assert (cli.worktrees(), cli.branches()) == ([], [])
    assert not list((cli.home / ".local/share/treadle/worktrees").iterdir())


@pytest.mark.parametrize("entry", [{"error": {"kind": "auth"}}, bash("true", stop="refusal")])
def test_a_worktree_of_a_prompt_that_failed_stays(cli: Work, entry: dict[str, Any]) -> None:
    answer, rows = cli.work("try", "--worktree", "--model", cli.script(bash("true"), entry))
    assert answer.code == 1
    assert [Path(rows[0]["folder"]).resolve()] == cli.worktrees()


def test_a_worktree_in_which_the_model_has_committed_stays(cli: Work) -> None:
    commit = "echo new > new.txt && git add . && git -c user.name=A -c user.email=a@b commit -qm new && echo committed"
    answer, rows = cli.work(
        "try", "--worktree", "--no-sandbox", "--model", cli.script(bash(commit), DONE)
    )
    assert answer.code == 0
    assert rows[0]["diff"] == {"files": 1, "added": 1, "removed": 0}
    assert git(cli.workspace, "log", "--format=%s", rows[0]["branch"]).split() == ["new", "first"]


def test_a_batch_in_a_folder_of_the_repository_works_in_that_folder_of_each_worktree(
    cli: Work,
) -> None:
    (cli.workspace / "inner").mkdir()
    (cli.workspace / "inner" / "x.txt").write_text("x\n")
    git(cli.workspace, "add", ".")
    git(cli.workspace, "commit", "-q", "-m", "inner")
    _, rows = cli.work(
        "try", "--worktree", "--cwd", "inner", "--model", cli.script(bash("echo y > y.txt"), DONE)
    )
    assert (Path(rows[0]["folder"]) / "inner" / "y.txt").exists()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        ("none", "not in a git repository"),
        ("unborn", "has no commit yet"),
        ("uncommitted", "is not committed"),
    ],
)
def test_a_worktree_needs_a_repository_with_a_commit(cli: Work, make: str, said: str) -> None:
    folder = cli.home / "elsewhere" if make != "uncommitted" else cli.workspace / "new"
    folder.mkdir()
    if make == "unborn":
        git(folder, "init", "-q")
    answer = cli("work", "x", "--worktree", "--cwd", str(folder), "--model", cli.script(DONE))
    assert answer.code == 2
    assert said in answer.err


def test_nothing_that_a_repository_configures_is_started(cli: Work) -> None:
    hooks = cli.workspace / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {cli.home}/fired-{name}\n")
        (hooks / name).chmod(0o755)
    git(cli.workspace, "config", "core.fsmonitor", str(hooks / "fsmonitor"))
    git(cli.workspace, "config", "diff.external", f"touch {cli.home}/fired-diff; true")
    answer, _ = cli.work(
        "a", "b", "--worktree", "--model", cli.script(bash("echo 1 > cart.py"), DONE)
    )
    assert answer.code == 0
    assert not [path.name for path in cli.home.iterdir() if path.name.startswith("fired")]


def test_without_worktrees_prompts_follow_each_other_in_one_folder(cli: Work) -> None:
    (cli.workspace / "cart.py").write_text("one\ntwo\nthree\nmine\n")
    model = cli.script(bash("cat cart.py; echo more >> cart.py; echo more >> seen"), DONE)
    answer, rows = cli.work("first", "second", "--model", model)
    assert answer.code == 0
    assert (cli.workspace / "cart.py").read_text() == "one\ntwo\nthree\nmine\nmore\nmore\n"
    assert [row["diff"] for row in rows] == [{"files": 2, "added": 2, "removed": 0}] * 2
    assert git(cli.workspace, "diff", "--cached", "--name-only") == ""


def test_in_no_repository_there_is_no_diff(cli: Work) -> None:
    folder = cli.home / "elsewhere"
    folder.mkdir()
    answer, rows = cli.work("x", "--cwd", str(folder), "--model", cli.script(bash("touch a"), DONE))
    assert (answer.code, rows[0]["diff"]) == (0, None)


def test_prompts_that_work_in_one_folder_at_once_are_warned_about_and_have_no_diff(
    cli: Work,
) -> None:
    answer, rows = cli.work("a", "b", "--parallel", "2", "--model", cli.script(DONE))
    assert "several prompts work in the same folder at the same time" in answer.err
    assert [row["diff"] for row in rows] == [None, None]


def test_a_worktree_is_trusted_as_far_as_the_project_that_it_is_a_copy_of(cli: Work) -> None:
    (cli.workspace / "AGENTS.md").write_text("Speak like a pirate.\n")
    git(cli.workspace, "add", ".")
    git(cli.workspace, "commit", "-q", "-m", "agents")
    model = cli.script(DONE)
    answer, rows = cli.work("untrusted", "--worktree", "--model", model)
    assert "is not trusted" in answer.err
    assert "pirate" not in cli("runs", "export", rows[0]["run_id"]).out
    assert cli("trust").code == 0
    answer, rows = cli.work("trusted", "--worktree", "--model", model)
    assert "trusted" not in answer.err.replace("trusted\n", "")
    assert "pirate" in cli("runs", "export", rows[0]["run_id"]).out


# ---------------------------------------------------------------- gates and other attempts


def test_a_gate_that_fails_tells_the_model_how_and_it_tries_again(cli: Work) -> None:
    gate = "test -e ok || { echo 'the file ok is missing' >&2; exit 3; }"
    model = cli.script({"text": "I think so."}, bash("touch ok"), {"text": "Now."})
    answer, rows = cli.work(
        "make it ok",
        "--gate",
        "true",
        "--gate",
        gate,
        "--gate",
        "test -s cart.py",
        "--retries",
        "2",
        "--model",
        model,
    )
    assert answer.code == 0
    (row,) = rows
    assert (row["attempts"], row["turns"], row["text"], row["passed"], row["error"]) == (
        2,
        3,
        "Now.",
        True,
        None,
    )
    assert [(gate["passed"], gate["exit_code"]) for gate in row["gates"]] == [(True, 0)] * 3
    first, second = reversed(json.loads(cli("runs", "list", "--json").out))
    assert first["session_id"] == second["session_id"] == row["session_id"]
    said = cli("runs", "export", second["run_id"]).events[0]["entry"]["input"]["parts"][-1]["text"]
    assert "exit code 3" in said
    assert "the file ok is missing" in said
    assert gate in said


def test_a_gate_that_goes_on_failing_fails_the_prompt_and_ends_the_gates(cli: Work) -> None:
    model = cli.script(DONE, DONE)
    answer, rows = cli.work(
        "x",
        "--gate",
        "echo so; exit 3",
        "--gate",
        "touch never",
        "--retries",
        "1",
        "--model",
        model,
    )
    assert answer.code == 1
    (row,) = rows
    assert (row["outcome"], row["passed"], row["attempts"]) == ("completed", False, 2)
    assert [(gate["passed"], gate["exit_code"], gate["output"]) for gate in row["gates"]] == [
        (False, 3, "so"),
        (None, None, ""),
    ]
    assert "echo so; exit 3" in row["error"]
    assert Path(row["gates"][0]["log"]).read_text() == "so\n"
    assert not (cli.workspace / "never").exists()


def test_gates_are_run_after_a_run_that_completed_and_no_other(cli: Work) -> None:
    answer, rows = cli.work(
        "x", "--gate", "touch gate", "--max-turns", "1", "--model", cli.script(bash("true"), DONE)
    )
    assert (answer.code, rows[0]["outcome"], rows[0]["gates"]) == (1, "turn_limit", [])
    assert not (cli.workspace / "gate").exists()


def test_a_run_that_failed_for_now_is_tried_again(cli: Work) -> None:
    broken = {"error": {"kind": "agent"}}
    answer, rows = cli.work(
        "x", "--retries", "1", "--model", cli.script(broken, {"text": "At last."})
    )
    assert (answer.code, rows[0]["attempts"], rows[0]["text"]) == (0, 2, "At last.")
    answer, rows = cli.work("x", "--model", cli.script(broken, {"text": "At last."}))
    assert (answer.code, rows[0]["attempts"], rows[0]["outcome"]) == (1, 1, "error")


def test_limits_count_over_all_attempts_of_a_prompt(cli: Work) -> None:
    model = cli.script(DONE, bash("true"), DONE, DONE)
    answer, rows = cli.work(
        "x", "--gate", "false", "--retries", "9", "--max-turns", "2", "--model", model
    )
    assert (answer.code, rows[0]["attempts"], rows[0]["turns"]) == (1, 2, 2)


def test_a_gate_that_does_not_end_is_ended_with_all_that_it_started(cli: Work) -> None:
    gate = "echo begun; (sleep 60; touch late) & sleep 60"
    answer, rows = cli.work("x", "--gate", gate, "--gate-timeout", "1", "--model", cli.script(DONE))
    assert answer.code == 1
    (gate_row,) = rows[0]["gates"]
    assert (gate_row["passed"], gate_row["exit_code"]) == (False, None)
    assert "still running after 1 s" in gate_row["output"]
    assert not list_processes_in(cli.workspace)


def list_processes_in(folder: Path) -> list[str]:
    found: list[str] = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            if name.isdecimal() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(name)
        except OSError:
            continue
    return found


def test_gates_get_no_key_and_what_they_say_is_without_known_secrets(cli: Work) -> None:
    secret = "swordfish-8812-canary"
    answer, rows = cli.work(
        "x",
        *("--gate", f"env; echo {secret[:9]}'{secret[9:]}'", "--model", cli.script(DONE)),
        ANTHROPIC_API_KEY=KEY,
        MY_API_TOKEN=secret,
    )
    assert answer.code == 0
    log = Path(rows[0]["gates"][0]["log"]).read_text()
    assert KEY not in log
    assert secret not in log
    assert "[redacted]" in log
    assert secret not in answer.out


# ---------------------------------------------------------------- the report


def test_the_report_as_text_and_as_markdown(cli: Work) -> None:
    model = cli.script({"text": "I did | it.\n\n```\ncode\n```"})
    text = cli(
        "work", "make | it *right*", "second", "--gate", "echo '```'; false", "--model", model
    )
    assert text.code == 1
    assert text.out.splitlines()[0].split() == [
        "#",
        "OUTCOME",
        "GATES",
        "TRIES",
        "TURNS",
        "TOKENS",
        "TIME",
        "CHANGES",
        "PROMPT",
    ]
    assert "gate failed" in text.out
    assert "0 of 2 passed" in text.out
    page = cli("work", "--resume", "last", "--output", "markdown", "-q")
    assert (page.code, page.err) == (1, "")
    lines = page.out.splitlines()
    assert lines[0] == "# 0 of 2 passed"
    cells = next(line for line in lines if line.startswith("| 1 |"))
    assert "make \\| it \\*right\\*" in cells
    assert "````text" in lines
    assert "I did | it." in lines


def test_the_report_goes_to_a_file(cli: Work) -> None:
    answer = cli(
        "work", "x", "--model", cli.script(DONE), "--output", "markdown", "-o", "report.md"
    )
    assert (answer.code, answer.out) == (0, "")
    assert (cli.workspace / "report.md").read_text().startswith("# 1 of 1 passed\n")
    assert cli("work", "x", "-o", "nowhere/report.md", "--model", cli.script(DONE)).code == 2


def test_quiet_says_nothing_but_the_report(cli: Work) -> None:
    answer = cli("work", "x", "-q", "--model", cli.script(DONE))
    assert (answer.code, answer.err) == (0, "")
    assert "1 of 1 passed" in answer.out


def test_what_happens_is_said_line_by_line(cli: Work) -> None:
    answer = cli(
        "work", "look\x1b[31m around", "--worktree", "--gate", "true", "--model", cli.script(DONE)
    )
    said = [
        line.partition("] ")[2] for line in answer.err.splitlines() if line.startswith("[1/1] ")
    ]
    assert [line.partition(":")[0] for line in said[:3]] == ["checking out", "working", "gate true"]
    assert said[3].startswith("passed · 1 turn")
    assert "\x1b" not in answer.err


def test_verbose_says_every_call_too(cli: Work) -> None:
    model = cli.script(bash("echo hello"), DONE)
    assert "[1/1] • bash echo hello" in cli("work", "x", "-v", "--model", model).err
    assert "echo hello" not in cli("work", "x", "--model", model).err


def test_one_that_went_wrong_does_not_stop_the_others(cli: Work) -> None:
    scripts = cli.script({"error": {"kind": "auth"}})
    answer, rows = cli.work("a", "b", "--parallel", "2", "--model", scripts)
    assert answer.code == 1
    assert [row["outcome"] for row in rows] == ["error", "error"]
    assert all("entry 1 is an error" in row["error"] for row in rows)
    assert "--resume" not in answer.err


# ---------------------------------------------------------------- a person


def test_a_prompt_that_waits_for_a_person_goes_on_when_they_have_answered(cli: Work) -> None:
    model = cli.script(bash("curl -s https://example.org"), DONE)
    answer = cli(
        "work",
        "a",
        "b",
        "--mode",
        "ask",
        "--on-ask",
        "wait",
        "--gate",
        "touch judged",
        "--model",
        model,
        "--output",
        "json",
    )
    rows = cli.rows(answer)
    assert answer.code == 1
    assert [row["outcome"] for row in rows] == ["approval_needed"] * 2
    assert f"treadle runs resume {rows[0]['run_id']} --approve" in answer.err
    assert "treadle work --resume" in answer.err
    (call,) = [
        entry["entry"]["call_id"]
        for entry in cli("runs", "export", rows[0]["run_id"]).events
        if entry["type"] == "approval.asked"
    ]
    assert cli("runs", "resume", rows[0]["run_id"], "--deny", call).code == 0
    answer, rows = cli.resume()
    assert [row["outcome"] for row in rows] == ["completed", "approval_needed"]
    assert rows[0]["passed"]
    assert json.loads(answer.out)["pending"] == 1


# ---------------------------------------------------------------- the sandbox


def test_gates_run_in_the_sandbox_that_the_models_commands_have(cli: Work) -> None:
    outside = Path("/var/tmp") / f"treadle-work-{os.getpid()}"
    gate = f"touch {outside}; true"
    try:
        answer = cli("work", "x", "--gate", gate, "--model", cli.script(DONE))
        assert answer.code == 0
        if "gates run without a sandbox" in answer.err:
            pytest.skip("no sandbox works here")
        assert not outside.exists()
        assert (
            cli("work", "x", "--gate", gate, "--no-sandbox", "--model", cli.script(DONE)).code == 0
        )
        assert outside.exists()
    finally:
        outside.unlink(missing_ok=True)


def test_where_no_sandbox_works_gates_run_all_the_same_and_that_is_said(cli: Work) -> None:
    path = cli.home / "bin"
    path.mkdir()
    for name in ("git", "bash", "touch"):
        found = shutil.which(name)
        assert found
        (path / name).symlink_to(found)
    answer = cli("work", "x", "--gate", "touch judged", "--model", cli.script(DONE), PATH=str(path))
    assert answer.code == 0
    assert "gates run without a sandbox" in answer.err
    assert (cli.workspace / "judged").exists()
    (cli.home / ".treadle" / "config.yaml").write_text("defaults: {sandbox: on}\n")
    answer = cli("work", "x", "--gate", "touch again", "--model", cli.script(DONE), PATH=str(path))
    assert answer.code == 2
    assert "no sandbox works" in answer.err
    assert not (cli.workspace / "again").exists()


# ---------------------------------------------------------------- agents

GUIDE = """---
description: A guide
tools: [ls]
limits: {turns: 2}
inputs: {who: {type: string}, days: {type: integer, default: 1}}
---
You advise ${who} for ${days}.
"""
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def define(cli: Work, text: str = GUIDE) -> None:
    folder = cli.workspace / ".treadle" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "guide.md").write_text(text)


def test_each_prompt_is_worked_by_the_agent_that_is_named(cli: Work) -> None:
    define(cli)
    (cli.home / "schema.json").write_text(json.dumps(CITY))
    options = (
        "--agent",
        "guide",
        "--input",
        "who=Ada",
        "--input",
        "days=3",
        "--output-schema",
        str(cli.home / "schema.json"),
        "--worktree",
    )
    look = {"name": "ls", "arguments": {"path": "."}}
    answer, rows = cli.work(
        "one",
        "two",
        *options,
        "--model",
        cli.script({"tool_calls": [look]}, {"text": 'So: {"city": "Rome"}'}),
    )
    assert answer.code == 0, answer.err
    assert [json.loads(row["text"]) for row in rows] == [{"city": "Rome"}] * 2
    runs = json.loads(cli("runs", "list", "--json").out)
    assert {run["agent"] for run in runs} == {"guide"}
    started = json.loads(cli("runs", "export", runs[0]["run_id"]).out.splitlines()[0])["entry"]
    assert json.loads(started["inputs"]) == {"who": "Ada", "days": 3}
    assert started["limits"]["turns"] == 2


def test_a_batch_that_was_killed_goes_on_with_its_agent(cli: Work) -> None:
    define(cli)
    (cli.home / "schema.json").write_text(json.dumps({"type": "string"}))
    options = (
        "--agent",
        "guide",
        "--input",
        "who=Ada",
        "--output-schema",
        str(cli.home / "schema.json"),
    )
    killed = cli(
        "work",
        "one",
        "two",
        *options,
        "--mode",
        "full",
        "--model",
        cli.script({"text": '{"result": "Rome"}'}),
        TREADLE_CRASH_AT="9",
    )
    assert killed.code == -9
    (cli.home / "schema.json").unlink()
    for contrary in ("--agent", "guide"), ("--input", "who=Bob"), ("--output-schema", "x.json"):
        refused = cli("work", "--resume", "last", *contrary)
        assert (refused.code, f"cannot be used with {contrary[0]}" in refused.err) == (2, True)
    answer, rows = cli.resume()
    assert answer.code == 0, answer.err
    assert [(row["outcome"], row["text"]) for row in rows] == [("completed", "Rome")] * 2
    assert {run["agent"] for run in json.loads(cli("runs", "list", "--json").out)} == {"guide"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--agent", "guid", "--input", "who=Ada"), "did you mean 'guide'?"),
        (("--agent", "guide"), "agent 'guide' needs the input 'who': give it with --input who=…"),
        (
            ("--agent", "guide", "--input", "whom=Ada"),
            "agent 'guide' has no input 'whom': did you mean 'who'?",
        ),
        (("--input", "who=Ada"), "--input who=Ada belongs to an agent: name it with --agent"),
        (("--output-schema", "nowhere.json"), "cannot read --output-schema 'nowhere.json'"),
    ],
)
def test_what_is_wrong_with_an_agent_is_said_before_a_batch_begins(
    cli: Work, options: tuple[str, ...], said: str
) -> None:
    define(cli)
    answer = cli("work", "one", *options, "--model", cli.script(DONE))
    assert (answer.code, said in answer.err) == (2, True), answer.err
    assert not cli.shelf.exists()
