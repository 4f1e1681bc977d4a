"""What a person types: sent, recalled, completed, pasted, written in an editor."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from tests.tui.terminal.conftest import PLACEHOLDER, Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal, masked


def test_the_first_screen(chat: Terminal) -> None:
    assert masked(chat.screen()) == snapshot("""\

───────────────────────────────────────────────────────────────────────────────
› Ask a question or describe a task · / commands · @ files
ask · local:m\
""")


def test_what_is_typed_is_sent_and_answered(chat: Terminal, provider: Provider) -> None:
    chat.say("Which day is it?")
    turn = provider.asked()
    assert turn.last == "Which day is it?"
    turn.says("It is **Friday**.").ends()
    chat.sees(lambda screen: "It is Friday." in screen and "tokens" in screen)
    assert masked(chat.screen()) == snapshot("""\

› Which day is it?

It is Friday.

───────────────────────────────────────────────────────────────────────────────
› Ask a question or describe a task · / commands · @ files
ask · local:m · 1.2k tokens · Which day is it?\
""")


def test_what_is_typed_before_the_chat_stands_is_not_lost(place: Place, provider: Provider) -> None:
    chat = place.chat()  # there is a first frame, and the rest is being loaded
    chat.type("early")
    chat.press("Enter")
    assert provider.answers("bird").last == "early"
    assert chat.has("bird").count("› early") == 1


def test_several_lines_are_typed_with_ctrl_j_and_with_a_backslash(
    chat: Terminal, provider: Provider
) -> None:
    chat.type("one")
    chat.press("C-j")
    chat.type("two\\")
    chat.press("Enter")
    chat.type("three")
    chat.sees("  three")
    chat.press("Enter")
    assert provider.asked().last == "one\ntwo\nthree"


def test_up_brings_back_what_was_typed_also_in_an_earlier_chat(
    place: Place, provider: Provider
) -> None:
    first = place.chat()
    first.say("the first thing")
    provider.answers("Yes.")
    first.sees("Yes.")
    first.press("C-d")
    assert first.ends() == 0
    second = place.chat()
    second.type("another")
    second.press("Enter")
    provider.answers("No.")
    second.sees("No.")
    second.press("Up")
    second.sees("› another\nask")
    second.press("Up")
    second.sees("› the first thing\nask")
    second.press("Down")
    second.sees("› another\nask")


def test_a_paste_of_many_lines_shows_a_marker_and_is_sent_whole(
    chat: Terminal, provider: Provider
) -> None:
    lines = "\n".join(f"pasted line {n}" for n in range(1, 13))
    chat.type("Look: ")
    chat.paste(lines)
    chat.sees("Look: [pasted text #1, 12 lines]")
    chat.press("Enter")
    assert provider.answers("Seen.").last == f"Look: {lines}"
    assert "pasted line 7" not in chat.sees("Seen.")


def test_a_short_paste_stands_there_as_it_is_and_is_not_sent_by_its_line_ends(
    chat: Terminal, provider: Provider
) -> None:
    chat.paste("a\nb\n")
    chat.sees("› a\n  b")
    assert provider.is_idle
    chat.press("Enter")
    assert provider.asked().last.rstrip() == "a\nb"


def test_a_pasted_megabyte_is_sent_whole(chat: Terminal, provider: Provider) -> None:
    text = "x" * 1_048_575 + "y"
    chat.paste(text)
    chat.sees("[pasted text #1, 1,048,576 characters]")
    chat.press("Enter")
    assert provider.answers("Long.").last == text
    chat.sees("Long.")


def test_a_file_is_completed_behind_an_at_and_the_model_reads_it(
    place: Place, provider: Provider
) -> None:
    (place.cwd / "src").mkdir()
    (place.cwd / "src" / "pricing.py").write_text("MARGIN = 0.31\n")
    chat = place.chat()
    chat.type("Look at @prici")
    chat.sees("\n  src/pricing.py")
    chat.press("Tab")
    chat.sees("› Look at @src/pricing.py")
    chat.press("Enter")
    assert "MARGIN = 0.31" in provider.asked().heard


def test_a_command_is_completed_behind_a_slash(chat: Terminal) -> None:
    chat.type("/co")
    assert "/compact" in (screen := chat.sees("/context"))
    assert "/copy [N]" in screen
    assert "/quit" not in screen
    chat.press("Tab")
    chat.sees("› /compact\n")


def test_an_unknown_command_gives_the_nearest_ones_and_stays_in_the_input(chat: Terminal) -> None:
    chat.say("/modle")
    chat.sees("unknown command /modle: did you mean /mode")
    chat.sees("› /modle\n")


def test_a_command_of_the_chat_is_not_sent_to_the_model(chat: Terminal, provider: Provider) -> None:
    chat.say("/help")
    assert "Shift-Tab" in chat.has("Ctrl-S")
    assert provider.is_idle


def test_the_command_quit_ends_the_chat(chat: Terminal) -> None:
    chat.say("/quit")
    assert chat.ends() == 0
    assert PLACEHOLDER not in chat.screen()


def test_ctrl_d_ends_the_chat_where_nothing_is_typed(chat: Terminal) -> None:
    chat.type("x")
    chat.sees("› x")
    chat.press("C-d")
    chat.press("BSpace")
    chat.sees(PLACEHOLDER)
    chat.press("C-d")
    assert chat.ends() == 0


def test_ctrl_g_takes_what_is_typed_into_the_editor_and_brings_it_back(
    place: Place, provider: Provider
) -> None:
    editor = _editor(place.cwd.parent, 'sed -i.old "s/rough/polished/" "$1"')
    chat = place.chat(EDITOR=editor)
    chat.type("a rough idea")
    chat.sees("a rough idea")
    chat.press("C-g")
    chat.sees("› a polished idea")
    chat.press("Enter")
    assert provider.asked().last == "a polished idea"


def test_an_editor_that_fails_takes_nothing_away(place: Place) -> None:
    chat = place.chat(EDITOR=_editor(place.cwd.parent, "exit 3"))
    chat.type("keep me")
    chat.sees("keep me")
    chat.press("C-g")
    said = "ended with 3: the input is unchanged"  # after a path of any length, so it may wrap
    chat.sees(lambda screen: said in " ".join(screen.split()))
    chat.sees("› keep me")


def test_the_title_of_the_window_says_where_it_works(chat: Terminal, provider: Provider) -> None:
    chat.say("hello")
    turn = provider.asked()
    assert chat.title == "treadle: working in shop"
    turn.says("Hi.").ends()
    chat.sees(lambda screen: "Hi." in screen and chat.title == "treadle: shop")


def _editor(folder: Path, script: str) -> str:
    file = folder / "editor"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return str(file)
