"""Record of mentions that were not typed but pasted, or came from an editor or an earlier prompt,
so that another person may have written them. Entry points: `PastedMentions`.
"""

from __future__ import annotations

import re
from typing import Final

from treadle._internal.terminal_text import plain

KEPT_MAX: Final = 20_000
NAME_CHARS: Final = 4_096
"""Maximum length of a mentioned path, as on Linux."""
_BEGUN: Final = re.compile(r'@(?:(?="([^\S\n]*[^\s"]+|[^\S\n]+|\Z))|([^\s"@]+|\Z))')
"""Pattern of the beginning of a mention; an empty one only at the end, where the rest may follow. A
quoted name may begin with blanks and contain another `@`.
"""


class PastedMentions:
    """Pasted names of one chat. Stores names, not texts; in doubt, a mention counts as pasted."""

    def __init__(self, *, knows: bool = True) -> None:
        """Create a record. `knows`: False for a terminal that does not distinguish pasting from
        typing.
        """
        self._all = not knows
        self._names: set[str] = set()
        self._confirmed: set[str] = set()

    def remember(self, text: str) -> None:
        """Record the mentions in a text that was not typed."""
        # A short paste is inserted without hidden characters, a long one is sent unchanged.
        for variant in {text, plain(text)}:
            for found in _BEGUN.finditer(variant):
                name = (found[1] or found[2] or "")[:NAME_CHARS]
                self._names.add(name)
                self._confirmed -= {each for each in self._confirmed if _overlap(each, name)}
        self._all = self._all or len(self._names) > KEPT_MAX

    def has(self, said: str) -> bool:
        """Return True if any part of the name after the `@` may have been pasted, and the user has
        not confirmed it since.
        """
        if said in self._confirmed:
            return False
        return self._all or any(_overlap(said, name) for name in self._names)

    def confirm(self, said: str) -> None:
        """Record that the user saw and approved the attachment."""
        self._confirmed.add(said)


def _overlap(one: str, other: str) -> bool:
    """Return True if one text is a prefix of the other, because the user may have typed the
    rest.
    """
    return one.startswith(other) or other.startswith(one)
