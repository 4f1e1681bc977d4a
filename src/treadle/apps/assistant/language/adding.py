"""New tasks: the text after "add" as one title or several, with the fields next to it.

Words such as "urgent" or "friday" may be part of a title ("plan the friday party"). They are fields
only at an end or at a stop. Entry points: `added`, `asides_of`, `fields_alone`, `values_in`.
"""

from __future__ import annotations

from datetime import date
from typing import TypeAlias

from treadle.apps.assistant.language.dates import LIKE_A_DAY, day_at
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import CALLS_MOST, AddTask, Fields, Missing
from treadle.apps.assistant.language.wording import (
    Keys,
    Phrases,
    Token,
    Words,
    keys_of,
    known,
    near,
    phrase,
    pieces_of,
    without_end,
)
from treadle.apps.assistant.unsupported import leading_occasion

LEVELS = {
    "high|highest|top|urgent|max|maximum|critical": "High",
    "medium|normal|mid|moderate|average|standard|regular|default": "Medium",
    "low|lowest|min|minimal|minimum": "Low",
}
_PRIO = "priority|prio|importance|pri"
_NOT_URGENT = "not|isnt|arent so|that|very|too|really|all|super? urgent|important anymore?"
PRIORITY = Phrases(
    {
        f"with|at|as|of|has? a? {words} {_PRIO} / with|at|has? {_PRIO} is|of|set|to? {words}": level
        for words, level in LEVELS.items()
    }
    | {
        "high-priority|high-prio|top-priority|!high|#high|p1|prio1|!p1|#urgent|!urgent|!!! / "
        "its|thats very|really|super|so? urgent|important|critical / "
        "its|thats a? high priority|prio": "High",
        "theres|with|there? is? no big|great|real|particular? rush|hurry|pressure|urgency / "
        "can wait / at some point": "Low",
    }
)
_LOOSE = Phrases(
    {
        "asap|urgently|urgent|a.s.a.p / very|really|super urgent|important": "High",
        _NOT_URGENT: "Low",
    }
)
"""Phrases that count only at the ends."""
_ALONE = Phrases(
    {f"a? {words} {_PRIO}?": level for words, level in LEVELS.items()}
    | {"important": "High", f"{_NOT_URGENT} / unimportant / less important|urgent": "Low"}
)
_DUE = Phrases.plain(
    "due|deadline|duedate|due-date / and|that|which? is|its? due on|by|at|for|before|to|is|until? / "
    "and|with|has? a|the? due date|day of|on|is|to|for? / "
    "and|with? a|the? deadline|due-date of|on|is|to|for? / "
    "needs|has|must to? be done|completed|finished by|on|before?"
)
_NOT_DUE = Phrases.plain(
    "to|as|with|has|have|is? no|without a? due date|deadline / needs|has no due? date|deadline / "
    "doesnt|dont|does|do not? need|have|require a|any? due? date|deadline anymore?"
)
_BEFORE_DAYS = known("by on before until till for")
_WEAK_DAYS = known("mon tue wed thu fri sat sun now")
"""Ambiguous words, which are days only after a preposition."""
_DESCRIPTION = Phrases.plain(
    "description|desc|notes|details|note is? / "
    "with|and a|the? description|desc|notes|note|details|comment of|that|saying|says|is?"
)
DASHES = known("- \u2013 — --")
_TIES = DASHES | known("and & with also as")
_JOINING = DASHES | known("and due by on for with , please pls is its it that thats also a")
_LINKS = known(
    "to as be until till by on is a an = -> → at of from in should needs must has have the it now set "
    "into back up out forward ahead been was are does isnt arent doesnt due for moved postponed "
    "rescheduled delayed shifted"
)
_FILLING = known("priority prio very really a as to level importance more most")
_WORDS_MOST = 120
"""Maximum words to parse: no title is longer."""
_ALONE_MOST = 12


Aside: TypeAlias = tuple[int, int, str]
"""Start and end of the words, and the value."""


def asides_of(words: Words, today: date) -> tuple[list[Token], Fields]:
    """Return the title without the fields next to it, which may also precede it, and the fields."""
    rest, fields = list(words), Fields()
    for name, find in _ASIDES:
        is_long = len(rest) > _WORDS_MOST and name != "description"
        if is_long or (aside := find(rest, today)) is None:
            continue
        start, end, value = aside
        fields.setdefault(name, value)
        while start and rest[start - 1].key in _TIES:
            start -= 1
        del rest[start:end]
    return rest, fields


