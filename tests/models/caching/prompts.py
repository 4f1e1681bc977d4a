"""What of a request a provider's cache sees: its blocks in the order in which the model reads them,
each byte for byte.

The rest of a body is settings, which are no text of the prompt. None of our code is used here.
Entry: `prompt_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import msgspec

Fields: TypeAlias = dict[str, msgspec.Raw]

_fields = msgspec.json.Decoder(Fields)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_NONE = msgspec.Raw(b"[]")


@dataclass(frozen=True)
class Block:
    data: bytes
    breakpoint: bool = False
    """Whether a cached prefix may end here, where the provider wants to be told."""
    lives_s: float = 300
    """How long that is kept after its last use."""


@dataclass(frozen=True)
class Prompt:
    blocks: tuple[Block, ...]
    messages_at: int
    """The first of them that belongs to a message."""
    settings: dict[str, bytes]
    """All other fields of the body."""


def prompt_of(wire: str, body: bytes) -> Prompt:
    fields = _fields.decode(body)
    before, messages = _BLOCKS[wire]
    first = tuple(before(fields))
    settings = {name: bytes(value) for name, value in fields.items() if name not in _PROMPT}
    return Prompt((*first, *messages(fields)), len(first), settings)


def _before_claude(fields: Fields) -> Iterator[Block]:
    return (_unmarked(raw) for name in ("tools", "system") for raw in _listed(fields, name))


def _to_claude(fields: Fields) -> Iterator[Block]:
    """The blocks of each message; breakpoints are said about the text, and are not part of it."""
    for message in _listed(fields, "messages"):
        parts = _fields.decode(message)
        role = bytes(parts["role"])
        for block in map(_unmarked, _items.decode(parts["content"])):
            yield Block(role + block.data, block.breakpoint, block.lives_s)


def _unmarked(raw: msgspec.Raw) -> Block:
    fields = _fields.decode(raw)
    mark = bytes(fields.pop("cache_control", b""))
    data = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items())
    return Block(data, bool(mark), 3600 if b'"1h"' in mark else 300)


def _before_responses(fields: Fields) -> Iterator[Block]:
    yield from _whole(fields, "tools")
    if "instructions" in fields:
        yield Block(bytes(fields["instructions"]))


def _to_chat(fields: Fields) -> Iterator[Block]:
    """Each message; in parts where its content comes in parts, which may bear breakpoints as
    Claude's do.
    """
    for message in _listed(fields, "messages"):
        rest = _fields.decode(message)
        if bytes(rest.get("content", _NONE)).startswith(b"[{"):
            yield from map(_unmarked, _items.decode(rest.pop("content")))
        yield Block(b"".join(rest.values()))


def _before_gemini(fields: Fields) -> Iterator[Block]:
    if "systemInstruction" in fields:
        yield Block(bytes(fields["systemInstruction"]))
    yield from _whole(fields, "tools")


def _to_gemini(fields: Fields) -> Iterator[Block]:
    for content in _listed(fields, "contents"):
        parts = _fields.decode(content)
        for part in _listed(parts, "parts"):
            yield Block(bytes(parts["role"]) + bytes(part))


def _whole(fields: Fields, name: str) -> Iterator[Block]:
    return (Block(bytes(piece)) for piece in _listed(fields, name))


def _listed(fields: Fields, name: str) -> list[msgspec.Raw]:
    return _items.decode(fields.get(name, _NONE))


_BLOCKS: dict[
    str, tuple[Callable[[Fields], Iterator[Block]], Callable[[Fields], Iterator[Block]]]
] = {
    "anthropic": (_before_claude, _to_claude),
    "openai": (_before_responses, partial(_whole, name="input")),
    "openai-chat": (partial(_whole, name="tools"), _to_chat),
    "gemini": (_before_gemini, _to_gemini),
}
_PROMPT = {"tools", "system", "instructions", "systemInstruction", "messages", "input", "contents"}
