"""Splitting of a message into commands.

A task's text often contains command words too ("remind me to call mum and cancel the gym"): within
an added task, only an unambiguous command starts a new one. Entry point: `clauses_of`.
"""

from __future__ import annotations

from itertools import pairwise

from treadle.apps.assistant.language.verbs import ACTIONS, VerbPhrase, head_at, opened
from treadle.apps.assistant.language.wording import Keys, Words, keys_of, known
from treadle.apps.assistant.stems import is_past

_JOINS = known("and then also but plus & afterwards so")
_STRONG_JOINS = known("then also plus afterwards")
_REFERENCES = known("it that them this")
_ABOUT_TASKS = _REFERENCES | known('task tasks todo todos list item items number one reminder "')
_LIST_WORDS = known(
    "me my all the tasks todos list everything open completed done overdue what is due"
)
_STRONG_IN_TITLES = known("delete remove mark rename undo complete")
_PUTTING = known("put stick throw pop get have need")
_DONE = known("done complete completed finished")
_TELLERS = known("i ive we weve just already have had finally also")
_NO_REPORTS = known("put set read cut done did")
MOST = 40
"""Maximum parsed clauses; a message can have at most ten effects."""


def clauses_of(words: Words) -> list[Words]:
    clauses: list[Words] = []
    keys = keys_of(words)
    start, head = 0, head_at(keys, opened(keys))
    for place in range(1, len(words)):
        begins = _begins(words, keys, start, place, head) if place > start else None
        if begins is not None and len(clauses) < MOST:
            clauses.append(words[start:place])
            start, head = begins, head_at(keys, opened(keys, begins))
    return [*clauses, words[start:]] if start < len(words) else clauses


def _begins(
    words: Words, keys: Keys, start: int, place: int, head: VerbPhrase | None
) -> int | None:
    """Return the start of the next command if one begins at `place`, without its conjunction."""
    last = words[place - 1]
    lists = place == 1 or words[place - 2].stop in ("\n", ":")  # "1. book flights"
    stop = "" if lists and last.stop == "." and last.key.isdigit() else last.stop
    adding = head is not None and head.kind in ("add", "remind")
    if stop in (".", "?") or (stop == "\n" and not adding):
        return place
    if (
        keys[place] == "but"
        and keys[place + 1 : place + 2]
        and keys[place + 1] in ("not", "keep", "leave", "dont")
    ):
        return None if {"all", "every", "everything"} & {*keys[start:place]} else place + 1
    joined = keys[place] in _JOINS
    if stop not in (",", "\n") and not joined:
        return None
    at = opened(keys, place + joined)
    verb = next((key for key in keys[start : start + 5] if key not in _TELLERS), "")
    if (
        not adding
        and is_past(verb)
        and verb not in _NO_REPORTS
        and at < len(keys)
        and is_past(keys[at])
    ):
        return at  # "I called mum and paid the rent"
    following = head_at(keys, at)
    if following is None:
        return None
    alone = following.words == 1 and following.kind != "undo"
    if at + alone >= len(keys) + (following.first == "undo"):
        return None
    if not adding:
        sure = following.sure or following.kind in ("complete", "delete", "show")
        return at if sure or any(key in _REFERENCES for key in keys[at + 1 : at + 2]) else None
    title = opened(keys, start) + (head.words if head else 0)
    to_do = (head is not None and head.kind == "remind") or any(
        (one == "to" and other not in ("my", "the", "our", "list", "todo"))
        or (one in ACTIONS and other == "and")
        for one, other in pairwise(keys[title : title + 6])
    )
    strong = any(key in _STRONG_JOINS for key in keys[place:at])
    return at if _within_title(keys[at : at + 25], following, to_do=to_do, strong=strong) else None


def _within_title(keys: Keys, following: VerbPhrase, *, to_do: bool, strong: bool) -> bool:
    """Return True if a command begins within the text of an added task. `to_do`: the text is an
    action. `strong`: a word such as "then" leads to the command.
    """
    ahead = keys[1:8]
    about = any(key in _ABOUT_TASKS or key.startswith("#") for key in ahead)
    match following.kind:
        case "add" | "remind":
            put = following.first in _PUTTING
            return following.sure and (not put or any(key in ("list", "todo") for key in ahead))
        case "show":
            listed = any(key in _LIST_WORDS for key in ahead[:2])
            return listed and (following.sure or keys[0] in ("what", "whats"))
        case "undo":
            return following.first in ("undo", "revert") and strong
        case _ if following.first == "mark":
            return about or any(key in _DONE for key in keys[1:])
        case _:
            certain = following.sure or following.kind in ("complete", "delete")
            named = (about or strong) and (certain or about)
            return named or (following.first in _STRONG_IN_TITLES and not to_do)
