"""Splitting of a message into commands.

A task's text often contains command words too ("remind me to call mum and cancel the gym"): within
an added task, only an unambiguous command starts a new one. Entry point: `clauses_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from treadle.apps.assistant.language.phrases import known
from treadle.apps.assistant.language.verbs import ACTIONS, VerbPhrase, head_at, opened
from treadle.apps.assistant.language.wording import Token, Words, keys_of

_JOINS = known("and then also but plus & afterwards so")
_STRONG_JOINS = known("then also plus afterwards")
_ABOUT_TASKS = known(
    """task tasks todo todos it that this them list item items number one reminder"""
)
_LIST_WORDS = known(
    """me my all the tasks todos list everything open completed done overdue what is due"""
)
_STRONG_IN_TITLES = known("delete remove mark rename undo complete")
_DONE = known("done complete completed finished")
MOST = 40
"""Maximum parsed clauses; a message can have at most ten effects."""


class Clause(msgspec.Struct):
    words: list[Token]
    head: VerbPhrase | None

    @property
    def question(self) -> bool:
        return bool(self.words) and self.words[-1].stop == "?"


def clauses_of(words: Words) -> list[Clause]:
    clauses: list[Clause] = []
    keys = keys_of(words)
    start = 0
    head = head_at(keys, opened(keys))
    for place in range(1, len(words)):
        if place <= start or (begins := _begins(words, keys, start, place, head)) is None:
            continue
        clauses.append(Clause(list(words[start:place]), head))
        start = begins
        head = head_at(keys, opened(keys, start))
        if len(clauses) >= MOST:
            break
    if start < len(words):
        clauses.append(Clause(list(words[start:]), head))
    return [clause for clause in clauses if clause.words]


def _begins(
    words: Words, keys: Sequence[str], start: int, place: int, head: VerbPhrase | None
) -> int | None:
    """Return the start of the next command if one begins at `place`, without its conjunction."""
    stop = "" if _counts(words, place - 1) else words[place - 1].stop
    adding = head is not None and head.kind in ("add", "remind")
    if stop in (".", "?") or (stop == "\n" and not adding):
        return place
    if (
        keys[place] == "but"
        and keys[place + 1 : place + 2]
        and keys[place + 1] in ("not", "keep", "leave", "dont")
    ):
        return (
            None
            if any(key in ("all", "every", "everything") for key in keys[start:place])
            else place + 1
        )
    if stop != "," and stop != "\n" and keys[place] not in _JOINS:
        return None
    at = opened(keys, place + (keys[place] in _JOINS))
    following = head_at(keys, at)
    if following is None or at + (following.words == 1 and following.kind != "undo") >= len(
        keys
    ) + (following.first == "undo"):
        return None
    if not adding:
        return at if _after_other(words, keys, at, following, head) else None
    return at if _within_title(keys, start, place, at, following, head) else None


def _counts(words: Words, place: int) -> bool:
    """Return True if the word is the number of a line: "1. book flights"."""
    word = words[place]
    return (
        word.stop == "."
        and word.key.isdigit()
        and (place == 0 or words[place - 1].stop in ("\n", ":"))
    )


def _after_other(
    words: Words, keys: Sequence[str], at: int, following: VerbPhrase, head: VerbPhrase | None
) -> bool:
    if following.sure or following.kind in ("complete", "delete"):
        return True
    if following.kind == "show":
        return keys[at] in ("what", "whats", "see", "view", "give", "tell") or any(
            k in _LIST_WORDS for k in keys[at + 1 : at + 3]
        )
    if following.kind == "update" and keys[at + 1 : at + 2] in (
        ["it"],
        ["that"],
        ["them"],
        ["this"],
    ):
        return True
    return head is not None and head.kind != "update" and following.kind == "update"


def _within_title(
    keys: Sequence[str],
    start: int,
    place: int,
    at: int,
    following: VerbPhrase,
    head: VerbPhrase | None,
) -> bool:
    ahead = keys[at + 1 : at + 8]
    about = any(k in _ABOUT_TASKS or k == '"' or k.startswith("#") for k in ahead)
    joined = any(k in _STRONG_JOINS for k in keys[place:at])
    if following.kind in ("add", "remind"):
        return following.sure and (
            following.first not in ("put", "stick", "throw", "pop", "get", "have", "need")
            or any(k in ("list", "todo") for k in ahead)
        )
    if following.kind == "show":
        return any(k in _LIST_WORDS for k in ahead[:2]) and (
            following.sure or keys[at] in ("what", "whats")
        )
    if following.kind == "undo":
        return following.first in ("undo", "revert") and joined
    if following.first == "mark":
        return any(k in _DONE for k in keys[at + 1 :][:24]) or about
    title = opened(keys, start) + (head.words if head else 0)
    to_do = (
        (head is not None and head.kind == "remind")
        or _acts(keys, title)
        or _infinitive(keys[title : title + 6])
    )
    if following.first in _STRONG_IN_TITLES and not to_do:
        return True
    return (about or joined) and (
        following.sure
        or following.kind in ("complete", "delete")
        or (following.kind == "update" and about)
    )


def _infinitive(keys: Sequence[str]) -> bool:
    """Return True for "a task to call mum", but not for "milk to my list"."""
    return any(
        one == "to" and other not in ("my", "the", "our", "list", "todo")
        for one, other in pairwise(keys)
    )


def _acts(keys: Sequence[str], place: int) -> bool:
    return (
        place < len(keys)
        and keys[place] in ACTIONS
        and any(
            one in ACTIONS and other == "and" for one, other in pairwise(keys[place : place + 3])
        )
    )
