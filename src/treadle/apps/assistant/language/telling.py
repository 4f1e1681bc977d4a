"""Reports of completed actions: "I paid the rent", "bought milk", "the dog has been walked",
"laundry ✓".

Only existing tasks are completed, whatever their wording (acting.py). Requests are parsed
elsewhere. Entry point: `told`.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import msgspec

from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.field_changes import changing
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.verbs import ACTIONS, base_of
from treadle.apps.assistant.language.wishes import Every, Missing, Named, TaskChange, Wish
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase
from treadle.apps.assistant.stems import is_past

MARKS = known("✔ ✓ ✅ ☑ ✔️ ☑️ 🗸 [x] x] (x) ✔. 👍✅")
_TELLER = Phrases.plain(
    [
        "i|we have|had? just|already|finally|now|also|actually|even|then|so|really|successfully|today|both?",
        "ive|weve|id just|already|finally|now|also|actually|even|then|successfully?",
        "i|we have|had? just|already|finally|now|also? managed|got|remembered|been to|able|around? to?",
        "good|great news i|we just|already|finally? managed? to?",
    ]
)
_MANAGED = known("managed able remembered")
_IS = Phrases.plain(
    [
        "is|are|was|were|got|gets|been|has|have|s just|already|now|all|finally|also|both|been? already|now|all|finally|been?",
        "already|finally",
    ]
)
_STATE = Phrases.plain(
    [
        "sorted out?",
    ]
)
_ADVERBS = Phrases.plain(
    [
        "already|finally|yay|yeah|woohoo|hooray|phew|now|today|yesterday|too|also|successfully|btw|lol|haha|tonight|earlier|again|all|up|off",
        "this|last morning|night|evening|afternoon|week",
    ]
)
_NOT_DONE = known(
    """be become have moved changed postponed cancelled canceled delayed rescheduled needed required wanted planned scheduled expected supposed interested
    bored tired worried confused excited scared blocked missed added deleted removed renamed listed updated named titled started forgot forgotten tried
    thought decided hated loved liked hoped wished wondered noticed remembered left lost failed stopped promised agreed realized realised felt saw heard
    seen hid lay laid led kept meant been was were had made given gave told known stressed annoyed tried begun began spent used overloaded overwhelmed
    assigned prioritized prioritised"""
)
_MADE = known("made gave told kept seen saw")
"""Verbs that report an action with a subject, but not a state."""
_SAME_IN_BOTH = known("put cut set read quit")
_NOT_PASSIVE = (_NOT_DONE | _SAME_IN_BOTH | known("done finished completed")) | known(
    "called phoned rang emailed texted wrote visited met came asked told helped replied answered "
    "messaged contacted went ate drank slept ran spoke did took got"
)
"""Verbs whose preceding noun may be the actor if there is no "is": "mum called"."""
_WORDS = 40


def told(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Return the completions that the sentence reports; None if there are none."""
    if len(words) > _WORDS or words[-1].stop == "?":
        return None
    return (
        _marked(text, words, today, talk)
        or _acted(text, words, today, talk)
        or _passive(text, words, today, talk)
    )


