"""Repair of lone surrogates, which UTF-8 cannot encode: halves are paired if possible, and else
replaced by U+FFFD.

Providers reject a whole history because of a single one. Entry points: `mended`, `mended_json`.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a valid pair
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a lone half
    r"|\\.",  # any other escape, so that an escaped backslash is not misread
    re.DOTALL,
)


def mended(text: str) -> str:
    """Return the text in encodable form."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mended_json(text: str) -> str:
    """Repair JSON text, in which surrogates may also be escaped."""
    return _ESCAPES.sub(lambda found: "\\ufffd" if found[1] else found[0], mended(text))
