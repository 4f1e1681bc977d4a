"""References of a JSON Schema to other schemas: a remote schema is never fetched, so a schema that
needs one is rejected.

jsonschema-rs follows references, offline. Entry points: `remote_reference`, `schemas`, `joined`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast
from urllib.parse import urldefrag, urljoin

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_LITERAL: Final = frozenset({"enum", "const", "default", "examples"})
KNOWN: Final = ("http://json-schema.org/", "https://json-schema.org/")
"""The meta-schemas, which jsonschema-rs brings along."""


def remote_reference(schema: object) -> str | None:
    """The first reference that leads out of the schema, as it stands there; None where all of it is
    at hand.

    A relative reference counts as one where the schema has no `$id` that it leads to.
    """
    identified: set[str] = set()
    referred: list[tuple[str, str]] = []
    for base, words in schemas(schema):
        identified.add(base)
        referred += [
            (base, words[word]) for word in _REFERENCES if isinstance(words.get(word), str)
        ]
    return next(
        (reference for base, reference in referred if not _is_at_hand(base, reference, identified)),
        None,
    )


def _is_at_hand(base: str, reference: str, identified: set[str]) -> bool:
    target = joined(base, reference)
    return target in identified or target.startswith(KNOWN)


def joined(base: str, reference: str) -> str:
    """The document that a reference means.

    A base that is a URN has no folder: only fragments are relative to it.
    """
    if reference.startswith("#"):
        return base
    try:
        return urldefrag(urljoin(base, reference))[0]
    except ValueError:  # "http://[" and its like
        return reference


def schemas(schema: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in it with the URI that its references are relative to; what stands under names
    of anybody's choice, too.
    """
    pending: list[tuple[str, object, bool]] = [("", schema, False)]
    while pending:
        base, here, by_name = pending.pop()
        if isinstance(here, list):
            pending += [(base, inner, False) for inner in reversed(cast("list[object]", here))]
        elif isinstance(here, dict):
            words = cast("dict[str, Any]", here)
            if not by_name:
                own = words.get("$id", words.get("id"))
                base = joined(base, own) if isinstance(own, str) else base
                yield base, words
            pending += [
                (base, inner, word in _BY_NAME and not by_name)
                for word, inner in reversed(words.items())
                if by_name or word not in _LITERAL
            ]
