"""References of a conversation, parsed from its text: the last list, the last task, the open
question.

docs/tasks.md lists the fixed replies. No other state of a conversation is kept. Entry point:
`Dialogue`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Literal, TypeAlias

import msgspec

Speech: TypeAlias = tuple[Literal["user", "assistant"], str]

_ROW = re.compile(r"\s{0,4}(\d{1,4})[.)]\s+[☐✓☑✔✅□▢]\s*(.*)")
_DETAILS = re.compile(
    r"\s+(?:\((?:High|Medium|Low|due|overdue|no due)[^()]{0,120}\)\s*"
    r"|[—\u2013·|-]\s+(?:High|Medium|Low|due|overdue)\b[^—\u2013|]{0,80})$",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"(?s:Got it! Added '(.*)' to your list|I've marked '(.*)' as complete|Updated! '(.*)' now has"
    r"|I've removed '(.*)' from your tasks|Do you really want to delete '(.*)'\?)"
)
_DID = re.compile(r"(?m)^(?:Got it! Added|Great! I've marked|I've removed|Updated!)")
_QUESTIONS = re.compile(
    r"(?s:I found multiple tasks about '(?P<which>.*)'\. Which one: (?P<options>.*)\?"
    r"|I couldn't find a task about '(?P<not_found>.*)' in your list"
    r"|Could you provide more details about (?P<unclear>.*)\?)"
)
_BETWEEN = re.compile(
    r"['\"”\u2019]\s*(?:,\s*(?:or\s+|and\s+)?|\s+or\s+|\n)\s*(?:\(?\d{1,3}[.):]\s*)?['\"“\u2018]"
)
_READ = 60
"""Maximum number of messages to look back at."""


class Dialogue(msgspec.Struct):
    """State of the conversation before the current message, built from earlier ones, oldest
    first.
    """

    today: date = date.min
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
    asked: str = ""
    """Kind of question that the last reply asked: which, not_found, unclear or none."""
    about: str = ""
    """Subject of the question."""
    before: str = ""
    """Message of the person that the question answered."""
    earlier: tuple[Speech, ...] = ()
    """Conversation before that message."""

    @classmethod
    def of(cls, said: Sequence[Speech], today: date = date.min) -> Dialogue:
        conversation = cls(today)
        for i, (role, text) in enumerate(said[-_READ:], max(0, len(said) - _READ)):
            if role == "user":
                conversation.before, conversation.earlier = text[:10_000], tuple(said[:i])
                conversation.asked = ""
            else:
                conversation._hear(text[:20_000])
        return conversation

    def _hear(self, text: str) -> None:
        self.asked, self.about, self.options, self.fresh = "", "", (), ""
        rows = rows_of(text)
        named = rows if len(rows) == 1 else []
        if rows:
            self.fresh, self.listed = "list", tuple(rows)
        for line in text.split("\n"):
            if (found := _SPOKEN.search(line)) is not None:
                named = [*named, *(title for title in found.groups() if title is not None)]
        if named:
            self.recent, self.last, self.fresh = tuple(named), named[-1], self.fresh or "task"
        trail = tuple(dict.fromkeys((*self.trail, *named)))[-10:]
        self.trail = trail if self.fresh == "task" else ()
        self.did = _DID.search(text) is not None
        if (question := _QUESTIONS.search(text)) is not None:
            kinds = ("which", "not_found", "unclear")
            self.asked = next(kind for kind in kinds if question[kind] is not None)
            self.about, self.options = question[self.asked], _options(question["options"] or "")

    def numbered(self, number: int) -> str | None:
        """Return the title with this number, of the options in question or else of the list; -1 is
        the last.
        """
        titles = ("", *(self.options or self.listed))
        return titles[number] or None if -1 <= number < len(titles) else None


def rows_of(text: str) -> list[str]:
    return [_bare(row[2]) for line in text.split("\n") if (row := _ROW.match(line)) is not None]


def _bare(title: str) -> str:
    """Return a title without the details after it in a list, and without the mark of truncation."""
    return _DETAILS.sub("", title).strip().removesuffix("…").rstrip() or title.strip()


def _options(text: str) -> tuple[str, ...]:
    rows = rows_of(text) or [piece for line in text.split("\n") for piece in _BETWEEN.split(line)]
    bare = (_bare(row.strip().strip("'\"“”\u2018\u2019 ")) for row in rows[:20])
    return tuple(option[:300] for option in bare if option)