def _marked(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Parse "kitchen ✓ laundry ✓", "✅ call mum"."""
    keys = keys_of(words)
    places = [i for i, key in enumerate(keys) if key in MARKS]
    if not places or len(places) == len(keys):
        return None
    ahead = places[0] == 0
    edges = [*places, len(keys)] if ahead else [-1, *places]
    pieces = [words[one + 1 : other] for one, other in pairwise(edges) if other > one + 1]
    return [wish for piece in pieces for wish in _completed(text, piece, "", today, talk)]


def _acted(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Parse "I paid the rent and called mum", "just bought milk"; without an "I" only if such a
    task exists.
    """
    keys = keys_of(words)
    teller = _TELLER.at(keys)
    start = teller[0] if teller is not None else 0
    managed = any(key in _MANAGED or key == "to" for key in keys[:start])
    found: list[Wish | Missing] = []
    for piece in _deeds(words[start:], managed=managed):
        verb = piece[0].key
        is_deed = managed or (
            is_past(verb)
            and (verb not in _NOT_DONE or verb in _MADE)
            and (teller is not None or verb not in _SAME_IN_BOTH)
        )
        if (
            not is_deed
            or len(piece) < 2
            or piece[0].quoted
            or (teller is None and verb in ("left", "found", "felt"))
        ):
            return None
        if piece[1].key in ("to", "that", "if", "not"):
            return None
        found += _completed(
            text,
            piece[1:],
            base_of(verb),
            today,
            talk,
            unsure=keys[0] not in ("i", "ive", "we", "weve"),
        )
    return found or None


def _deeds(words: Words, *, managed: bool) -> list[list[Token]]:
    """Split by verbs: "called mum and paid the rent" are two pieces."""
    pieces: list[list[Token]] = [[]]
    for i, word in enumerate(words):
        joined = word.key in ("and", "then", "also", "i", "ive") and not word.quoted
        begins = joined or (i > 0 and words[i - 1].stop == ",")
        following = next(
            (
                other
                for other in words[i:]
                if other.key not in ("and", "then", "also", "i", "ive", "just")
            ),
            None,
        )
        if (
            begins
            and pieces[-1]
            and following is not None
            and not managed
            and is_past(following.key)
            and following.key not in _SAME_IN_BOTH
        ):
            pieces.append([])
        if not (joined and not pieces[-1]):
            pieces[-1].append(word)
    return [piece for piece in pieces if piece]


def _passive(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Parse "the rent is paid", "the dog has been walked already", "the bank thing is sorted"."""
    words = _without_adverbs(words, today)
    keys = keys_of(words)
    if keys[0] in ("i", "we", "you", "he", "she", "they", "who", "what", "if", "when"):
        return None
    for place in range(1, len(keys)):
        if words[place].quoted or (link := _IS.at(keys, place)) is None:
            continue
        after = place + link[0]
        state = _STATE.at(keys, after)
        if state is not None and after + state[0] == len(keys):
            return _completed(text, words[:place], "do", today, talk, unsure=True)
        if (
            after + 1 == len(keys)
            and is_past(keys[after])
            and keys[after] not in _NOT_DONE
            and keys[place] not in ("already", "finally")
        ):
            return _completed(text, words[:place], base_of(keys[after]), today, talk, unsure=True)
    # "rent paid"
    if (
        1 < len(keys) < 6
        and (len(keys) == 2 or keys[0] not in ACTIONS)
        and is_past(keys[-1])
        and keys[-1] not in _NOT_PASSIVE
    ):
        return _completed(text, words[:-1], base_of(keys[-1]), today, talk, unsure=True)
    return None


def _completed(
    text: str, words: Words, verb: str, today: date, talk: Dialogue, *, unsure: bool = False
) -> list[Wish | Missing]:
    words = _without_adverbs(words, today)
    spoken_of = {talk.last, *talk.recent, *talk.listed, *talk.options}
    named: list[Wish | Missing] = []
    for wish in changing("complete", text, words, today, talk):
        if not isinstance(wish, TaskChange):
            if verb and verb not in ("do", "finish", "complete") and not isinstance(wish, Missing):
                wish = TaskChange("complete", Named(phrase(text, words), verb=verb), unsure=unsure)
        elif isinstance(wish.target, Every):
            if verb not in ("", "do", "finish", "complete"):
                wish = TaskChange("complete", Named(phrase(text, words), verb=verb), unsure=unsure)
        elif wish.target.words not in spoken_of:
            wish = msgspec.structs.replace(
                wish, target=msgspec.structs.replace(wish.target, verb=verb), unsure=unsure
            )
        named.append(wish)
    return named


def _without_adverbs(words: Words, today: date) -> list[Token]:
    """Return the words without adverbs of time and manner."""
    kept = list(words)
    for _ in range(4):
        keys = keys_of(kept[-6:])
        found = _ADVERBS.ending(keys)
        if found is None or found[0] >= len(kept) or kept[-1].quoted:
            break
        del kept[-found[0] :]
    return kept
