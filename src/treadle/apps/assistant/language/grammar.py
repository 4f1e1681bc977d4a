"""Sentences that change tasks, as tables of patterns, and the matching of them.

A pattern is words as in phrases.py, and slots in capitals:

    X  reference to tasks            T  text            Q  quoted text
    F  name of a field               Z  value of that field
    V  values: a day, a priority, or both              W  the same after "is", "should", "due" …
    S  span of days                  Y  words for the list or its tasks
    A, B, C, D  verb in the past: after "I", at the beginning, after "is", or at the end
    :  the word before it has a colon

The first pattern that fits the whole sentence counts, with the shortest text for each slot. What
fits none is not understood. Entry points: `COMMANDS`, `readings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import day_at, days_at
from treadle.apps.assistant.language.fields import level_of, values_in
from treadle.apps.assistant.language.wording import Phrases, Words, keys_of, known, phrase
from treadle.apps.assistant.stems import is_past

Bound: TypeAlias = dict[str, Words]
Pattern: TypeAlias = tuple[tuple[frozenset[str] | str, bool], ...]
"""Words and slots, with True if they are optional."""
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
    "later": "postpone|reschedule|delay|defer|push|move|bump|extend|shift|pull|bring|put",
    "delete": "delete|remove|erase|discard|trash|cancel|drop|scrap|scratch|kill|bin|nix|dump|forget|toss|eliminate|ditch|clear|purge",
    "finish": "complete|finish|check|tick|cross|close|resolve|strike|accomplish|did|done|completed|finished",
    "list": "to-do|todo|task|shopping? list|tasks|todos",
}  # fmt: skip


def _rows(text: str) -> list[Row]:
    rows: list[Row] = []
    for line in text.strip().splitlines():
        act, pattern = line.format_map(_NAMES).split(None, 1)
        parts = [(part.removesuffix("?"), part.endswith("?")) for part in pattern.split()]
        rows.append(
            (
                act,
                tuple(
                    (p if p.isupper() or p == ":" else frozenset(p.split("|")), o) for p, o in parts
                ),
            )
        )
    return rows


COMMANDS = _rows("""
reopen      uncheck|untick|reopen|uncomplete|unmark|unfinish X
reopen      {set} X as|to|is|are? {not} {done} yet?
reopen      {set} X as|to|is|are|back? to|as? {undone}
complete    {set} X as|to|is|are|its? all|now|already|off? {done}
complete    mark X off
complete    mark|tick|check|cross off? as? {done} X
complete    {finish} off|out|up|with|on? X
complete    i|ive|we|weve|im am|have? {adverb}? have|am? {adverb}? done|finished|completed|did|ticked|checked with|off|on? X
clear       {delete}|reset|unset F of|for|on|from|to X
clear       {delete}|reset|unset F
delete      {delete} out|up|away|off|about? X
delete      get rid of X
delete      take X off|out|away from|of? my|the|our? {list}?
delete      take off|out X
delete      tidy|clean|wipe|empty|sweep up|out|off? Y
delete      i|we dont|no do? not? longer? need|want to? X
description describe X as|with|like T
description describe X : T
ask         describe X
description add to X : T
note        add|put|write|make F : T
retitle     i meant|mean to? say|write|type|add|put? T
retitle     call|name|title it|that|this rather? T
field       {give} F of|for|on|from|to X : Z
field       {give} F of|for|on|from|to X {to}|by|for|on|is|with Z
field       {give} F of|is? Z for|to|on X
field       {give} F Q for|to|on X
high        raise|increase|bump F of|for X
low         lower|decrease|reduce F of|for X
ask         {give} F
ask         {give} F of|for|on|from|to? X
later       {later} X back|off|out|forward|by|for? by? S back|later|out|more|forward?
sooner      {later} X by? S earlier|sooner|ahead
title       rename|retitle|reword X {to}|with say|read|be? T
title       rename|retitle|reword X : T
values      {set} X from V to|into V
values      {set} back|up|out|forward? X V
title       change|edit|update|correct|modify|swap X to|into|->|=>|→ say|read|be? called? T
title       change|edit|update|correct : X to T
title       edit|change|update X : should|to? say|read|be? T
title       replace|swap|change X with|by T
high        prioritize|prioritise|raise|increase|bump X
low         deprioritize|deprioritise|lower|decrease|reduce X
ask-title   rename|retitle|reword X
ask-due     postpone|reschedule|delay|defer|push|move|shift|extend|pull X back|by? to|into? T?
ask         change|update|edit|modify|adjust|make|set|mark|flag|turn|swap|give|put|stick|throw|pop X
""")
STATEMENTS = _rows("""
reopen      X is|are|was? {not} been? {done} yet?
complete    X {is} {done}|sorted out?
complete    X : {done}
complete    X {done}
complete    X {mark}
complete    {mark} X
delete      X is|are|was no|not longer|any? needed|necessary|relevant|required anymore?
delete      X can go
delete      X can be deleted|removed|dropped|scrapped
title       the? title|name of X should|must|is be|read|say? T
title       X should|must|needs|has to? say|read T
title       X should|must|needs|has to? be called|named|titled T
rename      X {arrow} T
values      X : V
values      can|could|should|may|let X be V
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
    "be become have moved changed postponed cancelled canceled delayed rescheduled needed required wanted planned scheduled expected supposed "
    "interested bored tired worried confused excited scared blocked missed added deleted removed renamed listed updated named titled started forgot "
    "forgotten tried thought decided hated loved liked hoped wished wondered noticed remembered lost failed stopped promised agreed realized "
    "realised heard hid lay laid led meant been was were had given stressed annoyed began begun spent used overloaded overwhelmed assigned "
    "prioritized prioritised"
)
_MADE = known("made gave told kept seen saw left found felt")
_SAME_IN_BOTH = known("put cut set read quit")
_ACTORS = known(
    "done finished completed called phoned rang emailed texted wrote visited met came asked helped replied answered messaged contacted went ate "
    "drank slept ran spoke did took got"
)
"""Verbs whose preceding noun may be the actor if there is no "is": "mum called"."""
_NOT = {
    "A": _NOT_DONE | known("left got"),
    "B": _NOT_DONE | _SAME_IN_BOTH | known("left found felt"),
    "C": _NOT_DONE | _MADE,
    "D": _NOT_DONE | _MADE | _SAME_IN_BOTH | _ACTORS,
}
_VALUE_MOST = 12
_LONG = 80
"""Number of words from which only patterns with a single slot at their end are tried."""


