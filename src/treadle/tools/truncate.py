"""Limits on tool output for the model: long output is truncated in the middle, and all of it is
stored in a file.

toolbox.py caps every result; a tool with endless output feeds a `Capture` itself. Entry points:
`cap_output`, `Capture`.
"""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeAlias

from treadle._internal.redaction import Masking
from treadle.tools.plain_text import PlainText
from treadle.tools.tool import MAX_LINE_CHARS, MAX_OUTPUT_CHARS, MAX_OUTPUT_LINES

SpillText: TypeAlias = Callable[[str], Path]
"""Function that writes a text to a new file that only this user can read, and returns its path
(spill.py).
"""

MAX_SPILL_BYTES = 64 * 1024 * 1024
"""Maximum size of a spill file. The last line of a truncated one says that it ends early."""
_SPILL_END = (
    f"\n[this file stops here, at {MAX_SPILL_BYTES // 1024 // 1024} MiB: the rest was not kept]\n"
)


def cap_output(text: str, *, max_chars: int = MAX_OUTPUT_CHARS, spill: SpillText) -> str:
    """Return `text` if it fits, else at most `max_chars` characters of it, in at most 2,000 lines
    of at most 2,000 characters.

    A longer text keeps its beginning and its end. A line between them states how much is missing
    and which file contains all of it. Only then is `spill` called; if it fails with an OSError, the
    line states the error instead.
    """
    window = _Window(max_chars, MAX_OUTPUT_LINES)
    window.feed(text)
    if window.intact:
        return text
    kept = _SpillFile(spill)
    kept.write(text)
    kept.close()
    return window.text(kept.where())


# ---------------------------------------------------------------- the part that is shown


