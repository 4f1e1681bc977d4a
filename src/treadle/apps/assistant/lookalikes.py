"""Normalization of text to its visual appearance, so that lookalike or invisible characters cannot
bypass a filter. Entry point: `as_seen`.
"""

from __future__ import annotations

import unicodedata

_ALIKE = str.maketrans(
    "\u2018\u2019\u02bc\u201c\u201d\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u04cf\u043a\u043c\u0442"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405\u0423\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0131\u0251\u0261",
    "'''''aeopcyxijsdhqwlkmtABEKMHOPCTXIJSYaeikvoptuxABEZHIKMNOPTYXiag",
)
"""Cyrillic, Greek and phonetic letters that look like Latin ones, and quotation marks."""


def as_seen(text: str) -> str:
    """Return the text as it looks: without invisible characters and accents, in one script. For
    searching, not for display.
    """
    if text.isascii():
        return text
    seen = (
        c
        for c in unicodedata.normalize("NFKD", text)
        if unicodedata.category(c) not in ("Mn", "Me", "Cf")
    )
    return "".join(seen).translate(_ALIKE)
