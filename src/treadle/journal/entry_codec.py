"""Decoding of stored entries, including content of newer versions. Entry point: `read_entry`.

The encoding is the struct's own (`Value.to_json`, entries.py). tables/upcasting.py first converts
entries of older schemas.
"""

from __future__ import annotations

from typing import cast, get_args

from treadle._internal.json_text import (
    JsonText,
    decode_json,
    encode_json,
    items,
    members,
    object_of,
)
from treadle.errors import AgentError
from treadle.journal.entries import SCHEMA, Entry, RunStarted
from treadle.messages.message import decode_message, decode_part
from treadle.types import is_temperature

_TYPES = {str(kind.__struct_config__.tag): kind for kind in get_args(Entry)}


_MESSAGES = ("input", "message")


def read_entry(data: bytes) -> Entry:
    """Decode an entry, the inverse of `to_json`; unknown content of a newer version inside a
    message is kept.

    Raises AgentError(invalid) if the bytes are not an entry, or its type is unknown or its major
    schema higher.
    """
    try:
        entry = decode_json(data, cast("type[Entry]", Entry))
    except (ValueError, AgentError):
        entry = _read_strange(data)
    if isinstance(entry, RunStarted):
        _check_schema(entry.schema)
    return entry


def _read_strange(data: bytes) -> Entry:
    """Decode an entry that contains values of a newer version: messages by their own rules,
    everything else by this version's.
    """
    try:
        fields = members(data.decode())
        _check_schema(decode_json(fields.get("schema", "1").encode(), int))
        tag = decode_json(fields.get("type", "null").encode(), str)
        if (kind := _TYPES.get(tag)) is None:
            raise AgentError(
                "invalid",
                f"an entry of type {tag!r} is unknown: if a newer Treadle wrote it, upgrade",
            )
        for name in fields.keys() & _MESSAGES:
            fields[name] = _readable(fields[name])
        if "messages" in fields:
            fields["messages"] = "[" + ",".join(map(_readable, items(fields["messages"]))) + "]"
        if "view" in fields:
            fields["view"] = _view(fields["view"])
        if "settings" in fields:
            fields["settings"] = _settings(fields["settings"])
        if "result" in fields:
            fields["result"] = encode_json(decode_part(fields["result"])).decode()
        known = {"type", *kind.__struct_encode_fields__}
        return decode_json(
            object_of({name: value for name, value in fields.items() if name in known}).encode(),
            kind,
        )
    except ValueError as e:
        raise AgentError("invalid", f"this entry cannot be read: {e}") from e


def _settings(stored: JsonText) -> JsonText:
    """Remove a temperature that no provider accepts: older versions accepted any number."""
    fields = members(stored)
    if not is_temperature(decode_json(fields.get("temperature", "0").encode(), object)):
        del fields["temperature"]
    return object_of(fields)


def _view(stored: JsonText) -> JsonText:
    """Read the messages among the parts of a view by their own rules."""
    if stored == "null":
        return stored
    fields = members(stored)
    parts = [
        _readable(part) if part.startswith("{") else part
        for part in items(fields.get("parts", "[]"))
    ]
    return object_of({**fields, "parts": f"[{','.join(parts)}]"})


def _readable(message: JsonText) -> JsonText:
    return encode_json(decode_message(message.encode())).decode()


def _check_schema(schema: int) -> None:
    if schema > SCHEMA:
        raise AgentError(
            "invalid",
            (
                f"this run was written by a newer Treadle (schema {schema}; this version reads "
                f"{SCHEMA}): upgrade to read it"
            ),
        )
