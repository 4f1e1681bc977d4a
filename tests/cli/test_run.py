"""`treadle run`: its outputs, its input, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.cli.conftest import KEY, Cli


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def test_the_answer_alone_goes_to_stdout(cli: Cli):
    model = cli.script(
        {"text": "Working.", **bash("echo 42 > made.txt")}, {"text": "Two lines:\n  café ✓"}
    )
    answer = cli("run", "do it", "--model", model, "--mode", "full")
    assert (answer.code, answer.out) == (0, "Two lines:\n  café ✓\n")
    assert "bash" in answer.err
    assert "completed · 2 turns · 1 tool call" in answer.err
    assert (cli.workspace / "made.txt").read_text() == "42\n"


@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("no-such-program", 127), ("kill -9 $$", 137)]
)
def test_a_command_that_failed_is_marked_wherever_it_is_shown(cli: Cli, command: str, code: int):
    model = cli.script(bash(command), {"text": "It failed."})
    events = cli(
        "run", "try it", "--output", "stream-json", "--model", model, "--mode", "full"
    ).events
    assert [event["exit_code"] for event in events if event["type"] == "tool_call_end"] == [code]
    assert f"✗ bash exit {code} " in cli("run", "try it", "--model", model, "--mode", "full").err
    shown = cli("runs", "show", "last").out
    assert f"✗ exit {code} · " in shown
    assert f"✗ exit {code}\n" in cli("sessions", "show", events[0]["session_id"]).out
    entries = [
        json.loads(line)["entry"]
        for line in cli("runs", "export", events[0]["run_id"]).out.splitlines()
    ]
    assert [
        entry["result"]["exit_code"] for entry in entries if entry["type"] == "tool.finished"
    ] == [code]


def test_a_command_that_timed_out_is_shown_with_its_seconds_and_what_to_do(cli: Cli):
    slow = {
        "tool_calls": [{"name": "bash", "arguments": {"command": "sleep 60", "timeout_s": 0.2}}]
    }
    model = cli.script(slow, {"text": "It took too long."})
    err = cli("run", "try it", "--model", model, "--mode", "full").err
    assert (
        "\n    Timed out after 0.2 s (killed): pass a larger timeout_s, or run it with "
        "background=true.\n"
    ) in err
    assert "(no output)" not in err


def test_a_command_that_succeeded_is_marked_so(cli: Cli):
    model = cli.script(bash("echo [exit code 1]"), {"text": "Fine."})
    assert "✓ bash 0" in cli("run", "try it", "--model", model, "--mode", "full").err
    assert "✗" not in cli("runs", "show", "last").out


def test_a_call_is_shown_by_what_it_is_about(cli: Cli):
    (cli.workspace / "cart.py").write_text("total = 1\n")
    edit = {
        "name": "edit",
        "arguments": {"path": "cart.py", "edits": [{"old": "total = 1", "new": "total = 2"}]},
    }
    todo = {"name": "grep", "arguments": {"pattern": "total", "context": 2}}
    model = cli.script(
        {"tool_calls": [{"name": "read", "arguments": {"path": "cart.py"}}]},
        {"tool_calls": [edit, todo]},
        {"text": "done"},
    )
    shown = cli("run", "x", "--model", model, "--mode", "full").err.splitlines()
    assert [line for line in shown if line.startswith("•")] == [
        "• read cart.py",
        "• edit cart.py",
        "• grep total 2",
    ]


def test_quiet_says_nothing_but_the_answer(cli: Cli):
    answer = cli(
        "run",
        "x",
        "-q",
        "--model",
        cli.script(bash("echo noise"), {"text": "hi"}),
        "--mode",
        "full",
    )
    assert (answer.out, answer.err) == ("hi\n", "")


def test_json_is_the_last_event(cli: Cli):
    answer = cli("run", "x", "--output", "json", "--model", cli.script({"text": "hi"}))
    assert answer.json["type"] == "run_end"
    assert (answer.json["outcome"], answer.json["text"], answer.json["turns"]) == (
        "completed",
        "hi",
        1,
    )
    assert answer.json["run_id"]
    assert answer.json["session_id"]


def test_stream_json_is_every_event_and_fits_its_schema(cli: Cli):
    model = cli.script(
        {
            "reasoning": "hm",
            "text": "Look.",
            "tool_calls": [{"name": "ls", "arguments": {"path": "."}}, {"name": "nope"}],
        },
        {"text": "done"},
    )
    events = cli("run", "x", "--output", "stream-json", "--model", model).events
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("run_start", "run_end")
    assert kinds.count("tool_call") == 2
    assert kinds.count("tool_call_start") == 1
    assert [event["refused"] for event in events if event["type"] == "tool_call_end"] == [
        True,
        False,
    ]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    from treadle.cli.stream_schema import stream_json_schema

    validator = jsonschema_rs.validator_for(stream_json_schema())
    for event in events:
        validator.validate(event)


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_key_that_the_model_repeats_is_shown_nowhere(cli: Cli, output: str):
    said = f"it is {KEY}"
    model = cli.script({"reasoning": said, "text": said, **bash(f"echo {KEY}")}, {"text": said})
    answer = cli(
        "run",
        f"my key is {KEY}",
        "-v",
        "--output",
        output,
        "--model",
        model,
        "--mode",
        "full",
        ANTHROPIC_API_KEY=KEY,
    )
    assert answer.code == 0
    assert KEY not in answer.out + answer.err
    assert "[redacted]" in answer.out


def test_piped_input_is_added_to_the_prompt_or_is_the_prompt(cli: Cli):
    both = cli.home / "both.tape"
    answer = cli(
        "run",
        "Sum up:",
        "--model",
        f"record:{both}={cli.script({'text': 'ok'})}",
        stdin="piped é\n",
    )
    assert answer.code == 0
    assert "Sum up:\\n\\npiped é" in both.read_text()
    assert cli("run", "--model", cli.script({"text": "ok"}), stdin="only this").code == 0


def test_files_go_into_the_prompt(cli: Cli):
    (cli.workspace / "note.txt").write_text("remember the milk")
    tape = cli.home / "files.tape"
    answer = cli(
        "run",
        "Read it.",
        "--file",
        "note.txt",
        "--model",
        f"record:{tape}={cli.script({'text': 'ok'})}",
    )
    assert answer.code == 0
    assert "remember the milk" in tape.read_text()
    missing = cli("run", "Read it.", "--file", "none.txt", "--model", cli.script({"text": "ok"}))
    assert missing.code == 2
    assert "none.txt" in missing.err


@pytest.mark.parametrize("command", ["run", "work"])
def test_a_file_that_a_rule_denies_is_not_sent(cli: Cli, command: str):
    (cli.workspace / "private").mkdir()
    (cli.workspace / "private" / "x.txt").write_text("mark-private")
    file = cli.home / ".treadle" / "config.yaml"
    file.parent.mkdir()
    file.write_text("permissions: {deny: ['read(private/**)']}\n")
    model = cli.script({"text": "ok"})
    done = cli(command, "Read it.", "--file", "private/x.txt", "--model", model)
    assert (done.code, done.out) == (2, "")
    assert "private/x.txt' is not read: the rule 'read(private/**)' denies" in done.err


def test_what_is_too_large_for_a_prompt_is_said_and_not_sent(cli: Cli):
    with open(cli.workspace / "large.bin", "wb") as large:
        large.truncate(20 * 1024 * 1024 + 1)
    file = cli("run", "Read it.", "--file", "large.bin", "--model", cli.script({"text": "ok"}))
    assert (file.code, file.out) == (2, "")
    assert "'large.bin' is larger than 20 MiB" in file.err
    piped = cli(
        "run", "Read it.", "--model", cli.script({"text": "ok"}), stdin="x" * (10 * 1024 * 1024 + 1)
    )
    assert (piped.code, piped.out) == (2, "")
    assert "standard input is larger than 10 MiB" in piped.err


def tape(cli: Cli, *refused: str, settings: tuple[str, ...] = ()) -> str:
    """A model that answers "hi" to the prompt "x", and does not take some settings."""
    path = cli.home / "narrow.tape"
    assert (
        cli("run", "x", "--model", f"record:{path}={cli.script({'text': 'hi'})}", *settings).code
        == 0
    )
    head, *exchanges = path.read_text().splitlines()
    path.write_text(
        "\n".join([json.dumps({**json.loads(head), "refuses": refused}), *exchanges]) + "\n"
    )
    return f"tape:{path}"


@pytest.mark.parametrize(
    ("flag", "value", "setting"),
    [("--effort", "high", "effort"), ("--max-output-tokens", "900", "max_tokens")],
)
def test_an_option_that_the_model_does_not_take_is_wrong_use(
    cli: Cli, flag: str, value: str, setting: str
):
    answer = cli("run", "x", flag, value, "-o", "out.txt", "--model", tape(cli, setting))
    assert (answer.code, answer.out) == (2, "")
    assert f"does not accept {setting}" in answer.err
    assert not (cli.workspace / "out.txt").exists()


def test_a_default_that_the_model_does_not_take_is_left_out_with_a_warning(cli: Cli):
    (cli.home / ".treadle").mkdir()
    model = tape(cli, "effort")
    (cli.home / ".treadle/config.yaml").write_text("defaults: {effort: high}\n")
    answer = cli("run", "x", "--model", model)
    assert (answer.code, answer.out) == (0, "hi\n")
    assert answer.err.count("does not accept effort: it was left out") == 1


def test_an_option_is_a_setting_of_the_run_over_the_configured_one(cli: Cli):
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle/config.yaml").write_text("defaults: {effort: low, max_tokens: 800}\n")
    asked = {"effort": "high", "max_tokens": 900}
    model = tape(cli, settings=("--effort", "high", "--max-output-tokens", "900"))
    exchange = json.loads(Path(model.removeprefix("tape:")).read_text().splitlines()[1])
    assert exchange["request"]["settings"] == asked


def test_the_answer_can_go_to_a_file(cli: Cli):
    answer = cli("run", "x", "-o", "out.txt", "--model", cli.script({"text": "hi"}))
    assert (answer.code, answer.out, (cli.workspace / "out.txt").read_text()) == (0, "", "hi\n")
    nowhere = cli("run", "x", "-o", "no/such/dir.txt", "--model", cli.script({"text": "hi"}))
    assert nowhere.code == 2
    assert "no/such/dir.txt" in nowhere.err


def test_the_events_stand_in_the_file_as_they_come(cli: Cli):
    (cli.workspace / "out.jsonl").write_text("from another run\n" * 1000)
    model = cli.script(
        bash(
            "until grep -q '\"run_start\"' out.jsonl; do sleep 0.02; done; cp out.jsonl seen.jsonl"
        ),
        {"text": "hi"},
    )
    answer = cli(
        "run",
        "x",
        "--mode",
        "full",
        "--timeout",
        "20",
        "--output",
        "stream-json",
        "-o",
        "out.jsonl",
        "--model",
        model,
    )
    assert (answer.code, answer.out) == (0, "")
    whole = (cli.workspace / "out.jsonl").read_text()
    kinds = [json.loads(line)["type"] for line in whole.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run_start", "run_end")
    assert whole.startswith((cli.workspace / "seen.jsonl").read_text())


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_answer_stands_in_the_file_when_the_run_has_ended(cli: Cli, output: str):
    (cli.workspace / "out.txt").write_text("from another run\n")
    model = cli.script(bash("cp out.txt seen.txt"), {"text": "hi"})
    assert (
        cli(
            "run", "x", "--mode", "full", "--output", output, "-o", "out.txt", "--model", model
        ).code
        == 0
    )
    assert (cli.workspace / "seen.txt").read_text() == "from another run\n"
    assert "hi" in (cli.workspace / "out.txt").read_text()
    assert "from another run" not in (cli.workspace / "out.txt").read_text()


def test_a_run_without_an_answer_leaves_no_older_one_in_the_file(cli: Cli):
    (cli.workspace / "out.txt").write_text("from another run\n")
    answer = cli(
        "run",
        "x",
        "-o",
        "out.txt",
        "--model",
        cli.script({"error": {"kind": "auth", "status": 401}}),
    )
    assert (answer.code, (cli.workspace / "out.txt").read_text()) == (1, "")


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_run_that_could_not_start_leaves_the_file_as_it_was(cli: Cli, output: str):
    (cli.workspace / "old.txt").write_text("from another run\n")
    for name in ("old.txt", "new.txt"):
        assert (
            cli("run", "x", "--output", output, "-o", name, "--model", "script:none.json").code == 2
        )
    assert (cli.workspace / "old.txt").read_text() == "from another run\n"
    assert not (cli.workspace / "new.txt").exists()


@pytest.mark.parametrize("arguments", [("run",), ("run", ""), ("run", "   ")])
def test_an_empty_prompt_is_refused(cli: Cli, arguments: tuple[str, ...]):
    answer = cli(*arguments)
    assert answer.code == 2
    assert "prompt is empty" in answer.err


def test_nobody_to_ask_is_a_no_that_the_model_reads(cli: Cli):
    answer = cli(
        "run",
        "x",
        "--output",
        "json",
        "--model",
        cli.script(bash("echo no > made"), {"text": "as you wish"}),
    )
    assert (answer.code, answer.json["outcome"], answer.json["text"]) == (
        4,
        "approval_needed",
        "as you wish",
    )
    assert not (cli.workspace / "made").exists()


def test_plan_mode_denies_without_needing_anybody(cli: Cli):
    answer = cli(
        "run",
        "x",
        "--mode",
        "plan",
        "--output",
        "json",
        "--model",
        cli.script(bash("echo no > made"), {"text": "a plan"}),
    )
    assert (answer.code, answer.json["outcome"]) == (0, "completed")
    assert not (cli.workspace / "made").exists()


def test_accept_edits_writes_inside_the_directory_only(cli: Cli):
    inside = {"tool_calls": [{"name": "write", "arguments": {"path": "in.txt", "content": "x"}}]}
    outside = {
        "tool_calls": [{"name": "write", "arguments": {"path": "../out.txt", "content": "x"}}]
    }
    answer = cli(
        "run",
        "x",
        "--mode",
        "accept-edits",
        "--model",
        cli.script(inside, outside, {"text": "done"}),
    )
    assert answer.code == 4
    assert (cli.workspace / "in.txt").exists()
    assert not (cli.workspace.parent / "out.txt").exists()


@pytest.mark.parametrize(
    ("entry", "code", "outcome"),
    [
        ({"text": "cut", "stop": "max_tokens"}, 3, "truncated"),
        ({"text": "no", "stop": "refusal"}, 1, "refused"),
        ({"text": "full", "stop": "context_overflow"}, 1, "context_overflow"),
        ({"error": {"kind": "invalid", "status": 400}}, 1, "error"),
        ({"error": {"kind": "auth", "status": 401}}, 1, "error"),
    ],
)
def test_how_a_response_ends_decides_the_exit_code(
    cli: Cli, entry: dict[str, Any], code: int, outcome: str
):
    answer = cli("run", "x", "--output", "json", "--model", cli.script(entry))
    assert (answer.code, answer.json["outcome"]) == (code, outcome)


def test_a_passing_failure_of_the_provider_says_try_again(cli: Cli):
    entry = {"error": {"kind": "rate_limit", "status": 429, "retry_after_s": 0}}
    answer = cli("run", "x", "--output", "json", "--model", cli.script(*[entry] * 4))
    assert (answer.code, answer.json["outcome"], answer.json["error"]["kind"]) == (
        75,
        "error",
        "rate_limit",
    )


def test_a_timeout_in_a_backoff_is_a_timeout(cli: Cli):
    entry = {"error": {"kind": "rate_limit", "status": 429, "retry_after_s": 30}}
    answer = cli(
        "run", "x", "--timeout", "0.3", "--output", "json", "--model", cli.script(*[entry] * 4)
    )
    assert (answer.code, answer.json["outcome"]) == (3, "timeout")


def test_limits_end_with_three(cli: Cli):
    calls = [bash(f"echo {i}") for i in range(5)]
    turns = cli(
        "run",
        "x",
        "--max-turns",
        "2",
        "--mode",
        "full",
        "--output",
        "json",
        "--model",
        cli.script(*calls),
    )
    assert (turns.code, turns.json["outcome"]) == (3, "turn_limit")
    two = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}] * 2}
    cut = cli(
        "run",
        "x",
        "--max-tool-calls",
        "1",
        "--output",
        "json",
        "--model",
        cli.script(two, {"text": "so far"}),
    )
    assert (cut.code, cut.json["outcome"], cut.json["text"]) == (3, "call_limit", "so far")
    tokens = cli(
        "run", "x", "--max-tokens", "5", "--output", "json", "--model", cli.script({"text": "hi"})
    )
    assert (tokens.code, tokens.json["outcome"]) == (3, "token_limit")


def test_what_is_wrong_names_itself_and_the_right_one(cli: Cli):
    ok = cli.script({"text": "ok"})
    for arguments, said in [
        (("run", "x", "--modle", ok), ("--modle", "--model")),
        (("rnu", "x"), ("rnu", "run")),
        (("run", "x", "--model", "antropic:claude-opus-5-5"), ("antropic", "anthropic")),
        (("run", "x", "--model", "claude-opus-5-5"), ("claude-opus-5-5", "anthropic:")),
        (("run", "x", "--model", "script:none.json"), ("none.json",)),
        (("run", "x", "--model", "tape:none.tape"), ("none.tape",)),
        (("run", "x", "--model", "record:half"), ("record:FILE=MODEL",)),
        (("run", "x", "--model", ok, "--max-turns", "soon"), ("max-turns",)),
        (("run", "x", "--model", ok, "--output", "xml"), ("xml", "stream-json")),
        (("run", "x", "--model", ok, "--cwd", "nowhere"), ("nowhere",)),
        (("run", "x", "--model", ok, "--mode", "yolo"), ("yolo", "accept-edits")),
    ]:
        answer = cli(*arguments)
        assert answer.code == 2, (arguments, answer)
        assert all(word in answer.err for word in said), (arguments, answer.err)


def test_no_key_shows_three_ways_on(cli: Cli):
    answer = cli("run", "hi")
    assert answer.code == 2
    assert all(way in answer.err for way in ("ANTHROPIC_API_KEY", "base_url", "treadle demo")), (
        answer.err
    )


def test_a_used_up_script_says_so(cli: Cli):
    answer = cli("run", "x", "--mode", "full", "--model", cli.script(bash("true")))
    assert answer.code == 1
    assert "is exhausted" in answer.err


def test_a_configuration_error_has_its_place_and_the_right_key(cli: Cli):
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle/config.yaml").write_text(
        "defaults:\n  max_tokens: 100\n  temprature: 1\n"
    )
    answer = cli("run", "x", "--model", cli.script({"text": "ok"}))
    assert answer.code == 2
    assert all(word in answer.err for word in ("config.yaml:3", "temprature", "temperature"))


def test_a_workspace_cannot_allow_itself_anything(cli: Cli):
    (cli.workspace / ".treadle").mkdir()
    (cli.workspace / ".treadle/config.yaml").write_text(
        'defaults: {mode: full}\npermissions: {allow: ["*"]}\nproviders: {anthropic: {base_url: "http://127.0.0.1:9"}}\n'
    )
    answer = cli(
        "run",
        "x",
        "--output",
        "json",
        "--model",
        cli.script(bash("echo no > made"), {"text": "ok"}),
    )
    assert answer.code == 4
    assert "config.yaml:" in answer.err
    assert not (cli.workspace / "made").exists()


def test_no_key_of_a_provider_stands_in_a_tools_environment(cli: Cli):
    model = cli.script(bash("env"), {"text": "ok"})
    answer = cli(
        "run",
        "x",
        "-v",
        "--mode",
        "full",
        "--output",
        "stream-json",
        "--model",
        model,
        ANTHROPIC_API_KEY=KEY,
        OTHER=f"has {KEY} inside",
        KEPT="yes",
    )
    assert "KEPT=yes" in answer.out


def test_a_secret_in_a_file_is_not_shown_to_anybody(cli: Cli):
    (cli.workspace / "leak.txt").write_text(f"the key is {KEY}\n")
    tape = cli.home / "leak.tape"
    model = f"record:{tape}={cli.script({'tool_calls': [{'name': 'read', 'arguments': {'path': 'leak.txt'}}]}, {'text': 'ok'})}"
    answer = cli("run", "x", "--output", "stream-json", "--model", model, ANTHROPIC_API_KEY=KEY)
    assert "[redacted]" in answer.out
    assert KEY not in tape.read_text()


def test_a_tape_replays_what_was_recorded_and_shows_what_differs(cli: Cli):
    tape = cli.home / "t.tape"
    assert (
        cli("run", "first", "--model", f"record:{tape}={cli.script({'text': 'recorded'})}").out
        == "recorded\n"
    )
    assert cli("run", "first", "--model", f"tape:{tape}").out == "recorded\n"
    other = cli("run", "second", "--model", f"tape:{tape}")
    assert other.code == 1
    assert "second" in other.err
    assert "first" in other.err
    tape.write_text(tape.read_text()[:-40])
    broken = cli("run", "first", "--model", f"tape:{tape}")
    assert broken.code == 2
    assert "line 2" in broken.err


def test_the_json_of_a_run_that_could_not_start_is_no_json(cli: Cli):
    answer = cli("run", "x", "--output", "json", "--model", "nope:x")
    assert (answer.code, answer.out) == (2, "")


def test_completion_is_printed_for_each_shell(cli: Cli):
    for shell in ("bash", "zsh", "fish"):
        assert "treadle" in cli("completion", shell).out


def test_version_and_help(cli: Cli):
    assert cli("--version").out.startswith("treadle 0.")
    help_text = cli("run", "--help").out
    assert all(
        option in help_text
        for option in ("--model", "--mode", "--max-turns", "--timeout", "--output")
    )
    assert json.dumps(help_text)


def test_a_line_of_a_result_that_is_cut_says_so(cli: Cli):
    (cli.workspace / ("n" * 200)).write_text("x")
    answer = cli(
        "run",
        "x",
        "-v",
        "--model",
        cli.script({"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}, {"text": "done"}),
    )
    (shown,) = [line for line in answer.err.splitlines() if "nnn" in line]
    assert shown.endswith("n…")
