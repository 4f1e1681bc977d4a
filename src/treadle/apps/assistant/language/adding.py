"""New tasks: the text after "add" as one title or several, with the fields next to it.

Entry point: `added`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.fields import DASHES, Asides, asides_of, trimmed
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import AddTask, Missing
from treadle.apps.assistant.language.wording import Phrases, Token, Words, keys_of, known, phrase
from treadle.apps.assistant.unsupported import leading_occasion

_LEVELS = {
    **dict.fromkeys(("high", "urgent", "important", "top", "critical", "high-priority"), "High"),
    **{"medium": "Medium", "low": "Low", "low-priority": "Low"},
}
_SIZE = f"{'|'.join(_LEVELS)}|quick|simple|small|normal|new|another|extra|big"
_TASK = "tsk|task|todo|to-do|item|entry|reminder|alarm|alert|notification|taks|tsak|tasl|thing"
_TASKS = "tasks|todos|to-dos|items|entries|reminders|things"
_COUNT = "two|three|four|five|six|seven|a|few|some|several|couple|2|3|4|5|6"
_NOUN = Phrases.plain(
    f"me? a|an|the|this|these|those|another|one|my? following|new|more? {_SIZE}? priority|prio? {_TASK}|{_TASKS} / "
    f"the|these? following|new? {_COUNT} new|more? {_TASK}|{_TASKS}"
)
_LEADS = Phrases.plain(
    "to|called|named|titled|labelled|entitled|saying|says|reading|that|about|regarding|for|where|:|-|\u2013|—|of|me / "
    "for me to / i need|have to"
)
_TAIL = Phrases.plain(
    "to|on|in|into|onto my|the|our|your to-do|todo|task|tasks|shopping|grocery? list|tasks|todos|lists"
)
_EMPTY = known(
    "something stuff thing better good nice well now everything all it that this them things task tasks one some more another new me a an the to "
    "todo item these those following"
)
_BULLETS = DASHES | {"*", "•", ":"}
_PREPOSITIONS = known("with for about to from at between of on in regarding")
TITLE = Missing("what you would like to add", "title")
MOST = 10
_PIECES = 60


def added(words: Words, today: date) -> list[AddTask] | Missing:
    """Return the tasks in order, at most ten; Missing if there is no title, or a date is
    invalid.
    """
    keys = keys_of(words)
    noun = _NOUN.at(keys)
    count = noun[0] if noun is not None else 0
    listed = any(key in _TASKS.split("|") or key == "following" for key in keys[:count])
    rest = _led(words[count:], today, noun=noun is not None)
    asides = asides_of(_without_tail(rest), today)
    if asides.unread is not None:
        return Missing(f"the date '{asides.unread[:40]}'", "value", field="due")
    if asides.priority is None:
        asides.priority = next((_LEVELS[key] for key in keys[:count] if key in _LEVELS), None)
    has_lead = noun is not None or asides.due is not None
    asides.words = _led(trimmed(_without_tail(trimmed(asides.words))), today, noun=has_lead)
    return _titled(asides, trimmed(_without_tail(rest)), today, listed=listed)


def _led(words: Words, today: date, *, noun: bool) -> list[Token]:
    """Return the words without those that introduce the title. "for" and "to" introduce it only
    after the word "task".
    """
    kept = list(words)
    while kept and not kept[0].quoted and kept[0].key in _BULLETS:
        del kept[0]
    found = _LEADS.at(keys_of(kept[:10])) if noun else None
    if found is None or found[0] >= len(kept):
        return kept
    dated = kept[0].key in ("for", "on") and asides_of(kept[:6], today).due is not None
    return kept if dated else kept[found[0] :]


def _without_tail(words: Words) -> list[Token]:
    kept = list(words)
    while (found := _TAIL.ending(keys_of(kept[-9:]))) is not None and found[0] < len(kept):
        kept = kept[: -found[0]]
    return kept


def _is_empty(words: Words) -> bool:
    return all(not word.quoted and word.key in _EMPTY for word in words)


def _titled(asides: Asides, whole: Words, today: date, *, listed: bool) -> list[AddTask] | Missing:
    # The question for a title keeps the day, priority and description for its answer.
    missing = msgspec.structs.replace(TITLE, fields=asides.fields)
    if not asides.words or (len(asides.words) <= 2 and _is_empty(asides.words)):
        return missing
    pieces = _several(whole, today, listed=listed) if asides.description is None else []
    if len(pieces) < 2:
        title = _title(asides.words)
        return (
            [msgspec.structs.replace(AddTask(title=title), **dict(asides.fields))]
            if title
            else missing
        )
    return _separate(pieces, asides.priority, today) or TITLE


def _title(words: Words) -> str:
    kept = trimmed(words) or list(words)
    # The "a" of "schedule a haircut" is an article, that of "a < b" is not.
    if len(kept) > 1 and kept[0].key in ("a", "an") and kept[1].start == kept[0].end + 1:
        kept = kept[1:]
    return leading_occasion(phrase(kept).strip(" -\u2013—:;,"))


def _separate(pieces: list[list[Token]], level: str | None, today: date) -> list[AddTask]:
    """Return a task for each piece with its fields; fields of the last piece alone apply to all."""
    own = [asides_of(piece, today) for piece in pieces[:_PIECES]]
    for piece in own:
        piece.words = _without_tail(trimmed(piece.words))
    shared: dict[str, str | None] = {}
    for name in ("priority", "due"):
        bare = [dict(piece.fields).get(name) for piece in own if not piece.words]
        ahead = [dict(piece.fields).get(name) for piece in own[:-1] if piece.words]
        given = next(filter(None, bare), None if any(ahead) else dict(own[-1].fields).get(name))
        if given is not None:
            shared[name] = given
    if level is not None and not any(piece.priority for piece in own):
        shared["priority"] = level
    tasks = [
        msgspec.structs.replace(AddTask(title=title), **(shared | dict(piece.fields)))
        for piece in own
        if piece.words and (title := _title(piece.words))
    ]
    return tasks[:MOST]


def _several(words: Words, today: date, *, listed: bool) -> list[list[Token]]:
    """Return the words of each title if they are clearly a list, otherwise all words as one title.

    Lists are: lines; text after "tasks:"; actions that each begin with a verb; at least three names
    without a verb, or two with a comma.
    """
    if any(word.stop == "\n" for word in words[:-1]):
        return _lines(words)
    pieces = _pieces(words)
    bare = [trimmed(asides_of(piece, today).words) for piece in pieces[:_PIECES]]
    named = [piece for piece in map(_without_tail, bare) if piece]
    if len(named) < 2:
        return [list(words)]
    if listed or all(len(piece) == 1 and piece[0].quoted for piece in named):
        return pieces
    acts = [piece[0].key in ACTIONS for piece in named]
    if all(acts) and all(len(piece) > 1 for piece in named) and len(named) == len(pieces):
        return pieces
    is_list = any(word.stop == "," for word in words[:-1]) and not any(acts)
    is_list &= all(len(piece) <= 3 for piece in named)
    linked = any(word.key in _PREPOSITIONS for piece in named for word in piece)
    return pieces if is_list and not linked else [list(words)]


def _pieces(words: Words) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    for word in words:
        if word.key in ("and", "&", "plus") or (word.key in _BULLETS and not pieces[-1]):
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
        number = word.key.strip(".)(").isdigit() and len(words) > 2 and word.stop
        if lines[-1] or not (word.key in _BULLETS or number):
            lines[-1].append(word)
        heading = word.stop and len(lines) == 1 and len(lines[0]) < 4 and _is_empty(lines[0])
        if word.stop == "\n" or heading:
            lines.append([])
    return [line for line in lines if line and not _is_empty(line)]


def acts_at_once(words: Words) -> bool:
    """Return True if the words are an action ("buy milk") without "add"."""
    return (
        len(words) > 1
        and words[0].key in ACTIONS
        and not _is_empty(words[1:])
        and "should" not in keys_of(words)
    )
