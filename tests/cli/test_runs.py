from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KEY, Cli
from treadle._internal.terminal_text import columns

CHARGE: list[dict[str, Any]] = [
    {
        "text": "I charge now.",
        "tool_calls": [
            {"name": "bash", "arguments": {"command": "echo a1 >> witness"}, "id": "a1"}
        ],
    },
    {"text": "All done."},
]


def crashed(cli: Cli) -> str:
    """A run whose process died between the effect of its call and the result."""
    model = cli.script(*CHARGE)
    for boundary in range(3, 12):
        assert (
            cli(
                "run",
                "charge the card",
                "--model",
                model,
                "--mode",
                "full",
                TREADLE_CRASH_AT=str(boundary),
            ).code
            == -9
        )
        if (cli.workspace / "witness").exists():
            break
    return rows(cli)[0]["run_id"]


def rows(cli: Cli, *options: str) -> list[dict[str, Any]]:
    answer = cli("runs", "list", "--json", *options)
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


# ---------------------------------------------------------------- list


def test_runs_are_listed_by_user_tag_status_and_agent(cli: Cli) -> None:
    for prompt, more in (
        ("one", ["--user", "ada", "--tag", "eu", "--tag", "demo", "--metadata", "order=7"]),
        ("two", ["--user", "bob", "--tag", "eu"]),
        ("three", []),
    ):
        answer = cli("run", prompt, "--model", cli.script({"text": "Done."}), *more)
        assert answer.code == 0, answer.err

    def prompts(*options: str) -> list[str]:
        return [row["prompt"] for row in rows(cli, *options)]

    assert prompts("--tag", "eu") == ["two", "one"]
    assert prompts("--tag", "eu", "--user", "ada") == ["one"]
    assert prompts("--status", "completed", "--agent", "treadle") == ["three", "two", "one"]
    assert prompts("--status", "waiting") == []
    assert rows(cli, "--tag", "demo")[0]["metadata"] == {"order": "7"}
    listed = cli("runs", "list", "--tag", "x", "--user", "ada")
    assert "There are no runs with the tag 'x' and user 'ada'." in listed.out
    costs = json.loads(cli("runs", "cost", "--by", "tag", "--json").out)
    assert {row["tag"]: row["runs"] for row in costs["rows"]} == {"eu": 2, "demo": 1, None: 1}
    refused = cli("run", "four", "--metadata", "order")
    assert (refused.code, "K=V" in refused.err) == (2, True), refused.err


def test_where_there_is_no_journal_there_are_no_runs_and_none_is_made(cli: Cli) -> None:
    listed = cli("runs", "list")
    assert listed.code == 0
    assert "no runs yet" in listed.out
    assert rows(cli) == []
    for command in (
        ["show", "last"],
        ["resume", "last"],
        ["replay", "x"],
        ["export", "x"],
        ["kill", "x"],
        ["diff", "x", "y"],
    ):
        answer = cli("runs", *command)
        assert (answer.code, answer.out) == (2, "")
        assert "no runs yet" in answer.err
    assert not (cli.home / ".treadle").exists()


def test_runs_are_listed_with_the_newest_first(cli: Cli) -> None:
    for prompt in ("first", "second", "third"):
        assert cli("run", prompt, "--model", cli.script({"text": "ok"})).code == 0
    listed = rows(cli)
    assert [row["prompt"] for row in listed] == ["third", "second", "first"]
    assert [row["prompt"] for row in rows(cli, "--limit", "1")] == ["third"]
    assert [row["prompt"] for row in rows(cli, "--session", listed[2]["session_id"])] == ["first"]
    assert listed[0] | {
        "run_id": "",
        "session_id": "",
        "started_at": "",
        "updated_at": "",
        "model": "",
        "usage": {},
        "total": {},
    } == {
        "run_id": "",
        "session_id": "",
        "parent_run_id": None,
        "forked_from": None,
        "agent": "treadle",
        "model": "",
        "mode": "ask",
        "cwd": str(cli.workspace),
        "status": "finished",
        "outcome": "completed",
        "started_at": "",
        "updated_at": "",
        "prompt": "third",
        "turns": 1,
        "tool_calls": 0,
        "usage": {},
        "cost_usd": None,
        "total": {},
        "queue": None,
        "tenant": None,
        "user_id": None,
        "parked": None,
        "imported": None,
        "lease_s": None,
        "tags": [],
        "metadata": {},
    }


def test_the_table_fits_and_names_a_run_so_that_it_is_found(cli: Cli) -> None:
    assert cli("run", "x " * 200 + "\x1b[31m", "--model", cli.script({"text": "ok"})).code == 0
    table = cli("runs", "list").out
    assert "\x1b" not in table
    assert max(map(columns, table.splitlines())) <= 100
    shown = cli("runs", "show", table.splitlines()[1].split()[0])
    assert shown.out.startswith(rows(cli)[0]["run_id"])


