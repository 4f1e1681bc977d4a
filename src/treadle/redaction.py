"""One filter before every sink: known secret values, and what looks like one, become `[redacted]`.

It does not know where secrets come from (config.py does) nor where text goes. Entry: `Redactor`.
"""

from __future__ import annotations

import binascii
import json
import logging
import re
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "[redacted]"

SECRET_MIN_CHARS = 8
"""Shorter values are left alone: they stand by chance in every text, and each gap would tell where."""

PASSES_MAX = 8

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
        return f"set (ends …{self._value[-4:]})" if len(self._value) >= 2 * SECRET_MIN_CHARS else "set"

    @override
    def __repr__(self) -> str:
        return f"<Secret {self}>"


class Redactor:
    """Takes `secrets` out of texts, in the forms in which they travel: as they are, in JSON, in URLs, in base64.

    Immutable, cheap where nothing is found, and idempotent. Values under 8 characters are ignored.
    """

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {s for s in secrets if len(s) >= SECRET_MIN_CHARS and s not in MASK}
        forms = {form for secret in known for form in _forms(secret)}
        self._forms = sorted((f for f in forms if f not in MASK), key=lambda f: (-len(f), f))

    def exact(self, text: str) -> str:
        """Without the known values, and otherwise untouched: for tool results, entries and events."""
        for _ in range(PASSES_MAX):
            if not (spans := self._spans(text)):
                return text
            text = _masked(text, spans)
        # A value that overlaps the mask itself can appear anew for ever.
        return MASK if self._spans(text) else text

    def text(self, text: str) -> str:
        """Without the known values and whatever looks like a credential: for errors, logs and the terminal's stderr."""
        text = self.exact(text)
        low = text.lower()
        for pattern in PATTERNS:
            if any(sign in low for sign in pattern.signs):
                text = re.sub(pattern.regex, pattern.put, text)
        return text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                spans.append((at, at + len(form)))
                at = text.find(form, at + len(form))
        return spans


class RedactingFilter(logging.Filter):
    """Redacts the message with its arguments, the traceback and the extra fields of each record.

    Belongs on handlers: a filter of a logger does not see what comes from that logger's children.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        redact = self._redactor.text
        record.msg, record.args = redact(_message(record)), None
        if record.exc_info:
            record.exc_text = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        for name, value in list(vars(record).items()):
            if isinstance(value, str):
                setattr(record, name, redact(value))
            elif name not in STANDARD_FIELDS and (clean := redact(repr(value))) != repr(value):
                setattr(record, name, clean)
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as e:  # noqa: BLE001  formatting calls foreign code, and a log line must not stop a program
        return f"{record.msg} ({len(record.args or ())} arguments that do not fit: {type(e).__name__})"


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
    """The characters of base64 that depend on `raw` alone where `before` bytes (modulo 3) precede it."""
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
    r"(?:(?:^|[-_])(?:key|token|secret|pat|pwd|auth|cookie|credentials?)|api-?key|password|passwd|passphrase|authorization)$", re.IGNORECASE
)
PASSWORD_IN_URL = re.compile(r"://[^/\s:@?#]*:([^/\s?#]+)@")
KEY_IN_URL = re.compile(r"[?&][^=&\s]{0,40}(?:key|token|secret|sig)=([^&#\s]+)", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """Whether a variable or a header of this name holds a credential: GITHUB_TOKEN, X-Api-Key, Cookie."""
    return SECRET_NAME.search(name) is not None


def in_url(value: str) -> list[str]:
    """The passwords and keys in a URL, as they stand there."""
    return [*PASSWORD_IN_URL.findall(value), *KEY_IN_URL.findall(value)] if "://" in value else []


class Pattern(NamedTuple):
    signs: tuple[str, ...]
    """Lower-case texts without which the pattern is not tried."""
    regex: str
    """Linear in the text: anchored at its start, and each repetition ends where the next piece cannot begin.

    Compiled when it is first tried: most processes end without an error.
    """
    put: str


def _pattern(signs: str, regex: str, put: str = MASK) -> Pattern:
    return Pattern(tuple(signs.split()), regex, put)


_NAMES = r"(?:x-)?(?:api|goog-api|access|secret|private)[-_]?key|(?:auth|access|refresh|id)[-_]?token|client[-_]?secret|password|passwd"
_KEPT = r"(?!\[redacted\])"

PATTERNS = (
    _pattern("private", r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"),
    _pattern("authorization", rf"(?i)(\bauthorization[\"']?\s{{0,4}}+[:=]\s{{0,4}}+[\"']?+){_KEPT}[^\r\n\"']+", rf"\1{MASK}"),
    _pattern("bearer", r"(?i)(\bbearer\s{1,4})[A-Za-z0-9._~+/=-]{8,}", rf"\1{MASK}"),
    _pattern("sk-", r"(?<![A-Za-z0-9])sk-(?:ant-[A-Za-z0-9_-]{6,}|[A-Za-z0-9_-]{16,})"),
    _pattern("aiza", r"AIza[A-Za-z0-9_-]{30,}"),
    _pattern("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"(?:gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    _pattern("xox", r"xox[a-z]-[A-Za-z0-9-]{10,}"),
    _pattern("akia asia", r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _pattern("eyj", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _pattern("://", rf"(://[^/\s:@?#]*:){_KEPT}[^/\s?#\"'<>]+@", rf"\1{MASK}@"),
    _pattern("key= token= sig=", rf"(?i)([?&](?:key|token|sig)=){_KEPT}[^\s&#\"'<>]+", rf"\1{MASK}"),
    _pattern("key token secret passw", rf"(?i)((?:{_NAMES}|(?<![A-Za-z0-9])(?:token|secret))=[\"']?+){_KEPT}[^\s&#\"',;)}}\]]+", rf"\1{MASK}"),
    _pattern("key token secret passw", rf"(?i)((?:{_NAMES}|(?<![A-Za-z0-9])(?:token|secret))[\"']\s{{0,4}}+:\s{{0,4}}+[\"']){_KEPT}[^\"'\r\n]+", rf"\1{MASK}"),
    _pattern("-api-key", rf"(?i)(\bx-(?:goog-)?api-key:\s{{0,4}}+){_KEPT}[^\s\"',]+", rf"\1{MASK}"),
    _pattern("key token secret passw", rf"(?i)((?:{_NAMES}):\s{{1,4}}+){_KEPT}[^\s\"',]{{16,}}", rf"\1{MASK}"),
)