# ---------------------------------------------------------------- matching


def value_of(words: Words, field: str, talk: Dialogue) -> str | None:
    keys = keys_of(words)
    if field == "due":
        day = day_at(keys, 0, talk.today)
        return day[1].isoformat() if day is not None and day[0] == len(keys) else None
    return level_of(keys) if field == "priority" else phrase(words)


def field_of(words: Words) -> str:
    return _FIELD.whole(keys_of(words)) or ""


def _fits(slot: str, words: Words, bound: Bound, talk: Dialogue) -> bool:
    """Return True if the words may fill the slot."""
    first, keys = words[0], keys_of(words)
    match slot:
        case "Q":
            return len(words) == 1 and first.quoted
        case "F":
            return len(words) < 4 and bool(field_of(words))
        case "Z":
            return value_of(words, field_of(bound["F"]), talk) is not None
        case "V" | "W":
            return (slot == "V" or first.key in _STATES) and bool(values_in(words, talk.today))
        case "S":
            return (span := days_at(keys, 0)) is not None and span[0] == len(keys)
        case "Y":
            return not _LIST.isdisjoint(keys)
        case "A" | "B" | "C" | "D":
            return len(keys) == 1 and is_past(first.key) and first.key not in _NOT[slot]
        case _:
            return True


def _bound(
    row: Pattern,
    words: Words,
    talk: Dialogue,
    at: int = 0,
    place: int = 0,
    bound: Bound | None = None,
) -> Bound | None:
    """Return the words of the slots if the pattern fits the words from `place` on."""
    bound = bound or {}
    if at == len(row):
        return bound if place == len(words) else None
    part, optional = row[at]
    if part == ":" or not isinstance(part, str):
        if part == ":":
            taken = 0 if place and words[place - 1].stop == ":" else None
        else:
            taken = 1 if place < len(words) and words[place].key in part else None
        if taken is not None and (found := _bound(row, words, talk, at + 1, place + taken, bound)):
            return found
        return _bound(row, words, talk, at + 1, place, bound) if optional else None
    last = at + 1 == len(row)
    ends = range(len(words) if last else place + 1, len(words) + 1)
    ends = ends if part in "XT" else ends[:_VALUE_MOST]
    following = frozenset[str]() if last or row[at + 1][1] else row[at + 1][0]
    for end in reversed(ends[:4]) if part == "F" else ends:
        is_word = bool(following) and not isinstance(following, str) and end < len(words)
        if is_word and words[end].key not in following:
            continue
        piece = words[place:end]
        if piece and _fits(part, piece, bound, talk):
            found = _bound(row, words, talk, at + 1, end, {**bound, part: piece})
            if found is not None:
                return found
    return _bound(row, words, talk, at + 1, place, bound) if optional else None


def readings(rows: Sequence[Row], words: Words, talk: Dialogue) -> Iterator[tuple[str, Bound]]:
    """Yield the actions of the patterns that fit the words, with the words of their slots."""
    keys = {word.key for word in words}
    for act, pattern in rows:
        first, optional = pattern[0]
        slots = [isinstance(part, str) for part, _ in pattern]
        if not optional and not isinstance(first, str) and words[0].key not in first:
            continue
        if any(not (o or isinstance(p, str)) and p.isdisjoint(keys) for p, o in pattern):
            continue
        if len(words) <= _LONG or slots.index(True) == len(slots) - 1:
            bound = _bound(pattern, words, talk)
            if bound is not None:
                yield act, bound
