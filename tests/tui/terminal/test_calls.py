"""What the agent does: lines of calls, and the questions whether they may run."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.tui.terminal.conftest import SAYS, Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal, masked

ASKS = "Run this command?"
WRITES = "Write this file?"


def heard_of(chat: Terminal) -> None:
    """A question hears half a second after it has come, and after a key that was not meant for it.

    The mark moves where a key was heard.
    """
    chat.sees("› y Yes, this once")
    while not chat.shows_within(0.7, lambda screen: "› y Yes" not in screen, press="Down"):
        pass
    chat.press("Up")
    chat.sees("› y Yes, this once")


def test_a_call_is_a_line_with_at_most_ten_lines_of_what_it_gave(
    place: Place, provider: Provider
) -> None:
    (place.cwd / "many.txt").write_text("".join(f"word {n}\n" for n in range(1, 31)))
    chat = place.chat()
    chat.say("Search")
    provider.wants("grep", pattern="word", path="many.txt")
    provider.answers("That is all.")
    screen = chat.sees("That is all.")
    body = [line for line in screen.splitlines() if line.startswith("  │ ")]
    assert len(body) == 10
    assert body[-1].startswith("  │ … ")
    assert body[-1].endswith(" more lines (Ctrl-O)")
    assert "✓ Searched word" in screen


def test_all_of_a_result_stands_in_the_viewer(place: Place, provider: Provider) -> None:
    (place.cwd / "many.txt").write_text("".join(f"word {n}\n" for n in range(1, 31)))
    chat = place.chat()
    chat.say("Search")
    provider.wants("grep", pattern="word", path="many.txt")
    provider.answers("That is all.")
    before = chat.sees("That is all.\n\n")
    chat.press("C-o")
    chat.sees("word 30")
    chat.press("q")
    assert chat.sees(SAYS) == before


def test_a_question_shows_the_command_and_what_can_be_said(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("Make it")
    provider.wants("bash", command="touch made.txt && echo done")
    chat.sees(ASKS)
    assert masked(chat.screen()) == snapshot("""\

› Make it

───────────────────────────────────────────────────────────────────────────────
? treadle asks: Run this command?
  touch made.txt && echo done
  'made.txt' is written
  › y Yes, this once
    n No
    w No, and say why
    d view full · Esc deny
