"""Words that begin commands, as data, and the splitting of a message into commands.

The following words are parsed in adding.py, targets.py and grammar.py. A task's text often contains
command words too ("remind me to call mum and cancel the gym"): within an added task, only an
unambiguous command starts a new one. Entry points: `head_at`, `bare_of`, `clauses_of`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from treadle.apps.assistant.language.wording import Keys, Phrases, Words, keys_of, known, near
from treadle.apps.assistant.stems import is_past

Kind: TypeAlias = Literal["add", "remind", "show", "complete", "delete", "update", "undo"]

_TASK = "task|todo|to-do|reminder|item"
_SURELY = "also|still|just|finally|really|definitely|probably|only?"
_SURE: dict[str, Kind] = {
    "set|make|create|schedule an alarm|alert|notification / add|create|insert|append|+ / "
    f"new {_TASK} / {_TASK}: / put|stick|throw|pop|get|chuck|shove|slap|bung|place|include / "
    "make|set|start|write|record|log|save|enter|schedule|open|give|put me? a|an|another new? "
    f"{_TASK} / note|jot|write down": "add",
    "make|be sure i|we / note|jot|write down? that / note to self / remind me to|about|that|of? / "
    "i|we really? must|should|shall|mustnt|shouldnt|cant|cannot|can|dont|do|wont|will not? want? to? forget|miss to|about? / "
    f"i|we {_SURELY} must|should|gotta|better|oughta|ought|hafta|need {_SURELY} / "
    f"i|we {_SURELY} need|have|must|should|gotta|got|ought|havta|hav to / "
    "im|were|i|we am|are? planning|supposed|meant to / ive|weve got to / need|gotta|have to / gotta / "
    "remember|remeber|rember|remmeber|rememebr to|that / "
    "dont|do|not not|let? me? forget to|about?": "remind",
    "get|give|tell|read me / gimme|gimmie|lemme / show|display|list": "show",
    "delete|remove|erase|discard|trash / get rid of": "delete",
    "complete / check|tick|cross|strike off|out": "complete",
    "mark|tick|flag|describe / rename|retitle|reword|reschedule|postpone|prioritize|prioritise|deprioritize|deprioritise / "
    "set|change|raise|lower|bump|update|edit|modify|adjust|increase|decrease|reduce|push|delay|defer|extend": "update",
    "undo|revert|undelete|recover|restore|reverse / take|bring|put|roll|go it|that|this|everything? back": "undo",
    "find|search / search|look for|up": "show",
}
_UNSURE: dict[str, Kind] = {
    "finish|check|cross|close|resolve|did|done|completed|finished|tick|strike|accomplish / done with|on / "
    "i|ive|we|weve|im am? just|already|now|finally? have|am? just|already|now|finally? done|finished|completed|did|ticked|checked with|off?": "complete",
    "reminder to|about|for|that?": "remind",
    "cancel|clear|drop|scrap|scratch|kill|bin|wipe|purge|empty|nix|dump|forget|take|clean|toss|eliminate|ditch / "
    "clean|clear|tidy up|out? / forget about / i|we dont|no do? not? longer? need|want": "delete",
    "correct|move|make|call|give|put|shift|turn|reset|replace|swap": "update",
    "schedule|track|log|record|enter|include|save|capture|register|new": "add",
    "see|view|give|get|read|print|tell|what|whats|which|whatre|do|is|are|am|any|anything|something|how|open|let|whens|when|have|does": "show",
    "todo|to-do|task list|lists": "show",
    "locate|where|wheres|filter": "show",
}
_HEADS = Phrases[tuple[Kind, bool]](
    {words: (kind, table is _SURE) for table in (_SURE, _UNSURE) for words, kind in table.items()}
)
_MENDED = tuple(
    [
        "delete",
        "remove",
        "erase",
        "complete",
        "finish",
        "mark",
        "rename",
        "change",
        "update",
        "create",
        "show",
        "list",
        "display",
        "search",
        "remind",
        "postpone",
        "reschedule",
        "find",
        "prioritize",
        "cancel",
        "clear",
        "check",
        "undo",
        "revert",
        "discard",
        "schedule",
        "what",
        "whats",
        "move",
    ]
)
_TYPED = {
    "ad": "add", "adde": "add", "addd": "add", "adda": "add", "dad": "add", "aad": "add", "asd": "add", "dd": "add", "udno": "undo",
    "lst": "list", "lis": "list", "shw": "show", "sho": "show", "hsow": "show", "rm": "remove", "del": "delete", "serach": "search",
    "udpate": "update", "mrak": "mark", "wat": "what", "wut": "what", "wot": "what", "waht": "what", "hwat": "what", "wats": "whats",
}  # fmt: skip
_OTHER = known(
    "chance charge checked cheek chick clears compete created creates deletes finds fine fund last lift lists lost marc marks mask moved mover "
    "moves shoe shop shot shows slow snow whit"
)
"""Words that are no misspelt verbs."""
_PLEASE = "please|pls|plz|just|kindly"
_POLITE = Phrases.plain(
    f"{_PLEASE}|-|*|•|>|ok|okay|hey|hi|hello|so|well|um|uh|hmm|oh|alright|right|yo|actually|now|then|also|and|plus|btw|anyway|again|next|first|finally|but|yes|yeah|sure|great|cool|thanks|sorry|oops|wait|hold|on? / "
    f"can|cn|cud|wud|culd|coud|could|would|will you|u|ya also|now? {_PLEASE}? / can|could|may i|we also? {_PLEASE}? / "
    "i want|need|would|d like? you to / id like|love you? to / i want|wanna|like to? / "
    "i think|guess|believe|suppose|reckon / i forgot|forget|neglected to / "
    "it would|d be great|nice|good|awesome|helpful|lovely|cool if you could|can|would? / lets / let us|me / "
    f"{_PLEASE} to / dear|hey|hi|hello|ok assistant|treadle|bot|sir|madam|there|friend|all / "
    f"would|could|will|can you be so|that kind|nice|good|sweet as? to? / would you mind / thank you / "
    f"you can|could|may|should now|then|also? {_PLEASE}?"
)
_AFTER = Phrases.plain(
    "please|pls|plz|thanks|thx|ok|okay|cheers|now|too|also|again|ty|mate|buddy|right|then|though|lol|haha|:)|immediately|already|yay|woohoo|phew|finally|yeah|sir|bro|dude|man|x|xx|! / "
    "for me / would you|ya / will|can|could you / many thanks / in advance"
)
_COURTESIES = 12
"""Maximum number of courtesies that are skipped in a row. A text of nothing else is no command."""


class VerbPhrase(NamedTuple):
    words: int
    kind: Kind
    sure: bool
    first: str
    """First word of the command, with corrected spelling."""


def mended(key: str) -> str:
    """Return the verb that a misspelt word means, or else the word itself."""
    if key in _TYPED:
        return _TYPED[key]
    if _HEADS.begins_with(key) or key in _OTHER or len(key) < 4:
        return key
    return near(key, _MENDED) or key


def head_at(keys: Keys, place: int) -> VerbPhrase | None:
    if place >= len(keys):
        return None
    first = mended(keys[place])
    found = _HEADS.at([first, *keys[place + 1 : place + 9]])
    return None if found is None else VerbPhrase(found[0], *found[1], first)


def opened(keys: Keys, place: int = 0) -> int:
    """Return the place of the command after courtesies and connectors, if there are any."""
    for _ in range(_COURTESIES):
        if (found := _POLITE.at(keys, place)) is None:
            break
        place += found[0]
    return place


def bare_of(words: Words) -> Words:
    """Return the words without courtesies around them; none if they are nothing else."""
    keys = keys_of(words)
    start, end = opened(keys), len(keys)
    while end > start + 1 and (found := _AFTER.ending(keys[max(0, end - 4) : end])) is not None:
        end -= found[0]
    return words[start:end]


ACTIONS = known(
    """accept achieve act adjust analyse analyze answer apologize apply approve arrange ask assemble assign attend audit back backup bake bathe be
    begin book borrow bring brush build buy calculate call charge chat check choose clean climb coach collect color comment compare compile
    complain compose configure confirm congratulate connect contact cook copy correct cut dance debug decide decorate defrost deliver deploy
    deposit design develop dial discuss do donate donate download draft draw drink drive drop dust eat email empty enroll eat exchange exercise
    explain explore export feed fetch figure file fill film finalise finalize finish fix fly fold follow format fund gather get give go grab
    grade greet groom grow hang harvest hire hoover implement improve inform inspect install insure interview investigate invite invoice iron
    join jog keep kiss knit label laminate learn lend level lift listen load lock look mail make measure medidate meditate meet mend merge
    message migrate mix mop mow negotiate notify oil open order organise organize pack paint pay peel phone pick ping plan plant play polish
    post practice practise praise prepare present print process proofread propose prune publish pump purchase push put quit rake read rebook
    recharge recycle refactor refill refresh refund register rehearse relax release renew rent repair repay replace reply report repot request
    research reserve reset respond return review revise rewrite ride ring rinse run save scan schedule scrub seal sell send sew shampoo shop
    shovel shred sign sing sketch skype sleep solve sort speak start steam stop store stretch study submit subscribe sweep swim switch tailor
    take talk teach tell test text thank throw tidy trade train translate travel treat trim try tune turn type unpack unsubscribe update upgrade
    upload use vacuum verify visit vote wake walk wash watch water weed weigh wipe work wrap write"""
)
"""Verbs with which tasks begin."""


_JOINS = known("and then also but plus & afterwards so")
_STRONG_JOINS = known("then also plus afterwards")
_REFERENCES = known("it that them this")
_ABOUT_TASKS = _REFERENCES | known('task tasks todo todos list item items number one reminder "')
_LIST_WORDS = known(
    "me my all the tasks todos list everything open completed done overdue what is due"
)
_DONE = known("done complete completed finished")
CLAUSES_MOST = 40
"""Maximum parsed clauses; a message can have at most ten effects."""


def clauses_of(words: Words) -> list[Words]:
    clauses: list[Words] = []
    keys = keys_of(words)
    start, head = 0, head_at(keys, opened(keys))
    for place in range(1, len(words)):
        begins = _begins(words, keys, start, place, head) if place > start else None
        if begins is not None and len(clauses) < CLAUSES_MOST:
            clauses.append(words[start:place])
            start, head = begins, head_at(keys, opened(keys, begins))
    return [*clauses, words[start:]] if start < len(words) else clauses


def _begins(
    words: Words, keys: Keys, start: int, place: int, head: VerbPhrase | None
) -> int | None:
    """Return the start of the next command if one begins at `place`, without its conjunction."""
    last = words[place - 1]
    lists = place == 1 or words[place - 2].stop in ("\n", ":")  # "1. book flights"
    stop = "" if lists and last.stop == "." and last.key.isdigit() else last.stop
    adding = head is not None and head.kind in ("add", "remind")
    if stop in (".", "?") or (stop == "\n" and not adding):
        return place
    joined = keys[place] in _JOINS
    if stop not in (",", "\n") and not joined:
        return None
    at = opened(keys, place + joined)
    reported = not adding and any(is_past(key) for key in keys[start : start + 3])
    if reported and at < len(keys) and is_past(keys[at]):
        return at  # "I called mum and paid the rent"
    following = head_at(keys, at)
    if following is None:
        return None
    if not adding:
        sure = following.sure or following.kind in ("complete", "delete", "show")
        return at if sure or any(key in _REFERENCES for key in keys[at + 1 : at + 2]) else None
    strong = any(key in _STRONG_JOINS for key in keys[place:at])
    return at if _within_title(keys[at : at + 25], following, strong=strong) else None


def _within_title(keys: Keys, following: VerbPhrase, *, strong: bool) -> bool:
    """Return True if a command begins within an added task. `strong`: after a word like "then"."""
    ahead = keys[1:8]
    if following.kind in ("add", "remind"):
        return following.sure
    if following.kind == "show":
        asked = following.sure or keys[0] in ("what", "whats")
        return asked and not _LIST_WORDS.isdisjoint(ahead[:2])
    marked = following.first == "mark" and not _DONE.isdisjoint(keys)
    about = any(key in _ABOUT_TASKS or key.startswith("#") for key in ahead)
    certain = following.sure or following.kind in ("complete", "delete")
    return marked or (about and following.kind != "undo") or (strong and certain)
