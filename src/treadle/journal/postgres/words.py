"""PostgreSQL's full-text index over words that are normalised here, without a language or
dictionary, so that results equal SQLite's. tables/search.py decides what is indexed and found.
Entry point: `VectorWords`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from treadle.journal.tables import search
from treadle.journal.tables.database import Cursor

WORD_MOST = 200
"""Number of significant characters of a word."""
WORDS_BYTES = 500_000
"""Maximum size of the distinct words of one message; PostgreSQL allows a million bytes, with its
overhead for each.
"""

_FOUND = """
select sessions.id, title, said.session, pos, place, nth, at_us
from said join sessions on sessions.num = said.session
where words @@ ?::tsquery and sessions.id is not null
and pos > coalesce((select max(pos) from session_entries as c where c.session = said.session and c.kind = 'cleared'), 0)
order by at_us desc, said.num desc
"""


class VectorWords:
    """The column `words` of `said`: the words of a message, without their positions."""

    def add(self, db: Cursor, num: int, text: str) -> None:
        kept: list[str] = []
        room = WORDS_BYTES
        for word in dict.fromkeys(_words(text)):
            room -= len(word.encode())
            if room < 0:
                break
            kept.append(word)
        db.execute(
            "update said set words = array_to_tsvector(?::text[]) where num = ?", (kept, num)
        )

    def forget(self, db: Cursor, session: int, pos: int) -> None:
        """Do nothing, because the words are deleted with their row."""

    def find(self, db: Cursor, words: Sequence[str], *, limit: int) -> list[tuple[Any, ...]]:
        phrases = [phrase for word in words if (phrase := _words(word))]
        query = " & ".join(
            f"'{word}'" if nth < len(phrase) else f"'{word}':*"
            for phrase in phrases
            for nth, word in enumerate(phrase, 1)
        )
        together = [phrase for phrase in phrases if len(phrase) > 1]
        if not query:
            return []
        if not together:
            return db.execute(f"{_FOUND} limit ?", (query, limit)).fetchall()
        found: list[tuple[Any, ...]] = []
        for row in db.stream(_FOUND, (query,)):
            if _holds(search.indexed(search.message_of(db, *row[2:6]).text), together):
                found.append(row)
                if len(found) == limit:
                    break
        return found


def _words(text: str) -> list[str]:
    """Return runs of letters and digits, in order, in lower case and without diacritics."""
    plain = "".join(
        [
            c
            for c in unicodedata.normalize("NFD", text.casefold())
            if unicodedata.category(c) != "Mn"
        ]
    )
    return [
        word[:WORD_MOST] for word in re.findall(r"[^\W_]+", unicodedata.normalize("NFC", plain))
    ]


def _holds(text: str, phrases: Sequence[Sequence[str]]) -> bool:
    """Return True if the words of each phrase are adjacent in the text; the last may be a
    prefix.
    """
    said = _words(text)
    return all(
        [
            any(
                [
                    _begins(said[n : n + len(phrase)], phrase)
                    for n in range(len(said) - len(phrase) + 1)
                ]
            )
            for phrase in phrases
        ]
    )


def _begins(said: Sequence[str], phrase: Sequence[str]) -> bool:
    return said[:-1] == phrase[:-1] and said[-1].startswith(phrase[-1])
