"""Words that begin commands, as data: the kind of command, and whether it is unambiguous in the
middle of a sentence.

The following words are parsed in adding.py, listing.py and grammar.py. Entry points: `head_at`,
`opened`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from treadle.apps.assistant.language.wording import Keys, Phrases, known, near
from treadle.apps.assistant.stems import IRREGULAR, stem

Kind: TypeAlias = Literal["add", "remind", "show", "search", "complete", "delete", "update", "undo"]

_TASK = "task|todo|to-do|reminder|item"
_SURELY = "also|still|just|finally|really|definitely|probably|only?"
_SURE: dict[str, Kind] = {
    "set|make|create|schedule an alarm|alert|notification / add|create|insert|append / "
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
    "undo|revert": "undo",
    "find|search / look for|up": "search",
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
    "locate|where|wheres|search|filter": "search",
    "take|bring|put|roll|go|restore|undelete|recover|reverse": "undo",
}
_TABLE: dict[str, tuple[Kind, bool]] = {
    **{k: (v, True) for k, v in _SURE.items()},
    **{k: (v, False) for k, v in _UNSURE.items()},
}
_HEADS = Phrases(_TABLE)
_MENDED = (
    *("delete", "remove", "erase", "complete", "finish", "mark", "rename", "change", "update"),
    *("create", "show", "list", "display", "search", "remind", "postpone", "reschedule", "find"),
    *("prioritize", "cancel", "clear", "check", "undo", "revert", "discard", "schedule", "what"),
    *("whats", "move"),
)
_TYPED = {
    "ad": "add", "adde": "add", "addd": "add", "adda": "add", "dad": "add", "aad": "add", "asd": "add", "dd": "add", "udno": "undo",
    "lst": "list", "lis": "list", "shw": "show", "sho": "show", "hsow": "show", "rm": "remove", "del": "delete", "serach": "search",
    "udpate": "update", "mrak": "mark", "wat": "what", "wut": "what", "wot": "what", "waht": "what", "hwat": "what", "wats": "whats",
}  # fmt: skip
_OTHER = known(
    "compete mask made make last lost lift line fine mind bind kind stove prove love move care caste chance charge hello hallo hey clean clever "
    "black park lark dark rename market marc march marks shop short shot slow snow shoe than that then there wait want whit like live chew chick "
    "cheek cheap feel fill film fish fire research fetch watch catch match deletes lists shows finds checked cheque clears mile mover moved moves "
    "reminder reminders creates created"
)
_PLEASE = "please|pls|plz|just|kindly"
_POLITE = Phrases.plain(
    f"{_PLEASE}|ok|okay|hey|hi|hello|so|well|um|uh|hmm|oh|alright|right|yo|actually|now|then|also|and|plus|btw|anyway|again|next|first|finally|but|yes|yeah|sure|great|cool|thanks|sorry|oops|wait|hold|on? / "
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
    """Return the place of the command after courtesies and connectors; `place` itself if there are
    none.
    """
    for _ in range(_COURTESIES):
        found = _POLITE.at(keys, place)
        if found is None or keys[place] in ("dont", "do"):
            break
        own = head_at(keys, place) if keys[place] in ("i", "id") else None
        if own is not None and own.sure and head_at(keys, place + found[0]) is None:
            break
        place += found[0]
    return place


def closed(keys: Keys) -> int:
    """Return the end of the command before trailing courtesies."""
    end = len(keys)
    while end > 1 and (found := _AFTER.ending(keys[max(0, end - 4) : end])) is not None:
        end -= found[0]
    return end


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


def base_of(past: str) -> str:
    """Return the base of a past form: "walk" for "walked", "pay" for "paid"."""
    if past in IRREGULAR:
        return IRREGULAR[past]
    bare = past.removesuffix("ed")
    bases = (bare, f"{bare}e", bare[:-1], f"{bare[:-1]}y")
    known_base = next((base for base in bases if base in ACTIONS), None)
    return known_base or (bare if bare != past and stem(bare) == stem(past) else past)
