"""New tasks: the text after "add" as one title or several, with the fields next to it.

Entry point: `added`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.asides import Asides, asides_of, trimmed
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import AddTask, Missing
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase
from treadle.apps.assistant.unsupported import leading_occasion

_LEVEL = (
    "high|medium|low|urgent|important|quick|simple|small|top|normal|critical|new|another|extra|big"
)
_TASK = "tsk|task|tasks|todo|todos|to-do|to-dos|item|items|entry|entries|reminder|reminders|alarm|alert|notification|taks|tsak|tasl|thing|things"
_COUNT = "two|three|four|five|six|seven|a|few|some|several|couple|2|3|4|5|6"
_NOUN = Phrases.plain(
    [
        f"me? a|an|the|this|these|those|another|one|my? following|new|more? {_LEVEL}? priority|prio? {_TASK}",
        f"the|these? following|new? {_COUNT} new|more? {_TASK}",
    ]
)
_LEADS = Phrases.plain(
    [
        "to|called|named|titled|labelled|entitled|saying|says|reading|that|about|regarding|for|where|:|-|\u2013|—|of|me",
        "for me to",
        "i need|have to",
    ]
)
_TAILS = Phrases.plain(
    [
        "to|on|in|into|onto my|the|our|your to-do|todo|task|tasks|shopping|grocery? list|tasks|todos|lists",
    ]
)
_EMPTY = known(
    """something stuff thing better good nice well now everything all it that this them things task tasks one some more another new me a an the to
    todo item these those following"""
)
_PREPOSITIONS = known("with for about to from at between of on in regarding")
TITLE = Missing("what you would like to add", "title")
MOST = 10
_PIECES = 60


def added(text: str, words: Words, today: date, talk: Dialogue) -> list[AddTask] | Missing:
    """Return the tasks in order, at most ten; Missing if there is no title, or a date is
    invalid.
    """
    keys = keys_of(words)
    noun = _NOUN.at(keys)
    listed = noun is not None and any(
        k in ("tasks", "todos", "items", "to-dos", "reminders", "entries", "things", "following")
        for k in keys[: noun[0]]
    )
    level = asides_of(text, words[: noun[0]], today) if noun is not None else None
    rest = _led(words[noun[0] :] if noun is not None else list(words), noun is not None, today)
    asides = asides_of(text, _without_tail(rest), today)
    if asides.unread is not None:
        return Missing(f"the date '{asides.unread[:40]}'", "value", field="due")
    if noun is not None and asides.priority is None:
        asides.priority = _level(keys[: noun[0]]) or (level.priority if level else None)
    asides.words = _led(
        trimmed(_without_tail(trimmed(asides.words))), noun is not None or bool(asides.due), today
    )
    whole = _led(trimmed(_without_tail(rest)), noun is not None, today)
    return _titled(text, asides, today, whole, listed=listed)


def _level(keys: list[str]) -> str | None:
    for key in keys:
        if key in ("high", "urgent", "important", "top", "critical", "high-priority"):
            return "High"
        if key in ("low", "low-priority"):
            return "Low"
        if key == "medium":
            return "Medium"
    return None


def _without_article(words: Words) -> list[Token]:
    """Return the words without a leading article: "a haircut" of "schedule a haircut" becomes
    "haircut".
    """
    # The "a" of "a < b" is not an article.
    is_article = (
        len(words) > 1
        and not words[0].quoted
        and words[0].key in ("a", "an")
        and words[1].start == words[0].end + 1
    )
    return list(words[1:]) if is_article else list(words)


def _led(words: Words, noun: bool, today: date) -> list[Token]:
    """Return the words without those that introduce the title. "for" and "to" introduce it only
    after the word "task".
    """
    kept = list(words)
    while kept and not kept[0].quoted and kept[0].key in ("-", "\u2013", "—", ":", "*"):
        del kept[0]
    if not noun:
        return kept
    found = _LEADS.at(keys_of(kept[:10]))
    if (
        found is None
        or found[0] >= len(kept)
        or (kept[0].key in ("for", "on") and asides_of("", kept[:6], today).due is not None)
    ):
        return kept
    return kept[found[0] :]


def _without_tail(words: Words) -> list[Token]:
    kept = list(words)
    for _ in range(3):
        found = _TAILS.ending(keys_of(kept[-9:]))
        if found is None or found[0] >= len(kept) or kept[-1].quoted:
            break
        kept = kept[: -found[0]]
    return kept


def _titled(
    text: str, asides: Asides, today: date, whole: Words, *, listed: bool
) -> list[AddTask] | Missing:
    words = asides.words
    shared = AddTask(
        title="",
        description=asides.description,
        priority=asides.priority,
        due=None if asides.due is None else asides.due.isoformat(),
    )
    if not words or (len(words) <= 2 and all(not w.quoted and w.key in _EMPTY for w in words)):
        return _without_title(shared)
    pieces = several(text, whole, today, listed=listed) if asides.description is None else []
    if len(pieces) < 2:
        title = _title(text, words)
        return [msgspec.structs.replace(shared, title=title)] if title else _without_title(shared)
    return _separate(text, pieces, shared, today) or TITLE


def _without_title(task: AddTask) -> Missing:
    """Return a question for the title, which keeps the day, priority and description for its
    answer.
    """
    given = (("due", task.due), ("priority", task.priority), ("description", task.description))
    fields = tuple((name, value) for name, value in given if value is not None)
    return msgspec.structs.replace(TITLE, fields=fields)


def _title(text: str, words: Words) -> str:
    return leading_occasion(
        phrase(text, _without_article(trimmed(words) or words)).strip(" -\u2013—:;,")
    )


def _separate(text: str, pieces: list[list[Token]], shared: AddTask, today: date) -> list[AddTask]:
    """Return a task for each piece with its fields; fields of the last piece alone apply to all."""
    own = [asides_of(text, piece, today) for piece in pieces[:_PIECES]]
    for piece in own:
        piece.words = _without_tail(trimmed(piece.words))
    ahead = [piece for piece in own[:-1] if piece.words]
    bare = [piece for piece in own if not piece.words]
    due = next(
        (piece.due for piece in bare if piece.due),
        own[-1].due if not any(piece.due for piece in ahead) else None,
    )
    priority = next(
        (piece.priority for piece in bare if piece.priority),
        own[-1].priority if not any(piece.priority for piece in ahead) else None,
    )
    tasks: list[AddTask] = []
    for piece in own:
        if (title := _title(text, piece.words) if piece.words else "") and len(tasks) < MOST:
            day = piece.due or due
            level = (
                piece.priority
                or priority
                or (shared.priority if not any(p.priority for p in own) else None)
            )
            tasks.append(
                AddTask(title=title, priority=level, due=None if day is None else day.isoformat())
            )
    return tasks


def several(text: str, words: Words, today: date, *, listed: bool) -> list[list[Token]]:
    """Return the words of each title if they are clearly a list, otherwise all words as one title.

    Lists are: lines; text after "tasks:"; actions that each begin with a verb; at least three names
    without a verb, or two with a comma.
    """
    pieces = _pieces(words)
    if any(word.stop == "\n" for word in words[:-1]):
        return _lines(words)
    bare = [
        named
        for piece in pieces[:_PIECES]
        if (named := _without_tail(trimmed(asides_of(text, piece, today).words)))
    ]
    if len(bare) < 2:
        return [list(words)]
    if listed or all(len(piece) == 1 and piece[0].quoted for piece in bare):
        return pieces
    acts = [any(w.key in ACTIONS for w in piece[:1]) for piece in bare]
    if (
        acts[0]
        and any(acts[1:])
        and all(len(piece) > 1 for piece, verb in zip(bare, acts, strict=True) if verb)
        and len(bare) == len(pieces)
    ):
        return _by_verbs(words, pieces, acts)
    commas = sum(one.stop == "," for one in words[:-1])
    if (
        any(acts)
        or commas == 0
        or any(len(piece) > 3 for piece in bare)
        or any(w.key in _PREPOSITIONS for p in bare for w in p)
    ):
        return [list(words)]
    return pieces


def _pieces(words: Words) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    for word in words:
        if (not word.quoted and word.key in ("and", "&", "plus")) or (
            word.key in ("-", "•", "*") and not pieces[-1]
        ):
            pieces.append([])
            continue
        pieces[-1].append(word)
        if word.stop in (",", "\n"):
            pieces.append([])
    return [piece for piece in pieces if piece]


def _lines(words: Words) -> list[list[Token]]:
    """Remove list markers and a heading."""
    lines: list[list[Token]] = [[]]
    for word in words:
        if lines[-1] or not (
            word.key in ("-", "•", "*", "\u2013")
            or (word.key.strip(".)(").isdigit() and len(words) > 2 and word.stop)
        ):
            lines[-1].append(word)
        if word.stop == "\n" or (
            word.stop
            and len(lines[-1]) < 4
            and len(lines) == 1
            and all(w.key in _EMPTY for w in lines[-1])
        ):
            lines.append([])
    return [
        line
        for line in lines
        if line and not all(not word.quoted and word.key in _EMPTY for word in line)
    ]


def _by_verbs(words: Words, pieces: list[list[Token]], acts: list[bool]) -> list[list[Token]]:
    """Start a new title at each verb; a piece without one continues the previous title ("buy milk,
    eggs and call mum").
    """
    starts = [piece[0].place for piece, verb in zip(pieces, acts, strict=True) if verb]
    ends = [*starts[1:], words[-1].place + 1]
    titles = [
        [word for word in words if start <= word.place < end]
        for start, end in zip(starts, ends, strict=True)
    ]
    return [_untied(title) for title in titles]


def _untied(title: list[Token]) -> list[Token]:
    while len(title) > 1 and title[-1].key in ("and", "&", "plus", "then", "also"):
        title.pop()
    return title


def acts_at_once(words: Words) -> bool:
    """Return True if the words are an action ("buy milk") without "add"."""
    keys = keys_of(words)
    return (
        len(keys) > 1
        and keys[0] in ACTIONS
        and "should" not in keys
        and not all(key in _EMPTY for key in keys[1:])
    )
