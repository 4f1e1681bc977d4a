"""Sentences that change tasks, as tables of patterns, and the matching of them.

A pattern is words as in wording.py, and slots in capitals:

    X  reference to tasks            T  text
    F  name of a field               Z  value of that field
    V  values: a day, a priority, or both              W  the same after "is", "should", "due" …
    Y  words for the list or its tasks
    A, B, C, D  verb in the past: after "I", at the beginning, after "is", or at the end
    :  the word before it has a colon

The first pattern that fits the whole sentence counts, with the shortest text for each slot. What
fits none is not understood. Entry points: `COMMANDS`, `readings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from treadle.apps.assistant.language.adding import values_in
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.wording import (
    Pattern,
    Phrases,
    Words,
    keys_of,
    known,
    pattern_of,
    phrase,
)
from treadle.apps.assistant.stems import is_past

Bound: TypeAlias = dict[str, Words]
Row: TypeAlias = tuple[str, Pattern]
"""Action, and its pattern."""

_NAMES = {
    "done": "done|complete|completed|finished|checked|ticked|closed",
    "undone": "undone|incomplete|open|unfinished|uncompleted|pending|unchecked",
    "not": "not|isnt|arent|hasnt|havent|un",
    "adverb": "just|already|finally|now|also|actually|even|then|really|successfully|today",
    "is": "is|are|was|were|got|gets|has|have|s been|just|already|now|all|finally|also|both? been|already|now|all|finally?",
    "mark": "✔|✓|✅|☑|✔️|☑️|🗸|[x]|x]|(x)",
    "arrow": "->|=>|→|➜|>",
    "to": "to|into|as|be|->|=>|→|=",
    "set": "set|make|mark|flag|put|move|change|update|tick|edit|modify|adjust|give|turn|shift|raise|lower|bump|increase|decrease|reduce|push|delay|defer|extend|postpone|reschedule|bring|correct",
    "give": "set|add|write|give|put|make|change|update|edit|raise|lower|increase|decrease|reduce|bump|mark|adjust|modify",
    "delete": "delete|remove|erase|discard|trash|cancel|drop|scrap|scratch|kill|bin|nix|dump|forget|toss|eliminate|ditch|clear|purge",
    "finish": "complete|finish|check|tick|cross|close|resolve|strike|accomplish|did|done|completed|finished",
    "list": "to-do|todo|task|shopping? list|tasks|todos",
}  # fmt: skip


def _rows(text: str) -> list[Row]:
    lines = (line.format_map(_NAMES).split(None, 1) for line in text.strip().splitlines())
    return [(act, pattern_of(pattern)) for act, pattern in lines]


COMMANDS = _rows("""
reopen      {set} X as|to|is|are? {not} {done} yet?
reopen      {set} X as|to|is|are|back? to|as? {undone}
complete    {set} X as|to|is|are|its? all|now|already|off? {done}
complete    mark X off
complete    {finish} off|out|up|with|on? X
complete    i|ive|we|weve|im am|have? {adverb}? have|am? {adverb}? done|finished|completed|did|ticked|checked with|off|on? X
field       {delete}|reset|unset F of|for|on|from|to X
field       {delete}|reset|unset F
delete      {delete} out|up|away|off|about? X
delete      get rid of X
delete      take X off|out|away from|of? my|the|our? {list}?
delete      tidy|clean|wipe|empty|sweep up|out|off? Y
delete      i|we dont|no do? not? longer? need|want to? X
description describe X as|with|like T
description add to X : T
note        add|put|write|make? F : T
retitle     i meant|mean to? say|write|type|add|put? T
retitle     call|name|title it|that|this rather? T
field       {give} F of|for|on|from|to X : Z
field       {give} F of|for|on|from|to X {to}|by|for|on|is|with Z
field       {give} F of|is? Z for|to|on X
low         lower|decrease|reduce F of|for X
ask         {give} F
ask         {give} F of|for|on|from|to? X
title       rename|retitle|reword X {to}|with say|read|be? T
values      {set} back|up|out|forward? X V
title       change|edit|update|correct|modify|swap X to|into|->|=>|→ say|read|be? called? T
title       edit|change|update X : should|to? say|read|be? T
title       replace|swap|change X with|by T
high        prioritize|prioritise|raise|increase|bump X
ask-title   rename|retitle|reword X
ask-due     postpone|reschedule|delay|defer|push|move|shift|extend|pull X back|by? to|into? T?
ask         change|update|edit|modify|adjust|make|set|mark|flag|turn|swap|give|put|stick|throw|pop X
""")
STATEMENTS = _rows("""
reopen      X is|are|was? {not} been? {done} yet?
complete    X {is} {done}|sorted out?
complete    X {done}
complete    X {mark}
complete    {mark} X
delete      X is|are|was no|not longer|any? needed|necessary|relevant|required anymore?
delete      X can be deleted|removed|dropped|scrapped
title       X should|must|needs|has to? be called|named|titled T
rename      X {arrow} T
values      X : V
state       X W
""")
REPORTS = _rows("""
did         i|we have|had? {adverb}? {adverb}? A X
did         ive|weve|id {adverb}? {adverb}? A X
maybe       {adverb}? B X
maybe       X {is} C
maybe       X D
""")
_FIELD = Phrases(
    {
        "the|a|its|an? due date|day|time / the|a|its|an? deadline|duedate|due-date|due / the|its date": "due",
        "the|a|its|any? priority|prio|importance|urgency": "priority",
        "the|its? title|name|wording|text": "title",
        "the|a|its? description|note|notes|details|detail|desc|comment": "description",
    }
)
_STATES = known(
    "is are isnt arent should needs must has have due doesnt does moved postponed rescheduled "
    "delayed shifted back"
)
_LIST = known(
    "list lists task tasks todo todos done completed finished complete everything all ones items it "
    "them that this stuff"
)
_NOT_DONE = known(
    "got left found felt be become have moved changed postponed cancelled canceled delayed rescheduled needed required wanted planned scheduled expected supposed "
    "interested bored tired worried confused excited scared blocked missed added deleted removed renamed listed updated named titled started forgot "
    "forgotten tried thought decided hated loved liked hoped wished wondered noticed remembered lost failed stopped promised agreed realized "
    "realised heard hid lay laid led meant been was were had given stressed annoyed began begun spent used overloaded overwhelmed assigned "
    "prioritized prioritised"
)
_ACTORS = _NOT_DONE | known(
    "done finished completed called phoned rang emailed texted wrote visited met came asked helped replied answered messaged contacted went ate "
    "drank slept ran spoke did took got"
)
"""Verbs whose preceding noun may be the actor if there is no "is": "mum called"."""
_SLOTS: Final = frozenset("XTFZVWYABCD")
_MARKS: Final = _SLOTS | {":"}
_VALUE_MOST = 12
_LONG = 80
"""Number of words from which only patterns with a single slot at their end are tried."""


def value_of(words: Words, field: str, talk: Dialogue) -> str | None:
    found = values_in(words, talk.today)
    return found.get(field) if field in ("due", "priority") else phrase(words)


def field_of(words: Words) -> str:
    return _FIELD.whole(keys_of(words)) or ""


def _fits(slot: str, words: Words, bound: Bound, talk: Dialogue) -> bool:
    """Return True if the words may fill the slot."""
    first, keys = words[0], keys_of(words)
    match slot:
        case "F":
            return len(words) < 4 and bool(field_of(words))
        case "Z":
            return value_of(words, field_of(bound["F"]), talk) is not None
        case "V" | "W":
            return (slot == "V" or first.key in _STATES) and bool(values_in(words, talk.today))
        case "Y":
            return not _LIST.isdisjoint(keys)
        case "A" | "B" | "C" | "D":
            return (
                len(keys) == 1
                and is_past(first.key)
                and first.key not in (_ACTORS if slot == "D" else _NOT_DONE)
            )
        case _:
            return True


def _bound(
    row: Pattern, words: Words, talk: Dialogue, place: int = 0, bound: Bound | None = None
) -> Bound | None:
    """Return the words of the slots if the pattern fits the words from `place` on."""
    bound = bound or {}
    if not row:
        return bound if place == len(words) else None
    (part, optional), rest = row[0], row[1:]
    for end in _ends(row, words, place):
        more = bound
        if part <= _SLOTS:
            (slot,), piece = part, words[place:end]
            if not piece or not _fits(slot, piece, bound, talk):
                continue
            more = {**bound, slot: piece}
        if (found := _bound(rest, words, talk, end, more)) is not None:
            return found
    return _bound(rest, words, talk, place, bound) if optional else None


def _ends(row: Pattern, words: Words, place: int) -> Iterator[int]:
    """Yield the places where the first part of the pattern may end."""
    part = row[0][0]
    if ":" in part:
        if place and words[place - 1].stop == ":":
            yield place
    elif not part <= _SLOTS:
        if place < len(words) and words[place].key in part:
            yield place + 1
    elif len(row) == 1:
        yield len(words)
    else:
        after, optional = row[1]
        is_word = not optional and not after <= _MARKS
        most = 4 if "F" in part else len(words) if part <= {"X", "T"} else _VALUE_MOST
        ends = range(place + 1, min(len(words), place + most) + 1)
        for end in reversed(ends) if "F" in part else ends:
            if not is_word or end == len(words) or words[end].key in after:
                yield end


def readings(rows: Sequence[Row], words: Words, talk: Dialogue) -> Iterator[tuple[str, Bound]]:
    """Yield the actions of the patterns that fit the words, with the words of their slots."""
    keys = {word.key for word in words}
    for act, pattern in rows:
        first, optional = pattern[0]
        slots = [part <= _MARKS for part, _ in pattern]
        if not (optional or slots[0] or words[0].key in first):
            continue
        if any(not (o or p <= _MARKS) and p.isdisjoint(keys) for p, o in pattern):
            continue
        if len(words) <= _LONG or slots.index(True) == len(slots) - 1:
            bound = _bound(pattern, words, talk)
            if bound is not None:
                yield act, bound
