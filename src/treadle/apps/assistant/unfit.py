"""Detection of sentences of a model that a person should not see: those with ids or technical
words, and those that claim effects without a tool call.

Contains data and patterns; words.py handles such sentences. Entry points: `is_technical`, `claims`.
"""

from __future__ import annotations

import re

from treadle.apps.assistant.lookalikes import as_seen

TECHNICAL = """
    json yaml xml html css sql api apis sdk llm mcp http https url urls uri uuid uuids guid id ids regex boolean null undefined nan stdout stderr tool tools
    function functions method methods parameter parameters argument arguments schema schemas database databases backend frontend server servers endpoint
    endpoints exception exceptions traceback stacktrace debug timeout python javascript sqlite postgresql postgres query queries payload token tokens prompt
    prompts plugin plugins runtime webhook
"""
"""Words excluded from replies, in any case."""
PHRASES = (
    "system prompt",
    "language model",
    "stack trace",
    "tool call",
    "error code",
    "status code",
    "user id",
)

_TECHNICAL = re.compile(
    rf"(?i)\b(?:{'|'.join([*TECHNICAL.split(), *(words.replace(' ', '[ -]') for words in PHRASES)])})\b"
)
_NAME = re.compile(
    r"\b[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]+|\b\w+\(\)|[{}]|\[\s*[\"'{\[]|\b0x[0-9a-fA-F]+\b|</?\w"
)
"""Program identifiers, and pieces of their values."""
_ID = re.compile(
    r"(?i)\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b|\b(?=(?:[a-z]*\d){3})(?=\d*[a-z])[a-z0-9]{16,}\b|#\d{3,}|\b\d{12,}\b"
    r"|\b[0-9a-f]{4,}(?:-[0-9a-f]{4,}){2,}\b|\b(?=[0-9a-f\W]*\d)(?=[\d\W]*[a-f])[0-9a-f]{4,}(?:[\W_]{1,3}[0-9a-f]{4,}){2,}\b"
)
_SPELLED = re.compile(r"(?<!\w)\w(?:[\W_]{1,3}\w(?!\w)){2,}")
"""Letters one by one: `J S O N`."""
_CONFIRMING = re.compile(r"(?i)\byes[, ]+(?:delete|complete|update)\b")
"""Confirmation phrase. Only our own question may quote it."""

_DONE = (
    "added|created|deleted|removed|erased|completed|finished|marked|checked|ticked|crossed|updated|changed|renamed|modified|edited|moved|set|cleared|"
    "undone|restored|reverted|rescheduled|saved|scheduled|put|taken|dropped|cancelled|canceled|done|made|wiped|purged|emptied|archived|scrapped|discarded|"
    "trashed|struck|eliminated|postponed|reopened|prioritized|handled|gotten rid|got rid|took care"
)
_DO = (
    "add|create|delete|remove|erase|complete|finish|mark|check|tick|cross|update|change|rename|edit|move|set|clear|undo|restore|reschedule|put|wipe|purge|"
    "empty|archive|drop|discard|cancel|take care|get rid|do (?:it|that|so)|handle (?:it|that)"
)
_DOING = (
    "adding|deleting|removing|completing|marking|updating|changing|renaming|clearing|undoing|wiping|erasing|moving|getting "
    "rid"
)
_GONE = (
    "deleted|removed|erased|wiped|purged|added|created|updated|renamed|cleared|restored|undone|crossed "
    "off|checked off|ticked off|struck off"
)
_SOON = (
    r"(?:(?:now|just|already|also|so|then|\w+ly|gladly|indeed|of course|not (?:only|just)|go "
    r"ahead and|gone ahead and|went ahead and|,[^,.!?]{1,40},)\s+)*"
)
_HAVE = r"(?:\s?'?ve\b|\s+have\b|\s+had\b)?,?"
_CLAIMS = tuple(
    re.compile(f"(?i){pattern}")
    for pattern in (
        (
            rf"\b(?:I|we){_HAVE}\s*{_SOON}(?<!\w)(?:{_DONE})\b|\bhave "
            rf"(?:I|we)\s+{_SOON}(?:{_DONE})\b|\b(?:I|we)\s+did\s+{_SOON}(?:{_DO})\b"
        ),
        rf"\b(?:I|we)(?:'m|\s+am|'re|\s+are)\s+{_SOON}(?:{_DOING})\b",
        rf"(?:'s|'ve|\b(?:has|have|had))\s+{_SOON}been\s+{_SOON}(?:{_DONE})\b",
        rf"\b(?:was|were|got|(?:is|are)\s+(?:now|all|just|already|successfully))\s+{_SOON}(?:{_DONE}|gone|complete)\b",
        rf"(?:'s|'re|\b(?:is|are))\s+{_SOON}(?:{_GONE}|gone)\b|\beverything(?:'s|\s+is)\s+(?:done|complete|completed|set|gone)\b",
        (
            r"^\W*(?:(?:done|got "
            rf"it|great|okay|ok|sure|success)\b\W*)?(?:successfully\s+)?(?:{_DONE})\b(?!\s+tasks?\b)|\ball "
            r"(?:done|set)\b|' now has\b"
        ),
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
"""Statements of an effect, outside questions."""
_NO_LONGER = re.compile(r"(?i)\bno longer\s+(?:on|in|there|have|has|exists?)\b")
_PROMISE = re.compile(
    rf"(?i)\b(?:(?:I|we)(?:'ll|\s+will|(?:'m|\s+am|'re|\s+are)\s+(?:going|about)\s+to)|let\s+me)\s+{_SOON}(?:{_DO})\b"
)
_CONDITION = re.compile(r"(?i)\b(?:if|once|when|whenever|until|after|as soon as)\b")
_CLAUSE = re.compile(r"[,;:.!?()\u2013\u2014]")
_NOT_SO = re.compile(
    r"(?i)\b(?:no|not|nothing|none|never|nobody|if|once|when|until|unless|after|before)\b|n't\b"
)
"""Negations and conditions before a claim in the same clause, which cancel it."""
_NOT_ONLY = re.compile(r"(?i)\bnot (?:only|just|merely)\b")


def is_technical(sentence: str) -> bool:
    text = as_seen(sentence)
    spelled = _SPELLED.sub(lambda found: re.sub(r"[\W_]", "", found[0]), text)
    return any(
        pattern.search(one)
        for one in dict.fromkeys((text, spelled))
        for pattern in (_TECHNICAL, _NAME, _ID, _CONFIRMING)
    )


def claims(sentence: str) -> bool:
    """Return True if the sentence claims that something was done, or is about to be."""
    text = _NOT_ONLY.sub("", as_seen(sentence))
    if _NO_LONGER.search(text) or (_PROMISE.search(text) and not _CONDITION.search(text)):
        return True
    patterns = _CLAIMS if text.rstrip("'\") ").endswith("?") else _CLAIMS + _STATES
    return any(
        not _NOT_SO.search(_CLAUSE.split(text[: found.start()])[-1])
        for pattern in patterns
        for found in pattern.finditer(text)
    )
