"""Caller and result of a task tool. Entry points: `ToolUser`, `ToolResponse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.service.database.scope import Scope

Code: TypeAlias = Literal["not_found", "ambiguous", "invalid", "confirm", "failed"]


@dataclass(frozen=True, slots=True)
class Grant:
    """Confirmation by a person of one verb, for these tasks only."""

    verb: str
    items: frozenset[str]
    """Ids of tasks."""


@dataclass(frozen=True, slots=True)
class ToolUser:
    """Caller of a tool. The server binds it to every call; a model cannot change it."""

    scope: Scope
    conversation_id: str | None = None
    """Conversation whose next message confirms; None for a plain MCP client, which confirms by
    elicitation or with a code.
    """
    grant: Grant | None = None
    by_person: bool = False
    """True for an action of the person over HTTP, which is neither confirmed nor counted."""


class ToolError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: Code
    message: str
    options: tuple[str, ...] = ()
    """Titles to choose from, if the code is `ambiguous`."""
    confirm: str | None = None
    """Code for the second call of a plain MCP client, if the code is `confirm`."""


class ToolResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result of every task tool."""

    success: bool
    data: dict[str, Any] | None = None
    """Data for replies: `{"task": …}` or `{"tasks": […]}`, and facts such as changed fields, the
    search and counts.
    """
    error: ToolError | None = None
