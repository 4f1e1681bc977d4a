"""Changes of tasks by command: completion, deletion, a new title, priority, day or description.

Entry points: `changed`, `completed`, `deleted`, `changing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.asides import looks_like_a_day
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.field_changes import DEFAULT_LEVEL, changing, gap_of, of_field
from treadle.apps.assistant.language.listing import filter_of
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.spelling import near
from treadle.apps.assistant.language.targets import TASK, target_of
from treadle.apps.assistant.language.values import values_of
from treadle.apps.assistant.language.wishes import (
    Missing,
    Named,
    PlainCall,
    Wish,
)
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase

FIELD = Phrases(
    {
        "the|a|its|an? due date|day|time": "due",
        "the|a|its? deadline|duedate|due-date|due": "due",
        "the|its date": "due",
        "the|a|its|any? priority|prio|importance|urgency|prioirty|prority": "priority",
        "the|its? title|name|wording|text": "title",
        "the|a|its? description|notes|details|desc|comment": "description",
        "a|the|its note": "description",
    }
)
_POSSESSED = Phrases(
    {
        "priority|prio|importance": "priority",
        "title|name": "title",
    }
)
_DONE = Phrases.plain(
    [
        "as|is|are|to|its? all|now|already? done|complete|completed|finished|compelte|complet|dne|doen|checked|ticked|closed",
        "off|off: as? done?",
    ]
)
_UNDONE = Phrases.plain(
    [
        "as|is|are|to? not|un|isnt|arent done|complete|completed|finished yet?",
        "as|is|are|to? undone|incomplete|open|unfinished|uncompleted|todo|pending|unchecked",
        "not|isnt|arent been? done|complete|completed|finished yet?",
        "back? to|as open|pending|todo|incomplete",
    ]
)
_WITH = ("rename", "retitle", "replace", "reword")
POSTPONING = known("postpone reschedule delay defer push move bump extend shift pull")
_RETITLING = known("correct rename retitle reword change edit update call modify replace swap")


def completed(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing]:
    return changing("complete", text, _without_done(words), today, talk)


def deleted(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing]:
    keys = keys_of(words)
    field = FIELD.at(keys) or FIELD.at([*keys, "of"])
    if field is not None and field[1] != "title" and (len(keys) > field[0] or field[1] == "due"):
        return changed(text, words, "clear", today, talk)
    for place in range(1, len(keys)):  # "remove milk's due date"
        if (
            (possessed := _POSSESSED.at(keys, place)) is not None
            and place + possessed[0] == len(keys)
            and possessed[1] in ("due", "description")
        ):
            return changed(text, words, "clear", today, talk)
    if bulk := _completed_ones(text, words, today):
        return [bulk]
    return changing("delete", text, words, today, talk)


def _completed_ones(text: str, words: Words, today: date) -> PlainCall | None:
    """Return the call if all completed tasks are meant, without a narrower filter."""
    keys = keys_of(words)
    if any(word.quoted for word in words) or any(
        key in ("except", "but", "one", "not") for key in keys
    ):
        return None
    filtered = filter_of(text, words, today)
    wanted = filtered.filter
    rest = filtered.rest.casefold() in ("", "out", "up", "off", "away", "all", "from")
    plural = len(keys) == 1 or any(
        k
        in (
            "all",
            "every",
            "everything",
            "my",
            "tasks",
            "todos",
            "items",
            "ones",
            "the",
            "list",
            "whatever",
            "anything",
            "what",
            "whats",
            "thats",
            "things",
            "stuff",
        )
        for k in keys
    )
    singular = any(k in ("task", "item", "todo") for k in keys) and not any(
        k in ("all", "every", "each") for k in keys
    )
    narrow = wanted.priority is not None or wanted.search is not None
    return (
        PlainCall("delete_completed")
        if rest and plural and not singular and wanted.status == "completed" and not narrow
        else None
    )


def _without_done(words: Words) -> list[Token]:
    kept = list(words)
    if (found := _DONE.ending(keys_of(kept))) is not None and found[0] < len(kept):
        return kept[: -found[0]]
    if len(kept) > 1 and kept[0].key in ("off", "with", "out"):
        return kept[1:]
    return kept


def changed(
    text: str, words: Words, verb: str, today: date, talk: Dialogue
) -> list[Wish | Missing]:
    """Parse the words after a verb like "set", "mark", "change", "move"."""
    keys = [near(key, _FIELD_WORDS) or key if len(key) > 5 else key for key in keys_of(words)]
    if (
        verb in ("mark", "set", "flag", "make", "put", "move", "change", "update", "tick")
        and (found := done_at(keys)) is not None
    ):
        place, count, undone = found
        if undone:
            return [REOPEN]
        return changing("complete", text, [*words[:place], *words[place + count :]], today, talk)
    if (field := FIELD.at(keys)) is not None and (
        len(keys) == field[0]
        or keys[field[0]] in ("of", "for", "on", "from", "to")
        or field[1] != "title"
    ):
        return of_field(text, words[field[0] :], field[1], verb, today, talk)
    plain, rest = values_of(text, words, today)
    unlike = verb in ("rename", "retitle", "reword", "call") or _looks_renamed(rest)
    unlike |= any(
        k in ("priority", "date", "deadline") or (k == "to" and verb in _RETITLING)
        for k in keys_of(rest)
    )
    if len(plain) == 1 and not unlike:
        return changing("update", text, rest, today, talk, plain)
    return _by_value(text, words, verb, today, talk)


_FIELD_WORDS = ("priority", "deadline", "description")


def done_at(keys: Sequence[str]) -> tuple[int, int, bool] | None:
    """Return the position and length of "as done", and whether it is negated; None if it does not
    occur.
    """
    mended = [near(key, ("done", "complete", "completed", "finished")) or key for key in keys]
    for undone, table in ((True, _UNDONE), (False, _DONE)):
        if (found := table.ending(mended)) is not None:
            return len(keys) - found[0], found[0], undone
        if (
            (found := table.at(mended)) is not None
            and mended[0] in ("as", "done", "complete", "off", "completed", "finished")
            and found[0] < len(keys)
        ):
            return 0, found[0], undone
    return None


def _by_value(
    text: str, words: Words, verb: str, today: date, talk: Dialogue
) -> list[Wish | Missing]:
    """Parse "make X high priority", "move X to friday", "rename X to Y"."""
    fields, rest = values_of(
        text, words, today, retitling=verb in ("rename", "retitle", "reword", "call")
    )
    if fields and rest and not (verb in _RETITLING and _looks_renamed(rest)):
        return changing("update", text, rest, today, talk, fields)
    if (split := _renamed(words, verb)) is not None:
        target, title = words[: split[0]], words[split[1] :]
        named = phrase(text, _as_title(title))
        if verb in POSTPONING or looks_like_a_day(keys_of(title)[0]):
            return gap_of(text, target, "due", verb, today, talk)
        return (
            changing("update", text, target, today, talk, (("title", named),))
            if named
            else [Missing("the new title", "value", doing="update", field="title")]
        )
    if fields:
        return [Missing("which task to change", "task", doing="update", fields=fields)]
    if verb in DEFAULT_LEVEL and (
        verb not in POSTPONING or (verb == "bump" and "back" not in keys_of(words))
    ):
        return changing("update", text, words, today, talk, (("priority", DEFAULT_LEVEL[verb]),))
    if verb in POSTPONING:
        return gap_of(
            text,
            [w for w in words if w.key not in ("back", "by") or w.quoted],
            "due",
            verb,
            today,
            talk,
        )
    if verb in ("rename", "retitle", "reword") and words:
        return gap_of(text, words, "title", verb, today, talk)
    meant = target_of(text, words, today, talk) if words else TASK
    what = (
        "what to change about it" if isinstance(meant, Named) else "which task to change, and how"
    )
    return [
        Missing(what, "any", doing="update", target=meant if isinstance(meant, Named) else None)
    ]


def _looks_renamed(rest: Words) -> bool:
    return sum(word.quoted for word in rest) > 1


def _renamed(words: Words, verb: str) -> tuple[int, int] | None:
    """Return the position where the old title ends and the new one begins. Of several "to", the
    middle one separates them.
    """
    keys = keys_of(words)
    quoted = [i for i, word in enumerate(words) if word.quoted]
    if verb == "call" and len(quoted) < 2:
        return None
    if len(quoted) == 2:
        return quoted[0] + 1, quoted[1]
    if verb not in _RETITLING and verb not in POSTPONING:
        return None
    joins = [
        i
        for i, key in enumerate(keys)
        if 0 < i < len(keys) - 1 and key in ("to", "into", "->", "→", "=>")
    ]
    joins = joins or [
        i
        for i, key in enumerate(keys)
        if 0 < i < len(keys) - 1 and key in (("as", "with") if verb in _WITH else ())
    ]
    colon = next((i for i in range(1, len(words)) if words[i - 1].stop == ":"), None)
    if colon is not None and (not joins or joins[0] > colon):
        return colon, colon
    if not joins:
        return None
    middle = joins[len(joins) // 2] if len(joins) % 2 else joins[0]
    return middle, middle + 1


def _as_title(words: Words) -> list[Token]:
    kept = list(words)
    while (
        len(kept) > 1
        and not kept[0].quoted
        and kept[0].key in ("say", "be", "read", "called", "should", "to")
    ):
        del kept[0]
    return kept[:-1] if len(kept) > 1 and kept[-1].key in ("instead", "please") else kept


REOPEN = Missing("", "any")
"""Request that no tool supports; the answer is text."""
