"""The status line: model, mode, context usage, cost and conversation. Entry points: `Status`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from prompt_toolkit.formatted_text import StyleAndTextTuples

from treadle._internal.terminal_text import columns, cut, one_line
from treadle._internal.units import money, tokens
from treadle.tui.live import Live
from treadle.tui.theme import Theme
from treadle.types import Mode

UNSAFE: Final[frozenset[Mode]] = frozenset({"full"})
MODEL_CHARS: Final = 40


@dataclass(slots=True, kw_only=True)
class Status:
    """Content of the status line, set by other components."""

    theme: Theme
    live: Callable[[], Live]
    model: str = ""
    mode: Mode = "ask"
    window_tokens: int | None = None
    """Context window of the model, or None if unknown."""
    session: str = ""
    note: str = ""
    """Temporary note, shown first, for example `Ctrl-C again to quit`."""
    confined: bool = True
    """True if commands run in the sandbox."""

    def line(self, width: int) -> StyleAndTextTuples:
        """Return the status line. Parts that do not fit are dropped from the end."""
        dot = f" {self.theme.glyphs.dot} "
        line: StyleAndTextTuples = []
        used = 0
        for style, text in self._parts():
            room = width - 1 - used - (columns(dot) if line else 0)
            if room < min(columns(text), 4):
                break
            if line:
                line.append((self.theme.toolkit("dim"), dot))
                used += columns(dot)
            shown = cut(text, room)
            line.append((self.theme.toolkit(style), shown))
            used += columns(shown)
        return line

    def _parts(self) -> Iterator[tuple[str, str]]:
        live = self.live()
        if self.note:
            yield "warning", self.note
        loud = self.mode in UNSAFE
        words = (
            f" {self.mode.upper()}{'' if self.confined else ' NO SANDBOX'} " if loud else self.mode
        )
        yield ("mode.unsafe" if loud else "mode.safe"), words
        yield "status", one_line(self.model, MODEL_CHARS) or "no model"
        if live.context_tokens and self.window_tokens:
            share = live.context_tokens / self.window_tokens
            yield (
                ("warning" if share > 0.8 else "status"),
                f"{tokens(live.context_tokens)}/{tokens(self.window_tokens)} ({share:.0%})",
            )
        elif live.context_tokens:
            yield "status", f"{tokens(live.context_tokens)} tokens"
        if live.cost_usd is not None:
            own = (
                ""
                if live.child_usd is None
                else f" ({money(max(live.cost_usd - live.child_usd, 0))} without agents called)"
            )
            yield "status", money(live.cost_usd, more=live.cost_is_partial) + own
        if self.session:
            yield "dim", one_line(self.session, 60)
