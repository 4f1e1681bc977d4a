"""Caller and result of a task tool. Entry points: `ToolUser`, `ToolResponse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.service.database.scope import Scope

Code: TypeAlias = Literal["not_found", "ambiguous", "invalid", "confirm", "failed"]


@dataclass(frozen=True, slots=True)
class Grant:
    """A person's confirmation of this verb for these tasks only."""

    verb: str
    items: frozenset[str]
    """Ids of tasks."""


@dataclass(frozen=True, slots=True)
class ToolUser:
    """Caller of a tool. The server binds it to every call; a model cannot change it."""

    scope: Scope
    conversation_id: str | None = None
    """Conversation in which the person confirms by their next message. None: a plain MCP client,
    which confirms by elicitation or a code.
    """
    grant: Grant | None = None
    by_person: bool = False
    """True for the person's own action over HTTP, which is neither confirmed nor counted."""


class ToolError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: Code
    message: str
    options: tuple[str, ...] = ()
    """Titles to choose from, for `ambiguous`."""
    confirm: str | None = None
    """Code for the second call of a plain MCP client, for `confirm`."""


class ToolResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result of every task tool."""

    success: bool
    data: dict[str, Any] | None = None
    """`{"task": …}`, `{"tasks": […]}` and further facts for replies: changed fields, the search,
    counts.
    """
    error: ToolError | None = None
