"""One filter before every sink: known secret values, and what looks like one, become `[redacted]`.

It does not know where secrets come from (config/ does) nor where text goes. Entry: `Redactor`;
`Masking` for text that comes in pieces, `mask_logs` for what the library logs.
"""

from __future__ import annotations

import binascii
import json
import logging
import re
import threading
import weakref
from bisect import bisect_right
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

MASK = "[redacted]"

SECRET_MIN_CHARS = 8
"""Shorter values are left alone: they stand by chance in every text, and each gap would tell where.
"""

PASSES_MAX = 8

CUT = "…"
"""Stands in titles and excerpts where something is missing."""

UNUSUAL_IN_URL = re.compile(r"[^A-Za-z0-9_.~-]")

STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({})))


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
        """Whether it knows any value."""
        return bool(self._forms)

    def exact(self, text: str) -> str:
        """Without the known values, and otherwise untouched: for tool results, entries and events."""  # noqa: E501
        for _ in range(PASSES_MAX):
            if not (spans := self._spans(text)):
                return text
            text = _masked(text, spans)
        # A value that overlaps the mask itself can appear anew for ever.
        return MASK if self._spans(text) else text

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
        """How long the longest such piece of a value is; 0 where there is none of 8 characters."""
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

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return _spans(self._forms, text)


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
        """What may leave now; it may be empty."""
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
    """What a Masking looks for."""

    forms: list[str]
    """The longest first."""
    in_order: list[str]
    begins: Callable[..., re.Match[str] | None]
    """`begins(text, at)`: where, from `at` on, one of them may begin; it may be cut by the end of
    the text.
    """

    def open_at(self, text: str, at: int) -> int:
        """Where the longest ending begins that is the beginning of a value, looked for from `at`
        on; the end of the text where there is none.
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
    """Whether it can come to stand partly inside a mask."""
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


class RedactingFilter(logging.Filter):
    """Redacts the message with its arguments, the traceback and the extra fields of each record.

    Belongs on handlers: a filter of a logger does not see what comes from that logger's children.
    The logger `treadle`, which has none, gets its own from the first runtime on (`mask_logs`).
    """

    def __init__(self, redactor: Redactor | _Live) -> None:
        super().__init__()
        self._redactor = redactor

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        redact = self._redactor.text
        record.msg, record.args = redact(_message(record)), None
        if record.exc_info:
            record.exc_text = record.exc_text or logging.Formatter().formatException(
                record.exc_info
            )
            record.exc_info = None
        for name, value in list(vars(record).items()):
            if isinstance(value, str):
                setattr(record, name, redact(value))
            elif name not in STANDARD_FIELDS and (clean := redact(repr(value))) != repr(value):
                setattr(record, name, clean)
        return True


class _Live:
    """The redactors that are in use, of all runtimes of the process; each is forgotten with whoever
    uses it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards `_redactors` against two threads that add at once; whoever reads finds a whole
        tuple.
        """
        self._redactors: tuple[weakref.ref[Redactor], ...] = ()

    def add(self, redactor: Redactor) -> None:
        with self._lock:
            self._redactors = (
                *(known for known in self._redactors if known() is not None),
                weakref.ref(redactor),
            )

    def text(self, text: str) -> str:
        for known in self._redactors:
            if (redactor := known()) is not None:
                text = redactor.exact(text)
        return Redactor().text(text)


_live = _Live()
_library_filter = RedactingFilter(_live)


def mask_logs(redactor: Redactor) -> Redactor:
    """From now on, and as long as somebody holds the redactor, what the library logs is without its
    values and what looks like one.

    Gives the redactor back. Safe from many threads, and for any number of redactors.
    """
    _live.add(redactor)
    logging.getLogger("treadle").addFilter(_library_filter)
    return redactor


def without_secrets(text: str) -> str:
    """Without what any redactor in use knows, and what looks like a credential: for whoever follows
    runs of any runtime from outside.
    """
    return _live.text(text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as e:  # noqa: BLE001  formatting calls foreign code, and a log line must not stop a program
        return (
            f"{record.msg} ({len(record.args or ())} arguments that do not fit: {type(e).__name__})"
        )


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


SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:keys?|pat|pwd|pw|pass|psk|auth|cookies?|dsn|jwt|otp)$|(?:^|[-_.])(?:tokens?|secrets?|creds?|credentials?|webhook)(?=$|[-_.\d])"
    r"|(?:api|access|private|secret|signing|encryption)[-_]?key|passw(?:or)?d|passphrase|passcode|authorization|auth[-_]?(?:token|config)|credential"
    r"|connection[-_]?string|otlp_(?:\w+_)?headers$|sshpass$",
    re.IGNORECASE,
)
COUNTS_TOKENS = re.compile(
    r"(?:^|[-_.])(?:max|min|num|limit|count|budget|input|output)(?=$|[-_.])", re.IGNORECASE
)
"""The tokens of a model are no secret: MAX_TOKENS, TOKEN_LIMIT."""
PASSWORD_IN_URL = re.compile(r"://[^/\s:@?#]*:([^/\s?#]+)@")
KEY_IN_URL = re.compile(r"[?&][^=&\s]{0,40}(?:key|token|secret|sig)=([^&#\s]+)", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """True if a variable or a header of this name holds a credential:

    GITHUB_TOKEN, DB_PASSWORD_2, X-Api-Key, Cookie.
    """
    found = SECRET_NAME.search(name)
    return found is not None and not ("token" in found[0].lower() and COUNTS_TOKENS.search(name))


def in_url(value: str) -> list[str]:
    """The passwords and keys in a URL, as they stand there."""
    return [*PASSWORD_IN_URL.findall(value), *KEY_IN_URL.findall(value)] if "://" in value else []


class Pattern(NamedTuple):
    signs: tuple[str, ...]
    """Lower-case texts without which the pattern is not tried."""
    regex: str
    """Linear in the text: anchored at its start, and each repetition ends where the next piece
    cannot begin.

    Compiled when it is first tried: most processes end without an error.
