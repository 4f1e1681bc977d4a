"""`treadle tasks`: one message, messages of a pipe, and a person at a terminal."""

from __future__ import annotations

import os
import pty
import select
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Cli
from tests.fork_server import command

NO_KEY = "Your tasks."


def test_single_messages_are_answered_and_one_may_confirm_what_the_one_before_asked(cli: Cli):
    assert cli("tasks", "add", "milk").out == "Got it! Added 'milk' to your list. Anything else?\n"
    assert cli("tasks", "show my tasks").out == "1. ☐ milk\n"
    assert (
        cli("tasks", "delete milk").out
        == "Do you really want to delete 'milk'? Reply 'yes delete' to confirm.\n"
    )
    done = cli("tasks", "yes delete")
    assert (done.code, done.out, done.err) == (0, "I've removed 'milk' from your tasks.\n", "")
    assert (cli.home / ".treadle" / "tasks.db").exists()


def test_the_rules_can_be_chosen_where_there_is_a_key(cli: Cli):
    answer = cli(
        "tasks",
        "--model",
        "embedded",
        "add milk",
        ANTHROPIC_API_KEY="sk-ant-api03-abcdefghijklmnop0000",
        ANTHROPIC_BASE_URL="http://127.0.0.1:1",
    )
    assert (answer.code, answer.out, answer.err) == (
        0,
        "Got it! Added 'milk' to your list. Anything else?\n",
        "",
    )


def test_a_pipe_holds_one_message_a_line_of_one_conversation(cli: Cli):
    answer = cli(
        "tasks",
        "--database",
        "sqlite:///here.db",
        stdin="add milk\n\n  \nadd bread\ndelete milk\nno\nyes delete\nshow my tasks\n",
    )
    assert answer.out.startswith("Got it! Added 'milk'")
    assert answer.out.endswith("1. ☐ milk\n2. ☐ bread\n")
    assert answer.err == ""
    assert (cli.workspace / "here.db").exists()


def test_the_exit_code_says_what_became_of_the_worst_message(cli: Cli):
    model = cli.script({"text": "Hello."}, {"error": {"kind": "auth"}}, {"text": "Good."})
    failed = cli("tasks", "--model", model, stdin="hi\n")
    assert (failed.code, failed.out) == (0, "Hello.\n")
    failed = cli("tasks", "hi", "--model", cli.script({"error": {"kind": "auth"}}))
    assert (failed.code, failed.out) == (
        1,
        "I'm having a bit of trouble right now. Please try again.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--model", "nobody:x", "hi"), "nobody"),
        (("--model", "anthropic:claude-opus-5-5", "hi"), "ANTHROPIC_API_KEY"),
        (("--database", "mysql://x", "hi"), "postgresql://"),
        (("--nothing",), "unknown option '--nothing'"),
    ],
)
def test_what_is_wrong_before_anything_is_said_is_told_with_code_2(
    cli: Cli, arguments: tuple[str, ...], why: str
):
    answer = cli("tasks", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert why in answer.err


def test_what_a_terminal_cannot_show_is_spelled_out(cli: Cli):
    cli("tasks", "add milk")
    assert cli("tasks", "show my tasks", PYTHONIOENCODING="ascii", LANG="C").out == "1. [ ] milk\n"


# ---------------------------------------------------------------- a person at a terminal


class Terminal:
    """What stands on it, and what is typed."""

    def __init__(self, pid: int, screen: int) -> None:
        self.pid, self._screen, self.shown = pid, screen, ""

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def moves(self, within: float) -> bool:
        """Something comes before so many seconds have gone."""
        return bool(select.select([self._screen], [], [], within)[0])

    def until(self, text: str) -> str:
        """All that came up to that."""
        while text not in self.shown:
            ready, _, _ = select.select([self._screen], [], [], 40)
            assert ready, f"{text!r} never came; there is: {self.shown!r}"
            try:
                piece = os.read(self._screen, 4096)
            except OSError:  # Linux's way to say that it is closed
                piece = b""
            assert piece, f"it ended before {text!r}; there is: {self.shown!r}"
            self.shown += piece.decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def ended(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def terminal(cli: Cli, *arguments: str) -> Iterator[Terminal]:
    words = command("treadle", "tasks", *arguments)
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(cli.workspace)
        os.execve(words[0], words, cli.environment(TERM="xterm"))
    try:
        yield Terminal(pid, screen)
    finally:
        os.close(screen)


def test_a_person_types_one_message_after_the_other_and_ends_with_ctrl_d(cli: Cli):
    with terminal(cli) as screen:
        screen.until(NO_KEY)
        screen.until("> ")
        screen.type("add milk\n")
        screen.until("Added 'milk' to your list. Anything else?")
        screen.until("> ")
        screen.type("delete everything")
        # Ctrl-C drops what the terminal still holds, so it must have been read
        screen.until("everything")
        screen.type("\x03")  # thought better of it
        # a signal between two looks of CPython's line editor waits for the next key
        while not screen.moves(within=2):
            screen.type("\x03")
        screen.until("> ")
        screen.type("\x1b[A\n")  # earlier input
        assert screen.until("Anything else?").count("Added 'milk'") == 1
        screen.until("> ")
        screen.type("\x04")
        assert screen.ended() == 0
    history = cli.home / ".treadle" / "tasks_history"
    assert "add milk" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_a_slow_model_shows_that_it_works_and_ctrl_c_stops_it_and_not_the_chat(cli: Cli):
    model = cli.script(
        {"text": "A very slow answer.", "delay_ms": 30_000}, {"text": "Never asked."}
    )
    with terminal(cli, "--model", model) as screen:
        screen.until("> ")
        screen.type("hi\n")
        screen.until("working ...")
        screen.type("\x03")
        screen.until("Stopped.")
        screen.until("> ")
        screen.type("\x04")
        assert screen.ended() == 0
