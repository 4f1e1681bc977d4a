"""Changes of the tasks that a message refers to, field by field. Entry points: `changing`,
`of_field`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.targets import TASK, target_of
from treadle.apps.assistant.language.values import Fields, value_of
from treadle.apps.assistant.language.wishes import (
    Doing,
    Every,
    Missing,
    Named,
    PlainCall,
    Target,
    TaskChange,
    Wish,
)
from treadle.apps.assistant.language.wording import Words, keys_of

TO = ("to", "as", "into", "=", "->", "→", "be", "become", "reads", "read", "say", "with")

VALUE = {
    "due": "the new due date",
    "priority": "the new priority",
    "title": "the new title",
    "description": "the new description",
}

_CLEARING = (
    "clear",
    "remove",
    "delete",
    "drop",
    "cancel",
    "erase",
    "unset",
    "reset",
    "take",
    "get",
)
DEFAULT_LEVEL = {
    "prioritize": "High", "prioritise": "High", "deprioritize": "Low", "deprioritise": "Low", "raise": "High",
    "increase": "High", "bump": "High", "lower": "Low", "decrease": "Low", "reduce": "Low",
}  # fmt: skip


def changing(
    doing: Doing, text: str, words: Words, today: date, talk: Dialogue, fields: Fields = ()
) -> list[Wish | Missing]:
    target = target_of(text, words, today, talk)
    if isinstance(target, Missing):
        return [Missing(_which(target, doing), "task", doing=doing, fields=fields)]
    if doing == "complete" and isinstance(target, Every):
        if target.filter.status == "completed" or (
            (target.filter.empty or target.filter.status == "open")
            and target == Every(type(target.filter)(target.filter.status))
        ):
            return [PlainCall("complete_all")]
        target = Every(type(target.filter)("open", target.filter.priority, target.filter.search))
    targets: Sequence[Target] = target if isinstance(target, tuple) else (target,)
    return [TaskChange(doing, one, fields) for one in targets]


def _which(missing: Missing, doing: Doing) -> str:
    if missing.what != TASK.what:
        return missing.what
    return {
        "complete": "which task you have completed",
        "delete": "which task to delete",
        "update": "which task to change",
    }[doing]


def of_field(
    text: str, words: Words, field: str, verb: str, today: date, talk: Dialogue
) -> list[Wish | Missing]:
    """Parse changes of one field: "set the priority of X to high", "add a note to X: Y"."""
    keys = keys_of(words)
    start = 1 if keys and keys[0] in ("of", "for", "on", "from", "to") and len(keys) > 1 else 0
    if verb in _CLEARING:
        return changing(
            "update",
            text,
            words[start:],
            today,
            talk,
            ((field, None if field == "due" else "" if field == "description" else "Medium"),),
        )
    # "add a due date of friday to X"
    if (verb in ("add", "give") or keys[:1] == ["of"]) and field in ("due", "priority"):
        for place in range(len(keys) - 2, start, -1):
            if keys[place] not in ("to", "for", "on"):
                continue
            if (value := value_of(text, words[start:place], field, today)) is not None:
                return changing("update", text, words[place + 1 :], today, talk, ((field, value),))
    if (
        verb in ("add", "give", "put")
        and field == "description"
        and words[0].quoted
        and keys[1:2] in (["to"], ["for"], ["on"])
        and len(words) > 2
    ):
        return changing("update", text, words[2:], today, talk, (("description", words[0].text),))
    for place in range(len(keys) - 1, start, -1):
        here = (
            keys[place] in TO
            or keys[place] in ("for", "on", "by", "is")
            or words[place - 1].stop == ":"
        )
        if not here:
            continue
        after = place if words[place - 1].stop == ":" else place + 1
        if (
            field in ("title", "description")
            and after < len(words)
            and not _first_to(words, place, start)
        ):
            continue
        value = value_of(text, words[after:], field, today)
        if value is not None:
            return changing("update", text, words[start:place], today, talk, ((field, value),))
    return gap_of(text, words[start:], field, verb, today, talk)


def _first_to(words: Words, place: int, start: int) -> bool:
    """Return True if a text may begin after this word: the first "to", or a colon, which takes
    precedence.
    """
    if words[place - 1].stop == ":":
        return True
    return not any(
        w.key in ("to", "as") or w.stop == ":" for w in words[start + 1 : place]
    ) and not any(w.stop == ":" for w in words[place:])


def gap_of(
    text: str, target: Words, field: str, verb: str, today: date, talk: Dialogue
) -> list[Wish | Missing]:
    """Ask for the missing value, unless the verb implies it ("raise the priority of X")."""
    if field == "priority" and verb in DEFAULT_LEVEL:
        return changing("update", text, target, today, talk, (("priority", DEFAULT_LEVEL[verb]),))
    meant = target_of(text, target, today, talk)
    named = meant if isinstance(meant, (Named, Every)) else None
    return (
        [Missing(VALUE[field], "value", doing="update", target=named, field=field)]
        if named is not None
        else [Missing("which task to change, and how", "any")]
    )
