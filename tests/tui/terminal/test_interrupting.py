"""While it works: interrupt, queue, steer, change the mode; what stalls, and what fails."""

from __future__ import annotations

from tests.tui.terminal.conftest import SAYS, Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal

INTERRUPTED = "Interrupted. Its work so far is kept"


def test_escape_interrupts_and_what_was_said_is_kept(chat: Terminal, provider: Provider) -> None:
    chat.say("Tell me")
    provider.asked().says("The first half of the sen")
    chat.sees("The first half of the sen")
    chat.press("Escape")
    screen = chat.sees(INTERRUPTED)
    assert screen.count("The first half of the sen") == 1
    chat.say("Go on")
    turn = provider.answers("tence.")
    assert "The first half of the sen" in turn.heard
    chat.sees("tence.")


def test_ctrl_c_clears_then_interrupts_then_asks_to_quit(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("Tell me")
    provider.asked().says("Half of ")
    chat.type("something")
    chat.sees("› something")
    chat.press("C-c")
    chat.sees(SAYS)
    assert INTERRUPTED not in chat.screen()
    chat.press("C-c")
    chat.sees(INTERRUPTED)
    chat.press("C-c")
    chat.sees("Ctrl-C again to quit")
    chat.sees_no_more("Ctrl-C again to quit")
    chat.press("C-c")
    chat.sees("Ctrl-C again to quit")
    chat.press("C-c")
    assert chat.ends() == 0


def test_what_is_sent_while_it_works_is_said_afterwards_in_order(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("one")
    turn = provider.asked()
    chat.say("two")
    chat.sees("↳ two")
    chat.say("three")
    chat.sees("↳ two\n↳ three")
    turn.says("First.").ends()
    assert provider.answers("Second.").last == "two"
    assert provider.answers("Third.").last == "three"
    screen = chat.sees(lambda screen: "Third." in screen and "↳" not in screen)
    assert (
        screen.index("First.")
        < screen.index("› two")
        < screen.index("Second.")
        < screen.index("› three")
        < screen.index("Third.")
    )


def test_escape_brings_what_is_queued_back_to_be_edited(chat: Terminal, provider: Provider) -> None:
    chat.say("one")
    provider.asked().says("Working")
    chat.say("two")
    chat.say("three")
    chat.sees("↳ three")
    chat.press("Escape")
    chat.sees(INTERRUPTED)
    chat.sees("› two\n  three")
    assert "↳" not in chat.screen()
    assert provider.is_idle


def test_ctrl_s_steers_and_the_model_reads_it_at_its_next_turn(
    place: Place, provider: Provider
) -> None:
    (place.cwd / "a.txt").write_text("alpha\n")
    chat = place.chat()
    chat.say("Read it")
    turn = provider.asked()
    chat.type("but only the first line")
    chat.sees("› but only the first line")
    chat.press("C-s")
    chat.sees(SAYS)
    turn.calls("read", path="a.txt").ends()
    assert "but only the first line" in provider.answers("Alpha.").heard
    assert chat.sees("Alpha.").count("but only the first line") == 1


def test_ctrl_s_sends_where_nothing_runs(chat: Terminal, provider: Provider) -> None:
    chat.type("hello")
    chat.sees("› hello")
    chat.press("C-s")
    assert provider.answers("Hi.").last == "hello"
    chat.sees("Hi.")


def test_shift_tab_changes_the_mode_of_the_run_that_is_under_way(
    place: Place, provider: Provider
) -> None:
    chat = place.chat()
    chat.say("Write it")
    turn = provider.asked()
    chat.press("BTab")
    chat.sees("\naccept-edits · local:m")
    turn.calls("write", path="a.txt", content="x\n").ends()
    provider.answers("Written.")
    chat.sees("Written.")
    assert (place.cwd / "a.txt").read_text() == "x\n"
    chat.press("BTab")
    chat.sees("\nplan · local:m")
    chat.press("BTab")
    chat.sees("\nask · local:m")


def test_a_mode_that_is_unsafe_has_to_be_said_in_words_and_is_loud(chat: Terminal) -> None:
    chat.say("/mode full")
    chat.sees("every call runs without asking")
    while not chat.shows_within(0.7, lambda screen: "› Run everything" in screen, press="Tab"):
        pass  # it hears nothing for half a second
    chat.press("y")
    chat.sees("\n FULL")


def test_a_provider_that_stalls_shows_how_long_and_escape_ends_it(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("Are you there?")
    provider.asked()
    chat.sees(
        lambda screen: (
            "Waiting for the model  1 s" in screen or "Waiting for the model  2 s" in screen
        )
    )
    chat.press("Escape")
    chat.sees(INTERRUPTED)
    assert "Waiting" not in chat.screen()


def test_an_error_of_the_provider_is_one_line_and_the_prompt_can_be_sent_again(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("Please do")
    provider.asked().fails(400, "the model m is not for you")
    screen = chat.sees("the model m is not for you")
    assert "Traceback" not in screen
    chat.press("Up")
    chat.sees("› Please do\nask")
    chat.press("Enter")
    assert provider.answers("Now it works.").last == "Please do"
    chat.sees("Now it works.")


def test_what_is_queued_comes_back_where_the_run_before_it_failed(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("one")
    turn = provider.asked()
    chat.say("two")
    chat.sees("↳ two")
    turn.fails(400, "no")
    chat.sees("› two\nask")
    assert provider.is_idle


def test_ctrl_d_asks_before_it_ends_a_run(chat: Terminal, provider: Provider) -> None:
    chat.say("Work")
    provider.asked().says("Working")
    chat.sees("Working")
    chat.press("C-d")
    chat.sees("A run is in progress. Interrupt it and quit?")
    chat.press("Escape")
    chat.sees(SAYS)
    chat.press("C-d")
    chat.sees("Interrupt it and quit?")
    while not chat.shows_within(0.7, "› Stay", press="Tab"):
        pass  # it hears nothing for half a second
    chat.press("y")
    assert chat.ends() == 0


def test_a_second_escape_offers_earlier_points_and_does_nothing_by_itself(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("first thing")
    provider.answers("First.")
    chat.sees("First.")
    chat.say("second thing")
    provider.answers("Second.")
    chat.sees(lambda screen: "Second." in screen and SAYS in screen)
    before = _said(chat)
    chat.press("Escape")
    chat.sees("Escape again: back to an earlier point")
    chat.press("Escape")
    chat.sees(lambda screen: screen.count("first thing") == 2)
    chat.press("Escape")
    chat.sees(SAYS)
    assert _said(chat) == before
    assert provider.is_idle


def _said(chat: Terminal) -> list[str]:
    """What stands in the scrollback, line by line."""
    return [line for line in chat.everything().partition("───")[0].splitlines() if line]
