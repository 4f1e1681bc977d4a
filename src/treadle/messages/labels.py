"""Labels of a run: its tags and its metadata, as the caller states them, within bounds.

Entry points: `Metadata`, `checked_tags`, `checked_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError

Metadata: TypeAlias = dict[str, str | int | float | bool]
"""Facts about a run by name: texts, numbers, and true or false."""

TAGS_MOST = 32
TAG_CHARS_MOST = 128
METADATA_MOST = 64
NAME_CHARS_MOST = 128
METADATA_BYTES_MOST = 16 << 10
_INTEGER_MOST = 1 << 63


def checked_tags(tags: object) -> tuple[str, ...]:
    """Return the tags of a run, each once. Raises AgentError(invalid) for unsuitable ones."""
    if isinstance(tags, str) or not isinstance(tags, list | tuple | set | frozenset):
        raise AgentError("invalid", f"tags= takes a list of strings, not {type(tags).__name__}")
    found = tuple(dict.fromkeys(cast("list[object]", tags)))
    for tag in found:
        _check_name("a tag", tag, TAG_CHARS_MOST)
    if len(found) > TAGS_MOST:
        raise AgentError("invalid", f"tags= has {len(found)} tags: at most {TAGS_MOST} are allowed")
    return cast("tuple[str, ...]", found)


def checked_metadata(metadata: object) -> Metadata:
    """Return a copy of the metadata of a run. Raises AgentError(invalid) for unsuitable values."""
    if not isinstance(metadata, Mapping):
        raise AgentError("invalid", f"metadata= takes a dictionary, not {type(metadata).__name__}")
    found = {**cast("Mapping[object, object]", metadata)}
    for name, value in found.items():
        _check_name("a name in metadata=", name, NAME_CHARS_MOST)
        if not isinstance(value, str | int | float | bool):
            raise AgentError(
                "invalid",
                f"metadata[{name!r}] is {type(value).__name__}: use a string, number or boolean",
            )
        if not isinstance(value, str) and not -_INTEGER_MOST <= value < _INTEGER_MOST:
            raise AgentError(
                "invalid",
                f"metadata[{name!r}] is not a 64-bit number: use one, or a string",
            )
    size = len(encode_json(found))
    if len(found) > METADATA_MOST or size > METADATA_BYTES_MOST:
        raise AgentError(
            "invalid",
            f"metadata= has {len(found)} values in {size} bytes: at most {METADATA_MOST} values in "
            f"{METADATA_BYTES_MOST} bytes are allowed",
        )
    return cast("Metadata", found)


def _check_name(what: str, name: object, most: int) -> None:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.strip()) <= most:
        raise AgentError("invalid", f"{what} is {name!r:.80}: use 1 to {most} printable characters")
