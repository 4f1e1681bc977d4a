"""Filter for a model's own words, sentence by sentence, with the same result for whole and streamed
text.

A sentence that contains an id or a technical word, or claims an effect, is dropped; replies.py
reports effects. Titles from tool results are the person's own and exempt. view.py supplies a text
if nothing is left. Entry points: `ReplyFilter`, `cleaned`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from treadle._internal.terminal_text import one_line, plain
from treadle.apps.assistant.reply_lists import QUOTED_CHARS, REPLY_CHARS
from treadle.apps.assistant.unfit import claims, is_technical

TITLES_MOST = 200
"""Maximum titles that are recognised as the person's own."""

SENTENCE_CHARS = 4000
"""Maximum examined length of an unfinished sentence."""
_OPENER = re.compile(
    r"(?i)^(?:great|got it|done|okay|ok|sure|sure thing|perfect|of course|all ?right|no "
    r"problem|absolutely|certainly|right away|wonderful|yes)[.!…]+$"
)
"""Openers, which mean little alone and would be false before a dropped claim."""
_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\U0001fb00-\U0001fbff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\u20e3\ufe0f\u200d\U000e0020-\U000e007f\u3030\u303d\u3297\u3299]+"
)
_OWN = re.compile("[\ue000-\uf8ff]")
"""Private-use characters. Two of them mark a hidden title."""
_ITEM = re.compile(r"^\s*(?:[-*+•]\s|\d{1,3}[.)]\s|[☐☑✓✔✅]|\[[ xX]?\])\s*\S")
_MARKDOWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)?"), r"\1"),
    (re.compile(r"!?\[([^\]\n]*)\]\[[^\]\n]*\]"), r"\1"),
    (re.compile(r"<!--.*?(?:-->|$)|</?[A-Za-z!][^>\n]*>?"), ""),
    (re.compile(r"(?i)\b(?:https?|ftp|file|data|javascript|mailto):\S+|\bwww\.\S+"), ""),
    (re.compile(r"(?m)^\s{0,3}(?:#{1,6}\s+|>\s?)"), ""),
    (re.compile(r"(?m)^\s*(?:[-=*_]\s*){3,}$|^\s*\|?(?:\s*:?-+:?\s*\|)+\s*$"), ""),
    (re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (
        re.compile(
            r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)([^_\n]+?)(?<=\S)_(?!\w)"
        ),
        r"\1\2",
    ),
    (re.compile(r"`([^`\n]*)`"), r"\1"),
    (re.compile(r"\*\*|~~|`|\]\([^)\s]*\)?"), ""),
)
_FENCE = "```"
_END = re.compile(r"""[.!?\u2026\u3002\uff01\uff1f]+["'\u201d\u2019\xbb)\]*_]*(?=\s)|\n""")
_ENDING = ".!?\u2026\u3002\uff01\uff1f\"'\u201d\u2019\xbb)]*_"
"""Characters after which a sentence end may still be incomplete."""
_NO_END = re.compile(
    r"(?i)^\s*\d{1,3}\.$|(?:^|[\s(\"'\u201c])(?:mr|mrs|ms|dr|st|vs|approx|prof|[a-z]\.[a-z])\.$"
)
"""Abbreviations whose period does not end a sentence."""
_OPEN = re.compile(r"<[A-Za-z/!][^>\n]*$|\]\([^)\n]*$|!?\[[^\]\n]*$")


