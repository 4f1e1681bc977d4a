"""Which sentences of a model no person should read: those with ids or technical words, and those that claim what no tool did (SPEC J5).

Data and patterns; what is done with such a sentence is words.py's. Entry: `is_technical`, `claims`.
"""

from __future__ import annotations

import re

TECHNICAL = """
    json yaml xml html css sql api apis sdk llm mcp http https url urls uri uuid uuids guid id ids regex boolean null undefined nan stdout stderr tool tools
    function functions method methods parameter parameters argument arguments schema schemas database databases backend frontend server servers endpoint
    endpoints exception exceptions traceback stacktrace debug timeout python javascript sqlite postgresql postgres query queries payload token tokens prompt
    prompts plugin plugins runtime webhook
"""
"""Words that no reply holds, whatever their case."""
PHRASES = ("system prompt", "language model", "stack trace", "tool call", "error code", "status code", "user id")

_TECHNICAL = re.compile(rf"(?i)\b(?:{'|'.join([*TECHNICAL.split(), *(words.replace(' ', '[ -]') for words in PHRASES)])})\b")
_NAME = re.compile(r"\b[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]+|\b\w+\(\)|[{}]|\[\s*[\"'{\[]|\b0x[0-9a-fA-F]+\b|</?\w")
"""Names of programs, and pieces of their values."""
_ID = re.compile(r"(?i)\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b|\b[0-9a-f]{4,}(?:-[0-9a-f]{4,}){2,}\b|#\d{3,}|\b\d{12,}\b")
_CONFIRMING = re.compile(r"(?i)\byes[, ]+(?:delete|complete|update)\b")
"""What a person confirms with: only a question of ours names it."""

_DONE = (
    "added|created|deleted|removed|erased|completed|finished|marked|checked|ticked|crossed|updated|changed|renamed|modified|edited|moved|set|cleared|"
    "undone|restored|reverted|rescheduled|saved|scheduled|put|taken|dropped|cancelled|canceled|done|made"
)
_DO = "add|create|delete|remove|erase|complete|finish|mark|check|tick|cross|update|change|rename|edit|move|set|clear|undo|restore|reschedule|put"
_DOING = "adding|deleting|removing|completing|marking|updating|changing|renaming|clearing|undoing"
_SOON = r"(?:(?:now|just|already|also|successfully|gladly|go ahead and|gone ahead and)\s+)*"
_CLAIMS = tuple(
    re.compile(f"(?i){pattern}")
    for pattern in (
        rf"\b(?:I|we)(?:'ve)?\s+(?:have\s+)?{_SOON}(?:{_DONE})\b",
        rf"\b(?:I|we)(?:'m|\s+am|'re|\s+are)\s+{_SOON}(?:{_DOING})\b",
        rf"\b(?:(?:has|have|had)\s+{_SOON}been|was|were|got|(?:is|are)\s+(?:now|all|just|already|successfully))\s+{_SOON}(?:{_DONE}|gone|complete)\b",
        r"\b(?:is|are)\s+(?:added|created|deleted|removed|erased|cleared|gone)\b|\beverything(?:'s|\s+is)\s+(?:done|complete|completed|set|gone)\b",
        rf"^\W*(?:(?:done|got it|great|okay|ok|sure|success)\b\W*)?(?:successfully\s+)?(?:{_DONE})\b(?!\s+tasks?\b)|\ball (?:done|set)\b|' now has\b",
    )
)
_PROMISE = re.compile(rf"(?i)\b(?:I|we)(?:'ll|\s+will|'m going to|\s+am going to|'re going to|\s+are going to)\s+{_SOON}(?:{_DO})\b")
_CONDITION = re.compile(r"(?i)\b(?:if|once|when|whenever|until|after|as soon as)\b")
_CLAUSE = re.compile(r"[,;:.!?()\u2013\u2014]")
_NOT_SO = re.compile(r"(?i)\b(?:no|not|nothing|none|never|nobody|if|once|when|until|unless|after|before)\b|n't\b")
"""Before a claim, in its clause: then it is none."""
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''''")


def is_technical(sentence: str) -> bool:
    return any(pattern.search(sentence) for pattern in (_TECHNICAL, _NAME, _ID, _CONFIRMING))


def claims(sentence: str) -> bool:
    """Whether it says that something was done, or is about to be."""
    text = sentence.translate(_QUOTES)
    if _PROMISE.search(text) and not _CONDITION.search(text):
        return True
    return any(not _NOT_SO.search(_CLAUSE.split(text[: found.start()])[-1]) for pattern in _CLAIMS for found in pattern.finditer(text))
