"""Search in lists: first rows that contain all words, then rows with their letters in order.
Entry point: `Matching`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence


class Matching:
    """Index of the rows of a list that only grows.

    Longer input searches only the previous matches.
    """

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._texts: list[str] = []
        self._words = ""
        self._found: list[int] = []
        self._near: list[int] = []

    def add(self, rows: Iterable[tuple[str, str]]) -> None:
        """Add rows, each with label and detail."""
        for label, detail in rows:
            self._labels.append(label.casefold())
            self._texts.append(f"{label} {detail}".casefold())
        self._words = "\x00"  # no input continues it

    def find(self, words: str) -> tuple[list[int], list[int]]:
        """Return the indices of rows that contain all words, and of rows whose labels contain their
        letters in order; each in list order.
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
    """Return a predicate for texts that contain the letters of a word in order."""
    return re.compile(
        "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in word)
    ).match
