"""References of a conversation, parsed from its text: the last list, the last task, the open
question.

docs/tasks.md lists the fixed replies. No other state of a conversation is kept. Entry point:
`Dialogue`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

Speech: TypeAlias = tuple[Literal["user", "assistant"], str]

_ROW = re.compile(r"\s{0,4}(\d{1,4})[.)]\s+[☐✓☑✔✅□▢]\s*(.*)")
_DETAILS = re.compile(
    r"\s+\((?:High|Medium|Low|due|overdue|no due)[^()]{0,120}\)\s*$", re.IGNORECASE
)
_DASHED = re.compile(r"\s+[—\u2013·|-]\s+(?:High|Medium|Low|due|overdue)\b[^—\u2013|]{0,80}$")
_ADDED = re.compile(r"Got it! Added '(.*)' to your list", re.DOTALL)
_SPOKEN = (
    _ADDED,
    re.compile(r"I've marked '(.*)' as complete", re.DOTALL),
    re.compile(r"I've removed '(.*)' from your tasks", re.DOTALL),
    re.compile(r"Updated! '(.*)' now has", re.DOTALL),
    re.compile(r"Do you really want to delete '(.*)'\?", re.DOTALL),
)
_DID = re.compile(r"(?m)^(?:Got it! Added|Great! I've marked|I've removed|Updated!)")
_AMBIGUOUS = re.compile(r"I found multiple tasks about '(.*)'\. Which one: (.*)\?", re.DOTALL)
_NOT_FOUND = re.compile(r"I couldn't find a task about '(.*)' in your list", re.DOTALL)
_UNCLEAR = re.compile(r"Could you provide more details about (.*)\?", re.DOTALL)
_BETWEEN = re.compile(
    r"['\"”\u2019]\s*(?:,\s*(?:or\s+|and\s+)?|\s+or\s+|\n)\s*(?:\(?\d{1,3}[.):]\s*)?['\"“\u2018]"
)
_READ = 60
"""Maximum number of messages to look back at."""


class Dialogue(msgspec.Struct):
    """State of the conversation before the current message, built from earlier ones, oldest
    first.
    """

    listed: tuple[str, ...] = ()
    """Titles of the last list."""
    last: str = ""
    """Title that was mentioned last."""
    recent: tuple[str, ...] = ()
    """Titles of the last reply."""
    fresh: Literal["", "list", "task"] = ""
    """Subject of the reply directly before the message."""
    trail: tuple[str, ...] = ()
    """Titles mentioned by consecutive replies, up to the last one."""
    did: bool = False
    """True if the reply directly before the message reported a change."""
    options: tuple[str, ...] = ()
    asked: Literal["", "which", "not_found", "unclear"] = ""
    """Kind of question that the last reply asked."""
    about: str = ""
    """Subject of the question."""
    before: str = ""
    """Message of the person that the question answered."""
    earlier: tuple[Speech, ...] = ()
    """Conversation before that message."""

    @classmethod
    def of(cls, said: Sequence[Speech]) -> Dialogue:
        conversation = cls()
        for i, (role, text) in enumerate(said[-_READ:], max(0, len(said) - _READ)):
            if role == "user":
                conversation.before, conversation.earlier = text[:10_000], tuple(said[:i])
                conversation.asked = ""
            else:
                conversation._hear(text[:20_000])
        return conversation

    def _hear(self, text: str) -> None:
        self.asked, self.about, self.options, self.fresh, named = "", "", (), "", list[str]()
        if rows := rows_of(text):
            self.fresh = "list"
            self.listed = tuple(rows)
            if len(rows) == 1:
                named.append(rows[0])
        for line in text.split("\n"):
            named += [found[1] for pattern in _SPOKEN if (found := pattern.search(line))]
        if named:
            self.recent, self.last, self.fresh = tuple(named), named[-1], self.fresh or "task"
        self.trail = (
            tuple(dict.fromkeys((*self.trail, *named)))[-10:] if self.fresh == "task" else ()
        )
        self.did = _DID.search(text) is not None
        if (which := _AMBIGUOUS.search(text)) is not None:
            self.asked, self.about, self.options = "which", which[1], _options(which[2])
        elif (missed := _NOT_FOUND.search(text)) is not None:
            self.asked, self.about = "not_found", missed[1]
        elif (open_question := _UNCLEAR.search(text)) is not None:
            self.asked, self.about = "unclear", open_question[1]

    def numbered(self, number: int) -> str | None:
        """Return the title with this number, of the options in question or else of the list; -1 is
        the last.
        """
        titles = self.options or self.listed
        if number == -1:
            return titles[-1] if titles else None
        return titles[number - 1] if 0 < number <= len(titles) else None


def rows_of(text: str) -> list[str]:
    rows: list[str] = []
    for line in text.split("\n"):
        if (row := _ROW.match(line)) is not None:
            rows.append(_bare(row[2]))
    return rows


def _bare(title: str) -> str:
    """Return a title without the details after it in a list, and without the mark of truncation."""
    bare = _DASHED.sub("", _DETAILS.sub("", title)).strip()
    return bare.removesuffix("…").rstrip() or title.strip()


def _options(text: str) -> tuple[str, ...]:
    rows = rows_of(text) or [piece for line in text.split("\n") for piece in _BETWEEN.split(line)]
    return tuple(
        option[:300]
        for row in rows[:20]
        if (option := _bare(row.strip().strip("'\"“”\u2018\u2019 ")))
    )
