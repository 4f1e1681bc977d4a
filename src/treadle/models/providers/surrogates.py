"""Halves of surrogate pairs, for which UTF-8 has no place: paired again where both are there, else
U+FFFD.

A provider refuses a whole history for one of them. Entry: `mended`, `mended_json`.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair, which is fine
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a half
    r"|\\.",  # any other escape, so that an escaped backslash hides nothing
    re.DOTALL,
)


def mended(text: str) -> str:
    """The text, encodable."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mended_json(text: str) -> str:
    """JSON text, where halves may be escaped as well."""
    return _ESCAPES.sub(lambda found: "\\ufffd" if found[1] else found[0], mended(text))