def _apart(words: Words, start: int, end: int) -> bool:
    """Return True if the words stand at an end, at a stop, or next to words that were removed."""
    if end == len(words) or words[end - 1].stop:
        return True
    return any(words[place].place != words[place - 1].place + 1 for place in (start, end))


def _description(words: Words, _: date) -> Aside | None:
    keys = keys_of(words)
    for i in range(1, len(keys)):
        row = _DESCRIPTION.at(keys, i)
        if row is None or (rest := i + row[0]) >= len(keys):
            continue
        marked = words[rest - 1].stop == ":" or words[rest].quoted
        if marked or (row[0] > 1 and keys[i + 1] != "details"):
            end = rest + 1 if words[rest].quoted else len(keys)
            return i, end, phrase(words[rest:end])
    return None


def _priority(words: Words, _: date) -> Aside | None:
    keys = keys_of(words)
    for i in range(len(keys)):
        row = PRIORITY.at(keys, i)
        if row is not None and _apart(words, i, i + row[0]):
            return i, i + row[0], row[1]
    row = _LOOSE.ending(keys)
    if row is None and (level := _ALONE.ending(keys)) is not None and level[0] < len(keys):
        row = level if words[-level[0] - 1].stop in (",", ":") else None
    return (len(keys) - row[0], len(keys), row[1]) if row and row[0] < len(keys) else None


def _due(words: Words, today: date) -> Aside | None:
    keys = keys_of(words)
    best: Aside | None = None
    for i, key in enumerate(keys):
        row = _DUE.at(keys, i)
        marked = day_at(keys, i + row[0], today) if row is not None else None
        if row is not None and marked is not None:
            end = i + row[0] + marked[0]
            if _apart(words, i, end):
                return i, end, marked[1].isoformat()
        after = i + (key in _BEFORE_DAYS)
        here = None if i > 0 and keys[i - 1] in ("every", "each") else day_at(keys, after, today)
        if here is None or (after == i and here[0] == 1 and key in _WEAK_DAYS):
            continue
        if _apart(words, i, after + here[0]) and (best is None or i >= best[1]):
            best = i, after + here[0], here[1].isoformat()
    return best


_ASIDES = (
    ("description", _description),
    ("priority", _priority),
    ("due", _due),
    ("priority", _priority),
)
"""Fields in the order in which they are looked for. A day may follow the priority."""


def unread_day(words: Words) -> str:
    """Return the text of a due date that is not in the calendar, to be asked about."""
    keys = keys_of(words)
    for i in range(2, len(keys)):
        if keys[i - 1] in ("by", "on", "due") and LIKE_A_DAY.match(" ".join(keys[i : i + 2])):
            return " ".join(word.text for word in words[i : i + 3])
    return ""


def level_of(keys: Keys) -> str | None:
    """Return the priority that the words name; None if they contain anything else."""
    kept = [key for key in keys if key not in _FILLING]
    kept = [near(key, ("high", "medium", "low", "urgent", "normal")) or key for key in kept]
    return _ALONE.whole(kept) or PRIORITY.whole(keys) or _LOOSE.whole(keys)


def fields_alone(words: Words, today: date) -> Fields:
    """Return the priority and the day; empty if the words contain anything else."""
    if not words or len(words) > _ALONE_MOST or any(word.quoted for word in words):
        return {}
    rest, fields = asides_of(words, today)
    left = [key for key in keys_of(rest) if key not in _JOINING]
    if "priority" not in fields and (level := level_of(left)) is not None:
        fields["priority"], left = level, []
    return {} if left or "description" in fields else fields


def values_in(words: Words, today: date) -> Fields:
    """Return the priority and the day after words such as "to", "is" or "should be"."""
    keys = keys_of(words)
    for start in range(len(keys)):
        if _NOT_DUE.whole(keys[start:]) is not None:
            return {"due": None}
        if found := fields_alone(words[start:], today):
            return found
        if keys[start] not in _LINKS or words[start].quoted:
            break
    return {}


# ---------------------------------------------------------------- titles

_SIZE = "high|urgent|important|top|critical|high-priority|medium|low|low-priority|quick|simple|small|normal|new|another|extra|big"
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
_END = Phrases.plain(
    "to|on|in|into|onto my|the|our|your to-do|todo|task|tasks|shopping|grocery? list|tasks|todos|lists / "
    f"{'|'.join(DASHES)}|and|&|please|pls|plz|thanks|thx|with|ok|okay|:"
)
_EMPTY = known(
    "something stuff thing better good nice well now everything all it that this them things task tasks one some more another new me a an the to "
    "todo item these those following please"
)
_JOINS = known("and & plus")
_PREPOSITIONS = known("with for about to from at between of on in regarding")
TITLE = Missing("what you would like to add", "title")


