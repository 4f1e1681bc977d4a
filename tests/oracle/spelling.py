"""Spellings of one word in the language of bash: quotes, escapes, globs, braces, expansions. Entry:

`Speller`.
"""

from __future__ import annotations

import json
import random
import shlex
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PIECES: dict[str, Any] = json.loads((Path(__file__).parent / "pieces.json").read_text())
"""Tables of texts, by their names."""
_PLAIN = frozenset(string.ascii_letters + string.digits + "-_./,:=@%+^]")
_CLASSES = {
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "alnum": str.isalnum,
    "lower": str.islower,
    "upper": str.isupper,
    "punct": lambda c: c in string.punctuation,
    "graph": lambda c: c > " ",
    "print": lambda c: c >= " ",
}


class Speller:
    """Chooses by `chance`, so that a seed gives the same words again."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def one(self, among: Sequence[T]) -> T:
        return among[int(self.chance.random() * len(among))]

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def some(self, among: Sequence[T], most: int) -> list[T]:
        return [self.one(among) for _ in range(int(self.chance.random() * (most + 1)))]

    # ------------------------------------------------------------ one word

    def word(self, text: str) -> str:
        """A source text that means `text`, mostly in the usual way."""
        at = self.chance.random()
        if at < 0.8:
            return self.usual(text)
        if at < 0.9:
            return self.mixed(text)
        if at < 0.94:
            return self.glob(text)
        if at < 0.97:
            return self.braces([text, *self.some(("a", "", "b.txt", "-n"), 2)])
        return self.expanded(text)

    def usual(self, text: str) -> str:
        if text and all(c in _PLAIN for c in text):
            return text
        return (
            shlex.quote(text)
            if self.maybe(0.7) or any(c in '"$`\\!' for c in text)
            else f'"{text}"'
        )

    def mixed(self, text: str) -> str:
        """Pieces of the text, each quoted in another way."""
        pieces, i = [], 0
        while i < len(text) or not pieces:
            size = 1 + int(self.chance.random() * 4)
            pieces.append(self._piece(text[i : i + size]))
            i += size
        return "".join(pieces)

    def _piece(self, text: str) -> str:
        at = self.chance.random()
        if at < 0.3:
            return "".join(c if c in _PLAIN else f"\\{c}" for c in text)
        if at < 0.4:
            return "'" + text.replace("'", "'\\''") + "'"
        if at < 0.5:
            return '"' + "".join(f"\\{c}" if c in '"$`\\' else c for c in text) + '"'
        if at < 0.6:
            return "".join(f"\\{c}" if c != "\n" else "$'\\n'" for c in text)
        if at < 0.9:
            return (
                "$'"
                + "".join(self._escaped(c) if self.maybe(0.7) or c in "'\\" else c for c in text)
                + "'"
            )
        if at < 0.93:
            return f'$"{text}"'
        return text + self.one(("''", '""', "$''", "\\\n", '$""', "${x}", "$@", "$*"))

    def _escaped(self, c: str) -> str:
        code = ord(c)
        forms = (
            *(
                f"\\x{code & 255:02x}",
                f"\\x{{{code:x}}}",
                f"\\{code & 255:03o}",
                f"\\u{code & 0xFFFF:04x}",
                f"\\U{code:08x}",
            ),
            *(
                f"\\x{{{code:x}",
                f"\\x{code & 255:x}",
                f"\\u{code & 0xFFFF:x}",
                f"\\c{chr((code & 31) + 64)}",
                f"{c}\\0",
                f"\\0{code & 255:o}",
            ),
        )
        return self.one(forms[:5]) if self.maybe(0.8) else self.one(forms)

    # ------------------------------------------------------------ patterns

    def glob(self, text: str) -> str:
        """A pattern that matches `text`."""
        found: list[str] = []
        for c in text:
            at = self.chance.random()
            if at < 0.75 and found:
                found.append(c if c in _PLAIN else f"\\{c}")
            elif at < 0.95:
                found.append(self._bracket(c))
            else:
                found.append(self.one(("?", "*", f"@({c})", f"+({c})", "?()" + c, "!(zz)", "**")))
        return "".join(found)

    def _bracket(self, c: str) -> str:
        other = self.one("qz0Z")
        named = [name for name, holds in _CLASSES.items() if holds(c)]
        return self.one(
            (
                *(
                    f"[{c}]",
                    f"[!{other}]",
                    f"[^{other}]",
                    f"[[={c}=]]",
                    f"[[.{c}.]]",
                    f"[{c}{other}]",
                    f"[{c}-{chr(ord(c) + 1)}]",
                    f"[\\{c}]",
                    f"['{c}']",
                ),
                *(
                    f'["{c}"]',
                    f"[]{c}]",
                    f"[!]{other}]",
                    f"[^]{other}]",
                    f"[[:{self.one(named) if named else 'print'}:]]",
                    f"[{c}",
                    f"[[:^{other}:]{c}]",
                ),
                *("[![:space:]]", "[^[:space:]]", f"[{c}/]", f"[!-{other}]"),
            )
        )

    def braces(self, words: Sequence[str]) -> str:
        """A brace expansion of several words, with quotes that may hide its end."""
        items = [self._item(word) for word in words]
        self.chance.shuffle(items)
        if self.maybe(0.1):
            return "{" + self.one(("a..c", "1..3", "a..c..2", "-..0")) + "}" + items[0]
        if self.maybe(0.4):
            items.insert(
                0,
                self.one(
                    (
                        '"}"',
                        "'}'",
                        "\\}",
                        '","',
                        "\\,",
                        "'{'",
                        "{",
                        "$",
                        '"',
                        "a{b",
                        "`:`",
                        "$'}'",
                        '"{',
                        "${x}",
                        "'",
                        "{}",
                        "}",
                    )
                ),
            )
        return self.one(("", "", "", "$", "a")) * self.maybe(0.3) + "{" + ",".join(items) + "}"

    def _item(self, text: str) -> str:
        item = self.usual(text) if text else ""
        if item and self.maybe(0.3):
            at = int(self.chance.random() * (len(item) + 1))
            item = (
                item[:at]
                + self.one(("'}'", '"}"', "''", '""', "\\}", "'b,'", "{}", "}"))
                + item[at:]
            )
        return item

    def expanded(self, text: str) -> str:
        """The word with an expansion in it or in its place."""
        around = (
            *(
                "~",
                "$HOME",
                "${HOME}",
                "$x",
                "${x:-%s}",
                "${x-%s}",
                "${x:=%s}",
                "$(echo %s)",
                "`echo %s`",
                "$((1))",
                "$?",
                "$#",
                "$!",
                "$-",
                "$_",
                "$0",
            ),
            *(
                "${!x}",
                "${x@P}",
                "~+",
                "~-",
                "~root",
                "$[1]",
                "${#x}",
                "${HOME:0:1}",
                "${PWD}",
                "$'%s'",
                "<(echo %s)",
                "!!",
                "!$",
                "${x/%s}",
            ),
            *(
                "$((x[$(touch pwned)]))",
                "${x[$(touch pwned)]}",
                "${HOME#%s}",
                "$PWD",
                "$OLDPWD",
                "$RANDOM",
                "$IFS",
                "${@:1}",
            ),
        )
        form = self.one(around)
        if "%s" in form:
            return form.replace("%s", self.usual(text))
        return self.one(
            (form, form + "/" + text.lstrip("-"), text + form, f'"{form}"', form + text)
        )
