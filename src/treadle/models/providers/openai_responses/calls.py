"""Tool calls of a streamed response. Arguments are emitted as they arrive, once the call has a
name.

items.py handles other items. Entry points: `CallItem`, `CustomCall`.
"""

from __future__ import annotations

import json

import msgspec
from typing_extensions import override

from treadle.models.model import ArgumentsDelta, Delta, PartEnd, ToolCallStart
from treadle.models.providers.decoding import text_of, verbatim
from treadle.models.providers.encoding import Fields
from treadle.models.providers.openai_responses.events import ArgumentsPiece, InputPiece, ItemDelta
from treadle.models.providers.openai_responses.item import (
    NULL,
    PLAIN_END,
    PROVIDER,
    OutputItem,
    present,
    same,
)

CUSTOM = "custom_tool_call"
PATCH = "apply_patch_call"
PATCH_TOOL = "apply_patch"


class CallItem(OutputItem):
    __slots__ = ("_begun", "_call_id", "_name", "_pieces")

    def __init__(self, fields: Fields, index: int | None, deltas: list[Delta]) -> None:
        super().__init__(fields, index)
        self._pieces: list[str] = []
        self._begun = False
        self._begin(fields, deltas)

    def _begin(self, fields: Fields, deltas: list[Delta]) -> None:
        """Begin the call when it has a name."""
        self._call_id, self._name = text_of(fields, "call_id"), self._named(fields)
        if self._name:
            self._begun = True
            deltas.append(ToolCallStart(self._call_id, self._name))
            deltas += [ArgumentsDelta(text) for text in self._pieces]

    @property
    @override
    def is_call(self) -> bool:
        return True

    @override
    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        if isinstance(piece, ArgumentsPiece):
            self._add(piece.delta, deltas)

    def _add(self, text: str, deltas: list[Delta]) -> None:
        self._pieces.append(text)
        if self._begun:
            deltas.append(ArgumentsDelta(text))

    @override
    def close(self, deltas: list[Delta]) -> None:
        if not self.closed:
            self.closed = True
            if self._begun:
                deltas.append(PLAIN_END)

    @override
    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        self.settled = True
        whole, extra = self._whole(fields), self._extra(fields)
        if self.closed:
            named_alike = (text_of(fields, "call_id"), self._named(fields)) == (
                self._call_id,
                self._name,
            )
            return named_alike and not extra and same("".join(self._pieces), whole)
        if not self._begun:
            self._begin({"name": msgspec.Raw(b'""'), **fields}, deltas)
        fits = self._begun and self._named(fields) == self._name
        said = "".join(self._pieces)
        if whole.startswith(said) and (missing := whole[len(said) :]):
            self._add(missing, deltas)
        self.closed = True
        if self._begun:
            deltas.append(PartEnd(PROVIDER, verbatim(extra)) if extra else PLAIN_END)
        return fits and (whole.startswith(said) or same(said, whole))

    def _named(self, fields: Fields) -> str:
        return text_of(fields, "name")

    def _whole(self, fields: Fields) -> str:
        """Return the arguments, which some servers send as an object."""
        raw = bytes(fields.get("arguments", b'""'))
        return (
            text_of(fields, "arguments")
            if raw.startswith(b'"')
            else ""
            if raw == NULL
            else raw.decode("utf-8", "replace")
        )

    def _extra(self, fields: Fields) -> dict[str, object]:
        return {**present(fields, "type", "id", "call_id", "name", "arguments", "status")}


class CustomCall(CallItem):
    """Call of a tool that takes arbitrary text. The text becomes the argument `input`, so that a
    tool of ours can handle it.
    """

    __slots__ = ()

    @override
    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        if isinstance(piece, InputPiece):
            self._add(
                ('{"input":"' if not self._pieces else "")
                + json.dumps(piece.delta, ensure_ascii=False)[1:-1],
                deltas,
            )

    @override
    def _whole(self, fields: Fields) -> str:
        return f'{{"input":{json.dumps(text_of(fields, "input"), ensure_ascii=False)}}}'

    @override
    def _extra(self, fields: Fields) -> dict[str, object]:
        return {
            "type": CUSTOM,
            **present(fields, "type", "id", "call_id", "name", "input", "status"),
        }


class PatchCall(CallItem):
    """Call of the API's built-in `apply_patch`. Its operation on one file becomes the argument
    `operation`, so that a tool of ours can handle it.

    Source: developers.openai.com, "Apply patch", and the types of SDK 3.52; read 2026-11-26.
    """

    __slots__ = ()

    @override
    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        """Ignore fragments: the end of the item holds the whole operation."""

    @override
    def _named(self, fields: Fields) -> str:
        return PATCH_TOOL

    @override
    def _whole(self, fields: Fields) -> str:
        return f'{{"operation":{bytes(fields.get("operation", NULL)).decode("utf-8", "replace")}}}'

    @override
    def _extra(self, fields: Fields) -> dict[str, object]:
        return {"type": PATCH, **present(fields, "type", "id", "call_id", "operation", "status")}
