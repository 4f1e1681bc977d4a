"""Requests to see tasks, and filters for several tasks: status, priority, days and words, as
arguments of `list_tasks`.

Entry points: `filter_of`, `asked_for`, `looked_for`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.dates import period_at
from treadle.apps.assistant.language.fields import LEVELS
from treadle.apps.assistant.language.verbs import VerbPhrase
from treadle.apps.assistant.language.wishes import Filter, Missing, Show, Wishes
from treadle.apps.assistant.language.wording import Keys, Phrases, Words, keys_of, known, phrase

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
_SURE = known("show list display")
_ARTICLES = known("the my a an word words")
_TRAILING = known("task tasks todo todos in my list the items")
_BEFORE = Phrases.plain(
    "for? the|my|a|any|all? task|tasks|todo|todos|items? about|with|containing|named|called|mentioning|for?"
)


class Filtered(msgspec.Struct):
    filter: Filter
    rest: str = ""
    """Words without a filter meaning."""

    @property
    def due(self) -> bool:
        return (self.filter.search or "").startswith(("due:", "overdue"))


def filter_of(words: Words, today: date) -> Filtered:
    """Return the filter that the words describe."""
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
    return Filtered(Filter(**found), phrase([words[i] for i in rest]))


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
    filtered = filter_of(words[head.words if head is not None else 0 :], today)
    wanted, rest = filtered.filter, filtered.rest
    about_tasks = not _NOUNS.isdisjoint(keys)
    asks = verb in _ASKING or question
    stateful = wanted.status is not None or "due" in keys
    if rest and stateful and verb in ("is", "are", "when", "whens", "did", "do") and len(keys) < 12:
        return [Show(Filter("all", search=rest))]
    if rest:
        narrowed = (verb in _SURE and not wanted.empty) or (asks and filtered.due)
        if not about_tasks and not narrowed:
            return [Show(Filter(search=rest))] if verb in _SURE and len(rest) < 60 else None
        if not about_tasks and verb in _ASKING:
            return None
        if wanted.search is None and (head is not None or question):
            wanted = Filter(wanted.status, wanted.priority, rest)
        elif head is None:
            return None
    elif wanted.empty and not about_tasks and verb not in _SURE and not _about_me(keys):
        return None
    if head is None and not (about_tasks or question or filtered.due or wanted.status):
        return None
    if wanted.status is None and filtered.due and asks and wanted.search != "overdue":
        wanted = Filter("open", wanted.priority, wanted.search)
    return [_shown(wanted)]


def _about_me(keys: list[str]) -> bool:
    """Return True for questions about the list that do not name it: "what do i have", "what's up
    next".
    """
    mine = any(key in ("i", "me", "my", "left", "next", "due") for key in keys[1:])
    return keys[0] in ("what", "whats", "anything") and mine and len(keys) < 9


def _shown(wanted: Filter) -> Show:
    return Show(Filter(wanted.status or "all", wanted.priority, wanted.search))


def looked_for(words: Words, today: date) -> Wishes:
    """Parse the words after "find", "search for"."""
    rest, filtered = list(words), filter_of(words, today)
    if not filtered.rest and filtered.filter.search is not None:
        return [_shown(filtered.filter)]
    for _ in range(3):
        if (found := _BEFORE.at(keys_of(rest[:10]))) is not None:
            rest = rest[found[0] :]
    while len(rest) > 1 and rest[-1].key in _TRAILING:
        rest.pop()
    if not filtered.filter.empty and (not rest or not filtered.rest):
        return [_shown(filtered.filter)]
    if not rest:
        return [Missing("what to look for", "title")]
    return [Show(Filter("all", None, phrase(rest)))]