"""
    put: str


def _pattern(signs: str, regex: str, put: str = MASK) -> Pattern:
    return Pattern(tuple(signs.split()), regex, put)


_NAMES = r"(?:x-)?(?:api|goog-api|access|secret|private)[-_]?key|(?:auth|access|refresh|id)[-_]?token|client[-_]?secret|password|passwd"  # noqa: E501
_KEPT = r"(?!\[redacted\])"

PATTERNS = (
    _pattern(
        "private",
        (
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 "
            r"]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
        ),
    ),
    _pattern(
        "authorization",
        rf"(?i)(\bauthorization[\"']?\s{{0,4}}+[:=]\s{{0,4}}+[\"']?+){_KEPT}[^\r\n\"']+",
        rf"\1{MASK}",
    ),
    _pattern("bearer", r"(?i)(\bbearer\s{1,4})[A-Za-z0-9._~+/=-]{8,}", rf"\1{MASK}"),
    _pattern("sk-", r"(?<![A-Za-z0-9])sk-(?:ant-[A-Za-z0-9_-]{6,}|[A-Za-z0-9_-]{16,})"),
    _pattern("aiza", r"AIza[A-Za-z0-9_-]{30,}"),
    _pattern(
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(?:gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    ),
    _pattern("xox", r"xox[a-z]-[A-Za-z0-9-]{10,}"),
    _pattern("akia asia", r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _pattern(
        "eyj", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    ),
    _pattern("://", rf"(://[^/\s:@?#]*:){_KEPT}[^/\s?#\"'<>]+@", rf"\1{MASK}@"),
    _pattern(
        "key= token= sig=", rf"(?i)([?&](?:key|token|sig)=){_KEPT}[^\s&#\"'<>]+", rf"\1{MASK}"
    ),
    _pattern(
        "key token secret passw",
        rf"(?i)((?:{_NAMES}|(?<![A-Za-z0-9])(?:token|secret))=[\"']?+){_KEPT}[^\s&#\"',;)}}\]]+",
        rf"\1{MASK}",
    ),
    _pattern(
        "key token secret passw",
        rf"(?i)((?:{_NAMES}|(?<![A-Za-z0-9])(?:token|secret))[\"']\s{{0,4}}+:\s{{0,4}}+[\"']){_KEPT}[^\"'\r\n]+",
        rf"\1{MASK}",
    ),
    _pattern("-api-key", rf"(?i)(\bx-(?:goog-)?api-key:\s{{0,4}}+){_KEPT}[^\s\"',]+", rf"\1{MASK}"),
    _pattern(
        "key token secret passw",
        rf"(?i)((?:{_NAMES}):\s{{1,4}}+){_KEPT}[^\s\"',]{{16,}}",
        rf"\1{MASK}",
    ),
)
