"""Mentions that came into the input without being typed: from the clipboard, an editor, or an
earlier prompt. Such a text may have another author than its sender. Entry: `PastedMentions`.
"""

from __future__ import annotations

import re
from typing import Final

from treadle._internal.terminal_text import plain

KEPT_MAX: Final = 20_000
NAME_CHARS: Final = 4_096
"""No path is longer on Linux."""
_BEGUN: Final = re.compile(r'@"?(?:([^\s"@]+)|\Z)')
"""With nothing behind it only at the end of the text, where the rest may follow."""


class PastedMentions:
    """For the life of one chat. Remembers names, not texts. When in doubt, a mention was pasted."""

    def __init__(self, *, knows: bool = True) -> None:
        """`knows`: False for a terminal that does not tell a paste from typing."""
        self._all = not knows
        self._names: set[str] = set()
        self._confirmed: set[str] = set()

    def remember(self, text: str) -> None:
        """`text` was not typed."""
        # a short paste is inserted without its hidden characters, and a long one is sent as it is
        for variant in {text, plain(text)}:
            for found in _BEGUN.finditer(variant):
                name = (found[1] or "")[:NAME_CHARS]
                self._names.add(name)
                self._confirmed -= {each for each in self._confirmed if _overlap(each, name)}
        self._all = self._all or len(self._names) > KEPT_MAX

    def has(self, said: str) -> bool:
        """`said`: the name behind the `@`. True if any of it may have been pasted, and no person
        has confirmed it since.
        """
        if said in self._confirmed:
            return False
        return self._all or any(_overlap(said, name) for name in self._names)

    def confirm(self, said: str) -> None:
        """A person saw it as an attachment and agreed."""
        self._confirmed.add(said)


def _overlap(one: str, other: str) -> bool:
    """Whether one is the beginning of the other: a person may have typed the rest."""
    return one.startswith(other) or other.startswith(one)
