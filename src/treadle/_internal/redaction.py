"""A filter before every sink: known secrets, and text that looks like one, become `[redacted]`.

It does not know the source of secrets (config/) or the target of text. Entry points: `Redactor`;
`Masking` for text that comes in pieces.
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
"""Shorter values are left alone: they stand by chance in every text, and each gap would tell where.
"""

PASSES_MAX = 8

CUT = "…"
"""Stands in titles and excerpts where something is missing."""

UNUSUAL_IN_URL = re.compile(r"[^A-Za-z0-9_.~-]")


class Secret:
    """A value that is shown to nobody by accident: only `reveal()` gives it."""

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
        """Enough to tell one key from another; of a short value nothing at all."""
        return (
            f"set (ends …{self._value[-4:]})" if len(self._value) >= 2 * SECRET_MIN_CHARS else "set"
        )

    @override
    def __repr__(self) -> str:
        return f"<Secret {self}>"


class Redactor:
    """Takes `secrets` out of texts, in the forms in which they travel: as they are, in JSON, in
    URLs, in base64.

    Immutable, cheap where nothing is found, and idempotent. Values under 8 characters are ignored.
    """

    __slots__ = ("__weakref__", "_forms", "_passes", "_values")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {s for s in secrets if len(s) >= SECRET_MIN_CHARS and s not in MASK}
        forms = {form for secret in known for form in _forms(secret)}
        self._forms = sorted((f for f in forms if f not in MASK), key=lambda f: (-len(f), f))
        self._values: _Values | None = None
        self._passes = 1

    def __bool__(self) -> bool:
        """True if any secret is known."""
        return bool(self._forms)

    def exact(self, text: str) -> str:
        """Without the known values, and otherwise untouched: for tool results, entries and events."""  # noqa: E501
        for _ in range(PASSES_MAX):
            if not (spans := _spans(self._forms, text)):
                return text
            text = _masked(text, spans)
        # A value that overlaps the mask itself can appear anew for ever.
        return MASK if _spans(self._forms, text) else text

    def text(self, text: str) -> str:
        """Without the known values and whatever looks like a credential: for errors, logs and the
        terminal's stderr.
        """
        text = self.exact(text)
        low = text.lower()
        for pattern in PATTERNS:
            if any(sign in low for sign in pattern.signs):
                text = re.sub(pattern.regex, pattern.put, text)
        return text

    def shortened(self, text: str) -> str:
        """`exact` for a text that shows with `…` where it was cut: half a value that stands there
        is taken out too.
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
        """Return the length of the longest such piece of a value; 0 if none has 8 characters."""
        sizes = [
            size
            for form in self._forms
            for size in range(SECRET_MIN_CHARS, len(form))
            if holds(text, piece(form, size))
        ]
        return max(sizes, default=0)

    def inside(self, value: T) -> T:
        """The value with `exact` done to every text in it: in structs, in tuples, and in JSON
        values, whose keys and numbers are texts too.

        The same object where it is no JSON value and nothing is found.
        """
        match value:
            case str():  # a word of an enumeration is ours
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
        """A new one, for one text."""
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
            case list() | tuple():  # which stands for a list there
                return [
                    self._inside_json(item) for item in cast("list[Any] | tuple[Any, ...]", value)
                ]
            case bool() | None:
                return value
            case _:
                return value if (clean := self.exact(text := str(value))) == text else clean


class Masking:
    """`Redactor.exact` for a text that comes in pieces: what `add` and `end` give, joined, is what
    `exact` gives for the whole.

    Only what may be the beginning of a known value waits for the next piece. Where values overlap
    the mask itself, `exact` looks at its own work again; here each such pass is a Masking behind
    the one before, and nothing stands behind the last.
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
        """The rest: nothing more of this text comes. What is added then is another text."""
        text, self._held = self._held, ""
        text = _masked(text, _spans(self._values.forms, text))
        return text if self._next is None else self._next.add(text) + self._next.end()

    def _leaving(self, text: str, begun: int) -> str:
        """`begun`: nothing begins before it."""
        cut, forms = self._values.open_at(text, begun), self._values.forms
        if len(text) - begun < len(forms[-1]):  # nothing ends before the text does
            self._held = text[cut:]
            return text[:cut]
        spans = sorted(_spans(forms, text), reverse=True)
        # a value that the next one overlaps waits for it: together they are one mask
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
    """`begins(text, at)`: where, from `at` on, one of them may begin; it may be cut by the end of
    the text.
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
    """Finds every place where one of the forms begins, cut by the end of the text or not; and,
    seldom, others.

    A class of characters for each of the first places: as fast for a hundred forms as for one.
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
    """The characters of base64 that depend on `raw` alone where `before` bytes (modulo 3) precede
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


# ---------------------------------------------------------------- what looks like a credential
