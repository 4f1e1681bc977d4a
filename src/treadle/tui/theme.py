"""Styles in three themes, and glyphs with and without Unicode. Entry points: `theme_of`,
`encoding_of`, `Theme`.

Draws nothing and imports neither Rich nor prompt_toolkit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from treadle.tui.palettes import ASCII, PALETTES, SIXTEEN, STYLES, UNICODE, Glyphs

Setting: TypeAlias = Literal["auto", "dark", "light", "none"]
Depth: TypeAlias = Literal[1, 4, 8, 24]
"""Bits of colour: none, 16 colours, 256 colours, true colour."""


_FORCED: Final[Mapping[str, Depth]] = {"": 1, "2": 8, "3": 24}
_TOOLKIT_COLOURS: Final = {"white": "ansigray", "bright_white": "ansiwhite"}


@dataclass(frozen=True, slots=True)
class Theme:
    """Choice of colours and glyphs. Equal themes draw the same."""

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
        spelled = PALETTES[self.name][name]
        if self.depth == 4 and self.name != "none":
            spelled = SIXTEEN.get(name, spelled)
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
    """Return the colour depth, and True if the terminal supports escape sequences."""
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
