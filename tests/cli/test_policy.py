"""`treadle policy check` as a program: one command, a stream of them, on a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.fork_server import command

BAD = {
    "no JSON": "{",
    "an empty line": "",
    "no object": '["ls"]',
    "no command": "{}",
    "a command that is a number": '{"command": 1}',
    "an unknown mode": '{"command": "ls", "mode": "maybe"}',
    "a mode that is a list": '{"command": "ls", "mode": ["ask"]}',
    "half of a surrogate pair": '{"command": "ls \\ud800"}',
    "nested too deeply": "[" * 100_000,
    "longer than can be started": json.dumps({"command": "x" * 1_100_000}),
    "no UTF-8": "\udcff",
}


def piped(cli: Cli, *arguments: str, data: bytes) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the result lines of `policy check --from -`."""
    done = subprocess.run(
        command("treadle", "policy", "check", "--from", "-", *arguments),
        input=data,
        stdout=subprocess.PIPE,
        cwd=cli.workspace,
        env=cli.environment(),
        timeout=200,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def typed(cli: Cli, *arguments: str) -> str:
    """The output of `policy check` on a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        command("treadle", "policy", "check", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        cwd=cli.workspace,
        env=cli.environment(),
    ) as process:
        os.close(slave)
        said = b""
        try:
            while piece := os.read(master, 4096):
                said += piece
        except OSError:  # the end of a terminal that nobody has open
            pass
        assert process.wait(50) == 0
    os.close(master)
    return said.decode().replace("\r\n", "\n")


def test_each_line_of_a_file_gets_its_result_in_order(cli: Cli) -> None:
    (cli.workspace / "lines").write_text(
        '{"command": "ls"}\n{"command": "touch a", "id": 7}\n{"command": "touch a", "mode": "plan"}\n{"command": "git status"}'
    )
    answer = cli("policy", "check", "--from", "lines")
    assert [event["decision"] for event in answer.events] == ["allow", "ask", "deny", "contained"]
    assert answer.events[1] == cli("policy", "check", "--", "touch a").json
    assert answer.code == 0


def test_bad_lines_are_answered_in_their_place_and_end_nothing(cli: Cli) -> None:
    good = '{"command": "ls"}'
    lines = [piece for bad in BAD.values() for piece in (bad, good)]
    code, results = piped(cli, data="\n".join(lines).encode("utf-8", "surrogateescape"))
    assert [result["line"] for result in results if "error" in result] == list(
        range(1, 2 * len(BAD), 2)
    )
    assert [result["decision"] for result in results[1::2]] == ["allow"] * len(BAD)
    assert code == 2


def test_a_line_is_answered_before_the_next_one_is_there(cli: Cli) -> None:
    with subprocess.Popen(
        command("treadle", "policy", "check", "--from", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cli.workspace,
        env=cli.environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, decision in (("ls", "allow"), ("touch a", "ask"), ("ls", "allow")):
            process.stdin.write(json.dumps({"command": line}).encode() + b"\n")
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 30)[0], "no answer came"
            assert json.loads(process.stdout.readline())["decision"] == decision
        process.stdin.close()
        assert process.wait(30) == 0


def test_options_apply_to_every_line(cli: Cli) -> None:
    (cli.workspace / "sub").mkdir()
    (cli.workspace / "sub/lines").write_text(
        '{"command": "npm test"}\n{"command": "cat sub/lines"}\n{"command": "npm test", "mode": "plan"}\n'
    )
    answer = cli(
        "policy", "check", "--from", "sub/lines", "--mode", "full", "--deny", "read(sub/**)"
    )
    assert [event["decision"] for event in answer.events] == ["contained", "deny", "deny"]


@pytest.mark.parametrize("arguments", [("--from", "lines", "--", "ls"), ()])
def test_a_command_and_a_file_exclude_each_other_and_one_of_them_is_needed(
    cli: Cli, arguments: tuple[str, ...]
) -> None:
    answer = cli("policy", "check", *arguments)
    assert answer.code == 2
    assert "either COMMAND, one argument in quotes, or --from" in answer.err


def test_a_file_that_is_absent_is_named(cli: Cli) -> None:
    answer = cli("policy", "check", "--from", "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "cannot read 'nowhere': No such file" in answer.err


def test_on_a_terminal_the_decision_is_for_a_person(cli: Cli) -> None:
    lines = typed(cli, "--", "ls; npm test \x1b[2J").split("\n")
    assert lines[0] == "ask  ls; npm test \\x1b[2J"
    assert lines[1].startswith("why: it runs code of this project (npm)")
    assert "it contains an invisible character (U+001B)" in lines[1]
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["DECISION", "COMMAND"],
        ["allow", "ls"],
        ["ask", "npm"],
    ]


def test_on_a_terminal_each_line_of_a_file_has_its_block(cli: Cli) -> None:
    (cli.workspace / "lines").write_text('{"command": "ls"}\n{"command": "pwd"}\n')
    blocks = typed(cli, "--from", "lines").split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == ["allow  ls", "allow  pwd"]


def test_a_command_of_several_words_is_named_as_the_help_names_it(cli: Cli) -> None:
    assert cli("policy", "check", "git", "push").err.startswith(
        "treadle: COMMAND must be a single argument: quote it"
    )