def test_ids_of_the_table_are_told_from_those_that_it_leaves_out(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    run_id = rows(cli)[0]["run_id"]
    exported = cli("runs", "export", run_id).out
    for end in "ab":
        file = cli.workspace / f"{end}.jsonl"
        file.write_text(exported.replace(run_id, "run_0123456789abcdef" + end * (len(run_id) - 20)))
        assert cli("runs", "import", str(file)).code == 0
    for options in (["--limit", "1"], ["--limit", "2"], ["--all"]):
        for line in cli("runs", "list", *options).out.splitlines()[1:]:
            assert cli("runs", "show", line.split()[0]).code == 0, options


# ---------------------------------------------------------------- which run is meant


def test_an_unknown_run_is_refused_with_the_nearest_ids(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    run_id = rows(cli)[0]["run_id"]
    wrong = run_id[:-1] + ("0" if run_id[-1] != "0" else "1")
    for command in (
        ["show"],
        ["resume"],
        ["replay"],
        ["fork", "--turn", "1"],
        ["kill"],
        ["export"],
        ["diff", "last"],
    ):
        answer = cli("runs", *command, wrong)
        assert answer.code == 2
        assert answer.err.strip().splitlines() == [
            f"treadle: unknown run {wrong!r}. Did you mean {run_id}?"
        ]


def test_the_beginning_of_several_ids_is_refused(cli: Cli) -> None:
    for prompt in "ab":
        assert cli("run", prompt, "--model", cli.script({"text": "ok"})).code == 0
    answer = cli("runs", "show", "run_")
    assert answer.code == 2
    assert "matches 2 ids" in answer.err
    assert "unknown run ''" in cli("runs", "show", "").err


# ---------------------------------------------------------------- show


def test_the_timeline_tells_what_is_unknown_and_who_went_on(cli: Cli) -> None:
    run_id = crashed(cli)
    stopped = cli("runs", "show", run_id)
    assert stopped.code == 0
    assert "stopped" in stopped.out.splitlines()[0]
    assert "it is unknown whether it took effect" in stopped.out
    assert f"treadle runs resume {run_id}" in stopped.out
    assert cli("runs", "resume", run_id).code == 0
    shown = cli("runs", "show", "last").out
    assert "THE PROCESS STOPPED HERE" in shown
    assert "by driver 2" in shown
    assert "? UNKNOWN" in shown
    assert "? 1 call may or may not have taken effect: bash (a1)" in shown
    assert (cli.workspace / "witness").read_text() == "a1\n"


def test_the_timeline_shows_retries_errors_and_long_texts_in_a_hundred_columns(cli: Cli) -> None:
    model = cli.script(
        {"error": {"kind": "rate_limit", "status": 529, "retry_after_s": 0.01}},
        {
            "text": "日本語 " * 100,
            "tool_calls": [
                {"name": "read", "arguments": {"path": "n" * 300}},
                {"name": "bash", "arguments": {"command": "echo \x1b[2J" * 40}},
            ],
        },
        {"text": "word " * 400},
    )
    assert cli("run", "\x1b]0;title\x07go", "--model", model, "--mode", "full").code == 0
    for options in ([], ["-v"]):
        shown = cli("runs", "show", "last", *options).out
        assert "! attempt 1 failed" in shown
        assert "rate_limit 529" in shown
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert max(map(columns, shown.splitlines())) <= 100


def test_show_as_json_holds_the_row_and_the_entries(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script(*CHARGE), "--mode", "full").code == 0
    shown = cli("runs", "show", "last", "--json").json
    assert {name: value for name, value in shown.items() if name != "entries"} == rows(cli)[0]
    assert [entry["seq"] for entry in shown["entries"]] == list(
        range(1, shown["entries"][-1]["seq"] + 1)
    )
    assert [
        entry.get("call_id") for entry in shown["entries"] if entry["type"].startswith("tool.")
    ] == ["a1", "a1"]


def test_a_fork_stands_under_the_run_that_it_came_from(cli: Cli) -> None:
    assert (
        cli("run", "x", "--model", cli.script(*CHARGE, {"text": "Another."}), "--mode", "full").code
        == 0
    )
    parent = rows(cli)[0]["run_id"]
    assert cli("runs", "fork", parent, "--turn", "1", "--text", "and now?").code == 0
    forked = rows(cli)[0]
    assert forked["forked_from"] == parent
    assert f"forked into {forked['run_id']}" in cli("runs", "show", parent).out
    assert f"from {parent} after turn 1" in cli("runs", "show", "last").out
    assert "⑂ and now?" in cli("runs", "list").out


# ---------------------------------------------------------------- diff


def test_where_two_runs_part_is_shown_side_by_side(cli: Cli) -> None:
    for words in ("left words", "right words"):
        assert cli("run", "x", "--model", cli.script({"text": words})).code == 0
    compared = cli("runs", "diff", rows(cli)[1]["run_id"], "last")
    assert compared.code == 0
    assert any("left words" in line and "right words" in line for line in compared.out.splitlines())
    assert max(map(columns, compared.out.splitlines())) <= 100
    told = cli("runs", "diff", "last", "last", "--json").json
    assert told["is_same"] is True
    assert told["a"]["run_id"] == rows(cli)[0]["run_id"]
    assert "The runs are the same" in cli("runs", "diff", "last", "last").out


# ---------------------------------------------------------------- journals


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_the_journal_is_named_by_an_option_a_variable_or_the_users_file(cli: Cli, how: str) -> None:
    url = f"sqlite:///{cli.home / 'elsewhere.db'}"
    options = ("--journal", url) if how == "flag" else ()
    environment = {"TREADLE_JOURNAL": url} if how == "variable" else {}
    if how == "file":
        (cli.home / ".treadle").mkdir()
        (cli.home / ".treadle" / "config.yaml").write_text(f"journal: {url}\n")
    assert cli("run", "x", "--model", cli.script({"text": "ok"}), *options, **environment).code == 0
    assert len(json.loads(cli("runs", "list", "--json", *options, **environment).out)) == 1
    assert not (cli.home / ".treadle" / "journal.db").exists()


def test_a_journal_of_a_newer_version_a_broken_one_and_no_journal_are_refused(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    file = cli.home / ".treadle" / "journal.db"
    db = sqlite3.connect(file)
    db.execute("pragma user_version = 9999")
    db.close()
    newer = cli("runs", "list")
    assert newer.code == 2
    assert "newer" in newer.err
    broken = cli.home / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    answers = [
        cli("runs", "list", "--journal", f"sqlite:///{broken}"),
        cli("runs", "show", "last", "--journal", "nowhere:"),
    ]
    answers.append(cli("sessions", "list", "--journal", f"sqlite:///{broken}"))
    assert [answer.code for answer in answers] == [2, 2, 2]
    assert all(
        len(answer.err.splitlines()) == 1 and answer.err.startswith("treadle: ")
        for answer in answers
    )


def test_a_secret_that_came_to_be_known_later_is_masked(cli: Cli) -> None:
    assert cli("run", f"my key is {KEY[7:]}", "--model", cli.script({"text": "ok"})).code == 0
    environment = {"ANTHROPIC_API_KEY": KEY[7:]}
    for command in (
        ["list"],
        ["list", "--json"],
        ["show", "last"],
        ["show", "last", "--json"],
        ["replay", "last", "--output", "stream-json"],
        ["diff", "last", "last"],
    ):
        answer = cli("runs", *command, **environment)
        assert answer.code == 0
        assert KEY[7:] not in answer.out + answer.err


def test_a_reader_that_has_left_needs_no_word(cli: Cli, tmp_path: Path) -> None:
    import subprocess
    import sys

    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m treadle runs show last | true"],
        capture_output=True,
        text=True,
        cwd=cli.workspace,
        env=cli.environment(),
        timeout=200,
    )
    assert done.stderr == ""


# ---------------------------------------------------------------- whose runs


def test_messages_to_the_task_assistant_are_no_runs_of_ones_own(cli: Cli) -> None:
    assert cli("run", "mine", "--model", cli.script({"text": "ok"})).code == 0
    assert cli("tasks", "add buy milk").code == 0
    assert [row["prompt"] for row in rows(cli)] == ["mine"]
    assert [row["agent"] for row in rows(cli, "--agent", "tasks")] == ["tasks"]
    assert [row["agent"] for row in rows(cli, "--all")] == ["tasks", "treadle"]
    assert "mine" in cli("runs", "show", "last").out


def test_last_is_the_newest_run_of_this_directory(cli: Cli) -> None:
    elsewhere = cli.home / "elsewhere"
    elsewhere.mkdir()
    below = cli.workspace / "below"
    below.mkdir()
    assert (
        cli("run", "there", "--cwd", str(elsewhere), "--model", cli.script({"text": "ok"})).code
        == 0
    )
    refused = cli("runs", "undo", "last")
    assert refused.code == 2
    assert (
        f"there is no run in '{cli.workspace}' yet; the newest elsewhere is {rows(cli)[0]['run_id']}, in '{elsewhere}'"
        in refused.err
    )
    assert cli("run", "here", "--cwd", str(below), "--model", cli.script({"text": "ok"})).code == 0
    assert (
        cli(
            "run", "there again", "--cwd", str(elsewhere), "--model", cli.script({"text": "ok"})
        ).code
        == 0
    )
    assert "│ here" in cli("runs", "show", "last").out
