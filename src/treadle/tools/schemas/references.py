"""References of a JSON Schema to other schemas: a remote schema is never fetched, so a schema that
needs one is rejected.

jsonschema-rs follows references, offline. Entry points: `remote_reference`, `schemas`, `joined`,
`TooMuch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urldefrag, urljoin

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_LITERAL: Final = frozenset({"enum", "const", "default", "examples"})
KNOWN: Final = ("http://json-schema.org/", "https://json-schema.org/")
"""Prefixes of the meta-schemas, which jsonschema-rs contains."""
_SURE: Final = frozenset(
    {
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems", "contains",
        "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames",
        "properties", "patternProperties", "$defs", "dependentSchemas",
    }
)  # fmt: skip
"""Keywords that contain schemas in the same places in every draft since 2019-09."""
_NEW_DRAFTS: Final = "https://json-schema.org/draft/20"
"""Drafts since 2019-09, in which `$id` counts everywhere and `id` nowhere."""
ADDRESS_CHARS_MOST: Final = 4_000
"""Maximum length of an id or a reference. Limited because each is joined with each."""
BASES_MOST: Final = 32
"""Maximum number of URIs that the references of one part may be relative to."""
_READINGS_MOST: Final = 50_000
"""Maximum number of further URIs for the references of all parts."""


class TooMuch(ValueError):
    """Raised for a schema, or a check by one, beyond a limit."""


def remote_reference(schema: object) -> str | None:
    """Return the first reference that leads out of the schema, as written; None if there is none.

    A relative reference leads out if no `$id` of the schema matches it. Raises TooMuch as `schemas`
    does.
    """
    identified: set[str] = set()
    referred: list[tuple[Sequence[str], str]] = []
    for bases, words in schemas(schema):
        identified.update(bases)
        referred += [
            (bases, words[word]) for word in _REFERENCES if isinstance(words.get(word), str)
        ]
    return next(
        (
            reference
            for bases, reference in referred
            if not _is_at_hand(bases, reference, identified)
        ),
        None,
    )


def _is_at_hand(bases: Sequence[str], reference: str, identified: set[str]) -> bool:
    targets = {joined(base, reference) for base in bases}
    return not identified.isdisjoint(targets) or any(t.startswith(KNOWN) for t in targets)


def joined(base: str, reference: str) -> str:
    """Return the URI of the document to which a reference leads.

    Only fragments can be relative to a URN. Raises TooMuch for an address beyond its limit.
    """
    if reference.startswith("#"):
        return base
    if len(base) + len(reference) > ADDRESS_CHARS_MOST:
        raise TooMuch(f"it has an id or a reference of more than {ADDRESS_CHARS_MOST:,} characters")
    try:
        return urldefrag(urljoin(base, reference))[0]
    except ValueError:  # such as "http://["
        return reference


def schemas(
    schema: object, *, in_literals: bool = False
) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield every part of a schema with the possible base URIs of its references, most likely
    first. Includes values of unknown keywords and, with `in_literals`, literal values, because a
    pointer may lead to either.

    Drafts before 2019-09 differ in whether `id` or `$id` counts, and next to which keywords; below
    unknown keywords it depends on the path. There, every interpretation is followed, so that
    jsonschema-rs never reads a larger schema than this function. Raises TooMuch for too many
    interpretations, or an address beyond its limit.
    """
    further, is_new = 0, _names_new_drafts_only(schema)
    pending: list[tuple[tuple[str, ...], object, bool, bool]] = [(("",), schema, False, is_new)]
    while pending:
        bases, here, by_name, is_sure = pending.pop()
        if isinstance(here, list):
            pending += [
                (bases, inner, False, is_sure) for inner in reversed(cast("list[object]", here))
            ]
        elif isinstance(here, dict):
            words = cast("dict[str, Any]", here)
            if not by_name:
                bases = _bases(bases, words, is_sure=is_sure)
                further += len(bases) - 1
                if further > _READINGS_MOST:
                    raise TooMuch("its ids can be read in too many ways")
                yield bases, words
            pending += [
                (
                    bases,
                    inner,
                    word in _BY_NAME and not by_name,
                    is_sure and (by_name or word in _SURE),
                )
                for word, inner in reversed(words.items())
                if by_name or in_literals or word not in _LITERAL
            ]


def _bases(
    outer: tuple[str, ...], words: Mapping[str, object], *, is_sure: bool
) -> tuple[str, ...]:
    own = [
        name
        for word in (("$id",) if is_sure else ("$id", "id"))
        if isinstance(name := words.get(word), str)
    ]
    if not own:
        return outer
    inner = [joined(base, name) for name in own for base in outer]
    found = tuple(dict.fromkeys(inner if is_sure else [*inner, *outer]))
    if len(found) > BASES_MOST:
        raise TooMuch(f"an id in it can be read in more than {BASES_MOST} ways")
    return found


def _names_new_drafts_only(schema: object) -> bool:
    pending = [schema]
    while pending:
        here = pending.pop()
        if isinstance(here, list):
            pending += cast("list[object]", here)
        elif isinstance(here, dict):
            words = cast("dict[str, object]", here)
            draft = words.get("$schema", _NEW_DRAFTS)
            if not (isinstance(draft, str) and draft.startswith(_NEW_DRAFTS)):
                return False
            pending += words.values()
    return True
