"""Tasks to add: what the sentence says after "add", as one title or several, with what is said beside it.

Entry: `added`.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise

from treadle.tasks.language.asides import Asides, asides_of, trimmed
from treadle.tasks.language.conversation import Conversation
from treadle.tasks.language.phrases import Phrases
from treadle.tasks.language.verbs import ACTIONS
from treadle.tasks.language.wishes import Add, Missing
from treadle.tasks.language.wording import Word, Words, keys_of, phrase

_LEVEL = "high|medium|low|urgent|important|quick|simple|small|top|normal|critical|new|another|extra|big"
_TASK = "task|tasks|todo|todos|to-do|to-dos|item|items|entry|entries|reminder|reminders|taks|tsak|tasl|thing|things"
_COUNT = "two|three|four|five|six|seven|a|few|some|several|couple|2|3|4|5|6"
_NOUN = Phrases.plain(
    [
        f"me? a|an|the|this|these|those|another|one|my? following|new|more? {_LEVEL}? priority|prio? {_TASK}",
        f"me? a|an|another? very|new? {_LEVEL}|high-priority|low-priority priority? {_TASK}",
        f"the|these? following|new? {_COUNT} new|more? {_TASK}",
        "to my|the|our? to-do|todo|task? list",
        "on my|the|our? to-do|todo|task? list",
    ]
)
_LEADS = Phrases.plain(
    [
        "to|called|named|titled|labelled|entitled|saying|says|reading|that|about|regarding|for|where|:|-|–|—|of|me",
        "that|which says|reads|is called|named?",
        "with? the? title|name|text of|is|as?",
        "to remind me to|that|about?",
        "so i|we? remember|dont forget to",
        "that i|we need|have|should|must|ought to?",
        "i need|have to",
        "to my|the|our? to-do|todo|task? list to?",
        "as follows",
        "to do:",
    ]
)
_TAILS = Phrases.plain(
    [
        "to|on|in|into|onto my|the|our|your to-do|todo|task|tasks|shopping|grocery? list|tasks|todos|lists",
        "to|on|in|into|onto my|the|our|your todo|to-do",
        "to|on|onto list|it",
        "as a|an|my new? high|medium|low|urgent|important? priority? task|todo|to-do|item|reminder|tasks",
        "as tasks|todos|items|reminders",
        "to be done|list",
        "please|pls|thanks|too",
        "for me",
    ]
)
_EMPTY = frozenset("something stuff it that this them things task tasks one some more another new me a an the to todo item these those following".split())
_PREPOSITIONS = frozenset("with for about to from at between of on in regarding".split())
TITLE = Missing("what you would like to add", "title")
MOST = 10


def added(text: str, words: Words, today: date, talk: Conversation) -> list[Add] | Missing:
    """The tasks in their order, ten at most; Missing where nothing is named, or a date is none."""
    keys = keys_of(words)
    noun = _NOUN.at(keys)
    listed = noun is not None and any(k in ("tasks", "todos", "items", "to-dos", "reminders", "entries", "things", "following") for k in keys[: noun[0]])
    level = asides_of(text, words[: noun[0]], today) if noun is not None else None
    rest = _led(words[noun[0] :] if noun is not None else list(words), noun is not None, today)
    if listed or any(word.stop == "\n" for word in rest[:-1]):
        listed = listed or any(word.stop == "\n" for word in rest[:-1])
    asides = asides_of(text, _without_tail(rest), today)
    if asides.unread is not None:
        return Missing(f"the date '{asides.unread[:40]}'", "value", field="due")
    if noun is not None and asides.priority is None:
        asides.priority = _level(keys[: noun[0]]) or (level.priority if level else None)
    asides.words = _led(trimmed(_without_tail(trimmed(asides.words))), noun is not None or bool(asides.due), today)
    return _titled(text, asides, today, listed=listed)


def _level(keys: list[str]) -> str | None:
    for key in keys:
        if key in ("high", "urgent", "important", "top", "critical", "high-priority"):
            return "High"
        if key in ("low", "low-priority"):
            return "Low"
        if key == "medium":
            return "Medium"
    return None


def _led(words: Words, noun: bool, today: date) -> list[Word]:
    """Without what leads to the title. "for" and "to" lead to one only after the word "task"."""
    kept = list(words)
    while kept and not kept[0].quoted and kept[0].key in ("-", "–", "—", ":", "*"):
        del kept[0]
    if not noun:
        return kept
    found = _LEADS.at(keys_of(kept[:10]))
    if found is None or found[0] >= len(kept) or (kept[0].key in ("for", "on") and asides_of("", kept[:6], today).due is not None):
        return kept
    return kept[found[0] :]


def _without_tail(words: Words) -> list[Word]:
    kept = list(words)
    for _ in range(3):
        found = _TAILS.ending(keys_of(kept[-9:]))
        if found is None or found[0] >= len(kept) or kept[-1].quoted:
            break
        kept = kept[: -found[0]]
    return kept


def _titled(text: str, asides: Asides, today: date, *, listed: bool) -> list[Add] | Missing:
    words = asides.words
    if not words or (len(words) <= 2 and all(not w.quoted and w.key in _EMPTY for w in words)):
        return TITLE
    due = None if asides.due is None else asides.due.isoformat()
    tasks: list[Add] = []
    for piece in several(words, listed=listed)[:MOST]:
        own = asides_of(text, piece, today) if listed or len(words) > len(piece) else Asides(list(piece))
        named = trimmed(own.words) or list(piece)
        own_due = due if own.due is None else own.due.isoformat()
        title = phrase(text, named).strip(" -–—:;,")
        if title:
            tasks.append(Add(title=title, description=asides.description, priority=own.priority or asides.priority, due=own_due))
    return tasks or TITLE


def several(words: Words, *, listed: bool) -> list[list[Word]]:
    """One title, or several where the words are plainly a list.

    That is: lines; what follows "tasks:"; things to do that begin with a verb each; at least three names without one, or two with a comma.
    """
    pieces = _pieces(words)
    if len(pieces) < 2:
        return [list(words)]
    if any(word.stop == "\n" for word in words[:-1]):
        return _lines(words)
    if listed or all(len(piece) == 1 and piece[0].quoted for piece in pieces):
        return pieces
    acts = [piece[0].key in ACTIONS for piece in pieces]
    if acts[0] and any(acts[1:]) and all(len(piece) > 1 for piece, verb in zip(pieces, acts, strict=True) if verb):
        return _by_verbs(words, pieces, acts)
    commas = sum(one.stop == "," for one in words[:-1])
    if any(acts) or commas == 0 or any(len(piece) > 3 for piece in pieces) or any(w.key in _PREPOSITIONS for p in pieces for w in p):
        return [list(words)]
    return pieces


def _pieces(words: Words) -> list[list[Word]]:
    pieces: list[list[Word]] = [[]]
    for word in words:
        if not word.quoted and word.key in ("and", "&", "plus") or (word.key in ("-", "•", "*") and not pieces[-1]):
            pieces.append([])
            continue
        pieces[-1].append(word)
        if word.stop in (",", "\n"):
            pieces.append([])
    return [piece for piece in pieces if piece]


def _lines(words: Words) -> list[list[Word]]:
    lines: list[list[Word]] = [[]]
    for word in words:
        if lines[-1] or not (word.key in ("-", "•", "*", "–") or (word.key.isdigit() and len(words) > 2 and word.stop == ".")):
            lines[-1].append(word)
        if word.stop == "\n":
            lines.append([])
    return [line for line in lines if line]


def _by_verbs(words: Words, pieces: list[list[Word]], acts: list[bool]) -> list[list[Word]]:
    """A new title at each verb; what has none goes on with the one before ("buy milk, eggs and call mum")."""
    starts = [piece[0].place for piece, verb in zip(pieces, acts, strict=True) if verb]
    ends = [*starts[1:], words[-1].place + 1]
    titles = [[word for word in words if start <= word.place < end] for start, end in zip(starts, ends, strict=True)]
    return [_untied(title) for title in titles]


def _untied(title: list[Word]) -> list[Word]:
    while len(title) > 1 and title[-1].key in ("and", "&", "plus", "then", "also"):
        title.pop()
    return title


def acts_at_once(words: Words) -> bool:
    """Whether the words are something to do ("buy milk"), said without any "add"."""
    keys = keys_of(words)
    return len(keys) > 1 and keys[0] in ACTIONS and not any(one in ACTIONS and other in ("it", "that", "this", "them") for one, other in pairwise(keys[:2]))
