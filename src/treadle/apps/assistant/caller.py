"""On whose behalf a task tool is called, and what it answers. Entry: `ToolUser`, `ToolResponse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.service.database.scope import Scope

Code: TypeAlias = Literal["not_found", "ambiguous", "invalid", "confirm", "failed"]


@dataclass(frozen=True, slots=True)
class Grant:
    """A person's yes: to this verb, over these tasks, and nothing else."""

    verb: str
    items: frozenset[str]
    """Ids of tasks."""


@dataclass(frozen=True, slots=True)
class ToolUser:
    """Bound by the server to every call; nothing that a model says can change it."""

    scope: Scope
    conversation_id: str | None = None
    """Where a person answers by their own next message; None: a plain MCP client, which confirms by
    elicitation or a code.
    """
    grant: Grant | None = None
    by_person: bool = False
    """The person's own act, over HTTP: neither asked about nor counted."""


class ToolError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: Code
    message: str
    options: tuple[str, ...] = ()
    """Of `ambiguous`: titles."""
    confirm: str | None = None
    """Of `confirm`, for a plain MCP client: what the second call gives."""


class ToolResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The result of every task tool."""

    success: bool
    data: dict[str, Any] | None = None
    """`{"task": …}`, `{"tasks": […]}` and what replies need beside: which fields changed, what was
    searched for, how many there were.
    """
    error: ToolError | None = None
