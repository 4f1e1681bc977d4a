"""Tasks that a message is about: filters, requests for lists, and references by title, number or "it".

Entry points: `filter_of`, `asked_for`, `target_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.adding import LEVELS
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import period_at
from treadle.apps.assistant.language.verbs import VerbPhrase
from treadle.apps.assistant.language.wishes import Filter, Missing, Named, Show, Target, Wishes
from treadle.apps.assistant.language.wording import (
    Keys,
    Phrases,
    Words,
    keys_of,
    known,
    numbered,
    phrase,
    pieces_of,
    without_end,
    without_start,
)

_DONE = "done|completed|complete|finished"
_DO = "do|finish|complete"
_NOT = "arent|isnt|havent|hasnt"
_STATUS = Phrases(
    {
        "open|pending|active|incomplete|unfinished|uncompleted|remaining|outstanding|undone|left|unchecked|todo: / "
        f"not yet|been? {_DONE}|yet|closed / {_NOT} been? {_DONE} yet? / are|have|has|is not been? {_DONE} yet? / "
        f"havent|have i|we? not? {_DONE} yet / i|we havent|didnt|have not? {_DONE}|do|finish yet? / "
        "still to do|open|left|pending|outstanding / to be done / should|must i|we do / "
        f"i|we still? have|need|must|got to get? {_DO}|done / do i|we still? have|need|got to? get? {_DO}|done": "open",
        f"{_DONE}|closed|checked|ticked|accomplished / checked|ticked|crossed off / marked as? {_DONE} / already? {_DONE} / "
        f"i|we have|already|just? {_DONE}|did / ive|weve already? {_DONE} / "
        f"have|did i|we already? {_DONE}|do|finish|accomplish|accomplished|get done?": "completed",
    }
)
_PRIORITY = Phrases(
    {
        f"with|of|at|a|an? {words} priority|prio|importance|priorities / with|whose? priority|prio is|of|set|to? {words}": level
        for words, level in LEVELS.items()
    }
    | {"most? high-priority|urgent|important|critical|high|highest": "High"}
)
_ABOUT = Phrases.plain(
    "about|containing|mentioning|regarding|concerning|matching|including|named|called|titled|like|tagged|related|involving|for|with / "
    "that|which contain|contains|mention|mentions|include|includes|match|matches|say|says|have|has|are|is about? the|a? word|words|text|title? / "
    "mention|mentions|contain|contains|contained|mentioned / "
    "to do with"
)
_NOTHING = known(
    """the my all of a an any every each everything entire whole task tasks todo todos to-do to-dos list lists item items thing
    things that which are is i me have has do we us our in on for to with so far please there these those them due coming up currently now right
    got stuff what whats which's only just out how many be see go ahead still at a's and show give view need pls current reminders reminder
    entries entry agenda schedule plate full marked status one ones as where whose by their day do? anything else can you let look
    something someting sth somethin already add added put saved overview summary happening does should needs its from off
    thats whatever"""
)
_NOUN_WORDS = known("task tasks todos items all any everything")
_NOUNS = _NOUN_WORDS | known(
    "todo to-do to-dos list lists agenda plate reminders schedule one ones overview"
)
_ASKING = known("what whats which whatre do is are any anything how whens when wheres where")
_SURE = known("show list display find search look")
_ARTICLES = known("the my a an word words")


def filter_of(words: Words, today: date) -> tuple[Filter, str]:
    """Return the filter that the words describe, and the words without a filter meaning."""
    keys = keys_of(words)
    found: dict[str, str] = {}
    rest: list[int] = []
    place = 0
    while place < len(keys):
        step, name, value = _read(keys, place, today)
        if name == "about" and place + step < len(keys) and "search" not in found:
            place += step
            while place < len(keys) - 1 and keys[place] in _ARTICLES:
                place += 1
            end = place + 1
            while end < len(keys) and _read(keys, end, today)[1] in ("rest", "about"):
                end += 1
            found["search"], place = phrase(words[place:end]), end
            continue
        if name in ("status", "priority", "search") and name not in found:
            found[name] = value
        elif name != "nothing" or words[place].quoted:
            rest += range(place, place + step)
        place += step
    return Filter(**found), phrase([words[i] for i in rest])


def _read(keys: Keys, place: int, today: date) -> tuple[int, str, str]:
    if (period := period_at(keys, place, today)) is not None:
        return period[0], "search", period[1]
    if (status := _STATUS.at(keys, place)) is not None:
        return status[0], "status", status[1]
    if (priority := _PRIORITY.at(keys, place)) is not None:
        return priority[0], "priority", priority[1]
    if (about := _ABOUT.at(keys, place)) is not None:
        after = place + about[0]
        if _STATUS.at(keys, after) or _PRIORITY.at(keys, after):
            return about[0], "nothing", ""
        filling = all(key in _NOTHING for key in keys[place + 1 : place + 9])
        if keys[place] not in ("for", "with") or not (filling or keys[place + 1] in _NOUN_WORDS):
            return about[0], "about", ""
    return 1, "nothing" if keys[place] in _NOTHING else "rest", ""


def asked_for(
    words: Words, head: VerbPhrase | None, today: date, *, question: bool
) -> Wishes | None:
    """Return a list request if the words ask to see tasks; None otherwise."""
    keys = keys_of(words)
    verb = head.first if head is not None else ""
    wanted, rest = filter_of(words[head.words if head is not None else 0 :], today)
    due = (wanted.search or "").startswith(("due:", "overdue"))
    about_tasks = not _NOUNS.isdisjoint(keys)
    asks = verb in _ASKING or question
    stateful = wanted.status is not None or "due" in keys
    if rest and stateful and verb in ("is", "are", "when", "whens", "did", "do") and len(keys) < 12:
        return [Show(Filter(search=rest))]
    if rest:
        narrowed = (verb in _SURE and wanted != Filter()) or (asks and due)
        if not about_tasks and not narrowed:
            return [Show(Filter(search=rest))] if verb in _SURE and len(rest) < 60 else None
        if not about_tasks and verb in _ASKING:
            return None
        if wanted.search is None and (head is not None or question):
            wanted = Filter(wanted.status, wanted.priority, rest)
        elif head is None:
            return None
    elif wanted == Filter() and not about_tasks and verb not in _SURE and "have" not in keys:
        return None
    if head is None and not (about_tasks or question or due or wanted.status):
        return None
    if wanted.status is None and due and asks and wanted.search != "overdue":
        wanted = Filter("open", wanted.priority, wanted.search)
    return [Show(wanted)]


# ---------------------------------------------------------------- references

_BEFORE = Phrases.plain(
    "the|my|our|this|that|these|those|a|an task|tasks|todo|todos|to-do|item|items|reminder|entry|one|ones "
    "called|named|titled|about|for|to|of|with|saying|that|which? / the|my|our|old|of / "
    "with? the? title|name"
)
_AFTER = Phrases.plain(
    "task|tasks|todo|todos|to-do|item|items|reminder|entry|one|from|off|on|in|please|too|again|now|immediately|already / "
    "from|off|on|in|of my|the|our|your to-do|todo|task|tasks? list|tasks|todos|todo|lists / "
    "any more / anymore|either|instead"
)
_IT = Phrases(
    {
        "it|that|this|thing / the|that|this same|last|previous|latest|newest|recent? task|one|item|todo|reminder": "it",
        "both|them|those|these": "them",
        "all of them|those|these / them all": "all",
    }
)
_ORDINALS = numbered(
    "first,1st second,2nd third,3rd fourth,4th fifth,5th sixth,6th seventh,7th eighth,8th "
    "ninth,9th tenth,10th",
    1,
) | {"last": -1, "bottom": -1}
_NUMBERS = numbered("one two three four five six seven eight nine ten", 1)
_HASH = re.compile(r"#?(\d{1,4})(?:st|nd|rd|th)?\.?")
_COUNTERS = known("number no nr num task item option # tasks numbers items todo entry")
_FILLING = known("the and & in on list my of ones also or")
_ALL = Phrases.plain("all|every|everything|each|entire / my|the? list|tasks|todos")
_EXCEPT = known("except but besides excluding unless without apart")
_VAGUE = known("something anything one some stuff a task tasks things to")
_JOINS = known("and & plus also or")
TASK = Missing("which task you mean", "task")
_EXACTLY = Missing("which tasks you mean exactly", "task")


def target_of(words: Words, talk: Dialogue) -> list[Target] | Missing:
    """Return a filter, or named tasks; Missing if the reference is ambiguous."""
    if _IT.whole(keys_of(words)) is None and (every := _every(words, talk)) is not None:
        return every
    words = _bared(words)
    keys = keys_of(words)
    if (it := _IT.whole(keys)) is not None:
        if "last" in keys and (talk.options or (talk.fresh == "list" and len(talk.listed) > 1)):
            return _numbered([-1], talk)
        return _referred(it, talk)
    if (numbers := _numbers(words)) is not None:
        return _numbered(numbers, talk)
    words = without_start(words, _BEFORE)
    if not words or (len(words) == 1 and words[0].key in _VAGUE):
        return TASK
    pieces = pieces_of(words[words[0].key == "both" :], _JOINS)
    parts = [phrase(without_start(_bared(piece), _BEFORE)) for piece in pieces]
    return [Named(phrase(words), tuple(parts) if 1 < len(parts) <= 10 else ())]


def _bared(words: Words) -> Words:
    return words if _IT.whole(keys_of(words)) is not None else without_end(words, _AFTER)


def _referred(it: str, talk: Dialogue) -> list[Target] | Missing:
    if it == "it":
        return [Named(talk.last)] if talk.last else TASK
    listed = talk.listed if talk.fresh == "list" else ()
    titles = next((it for it in (talk.options, talk.recent, listed) if len(it) > 1), ())
    return [Named(title) for title in titles] or ([Filter()] if it == "all" else TASK)


def _numbers(words: Words) -> list[int] | None:
    """Return the numbers if there is nothing else: "number 3", "the last one", "the first two"."""
    keys = [key for word in words for key in word.key.split(",")]
    span = [key for key in keys if key not in _FILLING]
    if span[:1] == ["first"] and span[1:2] and span[1] in _NUMBERS:
        return list(range(1, _NUMBERS[span[1]] + 1)) if len(span) == 2 else None
    marked = bool(span) and (span[0] in _COUNTERS or len(span) > 1)
    numbers: list[int] = []
    for i, key in enumerate(span):
        one = key == "one" and i > 0 and span[i - 1] not in _COUNTERS  # "the second one"
        if key in _ORDINALS:
            numbers.append(_ORDINALS[key])
        elif (digits := _HASH.fullmatch(key)) is not None:
            numbers.append(int(digits[1]))
        elif key in _NUMBERS and marked and not one:
            numbers.append(_NUMBERS[key])
        elif key not in _COUNTERS and not one:
            return None
    return numbers[:10] or None


def _numbered(numbers: Sequence[int], talk: Dialogue) -> list[Target] | Missing:
    titles = ("", *(talk.options or talk.listed))  # number -1 is the last
    known_titles = (titles[it] for it in numbers if -1 <= it < len(titles))
    found: list[Target] = [Named(title) for title in dict.fromkeys(known_titles) if title]
    if not found or len(found) < len(set(numbers)):
        listed = ": there is no such number in the list" if talk.options or talk.listed else ""
        return Missing(f"which task you mean{listed}", "task")
    return found


def _every(words: Words, talk: Dialogue) -> list[Target] | Missing | None:
    """Parse "all open tasks", "everything due today", "my overdue tasks"."""
    keys = keys_of(words)
    starts = _ALL.at(keys)
    if starts is None and "tasks" not in keys:
        return None
    if any(key in _EXCEPT for key in keys):
        return _EXACTLY
    counted = [i for i, key in enumerate(keys[:3]) if key.isdecimal()]
    kept = [word for i, word in enumerate(words) if i not in counted]
    wanted, rest = filter_of(kept, talk.today)
    if "due" in keys and wanted.search is None:
        return _EXACTLY
    if rest:
        if starts is None or (keys[0] in ("my", "the") and wanted == Filter()):
            return None
        if wanted.search is not None:
            return _EXACTLY
        wanted = Filter(wanted.status, wanted.priority, rest)
    return TASK if starts is None and (wanted == Filter() or counted) else [wanted]
