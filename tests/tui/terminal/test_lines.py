"""A terminal that can only print: whole lines, and questions in words."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.tui.terminal.conftest import Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal, masked

INTERRUPTED = "Interrupted. Its work so far is kept"


@pytest.fixture
def lines(place: Place) -> Terminal:
    return _opened(place)


def _opened(place: Place, *arguments: str) -> Terminal:
    terminal = place.runs("chat", *arguments, TERM="dumb")
    terminal.sees("/help lists commands")
    return terminal


def _say(terminal: Terminal, text: str) -> None:
    terminal.sees(lambda screen: screen.endswith("\n>"))
    terminal.type(text)
    terminal.press("Enter")


def _answer(terminal: Terminal, line: str) -> None:
    """In the half second after a question nothing answers it."""
    early = terminal.everything().count("Not sent, because")
    _say(terminal, line)
    terminal.sees(lambda screen: "> " + line in screen)
    if terminal.shows_within(
        0.3, lambda _: terminal.everything().count("Not sent, because") > early
    ):
        _answer(terminal, line)


def test_what_is_said_and_done_stands_there_line_by_line_without_one_escape(
    lines: Terminal, place: Place, provider: Provider
) -> None:
    (place.cwd / "a.txt").write_text("alpha\n")
    _say(lines, "Read a.txt")
    provider.wants("read", path="a.txt")
    provider.asked().thinks("hm").says("It says **alpha**.\n\n- one\n").ends()
    lines.sees(lambda screen: "one" in screen and screen.endswith("\n>"))
    _say(lines, "And now?")
    provider.answers("Nothing.")
    lines.sees(lambda screen: "Nothing." in screen and screen.endswith("\n>"))
    assert masked(lines.screen()) == snapshot("""\
Type a task and press Enter. /help lists commands, Ctrl-C interrupts.
Ctrl-D ends.
> Read a.txt

✓ Read a.txt

∴ Thought for N s

It says alpha.

• one
> And now?

Nothing.
>\
""")
    assert b"\x1b" not in lines.raw()
    lines.press("C-d")
    assert lines.ends() == 0


@pytest.mark.parametrize(
    ("letter", "heard", "is_made"),
    [("y", "no output", True), ("n", "the user declined", False), ("w use b", "use b", False)],
)
def test_a_question_is_asked_in_words(
    lines: Terminal, place: Place, provider: Provider, letter: str, heard: str, is_made: bool
) -> None:
    _say(lines, "Make it")
    provider.wants("bash", command="touch made.txt")
    lines.sees("Type a letter and press Enter")
    assert "  touch made.txt\n" in lines.screen()
    _answer(lines, letter)
    assert heard in provider.answers("Well.").last
    lines.sees("Well.")
    assert (place.cwd / "made.txt").exists() is is_made


def test_what_comes_together_with_a_question_does_not_answer_it(
    lines: Terminal, place: Place, provider: Provider
) -> None:
    _say(lines, "Make it")
    turn = provider.asked()
    turn.calls("bash", command="touch made.txt").ends()
    lines.sees("Type a letter")
    lines.type("y")
    lines.press("Enter")
    lines.sees("Not sent, because a question came up at the same time: y")
    _answer(lines, "perhaps")
    lines.sees("That is not an answer.")
    _answer(lines, "n")
    provider.answers("Not then.")
    lines.sees("Not then.")


def test_ctrl_c_interrupts_and_ctrl_d_ends(lines: Terminal, provider: Provider) -> None:
    _say(lines, "Tell me")
    provider.asked().says("The first half.\n\nThe sec")
    lines.sees("The first half.")
    for line in ("later", "/modle"):
        lines.type(line)
        lines.press("Enter")
    # Ctrl-C drops what the terminal holds: both lines have been read once the second is answered.
    lines.sees("did you mean /mode")
    lines.press("C-c")
    screen = lines.sees(lambda screen: INTERRUPTED in screen and screen.endswith("\n>"))
    assert "The sec" in screen
    assert "Not sent: later" in screen
    lines.press("C-d")
    assert lines.ends() == 0


def test_ctrl_d_asks_before_it_ends_a_run(lines: Terminal, provider: Provider) -> None:
    _say(lines, "Tell me")
    provider.asked().says("The first half.\n\nThe sec")
    lines.sees("The first half.")
    lines.press("C-d")
    lines.sees("Type y (Quit) or n (Stay)")
    _answer(lines, "y")
    assert lines.ends() == 0


def test_commands_work_and_those_that_need_a_screen_say_so(
    lines: Terminal, provider: Provider
) -> None:
    _say(lines, "/mode plan")
    lines.sees(lambda screen: "plan" in screen.rpartition("/mode plan")[2])
    _say(lines, "/modle")
    lines.sees("did you mean /mode")
    _say(lines, "/help")
    lines.has("/export")
    _say(lines, "/sessions")
    lines.sees(lambda screen: screen.rpartition("/sessions")[2].strip(" >\n"))
    assert provider.is_idle
    assert b"\x1b" not in lines.raw()


def test_a_conversation_is_opened_again_and_goes_on(place: Place, provider: Provider) -> None:
    first = _opened(place)
    _say(first, "remember 7")
    provider.answers("Seven.")
    first.sees("Seven.")
    first.press("C-d")
    first.ends()
    second = _opened(place, "--resume")
    second.sees("› remember 7\n\nSeven.")
    _say(second, "which?")
    assert "remember 7" in provider.answers("7").heard
