"""Redaction of text before it leaves the process: known secrets, and text that looks like one,
become `[redacted]`.

Independent of the source of secrets (config/) and of the destination of the text. Entry points:
`Redactor`; `Masking` for text that arrives in pieces.
"""

from __future__ import annotations

import binascii
import json
import re
from bisect import bisect_right
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec
from typing_extensions import override

from treadle._internal.secret_patterns import MASK, PATTERNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


SECRET_MIN_CHARS = 8
"""Shorter values are not redacted: they occur in any text by chance, and each gap would reveal
them.
"""

PASSES_MAX = 8

CUT = "…"
"""Marks omitted text in titles and excerpts."""

UNUSUAL_IN_URL = re.compile(r"[^A-Za-z0-9_.~-]")


class Secret:
    """Secret value that is never shown by accident. Only `reveal()` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    @override
    def __hash__(self) -> int:
        return hash(self._value)

    @override
    def __str__(self) -> str:
        """Return just enough to distinguish keys; nothing of a short value."""
        return (
            f"set (ends …{self._value[-4:]})" if len(self._value) >= 2 * SECRET_MIN_CHARS else "set"
        )

    @override
    def __repr__(self) -> str:
        return f"<Secret {self}>"


class Redactor:
    """Filter that removes `secrets` from texts, in all forms in which they are transmitted: plain,
    and encoded for JSON, URLs and base64.

    Immutable and idempotent; fast if nothing is found. Ignores values of less than 8 characters.
    """

    __slots__ = ("__weakref__", "_forms", "_passes", "_values")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {s for s in secrets if len(s) >= SECRET_MIN_CHARS and s not in MASK}
        forms = {form for secret in known for form in _forms(secret)}
        self._forms = sorted((f for f in forms if f not in MASK), key=lambda f: (-len(f), f))
        self._values: _Values | None = None
        self._passes = 1

    def __bool__(self) -> bool:
        """Return True if any secret is known."""
        return bool(self._forms)

    def exact(self, text: str) -> str:
        """Remove the known values, and change nothing else. For tool results, entries and
        events.
        """
        for _ in range(PASSES_MAX):
            if not (spans := _spans(self._forms, text)):
                return text
            text = _masked(text, spans)
        # A value that overlaps the mask itself can appear again after each pass, without end.
        return MASK if _spans(self._forms, text) else text

    def text(self, text: str) -> str:
        """Remove the known values, and text that looks like a credential. For errors, logs and the
        terminal's stderr.
        """
        text = self.exact(text)
        low = text.lower()
        for pattern in PATTERNS:
            if any(sign in low for sign in pattern.signs):
                text = re.sub(pattern.regex, pattern.put, text)
        return text

    def shortened(self, text: str) -> str:
        """Apply `exact` to a text that was truncated at each `…`. Also removes parts of values next
        to it.
        """
        text = self.exact(text)
        rest = text.removeprefix(CUT)
        whole = rest.removesuffix(CUT)
        begun, ended = rest != text, whole != rest
        if (
            begun
            and ended
            and len(whole) >= SECRET_MIN_CHARS
            and any(whole in form for form in self._forms)
        ):
            return CUT + MASK + CUT
        if ended and (most := self._longest(whole, str.endswith, lambda form, size: form[:size])):
            whole = whole[:-most] + MASK
        if begun and (
            most := self._longest(whole, str.startswith, lambda form, size: form[-size:])
        ):
            whole = MASK + whole[most:]
        return CUT * begun + whole + CUT * ended

    def _longest(
        self, text: str, holds: Callable[[str, str], bool], piece: Callable[[str, int], str]
    ) -> int:
        """Return the length of the longest matching piece of a value; 0 if none has 8
        characters.
        """
        sizes = [
            size
            for form in self._forms
            for size in range(SECRET_MIN_CHARS, len(form))
            if holds(text, piece(form, size))
        ]
        return max(sizes, default=0)

    def inside(self, value: T) -> T:
        """Apply `exact` to every text in a value: in structs, in tuples, and in JSON values, whose
        keys and numbers count as texts.

        Returns the same object if it is not a JSON value and nothing is found.
        """
        match value:
            case str():  # members of an enumeration are our own text
                return cast("T", self.exact(value)) if type(value) is str else value
            case msgspec.Struct():
                return self._inside_struct(value)
            case tuple():
                old = cast("tuple[Any, ...]", value)
                new = tuple([self.inside(item) for item in old])
                return cast("T", old if all(map(is_, old, new)) else new)
            case dict() | list():
                return self._inside_json(value)
            case _:
                return value

    def masking(self) -> Masking:
        """Return a new `Masking` for one text."""
        if self._values is None:
            self._values = _Values(
                self._forms, sorted(self._forms), _beginnings(self._forms).search
            )
            self._passes = PASSES_MAX if any(map(_touches_mask, self._forms)) else 1
        return Masking(self._values, self._passes)

    def _inside_struct(self, value: T) -> T:
        changed: dict[str, Any] = {}
        for name in cast("msgspec.Struct", value).__struct_fields__:
            old = getattr(value, name)
            if (new := self.inside(old)) is not old:
                changed[name] = new
        return msgspec.structs.replace(cast("Any", value), **changed) if changed else value

    def _inside_json(self, value: Any) -> Any:
        match value:
            case dict():
                return {
                    self.exact(str(key)): self._inside_json(item)
                    for key, item in cast("dict[Any, Any]", value).items()
                }
            case list() | tuple():  # a tuple is an array in JSON
                return [
                    self._inside_json(item) for item in cast("list[Any] | tuple[Any, ...]", value)
                ]
            case bool() | None:
                return value
            case _:
                return value if (clean := self.exact(text := str(value))) == text else clean


class Masking:
    """`Redactor.exact` for a text that arrives in pieces. The joined results of `add` and `end`
    equal the result of `exact` for the whole text.

    Holds back only text that may be the beginning of a known value. If a value overlaps the mask
    itself, `exact` makes several passes. Each pass is then a separate `Masking` that processes the
    output of the previous one.
    """

    __slots__ = ("_begins", "_held", "_next", "_values")

    def __init__(self, values: _Values, passes: int) -> None:
        self._values = values
        self._begins = values.begins
        self._held = ""
        self._next = Masking(values, passes - 1) if passes > 1 else None

    def add(self, piece: str) -> str:
        """Return the text that can be released now, which may be empty."""
        text = self._held + piece
        if (begun := self._begins(text)) is None:
            self._held = ""
        else:
            text = self._leaving(text, begun.start())
        return text if self._next is None else self._next.add(text)

    def end(self) -> str:
        """Return the rest of the text, and reset: a later `add` begins another text."""
        text, self._held = self._held, ""
        text = _masked(text, _spans(self._values.forms, text))
        return text if self._next is None else self._next.add(text) + self._next.end()

    def _leaving(self, text: str, begun: int) -> str:
        """Return the part that may be released. `begun`: index before which no value begins."""
        cut, forms = self._values.open_at(text, begun), self._values.forms
        if len(text) - begun < len(forms[-1]):  # no value can be complete yet
            self._held = text[cut:]
            return text[:cut]
        spans = sorted(_spans(forms, text), reverse=True)
        # a value is held back until the next one, which may overlap it: together they are one mask
        for start, end in spans:
            if start < cut < end:
                cut = start
        self._held = text[cut:]
        return _masked(text[:cut], [span for span in spans if span[0] < cut])


class _Values(NamedTuple):
    """Search terms of a Masking."""

    forms: list[str]
    """The longest first."""
    in_order: list[str]
    begins: Callable[..., re.Match[str] | None]
    """`begins(text, at)`: next index, from `at` on, at which a value may begin, even if the end of
    the text truncates it.
    """

    def open_at(self, text: str, at: int) -> int:
        """Return the start of the longest ending, from `at` on, that begins a value; the end of the
        text if there is none.
        """
        while True:
            if len(text) - at < len(self.forms[0]):
                ending = text[at:]
                after = bisect_right(self.in_order, ending)
                if after < len(self.in_order) and self.in_order[after].startswith(ending):
                    return at
            if (begun := self.begins(text, at + 1)) is None:
                return len(text)
            at = begun.start()


def _beginnings(forms: list[str]) -> re.Pattern[str]:
    """Return a pattern that matches wherever one of the forms may begin, even if the end of the
    text truncates it. It rarely matches elsewhere.

    It has one character class for each of the first characters, so a hundred forms take no longer
    than one.
    """
    pattern = ""
    for i in reversed(range(SECRET_MIN_CHARS)):
        here = f"[{''.join(map(re.escape, sorted({form[i] for form in forms})))}]"
        pattern = f"{here}(?:{pattern}|\\Z)" if pattern else here
    return re.compile(pattern)


def _touches_mask(form: str) -> bool:
    """Return True if the form can overlap part of a mask."""
    return MASK in form or any(
        form.startswith(MASK[i:]) or form.endswith(MASK[:i]) for i in range(1, len(MASK))
    )


def _spans(forms: list[str], text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            spans.append((at, at + len(form)))
            at = text.find(form, at + len(form))
    return spans


# ---------------------------------------------------------------- logs


def _forms(secret: str) -> Iterable[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    if UNUSUAL_IN_URL.search(secret):
        from urllib.parse import quote  # noqa: PLC0415  ordinary keys need no encoding

        quoted = quote(raw, safe="")
        yield quoted
        yield re.sub("%..", lambda m: m[0].lower(), quoted)
    for before in range(3):
        yield from _base64_core(raw, before)


def _base64_core(raw: bytes, before: int) -> Iterable[str]:
    """Yield the base64 characters that depend on `raw` alone if `before` bytes (modulo 3) precede
    it.
    """
    whole = binascii.b2a_base64(bytes(before) + raw, newline=False).decode()
    first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
    yield whole[first:last]
    yield whole[first:last].replace("+", "-").replace("/", "_")


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            pieces += (text[done:start], MASK)
        done = max(done, end)
    return "".join((*pieces, text[done:]))


# ---------------------------------------------------------------- text that looks like a credential
