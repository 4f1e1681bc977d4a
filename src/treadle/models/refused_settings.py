"""Optional settings and content that a provider refuses, found in its error messages.

The loop repeats the request without them. Entry points: `offending`, `names_image`, `without`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from treadle.errors import AgentError, ErrorKind
from treadle.types import Settings

_NAMED: Mapping[str, tuple[re.Pattern[str], object]] = {
    "show_thinking": (re.compile(r"\b(thinking\W+display|reasoning\W+summary)\b"), False),
    "strict_tools": (
        re.compile(
            (
                r"\bstrict\b|\bInvalid schema for function\b|\bschema is too complex\b|\bgrammar "
                r"is "
                r"too large\b"
            ),
            re.IGNORECASE,
        ),
        False,
    ),
    "hosted_tools": (
        re.compile(
            r"\b(web_search|web_fetch|code_execution|code_interpreter)|google_?search|url_?context",
            re.IGNORECASE,
        ),
        None,
    ),
    "effort": (re.compile(r"effort\b|\bthinking[\W_]*level", re.IGNORECASE), None),
    "thinking": (
        re.compile(
            r"\bthinking[\W_]*(type|budget|config)"
            r"|\b(thinking|reasoning)\b(?![.]effort|\W+(block|item|level|summary))[^.]*\b(support|permitted|allowed|recogni|unknown|enabled|turned|disabled)",
            re.IGNORECASE,
        ),
        None,
    ),
    "temperature": (re.compile(r"\btemperature\b"), None),
    "tool_choice": (re.compile(r"\btool_choice\b|\btoolConfig\b"), None),
    "service_tier": (re.compile(r"\bservice_?[tT]ier\b|['\"`]speed['\"`]|\bspeed:"), None),
    "cache": (re.compile(r"\bcache_control\b|\bprompt_cache_\w+|\bdiagnostics\b"), False),
    "stop": (re.compile(r"\bstop_?[sS]equences\b|['\"`]stop['\"`]"), None),
}
"""Optional settings, each with a pattern of its names in provider errors, and the value that omits
it.
"""
_WORKS_UNSET = ("show_thinking", "strict_tools", "cache")
"""Settings that affect requests even if they are unset."""


def offending(error: AgentError, settings: Settings) -> str:
    """Return the optional setting that a provider's error names first; "" if it names none that is
    in use.
    """
    if error.kind is not ErrorKind.INVALID or error.status not in (400, 422):
        return ""
    found = {
        name: match.start()
        for name, (pattern, _) in _NAMED.items()
        if (match := pattern.search(error.message))
    }
    if settings.effort is None and "effort" in found:
        found.setdefault("thinking", found["effort"])  # wires may encode it as an effort level
    given = settings.given.union(_WORKS_UNSET)
    left = {
        name: at
        for name, at in found.items()
        if name in given and getattr(settings, name) is not _NAMED[name][1]
    }
    return min(left, key=left.__getitem__, default="")


_MEDIA = re.compile(
    r"image|\bpdf|\bdocument\.source|\bfile_data|\bdocument has no pages", re.IGNORECASE
)


def names_image(error: AgentError) -> bool:
    """Return True if a provider rejected a request because of an image or a PDF."""
    return (
        error.kind is ErrorKind.INVALID
        and error.status in (400, 415, 422)
        and _MEDIA.search(error.message) is not None
    )


def without(settings: Settings, names: Collection[str]) -> Settings:
    """Return the settings without the named ones, which a provider rejected."""
    return (
        msgspec.structs.replace(
            settings, **{name: _NAMED[name][1] for name in names if name in _NAMED}
        )
        if names
        else settings
    )
