"""An answer on its way to the scrollback: each line once, however fast it comes and however the
window is resized.
"""

from __future__ import annotations

import re

from tests.tui.terminal.conftest import Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import Terminal

ANSWER = """\
# A heading

A paragraph with **bold** words, which is long enough that it has to be broken where the window ends, twice if that is narrow.

1. one
2. two
   - inner one
   - inner two

> quoted words

| name | count |
|------|------:|
| apple | 3 |
| pear | 12 |

```python
def total(prices):

    return sum(prices)  # of all of them
```

The last paragraph.
"""
WORDS = 240


def _drawn(chat: Terminal, provider: Provider, prompt: str, pieces: list[str], end: str) -> str:
    """What stands in the scrollback of an answer, once it is over."""
    chat.say(prompt)
    turn = provider.asked()
    for piece in pieces:
        turn.says(piece)
    turn.says(f"\n\n{end}").ends()
    chat.sees(lambda screen: f"\n{end}\n\n─" in screen)
    return chat.everything().rpartition(f"› {prompt}\n")[2].partition(f"\n{end}\n")[0]


def test_an_answer_looks_the_same_at_every_speed_and_each_line_stands_there_once(
    chat: Terminal, provider: Provider
) -> None:
    at_once = _drawn(chat, provider, "at once", [ANSWER], "The end 1.")
    by_letters = _drawn(chat, provider, "by letters", list(ANSWER), "The end 2.")
    by_words = _drawn(chat, provider, "by words", re.findall(r"\s*\S+", ANSWER), "The end 3.")
    assert by_letters == at_once
    assert by_words == at_once
    for line in (
        "A heading",
        "inner one",
        "inner two",
        "quoted words",
        "apple",
        "pear",
        "def total(prices):",
        "return sum(prices)",
        "The last paragraph.",
    ):
        assert at_once.count(line) == 1, line


def test_what_is_drawn_while_it_is_being_written_leaves_nothing_behind(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("slowly")
    turn = provider.asked()
    for n, line in enumerate(ANSWER.splitlines(keepends=True)):
        turn.says(line)
        if line.strip() and n % 3 == 0:
            shown = re.sub(r"[^a-z ].*", "", line.lstrip("#>|123. -`"))
            chat.has(shown.split("\n")[0][:10])
    turn.says("\nThe end 1.").ends()
    chat.sees("\nThe end 1.\n\n─")
    slow = chat.everything().partition("› slowly\n")[2].partition("\nThe end 1.\n")[0]
    # another end, which the screen does not show yet
    assert slow == _drawn(chat, provider, "again", [ANSWER], "The end 2.")


def test_the_paragraph_that_is_being_written_stands_one_line_below_the_one_before(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("go on")
    turn = provider.asked()
    turn.says("The first paragraph.\n\nThe second")
    chat.sees("\nThe first paragraph.\n\nThe second\n")
    turn.says(" paragraph.").ends()
    chat.sees("\nThe first paragraph.\n\nThe second paragraph.\n\n─")


def test_a_long_answer_goes_up_and_nothing_above_the_live_region_is_written_twice(
    chat: Terminal, provider: Provider
) -> None:
    chat.say("count")
    turn = provider.asked()
    for n in range(1, 201):
        turn.says(f"- item {n}\n")
        if n % 40 == 0:
            chat.sees(f"item {n}\n")
    turn.ends()
    chat.sees(lambda screen: "tokens" in screen)
    assert re.findall(r"• item (\d+)", chat.everything()) == [str(n) for n in range(1, 201)]
    written = chat.raw().decode(errors="replace")
    assert written.count("item 20\x1b") + written.count("item 20\r") <= 12, (
        "it is drawn while it is the tail, and once above"
    )


def test_no_word_is_lost_or_doubled_where_the_window_is_resized_while_it_streams(
    place: Place, provider: Provider
) -> None:
    chat = place.chat(columns=120, rows=30)
    chat.say("Go")
    turn = provider.asked()
    words = [f"w{n:04}" for n in range(WORDS)]
    paragraphs = [words[n : n + 30] for n in range(0, WORDS, 30)]
    for n, paragraph in enumerate(paragraphs):
        for word in paragraph:
            turn.says(f"{word} ")
        turn.says("\n\n")
        chat.sees(paragraph[-1])
        if n in (1, 4):
            chat.resize(60 if n == 1 else 120, 30)
            turn.says("wide ")
            chat.sees(
                lambda screen: (
                    len(max(screen.splitlines(), key=len)) <= chat.size[0]
                    and "─" * (chat.size[0] - 1) in screen
                )
            )
            turn.says("enough\n\n")
    turn.says("The end.").ends()
    chat.sees("The end.\n\n─")
    everything = chat.everything(joined=True)
    assert re.findall(r"w\d{4}", everything) == words
    assert everything.count("wide enough") == 2
    assert everything.count("───") == everything.splitlines()[-3].count("───"), everything


def test_a_window_that_is_resized_while_nothing_runs_shows_the_input_once(
    place: Place, provider: Provider
) -> None:
    chat = place.chat(columns=120, rows=30)
    chat.say("Hello")
    provider.answers("Here.")
    chat.sees("Here.")
    chat.sees("tokens · Hello")  # the run is over
    for columns, rows in ((60, 30), (120, 30), (33, 12), (100, 40)):
        chat.resize(columns, rows)
        chat.sees(lambda screen: f"\n{'─' * (chat.size[0] - 1)}\n› Ask" in screen)
    everything = chat.everything()
    assert everything.count("› Ask") == 1, everything
    assert everything.count("Here.") == 1
    assert everything.count("› Hello") == 1
