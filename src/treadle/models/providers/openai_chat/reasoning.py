"""Reasoning in pieces that a gateway wants back as one list (`reasoning_details`), signatures and
encrypted ones included.

Plain reasoning text is stream.py's, and who wants the list back is servers.py's. Entry:
`ReasoningDetails`. Source: https://openrouter.ai/docs/use-cases/reasoning-tokens (2026-11): the
sequence goes back as it was, its pieces joined.
"""

from __future__ import annotations

from treadle.messages.message import JsonText
from treadle.models.providers.decoding import text_of, verbatim
from treadle.models.providers.encoding import Fields

_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The field of each kind that comes in pieces; any other kind comes whole."""


class ReasoningDetails:
    """Of one answer, in the order in which they came."""

    __slots__ = ("_all", "_pieces")

    def __init__(self) -> None:
        self._all: list[Fields] = []
        self._pieces: list[list[str]] = []
        """The text of each, as it came."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, details: list[Fields]) -> str:
        """What of it can be read."""
        told = list[str]()
        for detail in details:
            text = text_of(detail, _TEXTS.get(text_of(detail, "type"), ""))
            told.append(text)
            if self._goes_on(detail):
                self._all[-1] |= {
                    name: raw for name, raw in detail.items() if bytes(raw) != b"null"
                }
                self._pieces[-1].append(text)
            else:
                self._all.append(dict(detail))
                self._pieces.append([text])
        return "".join(told)

    def _goes_on(self, detail: Fields) -> bool:
        if not self._all:
            return False
        last = self._all[-1]
        same = all(
            bytes(last.get(name, b"")) == bytes(detail.get(name, b"")) for name in ("type", "index")
        )
        return same and text_of(detail, "type") in _TEXTS

    def as_json(self) -> JsonText:
        """`{"reasoning_details": [...]}`."""
        whole = list[dict[str, object]]()
        for detail, pieces in zip(self._all, self._pieces, strict=True):
            name = _TEXTS.get(text_of(detail, "type"), "")
            whole.append({**detail, **({name: "".join(pieces)} if name in detail else {})})
        return verbatim({"reasoning_details": whole})
