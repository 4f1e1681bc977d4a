"""The choices of an approval prompt. Entry points: `choices_of`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from treadle._internal.terminal_text import revealed_line
from treadle.tools.approval import ApprovalRequest

Scope: TypeAlias = Literal["once", "edits", "session", "always", "no"]


@dataclass(frozen=True, slots=True)
class Choice:
    key: str
    """Key of the choice, the same whatever else is offered."""
    words: str
    scope: Scope
    pattern: str = ""
    """Text of the rule that it grants."""
    asks_why: bool = False


NO: Final = Choice("n", "No", "no")


def choices_of(request: ApprovalRequest) -> list[Choice]:
    wider: list[Choice] = []
    if request.is_edit:
        wider.append(Choice("e", "Yes, and accept edits from now on (Shift-Tab)", "edits"))
    if request.pattern:
        words = ", ".join(map(revealed_line, request.pattern))
        wider += [
            Choice("s", "Yes, and for this session:", "session", words),
            Choice("a", "Yes, and always:", "always", words),
        ]
    return [
        Choice("y", "Yes, this once", "once"),
        *wider,
        NO,
        Choice("w", "No, and say why", "no", asks_why=True),
    ]
