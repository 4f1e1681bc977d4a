"""Conversion of a function's result into content for a model: text unchanged, images and PDFs as
media, everything else as JSON.

toolbox.py limits its length. Entry points: `to_output`, `to_text`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, cast

import msgspec

from treadle._internal.json_text import JsonText
from treadle.messages.message import MediaPart, TextPart
from treadle.messages.parts import media_type_of
from treadle.tools.tool import ToolContent, ToolDone, ToolFailed, ToolOutput


def to_output(value: object, nothing: str = "null") -> ToolOutput:
    """Convert a return value into tool output. `nothing` replaces None.

    Raises ToolFailed(happened=True) if the value cannot be converted: the function ran, only its
    result is lost.
    """
    if isinstance(value, Enum):
        value = cast("object", value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if value is None:
        return nothing
    if isinstance(value, ToolDone):
        return value
    if isinstance(value, (TextPart, MediaPart)):
        return (value,)
    if isinstance(value, (bytes, bytearray)):
        return _from_bytes(bytes(value))
    if isinstance(value, (list, tuple)) and (parts := _parts(cast("Sequence[object]", value))):
        return parts
    return _json(cast("object", value))


def final(done: ToolDone) -> tuple[ToolContent, JsonText]:
    """Return the result of a call that ends its run, for the model, and the output as JSON.

    Raises the errors of `to_output`.
    """
    output, value = to_output(done.value), _json(done.value)
    return final(output) if isinstance(output, ToolDone) else (output, value)


def to_text(value: object, nothing: str = "null") -> str:
    """Convert a return value into text. A value that cannot be converted yields the text of the
    error.
    """
    try:
        output = to_output(value.value if isinstance(value, ToolDone) else value, nothing)
    except ToolFailed as e:
        return e.message
    if isinstance(output, ToolDone):
        return to_text(output, nothing)
    return (
        output
        if isinstance(output, str)
        else "\n".join(p.text if isinstance(p, TextPart) else _named(p) for p in output)
    )


def _named(media: MediaPart) -> str:
    return f"[{media.name or 'media'}, {media.media_type}: not shown]"


def _parts(values: Sequence[object]) -> tuple[TextPart | MediaPart, ...] | None:
    """Return a list of parts and strings as parts. None if it has no part, or anything else."""
    if not any(isinstance(v, (TextPart, MediaPart)) for v in values):
        return None
    parts = tuple(
        TextPart(text=v) if isinstance(v, str) else v
        for v in values
        if isinstance(v, (str, TextPart, MediaPart))
    )
    return parts if len(parts) == len(values) else None


def _from_bytes(data: bytes) -> ToolContent:
    if media_type_of(data) is not None:
        return (MediaPart.from_bytes(data),)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolFailed(
            (
                f"The tool ran, but it returned {len(data)} bytes that are neither text nor an "
                "image or PDF."
            ),
            happened=True,
        )
    return text


def _json(value: object) -> str:
    try:
        try:
            return msgspec.json.encode(value, enc_hook=_encodable).decode()
        except (
            UnicodeEncodeError,
            OverflowError,
        ):  # lone surrogates, and integers of more than 64 bits
            to_builtins: Callable[..., object] = msgspec.to_builtins
            return json.dumps(
                to_builtins(value, enc_hook=_encodable, str_keys=True), separators=(",", ":")
            )
    except Exception as e:
        can = "text, numbers, lists, dictionaries, dataclasses and pydantic models can"
        raise ToolFailed(
            (
                f"The tool ran, but it returned a {type(value).__name__} that cannot be written as "
                f"JSON ({e}): {can}."
            ),
            happened=True,
        ) from e


def _encodable(value: Any) -> object:
    """Encode types that msgspec does not know: pydantic models, mappings, paths, and subtypes of
    str, int and float (such as numpy's).
    """
    kind = cast("type[object]", type(value))
    if hasattr(kind, "__pydantic_serializer__") and hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no JSON form")
