"""Which rows of a list a person means by some words: those that hold them all, and after them those
that hold their letters in order.

Entry: `Matching`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence


class Matching:
    """The rows of a list that only grows.

    What was typed on looks only through what was found before.
    """

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._texts: list[str] = []
        self._words = ""
        self._found: list[int] = []
        self._near: list[int] = []

    def add(self, rows: Iterable[tuple[str, str]]) -> None:
        """Label and detail of each."""
        for label, detail in rows:
            self._labels.append(label.casefold())
            self._texts.append(f"{label} {detail}".casefold())
        self._words = "\x00"  # nothing that is typed goes on from it

    def find(self, words: str) -> tuple[list[int], list[int]]:
        """The places of those that hold all words, and of those that hold their letters in order in
        their labels; each in the order of the list.
        """
        wanted = words.casefold()
        if wanted != self._words or not wanted.strip():
            among = (
                [*self._found, *self._near]
                if self._words and wanted.startswith(self._words)
                else range(len(self._texts))
            )
            self._find(wanted.split(), sorted(among))
            self._words = wanted
        return self._found, self._near

    def _find(self, wanted: list[str], among: Sequence[int]) -> None:
        texts, labels = self._texts, self._labels
        self._found = [at for at in among if all(word in texts[at] for word in wanted)]
        sure, near = set(self._found), [_in_order(word) for word in wanted]
        self._near = [
            at for at in among if at not in sure and all(is_near(labels[at]) for is_near in near)
        ]


def _in_order(word: str) -> Callable[[str], object]:
    """Whether a text holds the letters of a word in order."""
    return re.compile(
        "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in word)
    ).match
