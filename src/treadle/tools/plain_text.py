"""Terminal output as plain text, processed incrementally. Entry points: `plain_text`,
`PlainText`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# ECMA-48: a control sequence (CSI), a string (OSC, DCS, APC, PM, SOS) up to its terminator, or a
# short escape. All lengths are bounded, so that an unterminated escape cannot swallow the output:
# only its ESC is then dropped.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[\]P_^X][^\x1b\x07\n]{0,2000}(?:\x07|\x1b\\)|[ "
    r"-/]{0,4}[0-OQ-WYZ\\`-~])?"
)
_ESCAPE_MAX = 2_100
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_REDRAWN_MAX = 4_096
"""Maximum length of a redrawn line, such as a progress bar. In a longer line, a carriage return is
a line break.
"""


def plain_text(text: str) -> str:
    """Remove terminal escapes and control characters except tabs and line breaks. For a redrawn
    line, keep only its last state.
    """
    return PlainText().feed(text, final=True)


class PlainText:
    """Incremental `plain_text`. The result does not depend on how the text is split into pieces."""

    def __init__(self) -> None:
        self._escape = ""
        self._return = ""
        self._in_long_line = False
        self.open_line = ""

    def feed(self, text: str, *, final: bool = False) -> str:
        text = self._escape + text
        self._escape = ""
        if "\x1b" in text:
            if not final:
                text, self._escape = _hold_open_escape(text)
            text = _ESCAPE.sub("", text)
        text = _CONTROL.sub("", text)
        if self._return or "\r" in text:
            text = re.sub("\r+\n", "\n", self._return + text)
            plain = text.rstrip("\r")
            self._return = "\r" if len(plain) < len(text) and not final else ""
            text = plain
        return self._lines(text, final=final)

    def _lines(self, text: str, *, final: bool) -> str:
        *whole, last = (
            (self.open_line + text).split("\n") if "\r" in text else self._split_off_last(text)
        )
        done = [line for w in whole for line in self._ended(w)]
        *redrawn, self.open_line = self._redrawn(last)
        done += redrawn
        out = "".join(f"{line}\n" for line in done)
        if final or self._in_long_line or len(self.open_line) > _REDRAWN_MAX:
            out, self.open_line, self._in_long_line = out + self.open_line, "", True
        return out

    def _split_off_last(self, text: str) -> tuple[str, ...]:
        """Without a carriage return, the complete lines can stay in one piece."""
        return tuple((self.open_line + text).rsplit("\n", 1))

    def _ended(self, line: str) -> Iterator[str]:
        yield from self._redrawn(line)
        self._in_long_line = False

    def _redrawn(self, line: str) -> Iterator[str]:
        """Return the line's final state, after any earlier states that are too long to be a redrawn
        line.
        """
        form, *later = line.split("\r")
        for redrawn in later:
            if not redrawn:
                continue
            if self._in_long_line or len(form) > _REDRAWN_MAX:
                yield form
                self._in_long_line = False
            form = redrawn
        yield form


def _hold_open_escape(text: str) -> tuple[str, str]:
    """Split `text` before an escape that may be incomplete."""
    start = text.find("\x1b")
    while start >= 0:
        found = _ESCAPE.match(text, start)
        end = found.end() if found is not None else start + 1
        if end == start + 1 and len(text) - start < _ESCAPE_MAX:
            return text[:start], text[start:]
        start = text.find("\x1b", end)
    return text, ""
