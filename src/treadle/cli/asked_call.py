"""Complete text of a tool call that needs approval: its name and every character of its arguments.
Entry points: `call_lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from treadle._internal.json_text import encode_json
from treadle._internal.terminal_text import revealed, revealed_line
from treadle._internal.units import count
from treadle.journal.entries import ApprovalAsked
from treadle.journal.projection import shown_arguments

SHOWN_CHARS_MAX = 20_000
"""Maximum number of characters to show. A longer call cannot be reviewed here, and so cannot be
approved.
"""


class CallLines(NamedTuple):
    lines: list[str]
    whole: bool
    """True if the lines show the complete call."""


def call_lines(asked: ApprovalAsked, clean: Callable[[str], str]) -> CallLines:
    """Return the lines of a call, one or more per argument, with hidden and control characters
    escaped.
    """
    lines, left = list[str](), SHOWN_CHARS_MAX
    for line in _arguments(asked, clean):
        if len(line) > left:
            rest = f"… {count(len(asked.arguments_json), 'character')} are too many to show"
            return CallLines([*lines, line[:left], rest], False)
        lines.append(line)
        left -= len(line) + 1
    return CallLines(lines, True)


def _arguments(asked: ApprovalAsked, clean: Callable[[str], str]) -> Iterator[str]:
    shown = shown_arguments(asked.arguments_json)
    if isinstance(shown, str):
        yield from revealed(clean(shown)).split("\n")
        return
    for name, value in shown.items():
        text = value if isinstance(value, str) else encode_json(value).decode()
        key = revealed_line(clean(name))
        first, *more = revealed(clean(text)).split("\n")
        yield f"{key}: {first}"
        # A line of a value must not look like another argument.
        yield from (f"{' ' * len(key)}| {line}" for line in more)
