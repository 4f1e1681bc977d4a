"""Which sentences of a model no person should read: those with ids or technical words, and those that claim what no tool did (SPEC J5).

Data and patterns; what is done with such a sentence is words.py's. Entry: `is_technical`, `claims`.
"""

from __future__ import annotations

import re
import unicodedata

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
_ID = re.compile(
    r"(?i)\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b|\b(?=(?:[a-z]*\d){3})(?=\d*[a-z])[a-z0-9]{16,}\b|#\d{3,}|\b\d{12,}\b"
    r"|\b[0-9a-f]{4,}(?:-[0-9a-f]{4,}){2,}\b|\b(?=[0-9a-f\W]*\d)(?=[\d\W]*[a-f])[0-9a-f]{4,}(?:[\W_]{1,3}[0-9a-f]{4,}){2,}\b"
)
_SPELLED = re.compile(r"(?<!\w)\w(?:[\W_]{1,3}\w(?!\w)){2,}")
"""One letter after the other: `J S O N`."""
_CONFIRMING = re.compile(r"(?i)\byes[, ]+(?:delete|complete|update)\b")
"""What a person confirms with: only a question of ours names it."""

_DONE = (
    "added|created|deleted|removed|erased|completed|finished|marked|checked|ticked|crossed|updated|changed|renamed|modified|edited|moved|set|cleared|"
    "undone|restored|reverted|rescheduled|saved|scheduled|put|taken|dropped|cancelled|canceled|done|made|wiped|purged|emptied|archived|scrapped|discarded|"
    "trashed|struck|eliminated|postponed|reopened|prioritized|handled|gotten rid|got rid|took care"
)
_DO = (
    "add|create|delete|remove|erase|complete|finish|mark|check|tick|cross|update|change|rename|edit|move|set|clear|undo|restore|reschedule|put|wipe|purge|"
    "empty|archive|drop|discard|cancel|take care|get rid|do (?:it|that|so)|handle (?:it|that)"
)
_DOING = "adding|deleting|removing|completing|marking|updating|changing|renaming|clearing|undoing|wiping|erasing|moving|getting rid"
_GONE = "deleted|removed|erased|wiped|purged|added|created|updated|renamed|cleared|restored|undone|crossed off|checked off|ticked off|struck off"
_SOON = r"(?:(?:now|just|already|also|so|then|\w+ly|gladly|indeed|of course|not (?:only|just)|go ahead and|gone ahead and|went ahead and|,[^,.!?]{1,40},)\s+)*"
_HAVE = r"(?:\s?'?ve\b|\s+have\b|\s+had\b)?,?"
_CLAIMS = tuple(
    re.compile(f"(?i){pattern}")
    for pattern in (
        rf"\b(?:I|we){_HAVE}\s*{_SOON}(?<!\w)(?:{_DONE})\b|\bhave (?:I|we)\s+{_SOON}(?:{_DONE})\b|\b(?:I|we)\s+did\s+{_SOON}(?:{_DO})\b",
        rf"\b(?:I|we)(?:'m|\s+am|'re|\s+are)\s+{_SOON}(?:{_DOING})\b",
        rf"(?:'s|'ve|\b(?:has|have|had))\s+{_SOON}been\s+{_SOON}(?:{_DONE})\b",
        rf"\b(?:was|were|got|(?:is|are)\s+(?:now|all|just|already|successfully))\s+{_SOON}(?:{_DONE}|gone|complete)\b",
        rf"(?:'s|'re|\b(?:is|are))\s+{_SOON}(?:{_GONE}|gone)\b|\beverything(?:'s|\s+is)\s+(?:done|complete|completed|set|gone)\b",
        rf"^\W*(?:(?:done|got it|great|okay|ok|sure|success)\b\W*)?(?:successfully\s+)?(?:{_DONE})\b(?!\s+tasks?\b)|\ball (?:done|set)\b|' now has\b",
        r"\b(?:I|we)(?:'ve)?\s+(?:took|taken)\b.{1,60}\b(?:off|out|care)\b|\b(?:I|we)\s+had\s+(?:it|them|that|this|all)\b|\bsuccessful\b|\bsucceeded\b",
    )
)
_STATES = tuple(
    re.compile(f"(?i){pattern}")
    for pattern in (
        rf"\b(?:{_GONE})\W*$|[:\u2013\u2014-]\s*(?:completed?|done)\W*$|^\W*(?:(?:the|your|all|both)\s+)?tasks?\s+(?:now\s+)?completed?\W*$",
        r"(?:^|[,;:\u2013\u2014]\s*)\W*(?:(?:and|so|ok|okay)\s+)?(?:it|that|this|they|these|both|all)(?:'s|'re|\s+is|\s+are)\s+(?:now\s+)?"
        r"(?:done|completed?|finished|taken care of|handled|sorted)\b",
        r"\boff\s+(?:your|the)\s+(?:to-?do\s+)?list\b|\b(?:on|in)\s+(?:your|the)\s+list\s+now\b|\bnow\s+(?:back\s+)?(?:on|in)\s+(?:your|the)\s+list\b",
        r"\blist\s+is\s+now\s+(?:empty|clear)\b|\bconsider\s+(?:it|that)\s+done\b|^\W*(?:will\s+do|on\s+it)\b",
        rf"^\W*(?:now\s+)?(?:{_DOING})\b.{{1,60}}?(?:\u2026|\.\.\.|\b(?:now|it|them|that)\W*$)",
    )
)
"""Where nothing is asked."""
_NO_LONGER = re.compile(r"(?i)\bno longer\s+(?:on|in|there|have|has|exists?)\b")
_PROMISE = re.compile(rf"(?i)\b(?:(?:I|we)(?:'ll|\s+will|(?:'m|\s+am|'re|\s+are)\s+(?:going|about)\s+to)|let\s+me)\s+{_SOON}(?:{_DO})\b")
_CONDITION = re.compile(r"(?i)\b(?:if|once|when|whenever|until|after|as soon as)\b")
_CLAUSE = re.compile(r"[,;:.!?()\u2013\u2014]")
_NOT_SO = re.compile(r"(?i)\b(?:no|not|nothing|none|never|nobody|if|once|when|until|unless|after|before)\b|n't\b")
"""Before a claim, in its clause: then it is none."""
_NOT_ONLY = re.compile(r"(?i)\bnot (?:only|just|merely)\b")
_ALIKE = str.maketrans(
    "\u2018\u2019\u02bc\u201c\u201d\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf\u043a\u043c\u0442"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405\u0423\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0131\u0251\u0261",
    "'''''aeopcyxijsdhqwlkmtABEKMHOPCTXIJSYaeikvoptuxABEZHIKMNOPTYXiag",
)
"""Letters of other scripts that look like ours."""


def is_technical(sentence: str) -> bool:
    text = _as_seen(sentence)
    spelled = _SPELLED.sub(lambda found: re.sub(r"[\W_]", "", found[0]), text)
    return any(pattern.search(one) for one in dict.fromkeys((text, spelled)) for pattern in (_TECHNICAL, _NAME, _ID, _CONFIRMING))


def claims(sentence: str) -> bool:
    """Whether it says that something was done, or is about to be."""
    text = _NOT_ONLY.sub("", _as_seen(sentence))
    if _NO_LONGER.search(text) or (_PROMISE.search(text) and not _CONDITION.search(text)):
        return True
    patterns = _CLAIMS if text.rstrip("'\") ").endswith("?") else _CLAIMS + _STATES
    return any(not _NOT_SO.search(_CLAUSE.split(text[: found.start()])[-1]) for pattern in patterns for found in pattern.finditer(text))


def _as_seen(sentence: str) -> str:
    """As a person reads it: without what nobody sees, without accents, in letters of one script."""
    if sentence.isascii():
        return sentence
    seen = (c for c in unicodedata.normalize("NFKD", sentence) if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return "".join(seen).translate(_ALIKE)