class ReplyFilter:
    """Incremental filter of one message: `add` returns whole sentences that may be shown now, `end`
    the rest. Both may return an empty string.
    """

    def __init__(
        self, titles: Iterable[str] = (), *, without_lists: bool = False, most: int = REPLY_CHARS
    ) -> None:
        """Create a filter. `titles`: the person's own titles, from tool results.

        `without_lists`: drop list items, because the list is shown separately.
        """
        self.claimed = False
        """True if a sentence was dropped because it claims an effect."""
        self._titles = [title for title in islice(titles, TITLES_MOST) if len(title) > 2]
        self._known: re.Pattern[str] | None = None
        self._without_lists = without_lists
        self._left = most
        self._most = most
        self._waiting = ""
        self._looked = 0
        """Position up to which the pending text has no sentence end."""
        self._gap = ""
        """White space since the last released sentence."""
        self._opener = ""
        """Opener such as `Great!`, held back until the next sentence is accepted."""
        self._fenced = self._full = self._dropped = False

    def add(self, piece: str) -> str:
        self._waiting += piece
        said: list[str] = []
        at, place = 0, self._looked
        while (found := _END.search(self._waiting, place)) is not None:
            place = found.end()
            if found[0] == "\n" or not self._goes_on(self._waiting[at:place]):
                said.append(self._unit(self._waiting[at:place]))
                at = place
        self._waiting = self._waiting[at:]
        self._looked = len(self._waiting.rstrip(_ENDING))
        return "".join(said)

    def end(self) -> str:
        """Finish the text, and return the rest of it."""
        last, self._waiting, self._looked = self._waiting, "", 0
        return self._unit(last, last=True)

    @staticmethod
    def _goes_on(text: str) -> bool:
        return _NO_END.search(text) is not None or _OPEN.search(text) is not None

    def _unit(self, raw: str, *, last: bool = False) -> str:
        """Filter one sentence or line, with the white space before it."""
        body = raw.strip()
        before, after = (
            raw[: len(raw) - len(raw.lstrip())],
            raw[len(raw.rstrip()) :] if body else "",
        )
        self._gap += before
        said = self._leave(self._sentence(body, last=last)) if body and not self._full else ""
        self._dropped |= bool(body) and not said
        if last and self._opener and not self.claimed and not self._without_lists:
            opener, self._opener = self._opener, ""
            said += self._fitting(opener)
        self._gap += after
        return said

    def _leave(self, said: str) -> str:
        """Return the text to release now. An opener waits for the next sentence."""
        if _OPENER.match(said):
            self._opener = said
            return ""
        if not said:
            return ""
        opener, self._opener = self._opener, ""
        return (self._fitting(opener) if opener else "") + self._fitting(said)

    def _fitting(self, said: str) -> str:
        said, self._gap, self._dropped = self._separator(said) + said, "", False
        self._left -= len(said)
        if self._left < 0:
            self._full, said = True, self._cut(said)
        return said

    def _separator(self, said: str) -> str:
        if self._left == self._most:
            return ""
        return (
            "\n\n"
            if self._gap.count("\n") > 1 and not self._dropped
            else "\n"
            if "\n" in self._gap or _ITEM.match(said)
            else " "
        )

    def _cut(self, said: str) -> str:
        """Return the beginning of a sentence that is too long; empty if other text precedes it."""
        if self._left + len(said) < self._most:
            return ""
        kept = said[: self._most - 1]
        return (kept.rpartition(" ")[0] or kept).rstrip(",;:- ") + "…"

    def _sentence(self, body: str, *, last: bool) -> str:
        """Return the sentence as released; empty if it is dropped."""
        body = self._without_fences(body)[:SENTENCE_CHARS]
        if not body or (self._without_lists and _ITEM.match(body)):
            return ""
        text, hidden = self._hide(_OWN.sub("", plain(body)))
        for pattern, instead in _MARKDOWN:
            text = pattern.sub(instead, text)
        text = re.sub(
            r"[ \t]+", " ", re.sub(r"\s+([.,!?;:])(?=\s|$)", r"\1", _EMOJI.sub("", text))
        ).strip()
        if not re.search(r"\w|[\ue000-\uf8ff]", text) or is_technical(text):
            return ""
        if claims(text):
            self.claimed, self._opener = True, ""
            return ""
        if last and (text[-1].isalnum() or text[-1] == "\ue001") and not _ITEM.match(text):
            text += "."
        return self._show(text, hidden)

    def _without_fences(self, body: str) -> str:
        """Remove code blocks, which are not meant for people."""
        pieces = body.split(_FENCE)
        shown = [piece for i, piece in enumerate(pieces) if (i % 2 == 0) is not self._fenced]
        self._fenced ^= len(pieces) % 2 == 0
        return " ".join(shown).strip()

    def _hide(self, text: str) -> tuple[str, list[str]]:
        """Replace each of the person's titles by two marks and its index."""
        hidden: list[str] = []
        if not self._titles:
            return text, hidden
        if self._known is None:
            longest_first = sorted(
                {plain(title) for title in self._titles}, key=lambda title: (-len(title), title)
            )
            self._known = re.compile(
                rf"(?i)(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
            )

        def mark(found: re.Match[str]) -> str:
            hidden.append(found[0])
            return f"\ue000{chr(0xE100 + len(hidden) - 1)}\ue001"

        return self._known.sub(mark, text), hidden

    @staticmethod
    def _show(text: str, hidden: list[str]) -> str:
        return (
            re.sub(
                "\ue000(.)\ue001",
                lambda m: one_line(hidden[ord(m[1]) - 0xE100], QUOTED_CHARS),
                text,
            )
            if hidden
            else text
        )


def cleaned(
    text: str, titles: Iterable[str] = (), *, without_lists: bool = False, most: int = REPLY_CHARS
) -> str:
    """Return a complete reply as a `ReplyFilter` with these arguments releases it."""
    words = ReplyFilter(titles, without_lists=without_lists, most=most)
    return words.add(text) + words.end()
