from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.test_runs import CHARGE
from tests.cli.test_runs_driven import ended, started, waiting
from treadle._internal.terminal_text import columns
from treadle.messages.message import Message


def sessions(cli: Cli) -> list[dict[str, Any]]:
    answer = cli("sessions", "list", "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_where_there_is_no_journal_there_are_no_sessions_and_none_is_made(cli: Cli) -> None:
    assert sessions(cli) == []
    assert "no sessions yet" in cli("sessions", "list").out
    assert cli("sessions", "search", "x").code == 0
    for command in (
        ["show", "last"],
        ["rename", "last", "x"],
        ["delete", "last", "--yes"],
        ["export", "last"],
    ):
        answer = cli("sessions", *command)
        assert answer.code == 2
        assert "no sessions yet" in answer.err
    assert not (cli.home / ".treadle").exists()


def test_conversations_are_listed_with_the_last_changed_first(cli: Cli) -> None:
    for name, prompt in (("one", "first words"), ("two", "other words"), ("one", "more words")):
        assert (
            cli(
                "run",
                prompt,
                "--session",
                name,
                "--model",
                cli.script({"text": "a"}, {"text": "b"}),
            ).code
            == 0
        )
    assert [(s["session_id"], s["title"], s["message_count"]) for s in sessions(cli)] == [
        ("one", "first words", 4),
        ("two", "other words", 2),
    ]
    table = cli("sessions", "list", "--limit", "1").out
    assert "first words" in table
    assert "other words" not in table


def test_a_conversation_is_shown_as_people_read_it(cli: Cli) -> None:
    assert (
        cli(
            "run",
            "Charge \x1b[31mthe card. " + "word " * 60,
            "--model",
            cli.script(*CHARGE),
            "--mode",
            "full",
        ).code
        == 0
    )
    shown = cli("sessions", "show", "last")
    assert shown.code == 0
    assert "> Charge the card." in shown.out
    assert "• bash" in shown.out
    assert "All done." in shown.out
    assert "\x1b" not in shown.out
    assert max(map(columns, shown.out.splitlines())) <= 100
    told = cli("sessions", "show", "last", "--json").json
    assert [message["role"] for message in told["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_a_conversation_is_exported_as_messages(cli: Cli) -> None:
    assert cli("run", "Charge.", "--model", cli.script(*CHARGE), "--mode", "full").code == 0
    lines = cli("sessions", "export", "last").out
    assert [Message.from_json(line).role for line in lines.splitlines()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert cli("sessions", "export", "last", "-o", "out.jsonl").out == ""
    assert (cli.workspace / "out.jsonl").read_text() == lines


def test_what_left_the_view_is_exported_too_and_counted_where_the_rest_is_shown(cli: Cli) -> None:
    turns = [
        {
            "text": "long " * 3000,
            "tool_calls": [{"id": f"c{n}", "name": "glob", "arguments": {"pattern": f"{n}"}}],
        }
        for n in range(4)
    ]
    full = {"error": {"kind": "context_overflow", "status": 400}}
    script = cli.script(*turns, full, {"text": "A record of it."}, {"text": "done"})
    assert cli("run", "Look.", "--model", script, "--mode", "full").code == 0
    everything = [
        Message.from_json(line) for line in cli("sessions", "export", "last").out.splitlines()
    ]
    view = [
        Message.from_json(line)
        for line in cli("sessions", "export", "last", "--view").out.splitlines()
    ]
    assert len([call for message in everything for call in message.tool_calls]) == 4
    assert [message.is_summary for message in everything].count(True) == 1
    left = len({message.id for message in everything} - {message.id for message in view})
    assert left > 0
    assert (
        f"{left} older messages left the view: treadle sessions export session_"
        in cli("sessions", "show", "last").out
    )
    assert cli("sessions", "show", "last", "--json").json["left_view"] == left


def test_words_are_found_in_all_conversations(cli: Cli) -> None:
    for prompt in ("the red fox", "the blue whale"):
        assert cli("run", prompt, "--model", cli.script({"text": "I see."})).code == 0
    found = json.loads(cli("sessions", "search", "BLUE", "whale", "--json").out)
    assert [(hit["role"], hit["excerpt"]) for hit in found] == [("user", "the blue whale")]
    assert "the red fox" in cli("sessions", "search", "fox").out
    assert cli("sessions", "search", "unicorn").out == "No messages found.\n"
    assert cli("sessions", "search").code == 2


def test_a_conversation_is_renamed_and_deleted(cli: Cli) -> None:
    assert cli("run", "hello", "--session", "mine", "--model", cli.script({"text": "ok"})).code == 0
    assert cli("sessions", "rename", "mi", " Better \x1b[31m title ").out == "mine: Better title\n"
    assert cli("sessions", "rename", "mine", " ").code == 2
    refused = cli("sessions", "delete", "mine")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert len(sessions(cli)) == 1
    assert cli("sessions", "delete", "mine", "--yes").code == 0
    assert sessions(cli) == []


def test_a_conversation_that_is_running_is_not_deleted(cli: Cli) -> None:
    process = started(cli)
    try:
        answer = cli("sessions", "delete", "last", "--yes")
        assert answer.code == 1
        assert len(answer.err.splitlines()) == 1
        assert len(sessions(cli)) == 1
    finally:
        process.terminate()
        assert ended(process).code == 130


def test_that_a_run_still_waits_is_said_before_its_conversation_is_deleted(cli: Cli) -> None:
    run_id = waiting(cli)
    assert (
        f"run {run_id} (waiting) is deleted with it"
        in cli("sessions", "delete", "last", "--yes").out
    )
    assert cli("runs", "show", run_id).code == 2


def test_an_unknown_session_is_refused_with_the_nearest_ids(cli: Cli) -> None:
    for name in ("holidays", "holidays-2"):
        assert (
            cli("run", "hello", "--session", name, "--model", cli.script({"text": "ok"})).code == 0
        )
    answer = cli("sessions", "show", "holidayz")
    assert answer.code == 2
    assert "Did you mean holidays or holidays-2?" in answer.err
    assert cli("sessions", "show", "holidays").code == 0
    assert "matches 2 ids" in cli("sessions", "show", "holi").err


def test_deleting_says_which_runs_stay_because_others_were_forked_from_them(cli: Cli) -> None:
    assert (
        cli(
            "run",
            "one",
            "--session",
            "old",
            "--model",
            cli.script({"text": "a"}, {"text": "b"}, {"text": "c"}),
        ).code
        == 0
    )
    [first] = cli("runs", "list", "--json").json
    assert cli("runs", "fork", "last", "--turn", "1", "--text", "two").code == 0
    gone = cli("sessions", "delete", "old", "--yes")
    assert gone.code == 0
    assert gone.out.splitlines()[-2:] == [
        "Deleted.",
        f"run {first['run_id']} stays as long as the runs forked from it",
    ]
    assert cli("sessions", "delete", "last", "--yes").out.splitlines()[-1] == "Deleted."
    assert cli("runs", "list", "--json").json == []
