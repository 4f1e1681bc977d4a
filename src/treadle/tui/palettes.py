"""Palettes of styles and sets of glyphs, as tables. Entry points: `PALETTES`, `Glyphs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """Glyphs, each one column wide except `checked` and `unchecked`."""

    spinner: tuple[str, ...]
    bullets: tuple[str, ...]
    """Bullets of nested lists, outermost first."""
    tick: str
    cross: str
    question: str
    bar: str
    ellipsis: str
    rule: str
    arrow: str
    prompt: str
    thought: str
    dot: str
    todo: str
    queued: str
    unchecked: str
    checked: str

    @property
    def bullet(self) -> str:
        return self.bullets[0]


UNICODE: Final = Glyphs(
    spinner=tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"),
    bullets=("•", "◦", "▪"),
    tick="✓",
    cross="✗",
    question="?",
    bar="│",
    ellipsis="…",
    rule="─",
    arrow="→",
    prompt="\u203a",
    thought="∴",
    dot="·",
    todo="☐",
    queued="↳",
    unchecked="☐",
    checked="☑",
)
ASCII: Final = Glyphs(
    spinner=tuple("|/-\\"),
    bullets=("*", "-", "+"),
    tick="+",
    cross="x",
    question="?",
    bar="|",
    ellipsis="~",
    rule="-",
    arrow=">",
    prompt=">",
    thought="~",
    dot="-",
    todo="#",
    queued=">",
    unchecked="[ ]",
    checked="[x]",
)

_PLAIN: Final[Mapping[str, str]] = {
    "user": "bold",
    "assistant": "",
    "reasoning": "dim italic",
    "tool.name": "bold",
    "tool.target": "",
    "tool.body": "dim",
    "tool.error": "",
    "tool.mark": "",
    "added": "",
    "added.word": "bold",
    "removed": "",
    "removed.word": "bold",
    "hunk": "dim",
    "line.number": "dim",
    "status": "dim",
    "mode.safe": "",
    "mode.unsafe": "bold reverse",
    "warning": "bold",
    "error": "bold",
    "dim": "dim",
    "prompt": "bold",
    "pattern": "bold",
    "selected": "reverse",
    "match": "underline",
    "title": "bold",
    "key": "bold",
    "todo": "bold",
    "queued": "dim",
    "placeholder": "dim",
    "heading.1": "bold underline",
    "heading.2": "bold",
    "heading.3": "bold dim",
    "strong": "bold",
    "emphasis": "italic",
    "struck": "strike",
    "code": "",
    "code.inline": "bold",
    "code.keyword": "bold",
    "code.name": "",
    "code.string": "",
    "code.number": "",
    "code.comment": "dim italic",
    "code.operator": "",
    "code.error": "",
    "link": "underline",
    "url": "dim",
    "quote": "italic",
    "mark": "dim",
    "rule": "dim",
    "table.head": "bold",
}
"""Styles without colours; its keys are the names of all styles."""
_DARK: Final[Mapping[str, str]] = {
    "user": "bold bright_white",
    "reasoning": "italic bright_black",
    "tool.target": "cyan",
    "tool.body": "bright_black",
    "tool.error": "yellow",
    "tool.mark": "green",
    "added": "#9fdf9f on #16301c",
    "added.word": "bold #d7ffd7 on #23602f",
    "removed": "#f0a0a0 on #3a1a1c",
    "removed.word": "bold #ffdada on #7a2a2e",
    "hunk": "cyan",
    "line.number": "bright_black",
    "status": "bright_black",
    "mode.safe": "green",
    "mode.unsafe": "bold bright_white on red",
    "warning": "bold yellow",
    "error": "bold bright_red",
    "dim": "bright_black",
    "prompt": "bold cyan",
    "pattern": "bold yellow",
    "selected": "bold cyan",
    "match": "bold yellow",
    "key": "bold cyan",
    "todo": "magenta",
    "queued": "bright_black",
    "placeholder": "bright_black",
    "heading.1": "bold underline cyan",
    "heading.2": "bold cyan",
    "heading.3": "bold",
    "code.inline": "bright_cyan",
    "code.keyword": "magenta",
    "code.name": "bright_blue",
    "code.string": "green",
    "code.number": "yellow",
    "code.comment": "italic bright_black",
    "code.error": "bright_red",
    "link": "underline bright_blue",
    "url": "bright_black",
    "mark": "cyan",
    "rule": "bright_black",
}
_LIGHT: Final[Mapping[str, str]] = {
    **_DARK,
    "user": "bold black",
    "reasoning": "italic #6c6c6c",
    "tool.target": "#005f87",
    "tool.body": "#6c6c6c",
    "tool.error": "#875f00",
    "tool.mark": "#007000",
    "added": "#004d00 on #e2f5e2",
    "added.word": "bold #003800 on #aee0ae",
    "removed": "#7a0000 on #fbe4e4",
    "removed.word": "bold #5c0000 on #f2b4b4",
    "hunk": "#005f87",
    "line.number": "#808080",
    "status": "#6c6c6c",
    "mode.safe": "#007000",
    "warning": "bold #875f00",
    "error": "bold #b00000",
    "dim": "#6c6c6c",
    "prompt": "bold #005f87",
    "pattern": "bold #875f00",
    "selected": "bold #005f87",
    "match": "bold #875f00",
    "key": "bold #005f87",
    "todo": "#870087",
    "queued": "#6c6c6c",
    "placeholder": "#808080",
    "heading.1": "bold underline #005f87",
    "heading.2": "bold #005f87",
    "code.inline": "#00626e",
    "code.keyword": "#870087",
    "code.name": "#0000af",
    "code.string": "#006000",
    "code.number": "#875f00",
    "code.comment": "italic #6c6c6c",
    "code.error": "#b00000",
    "link": "underline #0000af",
    "url": "#6c6c6c",
    "mark": "#005f87",
    "rule": "#a8a8a8",
}
PALETTES: Final[Mapping[str, Mapping[str, str]]] = {
    "dark": MappingProxyType({**_PLAIN, **_DARK}),
    "light": MappingProxyType({**_PLAIN, **_LIGHT}),
    "none": MappingProxyType(dict(_PLAIN)),
}
SIXTEEN: Final[Mapping[str, str]] = {
    "added": "green",
    "added.word": "bold black on green",
    "removed": "red",
    "removed.word": "bold black on red",
}
"""Overrides for 16 colours, which have no background shades that keep text legible."""
STYLES: Final = frozenset(_PLAIN)
"""Names of all styles."""
