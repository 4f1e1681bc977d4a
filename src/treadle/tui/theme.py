"""Styles in three themes, and glyphs with and without Unicode. Entry points: `theme_of`,
`encoding_of`, `Theme`.

Draws nothing and imports neither Rich nor prompt_toolkit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Setting: TypeAlias = Literal["auto", "dark", "light", "none"]
Depth: TypeAlias = Literal[1, 4, 8, 24]
"""Bits of colour: none, 16 colours, 256 colours, true colour."""


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
_PALETTES: Final[Mapping[str, Mapping[str, str]]] = {
    "dark": MappingProxyType({**_PLAIN, **_DARK}),
    "light": MappingProxyType({**_PLAIN, **_LIGHT}),
    "none": MappingProxyType(dict(_PLAIN)),
}
_SIXTEEN: Final[Mapping[str, str]] = {
    "added": "green",
    "added.word": "bold black on green",
    "removed": "red",
    "removed.word": "bold black on red",
}
"""Overrides for 16 colours, which have no background shades that keep text legible."""
STYLES: Final = frozenset(_PLAIN)
"""Names of all styles."""
_FORCED: Final[Mapping[str, Depth]] = {"": 1, "2": 8, "3": 24}
_TOOLKIT_COLOURS: Final = {"white": "ansigray", "bright_white": "ansiwhite"}


@dataclass(frozen=True, slots=True)
class Theme:
    """Choice of colours and glyphs. Equal themes draw alike."""

    name: Literal["dark", "light", "none"] = "dark"
    depth: Depth = 24
    attributes: bool = True
    """True if escape sequences, such as bold, may be used at all."""
    encoding: str = "utf-8"
    """Encoding of the terminal."""

    @property
    def unicode(self) -> bool:
        return _is_unicode(self.encoding)

    @property
    def glyphs(self) -> Glyphs:
        return UNICODE if self.unicode else ASCII

    def rich(self, name: str) -> str:
        """Return a style in Rich's spelling. Raises KeyError if the name is not in `STYLES`."""
        spelled = _PALETTES[self.name][name]
        if self.depth == 4 and self.name != "none":
            spelled = _SIXTEEN.get(name, spelled)
        return spelled if self.attributes else ""

    def toolkit(self, name: str) -> str:
        """Return a style in prompt_toolkit's spelling. Raises KeyError if the name is not in
        `STYLES`.
        """
        return toolkit_style(self.rich(name))

    def toolkit_styles(self) -> dict[str, str]:
        """Return all styles by name for `Style.from_dict`, including those of prompt_toolkit's own
        widgets.
        """
        selected = self.toolkit("selected")
        ours = {name: self.toolkit(name) for name in STYLES}
        return {
            **ours,
            "completion-menu": "noinherit",
            "completion-menu.completion": "noinherit",
            "completion-menu.completion.current": f"noinherit {selected}",
        }


def toolkit_style(spelled: str) -> str:
    """Convert a Rich style such as `bold cyan on #202020` to prompt_toolkit's spelling."""
    words: list[str] = []
    side = "fg:"
    for word in spelled.split():
        if word == "on":
            side = "bg:"
        elif word in ("bold", "dim", "italic", "underline", "reverse", "strike"):
            words.append(word)
        else:
            words.append(
                side
                + (
                    word
                    if word.startswith("#")
                    else _TOOLKIT_COLOURS.get(word, f"ansi{word.replace('_', '')}")
                )
            )
    return " ".join(words)


def theme_of(setting: Setting, environ: Mapping[str, str], encoding: str | None) -> Theme:
    """Return the theme for the setting `ui.theme` and the encoding of the terminal, None if
    unknown.

    NO_COLOR removes all colours, whatever else is set; FORCE_COLOR adds them if the terminal does
    not report any.
    """
    encoding = encoding or "ascii"
    depth, attributes = _depth(environ)
    if setting == "none" or depth == 1:
        return Theme("none", 1, attributes, encoding)
    return Theme(
        _background(environ) if setting == "auto" else setting, depth, attributes, encoding
    )


def encoding_of(environ: Mapping[str, str], encoding: str | None) -> str | None:
    """Return the terminal's encoding: that of `sys.stdout`, unless the user chose the C locale, for
    which Python assumes UTF-8.
    """
    said = environ.get("LC_ALL") or environ.get("LANG")
    chosen = "" if environ.get("LC_ALL") else environ.get("LC_CTYPE", "")
    by_python = chosen in ("", "C", "POSIX", "C.UTF-8", "C.utf8", "UTF-8")
    asked = any(environ.get(name) for name in ("PYTHONIOENCODING", "PYTHONUTF8"))
    return "ascii" if said in ("C", "POSIX") and by_python and not asked else encoding


def _depth(environ: Mapping[str, str]) -> tuple[Depth, bool]:
    """Return the colour depth, and whether the terminal supports escape sequences."""
    term = environ.get("TERM", "").lower()
    forced = environ.get("FORCE_COLOR", "").lower()
    dumb = term in ("", "dumb", "unknown") and (not forced or forced in ("0", "false"))
    if environ.get("NO_COLOR") or dumb or forced in ("0", "false"):
        return 1, not dumb
    return max(
        _FORCED.get(forced, 4), _depth_of_terminal(term, environ.get("COLORTERM", "").lower())
    ), True


def _depth_of_terminal(term: str, colour: str) -> Depth:
    if colour in ("truecolor", "24bit") or term.endswith("-direct"):
        return 24
    if term.endswith("256color") or colour:
        return 8
    return 1 if term in ("", "dumb", "unknown") or term.startswith(("vt1", "vt2")) else 4


def _background(environ: Mapping[str, str]) -> Literal["dark", "light"]:
    """Return the background from COLORFGBG, which holds foreground and background among 16 colours:
    `0;15`.
    """
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if last.isdecimal() and (int(last) == 7 or 9 <= int(last) <= 15) else "dark"


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().replace("-", "").replace("_", "").startswith("utf")
