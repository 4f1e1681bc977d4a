"""Syntax highlighting by language or file name. Pygments is imported with the first code drawn.

Unknown languages and large texts are drawn plain. Entry points: `highlighted`, `language_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from rich.text import Text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

    from treadle.tui.drawing import Drawing

CHARS_MAX: Final = 8_000
LINE_CHARS_MAX: Final = 400
"""Maximum line length: some lexers backtrack on long lines."""

_STYLES: Final = (
    ("Comment", "code.comment"),
    ("Keyword.Type", "code.name"),
    ("Keyword.Constant", "code.number"),
    ("Keyword", "code.keyword"),
    ("Operator.Word", "code.keyword"),
    ("Operator", "code.operator"),
    ("Name.Function", "code.name"),
    ("Name.Class", "code.name"),
    ("Name.Decorator", "code.name"),
    ("Name.Tag", "code.keyword"),
    ("Name.Attribute", "code.name"),
    ("Name.Builtin", "code.name"),
    ("Literal.String", "code.string"),
    ("Literal.Number", "code.number"),
    ("Generic.Deleted", "removed"),
    ("Generic.Inserted", "added"),
    ("Generic.Heading", "hunk"),
    ("Generic.Subheading", "hunk"),
)
"""Styles by token prefix; the first match wins."""
_ENDINGS: Final[Mapping[str, str]] = {
    "pyi": "python", "h": "c", "hpp": "cpp", "cc": "cpp", "htm": "html", "jsonl": "json", "mjs": "js", "cjs": "js", "zsh": "bash", "markdown": "md",  # noqa: E501
}  # fmt: skip


def highlighted(code: str, language: str, drawing: Drawing) -> Text:
    """Highlight `code`, whose characters stay unchanged. `language` is any of its names, in any
    case, or empty.
    """
    whole = Text(code, drawing.style("code"), end="", no_wrap=True)
    if (
        not language
        or drawing.theme.depth == 1
        or len(code) > CHARS_MAX
        or max(map(len, code.split("\n"))) > LINE_CHARS_MAX
    ):
        return whole
    if (lexer := _lexer(language.lower())) is not None:
        at = 0
        for kind, value in lexer.get_tokens(code):
            if style := _style(str(kind)):
                whole.stylize(drawing.style(style), at, at + len(value))
            at += len(value)
    return whole


def language_of(path: str) -> str:
    """Return the language of a file by its extension; returns an unknown extension."""
    ending = PurePath(path).suffix[1:].lower()
    return _ENDINGS.get(ending, ending)


@lru_cache(maxsize=512)
def _style(kind: str) -> str:
    """Return the style of a Pygments token such as `Token.Name.Function`."""
    kind = kind.removeprefix("Token.") + "."
    return next((style for begin, style in _STYLES if kind.startswith(f"{begin}.")), "")


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    """Return a built-in lexer. Plug-ins are ignored, because finding them would scan every
    installed package.
    """
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415  imported with the first code drawn # pyright: ignore[reportUnknownVariableType]  its options are not typed

    if language not in _languages() or language in ("text", "output"):
        return None
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@lru_cache(maxsize=1)
def _languages() -> frozenset[str]:
    from pygments.lexers import get_all_lexers  # noqa: PLC0415  as above

    return frozenset(
        alias for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases
    )