def added(
    words: Words, today: date, given: Fields | None = None, *, bare: bool = False
) -> list[AddTask] | list[Missing]:
    """Return the tasks, at most ten; Missing if there is no title, or a date is invalid.

    `given`: fields unless the words have their own. `bare`: no word asked for adding.
    """
    keys = keys_of(words)
    noun = _NOUN.at(keys)
    count = noun[0] if noun is not None else 0
    rest = without_end(_led(words[count:], today, noun=count > 0), _END)
    left, fields = asides_of(rest, today)
    if "due" not in fields and (day := unread_day(left)):
        return [Missing(f"the date '{day[:40]}'", "value", field="due")]
    if (level := next(filter(None, (level_of([key]) for key in keys[:count])), None)) is not None:
        fields.setdefault("priority", level)
    title = _title(_led(without_end(left, _END), today, noun=count > 0 or "due" in fields))
    if not title:  # the question keeps the day, priority and description for its answer
        return [Missing(TITLE.what, "title", AddTask("", (given or {}) | fields))]
    listed = any(key in _TASKS.split("|") or key == "following" for key in keys[:count])
    pieces = [] if "description" in fields else _several(rest, today, listed=listed)
    several = _separate(pieces, level, today) if len(pieces) > 1 else []
    tasks = several or [AddTask(title, fields)]
    return [AddTask(task.title, (given or {}) | task.fields, bare) for task in tasks]


def _led(words: Words, today: date, *, noun: bool) -> Words:
    """Return the words without those that introduce the title: "to" and "for" after "task"."""
    found = _LEADS.at(keys_of(words[:10])) if noun else None
    if found is None or found[0] >= len(words):
        return words
    dated = words[0].key in ("for", "on") and "due" in asides_of(words[:6], today)[1]
    return words if dated else words[found[0] :]


def is_empty(words: Words) -> bool:
    return all(not word.quoted and word.key in _EMPTY for word in words)


def _title(words: Words) -> str:
    """Return the text of a title; empty if the words are only "something" or the like."""
    if len(words) <= 2 and is_empty(words):
        return ""
    # The "a" of "schedule a haircut" is an article, that of "a < b" is not.
    if len(words) > 1 and words[0].key in ("a", "an") and words[1].start == words[0].end + 1:
        words = words[1:]
    return leading_occasion(phrase(without_end(words, _END)).strip(" -\u2013—:;,*•"))


def _separate(pieces: list[list[Token]], level: str | None, today: date) -> list[AddTask]:
    """Return a task for each piece with its fields; fields of the last piece alone apply to all."""
    own = [asides_of(piece, today) for piece in pieces[:_WORDS_MOST]]
    shared: Fields = {} if level is None else {"priority": level}
    if not any(fields for words, fields in own[:-1] if words):
        shared |= own[-1][1]
    found = [(_title(without_end(words, _END)), shared | fields) for words, fields in own if words]
    return [AddTask(title, fields) for title, fields in found if title][:CALLS_MOST]


def _several(words: Words, today: date, *, listed: bool) -> list[list[Token]]:
    """Return the words of each title if they are clearly a list, otherwise all words as one title.

    Lists are: lines; text after "tasks:"; actions that each begin with a verb; at least three names
    without a verb, or two with a comma.
    """
    if any(word.stop == "\n" for word in words[:-1]):
        lines = pieces_of(words, frozenset(), "\n")
        return [line[line[0].key.isdigit() and line[0].stop == "." :] for line in lines]
    pieces = pieces_of(words, _JOINS)
    bare = (without_end(asides_of(piece, today)[0], _END) for piece in pieces[:_WORDS_MOST])
    named = [piece for piece in bare if piece]
    if listed or all(len(piece) == 1 and piece[0].quoted for piece in named):
        return pieces
    acts = [piece[0].key in ACTIONS for piece in named]
    if all(acts) and all(len(piece) > 1 for piece in named) and len(named) == len(pieces):
        return pieces
    is_list = any(word.stop == "," for word in words[:-1]) and not any(acts)
    is_list &= all(len(piece) <= 3 for piece in named)
    linked = any(word.key in _PREPOSITIONS for piece in named for word in piece)
    return pieces if is_list and not linked else [list(words)]
