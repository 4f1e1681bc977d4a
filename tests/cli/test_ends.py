"""What is at the other end of the command line: readers that leave, full disks, closed streams,
signals.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Cli

LONG = "word " * 60_000


def shell(cli: Cli, command: str, *, cwd: Path | None = None) -> Answer:
    """`command` in a shell, where `$TREADLE` is ours."""
    environment = cli.environment(TREADLE=f"{sys.executable} -m treadle")
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd or cli.workspace,
        env=environment,
        timeout=200,
    )
    answer = Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in answer.err
    assert "this is a bug" not in answer.err
    assert "Exception ignored" not in answer.err
    return answer


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_reader_that_leaves_ends_the_run_in_silence(cli: Cli, output: str):
    answer = shell(
        cli,
        f"$TREADLE run x --output {output} --model {cli.script({'text': LONG})} | head -c 10; exit ${{PIPESTATUS[0]}}",
    )
    assert (answer.code, answer.err) == (1, "")


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="only Linux has a device that is always full"
)
@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_full_disk_under_stdout_is_told(cli: Cli, output: str):
    answer = shell(
        cli, f"$TREADLE run x --output {output} --model {cli.script({'text': LONG})} > /dev/full"
    )
    assert (answer.code, answer.err) == (
        1,
        "treadle: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_answer_that_does_not_fit_on_the_disk_stands_on_stdout(cli: Cli, output: str):
    model = cli.script({"text": LONG})
    answer = shell(
        cli, f"ulimit -f 8; $TREADLE run x --ephemeral -q --output {output} -o out --model {model}"
    )
    assert (answer.code, answer.err) == (
        1,
        "treadle: -o 'out' could not be written (File too large): the rest is on stdout\n",
    )
    assert LONG.strip() in answer.out
    assert (cli.workspace / "out").read_bytes() == b""


def test_events_that_do_not_fit_on_the_disk_go_on_on_stdout(cli: Cli):
    model = cli.script({"text": "word " * 3_000})
    answer = shell(
        cli, f"ulimit -f 8; $TREADLE run x --ephemeral --output stream-json -o out --model {model}"
    )
    assert (answer.code, answer.err) == (
        1,
        "treadle: -o 'out' could not be written (File too large): the rest is on stdout\n",
    )
    written = (cli.workspace / "out").read_text()
    assert written.endswith("}\n")
    events = [json.loads(line) for line in (written + answer.out).splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"], events[-1]["outcome"]) == (
        "run_start",
        "run_end",
        "completed",
    )


def test_a_file_that_is_none_is_said_before_the_run(cli: Cli):
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(cli.workspace):
        listening.bind("out")
    answer = cli("run", "x", "-o", "out", "--model", cli.script({"text": "hi"}))
    assert (answer.code, answer.out) == (2, "")
    assert "-o 'out' cannot be written" in answer.err


def test_a_pipe_can_be_the_file(cli: Cli):
    answer = shell(
        cli,
        f"mkfifo pipe; cat pipe & $TREADLE run x -q -o pipe --model {cli.script({'text': 'hi'})} > elsewhere; code=$?; wait; exit $code",
    )
    assert (answer.code, answer.out, answer.err) == (0, "hi\n", "")
    assert (cli.workspace / "elsewhere").read_text() == ""


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="only Linux has a device that is always full"
)
def test_a_run_does_not_depend_on_its_stderr(cli: Cli):
    answer = shell(cli, f"$TREADLE run x --model {cli.script({'text': 'hi'})} 2> /dev/full")
    assert (answer.code, answer.out) == (0, "hi\n")


@pytest.mark.parametrize(
    ("closed", "out"), [("<&-", "hi\n"), ("2>&-", "hi\n"), (">&-", ""), ("<&- >&- 2>&-", "")]
)
def test_closed_streams_are_as_good_as_empty_ones(cli: Cli, closed: str, out: str):
    answer = shell(cli, f"$TREADLE run x -q --model {cli.script({'text': 'hi'})} {closed}")
    assert (answer.code, answer.out, answer.err) == (0, out, "")


def test_standard_input_that_cannot_be_read_is_told(cli: Cli):
    answer = shell(cli, f"$TREADLE run x --model {cli.script({'text': 'hi'})} 0> made")
    assert (answer.code, answer.err) == (
        2,
        "treadle: cannot read standard input: Bad file descriptor\n",
    )


@pytest.mark.parametrize(
    "command", ["run x --model script:x", "config show", "config path", "doctor --offline"]
)
def test_a_working_directory_that_is_gone_is_told(cli: Cli, command: str):
    answer = shell(cli, f"mkdir gone; cd gone; rmdir ../gone; $TREADLE {command}")
    assert answer.code == 2
    assert answer.err == (
        "treadle: the working directory no longer exists: change to one that does\n"
    )


def test_ctrl_c_before_the_run_begins_is_130(cli: Cli):
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "treadle",
        "run",
        "--model",
        cli.script({"text": "hi"}),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.environment(),
        cwd=cli.workspace,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.split()[-1] == b"treadle.cli.render":  # the last of what the command needs
                break
        process.send_signal(signal.SIGINT)
        process.wait(20)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert b"Traceback" not in rest
    assert b"Abort" not in rest


def test_ctrl_c_in_code_that_python_compiles_from_a_string_is_130(cli: Cli) -> None:
    """As in the import of a dataclass: Python would end by the signal, whatever the exit code."""
    (cli.home / "modules").mkdir()
    (cli.home / "modules" / "mine.py").write_text("exec('raise KeyboardInterrupt')\n")
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle" / "config.yaml").write_text("agents: [mine]\n")
    modules = str(cli.home / "modules")
    done = cli("run", "go", "--agent", "loud", started=True, PYTHONPATH=modules)
    assert (done.code, done.out, done.err) == (130, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_a_terminal_ends_a_run_with_all_that_it_started(
    cli: Cli, number: signal.Signals
):
    fifo = cli.workspace / "alive"
    os.mkfifo(fifo)
    model = cli.script(
        {
            "tool_calls": [
                {"name": "bash", "arguments": {"command": f"exec 3>{fifo}; echo up >&3; sleep 100"}}
            ]
        },
        {"text": "no"},
    )
    command = [
        sys.executable,
        "-m",
        "treadle",
        "run",
        "x",
        "--mode",
        "full",
        "--output",
        "json",
        "--model",
        model,
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.environment(),
        cwd=cli.workspace,
        # who started the tests may ignore it
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        with fifo.open() as alive:
            assert alive.readline() == "up\n"
            process.send_signal(number)
            assert alive.read() == ""  # which is when nobody holds the other end any more
        out, _ = process.communicate(timeout=200)
    assert process.returncode == 130
    assert b'"outcome":"cancelled"' in out


def test_a_signal_that_is_ignored_stays_ignored(cli: Cli):
    model = cli.script(
        {
            "tool_calls": [
                {"name": "bash", "arguments": {"command": "kill -HUP $PPID; sleep 0.2; echo on"}}
            ]
        },
        {"text": "done"},
    )
    answer = shell(cli, f"nohup $TREADLE run x -q --mode full --no-sandbox --model {model}")
    assert (answer.code, answer.out) == (0, "done\n")


def test_what_is_no_text_can_be_no_setting(cli: Cli):
    answer = shell(cli, r"$TREADLE config set models.large $(printf 'anthropic:\377')")
    assert answer.code == 2
    assert "models.large" in answer.err


def test_what_a_model_says_commands_no_terminal(cli: Cli):
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r"
    call = {"name": f"no{evil}pe" + "e" * 5000, "arguments": {"x": evil}}
    model = cli.script(
        {"reasoning": evil, "text": f"Look{evil}.", "tool_calls": [call]}, {"text": "ok"}
    )
    answer = cli("run", "x", "-v", "--model", model)
    assert answer.code == 0
    assert "nope" in answer.err
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(answer.err)
    assert max(map(len, answer.err.splitlines())) < 500


def test_a_terminal_without_colour_gets_none(cli: Cli):
    master, slave = os.openpty()
    command = (
        [sys.executable, "-m", "treadle", "config", "nope"],
        [sys.executable, "-m", "treadle", "doctor", "--offline"],
    )
    for each in command:
        subprocess.run(
            each,
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            env=cli.environment(),
            cwd=cli.workspace,
            timeout=200,
            check=False,
        )
    shown = os.read(master, 65536)
    os.close(slave)
    os.close(master)
    assert b"treadle" in shown
    assert b"\x1b" not in shown


def test_completion_of_what_is_no_command_says_nothing(cli: Cli):
    answer = cli(COMP_WORDS="treadle nope ", COMP_CWORD="2", _TREADLE_COMPLETE="bash_complete")
    assert answer.err == ""


def test_a_password_in_a_setting_is_not_repeated(cli: Cli):
    answer = cli(
        "config", "set", "providers.anthropic.base_url", "http://me:pass-4471bd@host.invalid/v1"
    )
    assert answer.code == 0
    assert "pass-4471bd" not in answer.out + answer.err
    assert "pass-4471bd" not in cli("config", "show").out
