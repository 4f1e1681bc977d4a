"""Patterns of secrets: names that hold them, URLs, and the forms of well-known keys.

Entry points: `PATTERNS`, `names_a_secret`, `in_url`, `keys_in_path`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MASK = "[redacted]"

SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:keys?|pat|pwd|pw|pass|psk|auth|cookies?|dsn|jwt|otp)$|(?:^|[-_.])(?:tokens?|secrets?|creds?|credentials?|webhook)(?=$|[-_.\d])"
    r"|(?:api|access|private|secret|signing|encryption)[-_]?key|passw(?:or)?d|passphrase|passcode|authorization|auth[-_]?(?:token|config)|credential"
    r"|connection[-_]?string|otlp_(?:\w+_)?headers$|sshpass$",
    re.IGNORECASE,
)
COUNTS_TOKENS = re.compile(
    r"(?:^|[-_.])(?:max|min|num|limit|count|budget|input|output)(?=$|[-_.])", re.IGNORECASE
)
"""Names about a model's tokens, which are not secret: MAX_TOKENS, TOKEN_LIMIT."""
PASSWORD_IN_URL = re.compile(r"://[^/\s:@?#]*:([^/\s?#]+)@")
KEY_IN_URL = re.compile(r"[?&][^=&\s]{0,40}(?:key|token|secret|sig)=([^&#\s]+)", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """Return True if a variable or header with this name holds a credential, such as GITHUB_TOKEN,
    DB_PASSWORD_2, X-Api-Key or Cookie.
    """
    found = SECRET_NAME.search(name)
    return found is not None and not ("token" in found[0].lower() and COUNTS_TOKENS.search(name))


KEY_CHARS_MIN = 20
_WORD = re.compile(r"(?:^|[-_.~])[a-z]{4,}(?=$|[-_.~])")


def keys_in_path(path: str) -> list[str]:
    """Return the segments of a URL's path that look like keys, which hosted MCP servers use: long,
    with digits, and without a word.
    """
    return [
        segment
        for segment in path.split("/")
        if len(segment) >= KEY_CHARS_MIN
        and sum(c.isdigit() for c in segment) >= 3
        and any(c.isalpha() for c in segment)
        and not _WORD.search(segment)
    ]


def in_url(value: str, *, address: bool = False) -> list[str]:
    """Return the passwords and keys in a URL, as written. `address`: True also searches its
    path.
    """
    if "://" not in value:
        return []
    in_path = keys_in_path(value.partition("?")[0]) if address else []
    return [*PASSWORD_IN_URL.findall(value), *KEY_IN_URL.findall(value), *in_path]


class Pattern(NamedTuple):
    signs: tuple[str, ...]
    """Lower-case texts, at least one of which must occur before the pattern is tried."""
    regex: str
    """Linear-time pattern: anchored at its start, and no repetition overlaps the piece that follows
    it.

    Compiled when it is first tried, because most processes never report an error.
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
