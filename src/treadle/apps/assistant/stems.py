"""Stems of English words, so that "paid the rent" and "paying the rent" find "pay the rent".

Stems are only for comparison and need not be words. Entry points: `stem`, `is_past`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

IRREGULAR: Final = {
    form: base
    for base, forms in {
        "be": "been was were", "become": "became", "begin": "began begun", "bring": "brought", "build": "built", "buy": "bought", "catch": "caught",
        "choose": "chose chosen", "cut": "cut", "do": "did done", "draw": "drew drawn", "drink": "drank drunk", "drive": "drove driven", "eat": "ate eaten",
        "feed": "fed", "fill": "filled", "find": "found", "fly": "flew flown", "get": "got gotten", "give": "gave given", "go": "went gone",
        "grow": "grew grown", "hang": "hung", "have": "had", "hide": "hid hidden", "hold": "held", "keep": "kept", "lay": "laid", "lead": "led",
        "learn": "learnt", "leave": "left", "lend": "lent", "make": "made", "meet": "met", "pay": "paid payed", "put": "put", "quit": "quit", "read": "read",
        "ride": "rode ridden", "ring": "rang rung", "run": "ran", "see": "saw seen", "sell": "sold", "send": "sent", "set": "set", "sew": "sewn",
        "shoot": "shot", "show": "shown", "sing": "sang sung", "sleep": "slept", "speak": "spoke spoken", "spend": "spent", "swim": "swam swum",
        "sweep": "swept", "take": "took taken", "teach": "taught", "tell": "told", "think": "thought", "throw": "threw thrown", "wake": "woke woken",
        "wear": "wore worn", "write": "wrote written",
    }.items()
    for form in forms.split()
}  # fmt: skip
"""Irregular forms, with their base forms."""
_DOUBLED = re.compile(r"([bdfgmnprt])\1$")
_VOWEL = re.compile(r"[aeiouy]")
_LEAST: Final = 3
"""Minimum number of letters of a stem."""


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return the stem of a folded word. A word in another script is its own stem."""
    if not word.isascii() or not word.isalpha():
        return word
    word = IRREGULAR.get(word, word)
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= _LEAST and _VOWEL.search(rest):
            return _level(_DOUBLED.sub(r"\1", rest))
    if (
        len(word) > _LEAST + 1
        and word.endswith("es")
        and word[:-2].endswith(("s", "x", "z", "ch", "sh", "o"))
    ):
        word = word[:-2]
    elif len(word) > _LEAST and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return _level(_DOUBLED.sub(r"\1", word) if len(word) > _LEAST + 1 else word)


def _level(word: str) -> str:
    """Return a stem without differences between forms: "tidy" and "tidied", "write" and
    "writing".
    """
    if len(word) > _LEAST and word.endswith("ie"):
        return word[:-2] + "i"
    if len(word) > _LEAST - 1 and word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "i"
    return word[:-1] if len(word) > _LEAST and word.endswith("e") else word


def is_past(word: str) -> bool:
    """Return True for a past form: "paid", "walked"."""
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 4 and stem(word) != word)