ask · local:m · 1.2k tokens · Make it\
""")


def test_a_call_that_is_allowed_once_runs_once(place: Place, provider: Provider) -> None:
    chat = place.chat()
    chat.say("Make it")
    provider.wants("bash", command="touch one.txt")
    heard_of(chat)
    chat.press("y")
    provider.wants("bash", command="touch two.txt")
    heard_of(chat)
    assert [file.name for file in place.cwd.iterdir()] == ["one.txt"]
    chat.press("y")
    provider.answers("Made.")
    chat.sees("Made.")
    assert (place.cwd / "two.txt").exists()


@needs_bubblewrap
def test_a_call_like_one_that_is_allowed_for_the_session_is_not_asked_about(
    place: Place, provider: Provider
) -> None:
    place.confines()
    chat = place.chat()
    chat.say("Make it")
    provider.wants("bash", command="touch one.txt")
    heard_of(chat)
    assert "for this session: touch\n" in chat.screen()
    chat.press("s")
    provider.wants("bash", command="touch two.txt")
    provider.answers("Made.")
    chat.sees("Made.")
    assert (place.cwd / "two.txt").exists()
    assert "touch" not in (place.own / "config.yaml").read_text()


@needs_bubblewrap
def test_what_is_allowed_always_is_a_rule_in_the_configuration(
    place: Place, provider: Provider
) -> None:
    place.confines()
    chat = place.chat()
    chat.say("Make it")
    provider.wants("bash", command="touch one.txt")
    heard_of(chat)
    chat.press("a")
    provider.wants("bash", command="touch two.txt")
    provider.answers("Made.")
    chat.sees("Made.")
    assert "touch" in (place.own / "config.yaml").read_text()
    assert provider.config in (place.own / "config.yaml").read_text()


def test_a_call_that_is_denied_does_not_run_and_the_model_goes_on(
    place: Place, provider: Provider
) -> None:
    chat = place.chat()
    chat.say("Write it")
    provider.wants("write", path="a.txt", content="secret plan\n")
    assert "\n  a.txt\n  1 + secret plan\n" in chat.sees(WRITES)
    heard_of(chat)
    chat.press("n")
    assert "the user declined" in provider.answers("Then not.").last
    assert "✗ write a.txt · not run" in chat.sees("Then not.")
    assert not (place.cwd / "a.txt").exists()


def test_the_model_reads_why_a_call_was_denied(place: Place, provider: Provider) -> None:
    chat = place.chat()
    chat.say("Write it")
    provider.wants("write", path="a.txt", content="x\n")
    heard_of(chat)
    chat.press("w")
    chat.sees("why?")
    chat.type("use b.txt, as yesterday")
    chat.sees("why? use b.txt, as yesterday")
    chat.press("Enter")
    assert "use b.txt, as yesterday" in provider.answers("Fine.").last
    chat.sees("Fine.")


def test_escape_denies(place: Place, provider: Provider) -> None:
    chat = place.chat()
    chat.say("Write it")
    provider.wants("write", path="a.txt", content="x\n")
    heard_of(chat)
    chat.press("Escape")
    assert "the user declined" in provider.answers("Then not.").last
    chat.sees("Then not.")
    assert not (place.cwd / "a.txt").exists()


def test_what_is_typed_on_when_a_question_comes_answers_nothing_and_stands_in_the_input(
    place: Place, provider: Provider
) -> None:
    chat = place.chat()
    chat.say("Write it")
    turn = provider.asked()
    chat.type("nay, say ")
    chat.sees("nay, say")
    turn.calls("write", path="a.txt", content="x\n").ends()
    chat.sees(WRITES)
    chat.type("yes and always")
    chat.sees(WRITES)
    heard_of(chat)
    chat.press("n")
    provider.answers("Then not.")
    chat.sees("› nay, say yes and always")
    assert not (place.cwd / "a.txt").exists()


def test_the_change_of_a_file_is_shown_before_it_is_made_and_whole_in_the_viewer(
    place: Place, provider: Provider
) -> None:
    (place.cwd / "a.py").write_text("".join(f"line_{n} = {n}\n" for n in range(1, 41)))
    chat = place.chat()
    chat.say("Change it")
    provider.wants("read", path="a.py")
    provider.wants(
        "edit", path="a.py", edits=[{"old": "line_20 = 20", "new": "line_20 = 'twenty'"}]
    )
    screen = chat.sees("Make this change?")
    assert "line_20 = 'twenty'" in screen
    heard_of(chat)
    chat.press("d")
    chat.sees(lambda seen: "line_20 = 'twenty'" in seen and "Make this change" not in seen)
    chat.press("q")
    heard_of(chat)
    chat.press("y")
    provider.answers("Changed.")
    assert "✓ Edited a.py" in chat.sees("Changed.")
    assert "line_20 = 'twenty'" in (place.cwd / "a.py").read_text()


@pytest.mark.parametrize("key", ["e", "BTab"])
def test_edits_are_accepted_for_the_session_in_the_question_about_one(
    place: Place, provider: Provider, key: str
) -> None:
    chat = place.chat()
    chat.say("Write all")
    turn = provider.asked()
    turn.calls("write", path="a.txt", content="x\n").calls(
        "write", path="b.txt", content="x\n"
    ).calls("write", path="c.txt", content="x\n").ends()
    chat.sees("treadle asks (1 of 3): Write this file?")
    heard_of(chat)
    chat.press(key)
    provider.wants("write", path="d.txt", content="x\n")
    provider.answers("All of them.")
    assert "accept-edits · " in chat.sees("All of them.")
    assert sorted(path.name for path in place.cwd.iterdir()) == ["a.txt", "b.txt", "c.txt", "d.txt"]


def test_a_file_outside_of_the_project_is_asked_about_where_edits_are_accepted(
    place: Place, provider: Provider
) -> None:
    chat = place.chat()
    chat.say("Write all")
    turn = provider.asked()
    turn.calls("write", path="a.txt", content="x\n").calls(
        "write", path="../b.txt", content="x\n"
    ).ends()
    chat.sees("(1 of 2)")
    heard_of(chat)
    chat.press("e")
    assert "../b.txt" in chat.sees("(2 of 2)")
    assert "accept edits" not in chat.screen()


def test_two_questions_come_one_after_the_other(place: Place, provider: Provider) -> None:
    chat = place.chat()
    chat.say("Write both")
    turn = provider.asked()
    turn.calls("write", path="a.txt", content="x\n").calls(
        "write", path="b.txt", content="x\n"
    ).ends()
    chat.sees("(1 of 2)")
    heard_of(chat)
    chat.press("y")
    chat.sees("(2 of 2)")  # between the two, neither question is on the screen
    heard_of(chat)
    chat.press("n")
    provider.answers("One of them.")
    chat.sees("One of them.")
    assert len(list(place.cwd.iterdir())) == 1


def test_what_a_model_thinks_is_one_line_and_can_be_read_in_the_viewer(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("Think")
    turn = provider.asked()
    turn.thinks("First the pricing,\nthen the rest. ")
    chat.sees("Thinking")
    turn.says("Thought through.").ends()
    screen = chat.sees("Thought through.")
    assert "∴ Thought for" in screen
    assert "First the pricing" not in screen
    chat.press("C-o")
    chat.sees("First the pricing,")


def test_the_todo_line_shows_what_is_being_done(chat: Terminal, provider: Provider) -> None:
    chat.say("Plan")
    todos = [
        {"content": "Read the code", "status": "completed"},
        {"content": "Fix the bug", "status": "in_progress", "active_form": "Fixing the bug"},
        {"content": "Test it", "status": "pending"},
    ]
    provider.wants("todo_write", todos=todos)
    provider.asked()
    chat.sees("☐ 2 of 3  Fixing the bug")
