"""The input line: multi-line text with history, completions and markers for long pastes. Entry
points: `InputLine`.

Other keys are bound in keys.py; completions come from suggestions.py.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.layout import BufferControl, Dimension, Window
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor
from typing_extensions import override

from treadle._internal.terminal_text import cut, plain
from treadle.tui.pasted import PastedMentions
from treadle.tui.theme import Theme

PASTE_LINES: Final = 10
PASTE_CHARS: Final = 1_000
"""Length of a paste, in characters, above which a marker is shown instead. `PASTE_LINES` is the
same limit in lines.
"""
ROWS_MAX: Final = 10
_MARKER: Final = re.compile(r"\[pasted text #\d+, [\d,]+ (?:lines|characters)\]")


class InputLine:
    """Buffer of the input with its window."""

    def __init__(
        self, theme: Theme, completer: Completer, *, history: Path | None, placeholder: str
    ) -> None:
        """Create an input line. `history`: file with private permissions; None keeps the history in
        memory.
        """
        self._pastes: dict[str, str] = {}
        """Pasted text by marker."""
        self.pasted = PastedMentions()
        self._theme = theme
        self.buffer = Buffer(
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            history=_history(history),
            multiline=True,
            enable_history_search=False,
        )
        empty = Condition(lambda: not self.buffer.text)
        hint = ConditionalProcessor(
            AfterInput(
                lambda: cut(placeholder, get_app().output.get_size().columns - 3),
                style=theme.toolkit("dim"),
            ),
            empty,
        )
        self.window = Window(
            BufferControl(self.buffer, input_processors=[hint], focusable=True),
            height=self._height,
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._prefix,
        )
        self.container = self.window
        self.rows_max = ROWS_MAX

    def _height(self) -> Dimension:
        return Dimension(min=1, max=max(self.rows_max, 1))

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        mark = self._theme.glyphs.prompt
        return [
            (
                self._theme.toolkit("prompt"),
                f"{mark} " if line == wrapped == 0 else " " * (len(mark) + 1),
            )
        ]

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    @property
    def is_completing(self) -> bool:
        return self.buffer.complete_state is not None

    def paste(self, text: str) -> None:
        """Insert pasted text. A long one is shown as a marker and sent in full."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.pasted.remember(text)
        lines = text.count("\n") + 1
        if lines <= PASTE_LINES and len(text) <= PASTE_CHARS:
            self.buffer.insert_text(plain(text))
            return
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        marker = f"[pasted text #{len(self._pastes) + 1}, {size}]"
        self._pastes[marker] = text
        self.buffer.insert_text(marker)

    def whole(self, text: str) -> str:
        """Return the text with markers replaced by the pasted text."""
        return _MARKER.sub(lambda found: self._pastes.get(found[0], found[0]), text)

    def lost(self, text: str) -> str:
        """Return the first marker whose text is no longer known, such as one from the history; an
        empty string if there is none.
        """
        return next(
            (found[0] for found in _MARKER.finditer(text) if found[0] not in self._pastes), ""
        )

    def take(self) -> str:
        """Return the typed text, clear the input and add it to the history."""
        text = self.buffer.text
        self.buffer.append_to_history()
        self.buffer.reset()
        return text

    def put(self, text: str) -> None:
        """Replace the content of the input."""
        self.buffer.document = Document(text, len(text))

    def give_back(self, text: str) -> None:
        """Insert text before the content of the input."""
        self.put("\n".join(part for part in (text, self.buffer.text) if part))

    def clear(self) -> None:
        self.buffer.reset()


def _history(file: Path | None) -> History:
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        os.chmod(file, 0o600)
    except OSError:  # the history is optional
        return InMemoryHistory()
    return _Kept(os.fspath(file))


class _Kept(FileHistory):
    @override
    def store_string(self, string: str) -> None:
        with suppress(OSError, UnicodeEncodeError):  # a full disk must not block sending
            super().store_string(string)
