"""Conversations that were left: opened again, cut by a crash, worked on elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from inline_snapshot import snapshot

from tests.tui.terminal.conftest import SAYS, Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal, masked
from tests.tui.terminal.test_calls import heard_of

CUT = "The last run was interrupted. Resume it?"
ONCE = "echo run >>runs.txt; while [ ! -e stop ]; do sleep 0.05; done"
"""A command of which nobody knows, after a crash, whether it took effect.

It ends when the test has made the file.
"""


@pytest.fixture
def place(place: Place) -> Place:
    place.starts = True
    return place


def _yes(chat: Terminal, marked: str, *, no: str) -> None:
    """Once the question hears keys."""
    while not chat.shows_within(0.7, f"› {no}", press="Tab"):
        pass
    chat.press("y")
    chat.sees_no_more(marked)


def test_a_conversation_is_opened_again_as_it_was_and_goes_on(
    place: Place, provider: Provider
) -> None:
    (place.cwd / "a.txt").write_text("alpha\n")
    first = place.chat()
    first.say("Read a.txt")
    provider.wants("read", path="a.txt")
    provider.answers("It says **alpha**.")
    first.sees("It says alpha.")
    first.press("C-d")
    assert first.ends() == 0
    chat = place.chat("--resume")
    chat.sees(", changed ")
    assert masked(chat.screen()) == snapshot("""\

› Read a.txt

✓ Read a.txt

It says alpha.

Read a.txt, changed N s ago

───────────────────────────────────────────────────────────────────────────────
› Ask a question or describe a task · / commands · @ files
ask · local:m · Read a.txt\
""")
    chat.say("And again?")
    turn = provider.answers("Still alpha.")
    assert "It says **alpha**." in turn.heard
    assert chat.sees("Still alpha.").count("It says alpha.") == 1


def test_one_of_several_conversations_is_picked_inside(place: Place, provider: Provider) -> None:
    chat = place.chat()
    chat.say("about apples")
    provider.answers("Apples.")
    chat.sees("Apples.")
    chat.say("/new")
    chat.sees_no_more("about apples\nask")
    chat.say("about pears")
    assert "apples" not in provider.answers("Pears.").heard
    chat.sees("Pears.")
    chat.say("/sessions")
    chat.sees("Conversations ")
    chat.type("apples")
    chat.sees(lambda screen: screen.count("about pears") == 1)
    chat.press("Enter")
    chat.sees("about apples, changed")
    chat.say("More")
    assert "Apples." in provider.asked().heard


def test_a_title_is_given(chat: Terminal, provider: Provider) -> None:
    chat.say("hello")
    provider.answers("Hi.")
    chat.sees("tokens · hello")
    chat.say("/rename The pricing")
    chat.sees("tokens · The pricing")


def test_a_run_that_was_killed_in_a_tool_is_shown_and_the_call_is_not_made_twice_unasked(
    place: Place, provider: Provider
) -> None:
    first = place.chat("--mode", "full")
    first.say("Run it once")
    provider.wants("bash", command=ONCE)
    first.sees("Running echo run")
    runs = place.cwd / "runs.txt"
    first.waits_for(runs.exists)
    os.kill(first.pid, signal.SIGKILL)
    assert first.ends() == 128 + signal.SIGKILL
    (place.cwd / "stop").touch()
    chat = place.chat_with("Resume it?", "--resume", "--mode", "full")
    screen = chat.screen()
    assert "› Run it once" in screen
    assert CUT in screen.replace("\n  ", " ")
    _yes(chat, "Resume it?", no="Not now")
    chat.sees("The process stopped while this call was running")
    assert runs.read_text() == "run\n"
    heard_of(chat)
    chat.press("n")
    provider.answers("Then I look myself.")
    chat.sees("Then I look myself.")
    assert runs.read_text() == "run\n"


def test_a_run_that_was_cut_can_be_left_and_something_else_said(
    place: Place, provider: Provider
) -> None:
    first = place.chat()
    first.say("Think long")
    provider.asked().says("I am ")
    first.sees("I am")
    os.kill(first.pid, signal.SIGKILL)
    first.ends()
    chat = place.chat_with("Resume it?", "--resume")
    chat.press("Escape")
    chat.sees("It stays unfinished. /resume asks again; your next message ends it first.")
    chat.say("Something else")
    turn = provider.answers("Else.")
    assert turn.last == "Something else"
    chat.sees("Else.")


def test_a_run_that_was_cut_while_the_model_spoke_goes_on(place: Place, provider: Provider) -> None:
    first = place.chat()
    first.say("Think long")
    provider.asked().says("I am ")
    first.sees("I am")
    os.kill(first.pid, signal.SIGKILL)
    first.ends()
    chat = place.chat_with("Resume it?", "--resume")
    _yes(chat, "Resume it?", no="Not now")
    assert provider.answers("Thought.").last == "Think long"
    chat.sees("Thought.")


def test_a_conversation_that_another_process_works_on_can_be_looked_at_and_is_free_afterwards(
    place: Place, provider: Provider
) -> None:
    (place.cwd / "a.txt").write_text("alpha\n")
    first = place.chat()
    first.say("Read a.txt")
    turn = provider.asked()
    chat = place.chat("--resume")
    chat.sees(f"process {first.pid}: you can watch it here, or start a /new one.".split(":")[0])
    chat.say("let me in")
    chat.sees("› let me in\nask")
    turn.says("I read it.").calls("read", path="a.txt").ends()
    chat.sees(lambda screen: "I read it." in screen and "✓ Read a.txt" in screen)
    provider.answers("It is alpha.")
    chat.sees("The other process has finished: you can continue here.")
    assert chat.everything().count("It is alpha.") == 1
    first.press("C-d")
    first.ends()
    chat.press("Enter")
    assert "It is alpha." in provider.answers("Welcome.").heard
    chat.sees("Welcome.")


def test_the_end_of_the_terminal_interrupts_the_run_and_keeps_what_was_said(
    place: Place, provider: Provider
) -> None:
    first = place.chat()
    first.say("Tell me")
    provider.asked().says("The first half")
    first.sees("The first half")
    os.kill(first.pid, signal.SIGHUP)
    first.ends()
    chat = place.chat("--resume")
    chat.sees("The first half")
    assert "Resume it?" not in chat.screen()
    assert SAYS in chat.screen()


def test_without_a_terminal_it_ends_with_2_and_points_to_run(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "chat"],
        env=place.environment,
        cwd=place.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 2
    assert "no terminal" in done.stderr
    assert 'treadle run "' in done.stderr