class _Window:
    """First and last `max_chars` of a text that arrives in pieces. The shown text is built only at
    the end.
    """

    def __init__(self, max_chars: int, max_lines: int) -> None:
        self._max_chars, self._max_lines = max_chars, max_lines
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._chars = 0
        self._breaks = 0
        self._open_chars = 0
        self._has_long_line = False

    @property
    def _lines(self) -> int:
        return self._breaks + (self._open_chars > 0)

    @property
    def intact(self) -> bool:
        """True if nothing has been removed from the text so far."""
        return (
            self._chars <= self._max_chars
            and self._lines <= self._max_lines
            and not self._has_long_line
        )

    @property
    def last_line(self) -> str:
        """Return the newest line that is not blank."""
        newest = "".join(
            (*self._head, *self._tail) if self._chars <= 2 * self._max_chars else self._tail
        )[-MAX_LINE_CHARS:]
        return next((line for line in reversed(newest.split("\n")) if line.strip()), "")

    def feed(self, text: str) -> None:
        if not text:
            return
        in_head = max(self._max_chars - self._chars, 0)
        self._measure(text)
        if in_head:
            self._head.append(text[:in_head])
            text = text[in_head:]
        self._tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars - len(self._tail[0]) >= self._max_chars:
            self._tail_chars -= len(self._tail.popleft())

    def _measure(self, text: str) -> None:
        if self.intact:
            first, *rest = text.split("\n")
            lengths = (self._open_chars + len(first), *(len(line) for line in rest))
            self._has_long_line = max(lengths) > MAX_LINE_CHARS
        self._chars += len(text)
        self._breaks += text.count("\n")
        last_break = text.rfind("\n")
        self._open_chars = (
            len(text) - last_break - 1 if last_break >= 0 else self._open_chars + len(text)
        )

    def text(self, where: str) -> str:
        """Return the text to show, at most `max_chars`. `where`: description of where the whole
        text is.
        """
        if self._chars <= 2 * self._max_chars:
            return self._of_whole("".join((*self._head, *self._tail)), where)
        *lines, cut = "".join(self._head).split("\n")
        head = [*map(_shown_line, lines), _start_of_line(cut)]
        cut, *lines = "".join(self._tail)[-self._max_chars :].split("\n")
        tail = [*map(_shown_line, lines)]
        if not tail or len(cut) > MAX_LINE_CHARS:
            tail.insert(0, _end_of_line(cut))
        return self._head_and_tail(head, tail, where)

    def _of_whole(self, text: str, where: str) -> str:
        if self.intact:
            return text
        lines = [_shown_line(line) for line in text.split("\n")]
        shown = "\n".join(lines)
        noted = f"{shown}{_break_after(text)}{_shortened_note(where)}"
        if len(noted) <= self._max_chars and self._lines < self._max_lines:
            return noted
        return self._head_and_tail(lines, lines, where)

    def _head_and_tail(self, first: list[str], last: list[str], where: str) -> str:
        note = _left_out(self._lines, self._chars, where)
        room = self._max_chars - max(len(note), len(_shortened_note(where))) - 2
        if room <= 0:
            return note[: self._max_chars]
        half = (self._max_lines - 1) // 2
        head = _whole_lines_first("\n".join(first[:half]), room // 2)
        tail = _whole_lines_last("\n".join(last[-half:]), room - len(head))
        lines = max(self._lines - _lines(head) - _lines(tail), 0)
        chars = max(self._chars - len(head) - len(tail), 0)
        return f"{head}\n{_left_out(lines, chars, where)}\n{tail}"


_HALF_LINE = MAX_LINE_CHARS // 2 - 40


def _shown_line(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    return (
        f"{line[:_HALF_LINE]} [… {len(line) - 2 * _HALF_LINE:,} characters left out …] "
        f"{line[-_HALF_LINE:]}"
    )


def _start_of_line(line: str) -> str:
    """Cut the beginning of a line whose end is unknown."""
    return line if len(line) <= MAX_LINE_CHARS else f"{line[: 2 * _HALF_LINE]} [… a very long line]"


def _end_of_line(line: str) -> str:
    """Cut the end of a line whose start is unknown."""
    return (
        line if len(line) <= MAX_LINE_CHARS else f"[a very long line …] {line[-2 * _HALF_LINE :]}"
    )


def _break_after(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


def _shortened_note(where: str) -> str:
    return f"[lines longer than {MAX_LINE_CHARS:,} characters are cut; {where}]"


def _left_out(lines: int, chars: int, where: str) -> str:
    return f"[left out here: {f'{lines:,} lines, ' if lines else ''}{chars:,} characters; {where}]"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _whole_lines_first(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    cut = text[:room]
    return cut[: cut.rindex("\n")] if "\n" in cut else cut


def _whole_lines_last(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    cut = text[len(text) - room :]
    return cut[cut.index("\n") + 1 :] if "\n" in cut[:-1] else cut


# ---------------------------------------------------------------- the file with the whole


class _SpillFile:
    """File with the whole text, up to MAX_SPILL_BYTES, created with the first piece.

    `where` reports a full disk; no method raises it.
    """

    def __init__(self, spill: SpillText) -> None:
        self._spill = spill
        self._path: Path | None = None
        self._fd: int | None = None
        self._left = MAX_SPILL_BYTES
        self._trouble: OSError | None = None

    def write(self, text: str) -> None:
        if self._left <= 0 or self._trouble is not None:
            return
        data = text.encode("utf-8", "replace")
        if len(data) > self._left:
            text = data[: self._left].decode("utf-8", "ignore") + _SPILL_END
        self._left -= len(data)
        try:
            self._append(text)
        except OSError as e:
            self._trouble = e

    def _append(self, text: str) -> None:
        if self._path is None:
            self._path = self._spill(text)
            return
        if self._fd is None:
            self._fd = os.open(
                self._path,
                os.O_WRONLY
                | os.O_APPEND
                | getattr(os, "O_NOFOLLOW", 0)
                | getattr(os, "O_CLOEXEC", 0),
            )
        data = memoryview(text.encode("utf-8", "replace"))
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def where(self) -> str:
        if self._trouble is not None:
            return f"the whole could not be kept: {self._trouble.strerror or self._trouble}"
        which = (
            "the whole is"
            if self._left >= 0
            else f"its first {MAX_SPILL_BYTES // 1024 // 1024} MiB are"
        )
        return f"{which} in {self._path}: go on with read (offset, limit) or grep"


class Capture:
    """Capture of a running program's output: accepts bytes as they arrive, and returns text of
    limited length.

    Invalid UTF-8 becomes U+FFFD. Terminal escapes and control characters are removed. For a line
    that is redrawn with carriage returns, only the last state is kept. Memory use is a few times
    `max_chars`. Use it as a context manager: leaving it closes the spill file.
    """

    def __init__(
        self,
        spill: SpillText,
        *,
        max_chars: int = MAX_OUTPUT_CHARS,
        max_lines: int = MAX_OUTPUT_LINES,
        masking: Masking | None = None,
    ) -> None:
        """Create a capture. `masking`: a new filter for this text, which redacts secrets before the
        text is written to a file or truncated.
        """
        self._masking = masking
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._plain = PlainText()
        self._window = _Window(max_chars, max_lines)
        self._early: list[str] | None = []
        self._file = _SpillFile(spill)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def feed(self, data: bytes) -> None:
        text = self._plain.feed(self._decoder.decode(data))
        self._take(text if self._masking is None else self._masking.add(text))

    def text(self) -> str:
        """End the capture and return the text for the model, at most `max_chars`. Call it once."""
        text = self._plain.feed(self._decoder.decode(b"", final=True), final=True)
        self._take(text if self._masking is None else self._masking.add(text) + self._masking.end())
        self._file.close()
        return self._window.text(self._file.where())

    @property
    def last_line(self) -> str:
        """Return the newest line that is not blank, for a progress display."""
        return self._plain.open_line.strip() or self._window.last_line.strip()

    def _take(self, text: str) -> None:
        self._window.feed(text)
        if self._early is None:
            self._file.write(text)
            return
        self._early.append(text)
        if not self._window.intact:
            self._file.write("".join(self._early))
            self._early = None


# ---------------------------------------------------------------- plain text
