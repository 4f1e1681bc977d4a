"""Docstring parser: extracts the description of each parameter, and the text for the model.

Google, NumPy and reST forms are recognized, also mixed. Types and defaults in a docstring are
ignored in favour of the signature. Sections for programmers (returns, raises, examples, notes and
so on) are left out. Entry point: `read_docstring`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

_GOOGLE: Final = re.compile(
    (
        r"(args|arguments|params|parameters|keyword args|keyword arguments|other args|other "
        r"parameters):"
    ),
    re.IGNORECASE,
)
_NUMPY: Final = re.compile(r"(parameters|other parameters|keyword arguments)", re.IGNORECASE)
_LEFT_OUT: Final = (
    r"returns?|yields?|receives?|raises?|except(?:ion)?s?|warns|attributes|methods|examples?|notes|see "  # noqa: E501
    r"also|references|todos?"
)
_GOOGLE_LEFT_OUT: Final = re.compile(rf"(?:{_LEFT_OUT}):", re.IGNORECASE)
_INLINE_LEFT_OUT: Final = re.compile(r"(?:returns|yields|raises):\s.*", re.IGNORECASE)
_NUMPY_LEFT_OUT: Final = re.compile(_LEFT_OUT, re.IGNORECASE)
_REST_LEFT_OUT: Final = re.compile(
    r"[:@](?:type|returns?|rtype|yields?|ytype|raises?|except(?:ion)?|[ic]?var|vartype)\b[^:]*:.*"
)
_RULE: Final = re.compile(r"-{3,}|={3,}")
_GOOGLE_ENTRY: Final = re.compile(r"`{0,2}\*{0,2}(\w+)`{0,2}\s*(?:\(.*?\)\s*)?:(?!:)\s*(.*)")
_NUMPY_ENTRY: Final = re.compile(r"((?:\*{0,2}\w+\s*,\s*)*\*{0,2}\w+)\s*(?::.*)?")
_REST: Final = re.compile(
    r"[:@](?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\\?\*{0,2}(\w+)\s*:\s*(.*)"
)
_REST_ANY: Final = re.compile(r"[:@]\w+[^:]*:")
_ITEM: Final = re.compile(r"[-*+•]\s|\d+[.)]\s")


_Entry: TypeAlias = tuple[list[str], str]
"""Parameter names that a line introduces, and the beginning of their description."""


@dataclass(frozen=True, slots=True)
class Docstring:
    text: str
    """Description of the tool: the docstring without its parameters and its sections for
    programmers. If nothing else is left, those sections are kept.
    """
    parameters: dict[str, str]


def read_docstring(docstring: str | None, names: Collection[str]) -> Docstring:
    """Parse a docstring. Only `names`, the function's parameters, count as parameters, so a colon
    in prose does not start one.
    """
    reader = _Reader(inspect.cleandoc(docstring or "").splitlines(), frozenset(names))
    return Docstring(
        text=reader.text(),
        parameters={name: _flowing(lines) for name, lines in reader.said.items()},
    )


class _Reader:
    """Single pass over the lines. Each `_take_*` consumes a section or field that begins at `at`,
    or changes nothing.
    """

    def __init__(self, lines: list[str], names: frozenset[str]) -> None:
        self.lines = lines
        self.names = names
        self.said: dict[str, list[str]] = {}
        self.kept: list[str] = []
        self.left_out: list[str] = []
        self.at = 0
        while self.at < len(lines):
            if not (
                self._take_google() or self._take_numpy() or self._take_rest() or self._leave_out()
            ):
                self.kept.append(lines[self.at])
                self.at += 1

    def text(self) -> str:
        return _joined(self.kept) or _joined(self.left_out)

    def _take_google(self) -> bool:
        """Consume a header and its indented entries, `name (type): description`."""
        if not _GOOGLE.fullmatch(self.lines[self.at].strip()):
            return False
        start, end = self.at + 1, self._end_of_google()
        deeper = next((_indent(line) for line in self.lines[start:end] if line.strip()), 0)
        return self._take_entries(start, end, deeper, _google_entry)

    def _take_numpy(self) -> bool:
        """Consume an underlined header and the entries at its indentation, `a, b : type`, each
        followed by an indented description.
        """
        header = self.lines[self.at]
        if not (
            _NUMPY.fullmatch(header.strip()) and _RULE.fullmatch(self._line(self.at + 1).strip())
        ):
            return False
        return self._take_entries(self.at + 2, self._end_of_numpy(), _indent(header), _numpy_entry)

    def _end_of_google(self) -> int:
        """Return the index of the next line that is not indented below the header."""
        # below a first line, cleandoc leaves no indentation
        indent = _indent(self.lines[self.at]) if self.at else -1
        rest = range(self.at + 1, len(self.lines))
        return next(
            (i for i in rest if self.lines[i].strip() and _indent(self.lines[i]) <= indent),
            len(self.lines),
        )

    def _end_of_numpy(self) -> int:
        """Return the index of the next underlined header."""
        end = self.at + 2
        while end < len(self.lines) and not _RULE.fullmatch(self._line(end + 1).strip()):
            end += 1
        return end

    def _take_entries(
        self, start: int, end: int, indent: int, read: Callable[[str], _Entry | None]
    ) -> bool:
        """Consume the entries of a section. If no line names a parameter, the text is not a section
        of parameters: returns False and consumes nothing.
        """
        said: dict[str, list[str]] = {}
        words: list[str] = []
        for line in self.lines[start:end]:
            entry = read(line.strip()) if _indent(line) <= indent else None
            if entry is None:
                words.append(line)
                continue
            names, first = entry
            words = [first]
            said.update({name: words for name in names if name in self.names})
        if not said:
            return False
        self.said.update(said)
        self.at = end
        return True

    def _take_rest(self) -> bool:
        """Read one field: its line, and deeper or unmarked lines up to a blank one."""
        line = self.lines[self.at].strip()
        match = _REST.match(line)
        if match is None:
            return False
        field = [match[2], *self._field()[1:]]
        if match[1] in self.names:
            self.said[match[1]] = field
        return True

    def _field(self) -> list[str]:
        """Consume the field that begins at `at`, and return its lines."""
        start, indent = self.at, _indent(self.lines[self.at])
        self.at += 1
        while self.at < len(self.lines) and self._belongs(self.lines[self.at], indent):
            self.at += 1
        return self.lines[start : self.at]

    def _leave_out(self) -> bool:
        """Consume a section or field for programmers."""
        line, start = self.lines[self.at].strip(), self.at
        if _REST_LEFT_OUT.fullmatch(line):
            self.left_out += self._field()
            return True
        if _NUMPY_LEFT_OUT.fullmatch(line) and _RULE.fullmatch(self._line(start + 1).strip()):
            self.at = self._end_of_numpy()
        elif _GOOGLE_LEFT_OUT.fullmatch(line) or (
            start and not self._line(start - 1).strip() and _INLINE_LEFT_OUT.fullmatch(line)
        ):
            self.at = self._end_of_google()
        self.left_out += self.lines[start : self.at]
        return self.at > start

    def _belongs(self, line: str, indent: int) -> bool:
        if not line.strip():
            return self.at + 1 < len(self.lines) and _indent(self.lines[self.at + 1]) > indent
        return _indent(line) > indent or not (
            _REST_ANY.match(line.strip()) or _GOOGLE_LEFT_OUT.fullmatch(line.strip())
        )

    def _line(self, i: int) -> str:
        return self.lines[i] if i < len(self.lines) else ""


def _google_entry(line: str) -> _Entry | None:
    match = _GOOGLE_ENTRY.match(line)
    return ([match[1]], match[2]) if match else None


def _numpy_entry(line: str) -> _Entry | None:
    match = _NUMPY_ENTRY.fullmatch(line)
    return ([name.strip(" *") for name in match[1].split(",")], "") if match else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip()


def _flowing(lines: list[str]) -> str:
    """Join wrapped lines. Paragraphs and list items keep their own lines."""
    text = ""
    for line in (raw.strip() for raw in lines):
        if not line:
            text = text.rstrip() + "\n\n" if text else text
        elif not text or text.endswith("\n"):
            text += line
        else:
            text += ("\n" if _ITEM.match(line) else " ") + line
    return text.strip()
