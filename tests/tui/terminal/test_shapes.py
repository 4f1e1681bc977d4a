"""Terminals of all kinds: small ones, without colour, without Unicode, dumb ones."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from tests.tui.terminal.conftest import SAYS, Place
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import masked
from tests.tui.terminal.test_calls import heard_of

COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (20, 6)])
def test_everything_can_be_done_in_a_window_of_any_size(
    place: Place, provider: Provider, columns: int, rows: int
) -> None:
    chat = place.chat(columns=columns, rows=rows)
    chat.say("Make it")
    turn = provider.asked()
    chat.type("later")
    chat.press("Enter")
    chat.sees("later")
    turn.thinks("hm ").says("I will.").calls("bash", command="touch made.txt").ends()
    chat.sees(lambda screen: "touch made.txt" in screen and "› y Yes" in screen)
    heard_of(chat)
    chat.press("y")
    provider.answers("Made.\n\nAnd done.")
    assert provider.answers("Later.").last == "later"
    chat.sees(lambda screen: "Later." in screen and SAYS in screen)
    everything = chat.everything()
    assert [
        everything.count(words)
        for words in ("› Make it", "I will.", "Made.", "And done.", "› later", "Later.", SAYS)
    ] == [1] * 7, everything
    chat.press("C-d")
    assert chat.ends() == 0


def test_without_colour_there_is_none(place: Place, provider: Provider) -> None:
    chat = place.chat(NO_COLOR="1")
    chat.say("Write")
    provider.wants("write", path="a.py", content="x = 'y'\n")
    chat.sees("Write this file?")
    chat.press("Escape")
    provider.answers("```python\nx = 1\n```\n# Title\n**strong** `code`")
    chat.sees("strong code")
    assert not COLOUR.findall(chat.raw())


def test_with_colour_there_is_some(place: Place, provider: Provider) -> None:
    chat = place.chat()
    chat.say("Show")
    provider.answers("```python\nx = 1\n```")
    chat.sees("  x = 1")
    assert COLOUR.findall(chat.raw())


def test_without_unicode_every_byte_is_ascii(place: Place, provider: Provider) -> None:
    chat = place.runs("chat", LANG="C", LC_ALL="C")
    chat.sees(SAYS)
    chat.say("Write")
    provider.wants("write", path="a.py", content="x = 'é'\n")
    chat.sees("Write this file?")
    chat.press("Escape")
    turn = provider.asked()
    turn.says("- one → two\n- “quoted” é\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end.")
    chat.sees("quoted")
    turn.ends()
    chat.sees("The end.\n\n-")
    odd = [line for line in chat.raw().split(b"\n") if not line.isascii()]
    assert not odd
    assert masked(chat.everything()) == snapshot("""\

> Write

x write a.py - not run
  | the user declined.

* one > two
* "quoted" ?

a  b
-  -
1  2

The end.

-------------------------------------------------------------------------------
> Ask a question or describe a task - / commands - @ files
ask - local:m - 1.2k tokens - Write\
""")
