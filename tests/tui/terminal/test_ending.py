"""How a chat ends that nobody has left: signals, a terminal that goes away, what cannot be opened.

The terminal is as it was, and no run stays open.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from tests.projects import written
from tests.tui.terminal.conftest import Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal


@pytest.fixture
def place(place: Place) -> Place:
    place.starts = True
    return place


def last_run(place: Place) -> str:
    """Of the journal, as another process tells it."""
    command = [sys.executable, "-m", "treadle", "runs", "list"]
    done = subprocess.run(
        command,
        env=place.environment,
        cwd=place.cwd,
        check=True,
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_closes_the_run_as_cancelled(
    place: Place, chat: Terminal, provider: Provider, number: int
) -> None:
    chat.say("work")
    provider.asked().says("Half of it")
    chat.sees("Half of it")
    os.kill(chat.pid, number)
    assert chat.ends() == 0
    assert "cancelled" in last_run(place)


def test_a_signal_while_the_person_is_asked_ends_the_question_and_the_run(
    place: Place, chat: Terminal, provider: Provider
) -> None:
    chat.say("note it")
    provider.wants("write", path="a.txt", content="x\n")
    chat.sees("Yes, this once")
    os.kill(chat.pid, signal.SIGTERM)
    assert chat.ends() == 0
    assert "cancelled" in last_run(place)
    assert not (place.cwd / "a.txt").exists()


def test_a_signal_ends_the_first_start(place: Place) -> None:
    (place.own / "config.yaml").unlink()
    terminal = place.runs("chat")
    terminal.sees("Which one do you want to use?")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.ends() == 0


def test_whoever_leaves_the_first_start_reads_how_to_go_on_by_hand(place: Place) -> None:
    (place.own / "config.yaml").unlink()
    terminal = place.runs("chat")
    terminal.sees("Which one do you want to use?")
    terminal.press("Escape")
    terminal.has("Nothing was written. To do it by hand")
    assert terminal.ends() == 0


def test_the_demo_runs_where_it_is_chosen_at_the_first_start(place: Place) -> None:
    (place.own / "config.yaml").unlink()
    terminal = place.runs("chat")
    terminal.sees("Which one do you want to use?")
    terminal.press("d", "e", "m", "o", "Enter")
    terminal.has("The model of this demo is scripted")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.ends()


def test_a_signal_ends_the_offer_to_go_on(place: Place, chat: Terminal, provider: Provider) -> None:
    chat.say("work")
    provider.asked().says("Half of it")
    chat.sees("Half of it")
    os.kill(chat.pid, signal.SIGKILL)
    chat.ends()
    again = place.runs("chat", "--resume")
    again.sees("Resume it?")
    os.kill(again.pid, signal.SIGTERM)
    assert again.ends() == 0


@pytest.mark.parametrize("text", ["models: {large: [}\n", "nonsense: 1\n"])
def test_a_configuration_that_is_wrong_is_told_in_a_line(place: Place, text: str) -> None:
    written(place.own / "config.yaml", text)
    terminal = place.runs("chat")
    terminal.has(lambda seen: "config.yaml:1: " in seen.replace("\n", ""))
    assert terminal.ends() == 2


def test_a_journal_that_cannot_be_opened_is_told_in_a_line(place: Place) -> None:
    (place.cwd / "folder").mkdir()
    terminal = place.runs("chat", "--journal", "sqlite:///folder")
    shown = terminal.has("treadle: ")
    assert terminal.ends() == 2
    assert "›" not in shown, "the region has gone"


def test_a_journal_that_another_process_locks_for_a_while_keeps_no_key_waiting_and_loses_nothing(
    place: Place, chat: Terminal, provider: Provider
) -> None:
    chat.say("first")
    provider.answers("One.")
    chat.sees("One.")
    (journal,) = place.home.rglob("*.db")
    other = sqlite3.connect(journal, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    chat.say("second")
    chat.sees("Waiting for the model")
    chat.type("typed meanwhile")
    chat.sees("typed meanwhile")
    other.execute("ROLLBACK")
    other.close()
    provider.answers("Two.")
    chat.sees("Two.")


def test_without_a_terminal_run_is_pointed_to(place: Place) -> None:
    for closed in ("<&-", "</dev/null", ">&-"):
        done = subprocess.run(
            ["sh", "-c", f'"{sys.executable}" -m treadle chat {closed}'],
            env=place.environment,
            cwd=place.cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 2
        assert "treadle run" in done.stderr
        assert "Traceback" not in done.stderr
