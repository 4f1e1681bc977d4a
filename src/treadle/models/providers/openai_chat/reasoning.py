"""Reasoning fragments that a gateway needs back as one list (`reasoning_details`), including
signatures and encrypted ones.

stream.py handles plain reasoning text, servers.py lists the servers. Entry points:
`ReasoningDetails`. Source: https://openrouter.ai/docs/use-cases/reasoning-tokens (2026-11): the
sequence is returned unchanged, with fragments joined.
"""

from __future__ import annotations

from treadle.messages.message import JsonText
from treadle.models.providers.decoding import text_of, verbatim
from treadle.models.providers.encoding import Fields

_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Text field of each kind that arrives in fragments. Other kinds arrive complete."""


class ReasoningDetails:
    """Reasoning details of one response, in order of arrival."""

    __slots__ = ("_all", "_pieces")

    def __init__(self) -> None:
        self._all: list[Fields] = []
        self._pieces: list[list[str]] = []
        """Text fragments of each detail."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, details: list[Fields]) -> str:
        """Add details and return their readable text."""
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
        """Return `{"reasoning_details": [...]}`."""
        whole = list[dict[str, object]]()
        for detail, pieces in zip(self._all, self._pieces, strict=True):
            name = _TEXTS.get(text_of(detail, "type"), "")
            whole.append({**detail, **({name: "".join(pieces)} if name in detail else {})})
        return verbatim({"reasoning_details": whole})
