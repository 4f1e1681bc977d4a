"""What a terminal would obey stands nowhere in what is written to it, whoever said it."""

from __future__ import annotations

import subprocess
import sys

from tests.tui.terminal.conftest import Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal

EVIL = (
    "\x1b[7;77H\x1b]0;stolen\x07\x1b]52;c;c3RvbGVu\x07\x9b7;77H\x1bP+q\x1b\\\x1b[?1003h\u202eword"
)
SIGNS = (
    b"\x1b[7;77H",
    b"\x1b]0;stolen",
    b"\x1b]52;c;c3",
    b"\xc2\x9b",
    b"\x1bP",
    b"\x1b[?1003h",
    "\u202e".encode(),
)


def _is_harmless(chat: Terminal) -> None:
    written = chat.raw()
    found = [sign for sign in SIGNS if sign in written]
    assert not found, chat.everything()
    assert "stolen" not in chat.title


def test_in_what_the_model_says_and_thinks(chat: Terminal, provider: Provider) -> None:
    chat.say("Say it")
    turn = provider.asked()
    turn.thinks(f"hm {EVIL}\n").says(f"before {EVIL} after\n\n```\ncode {EVIL}\n```\n\n{EVIL}")
    chat.sees("before word after")
    turn.ends()
    chat.sees(lambda screen: "code word" in screen and "tokens" in screen)
    chat.press("C-o")
    chat.sees("hm word")
    _is_harmless(chat)


def test_in_what_a_model_says_piece_by_piece(chat: Terminal, provider: Provider) -> None:
    chat.say("Say it")
    turn = provider.asked()
    for letter in f"before {EVIL} after":
        turn.says(letter)
    turn.ends()
    chat.sees(lambda screen: "after" in screen and "tokens" in screen)
    _is_harmless(chat)


def test_in_what_a_tool_gives_and_in_names_of_files(place: Place, provider: Provider) -> None:
    (place.cwd / "name-\x1b[7;77H\x1b]0;stolen\x07.txt").write_text(f"found {EVIL}\n")
    chat = place.chat()
    chat.say("Search")
    provider.wants("grep", pattern="found")
    provider.answers("Done.")
    chat.sees("Done.")
    chat.press("C-o")
    chat.sees("q quit")
    _is_harmless(chat)


def test_in_what_a_person_is_asked_about_it_is_shown_by_name(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("Run")
    provider.wants("bash", command=f"touch x {EVIL}")
    assert "touch x \\x1b[7;77H\\x1b]0;stolen\\x07" in chat.sees("Run this command?")
    _is_harmless(chat)


def test_in_the_names_of_tools(chat: Terminal, provider: Provider) -> None:
    chat.say("Run")
    provider.wants(f"tool{EVIL}", value=EVIL)
    provider.answers("Done.")
    chat.sees("Done.")
    _is_harmless(chat)


def test_in_the_titles_of_conversations_and_in_what_was_said_long_ago(
    place: Place, provider: Provider
) -> None:
    prompt = f"title {EVIL}\nand more {EVIL}"
    run = subprocess.Popen(
        [sys.executable, "-m", "treadle", "run", prompt],
        env=place.environment,
        cwd=place.cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    provider.answers(f"answer {EVIL}")
    run.communicate(timeout=200)
    assert run.returncode == 0
    chat = place.chat("--resume")
    chat.sees("answer word")
    chat.say("/sessions")
    chat.sees(lambda screen: screen.count("title") >= 2)
    _is_harmless(chat)


def test_in_what_is_pasted(chat: Terminal, provider: Provider) -> None:
    chat.paste(f"pasted {EVIL}")
    chat.sees("› pasted ")
    chat.press("Enter")
    provider.answers("Thanks.")
    chat.sees("Thanks.")
    _is_harmless(chat)
