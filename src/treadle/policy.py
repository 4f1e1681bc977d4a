"""Whether a call may run: a pure decision from the mode, the tool's effect and what the call would change.

Rules and the parsing of shell commands are no part of it; asking a person is the loop's business. Entry: `decide`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from treadle.tooling import Tool
from treadle.types import Mode


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Literal["allow", "ask", "deny"]
    reason: str = ""


ALLOW = Decision("allow")


def decide(mode: Mode, tool: Tool[Any], arguments: Any, cwd: Path) -> Decision:
    """Strictest first. `needs_approval` asks in every mode; plan allows pure tools only; ask asks for every other effect;
    accept-edits also allows what can only change files inside `cwd` (links resolved); full allows all.
    """
    if mode == "plan" and tool.effect != "pure":
        return Decision("deny", f"{tool.name} can change things, and this run only plans (mode plan): describe the change instead")
    if tool.needs_approval:
        return Decision("ask", f"{tool.name} asks for a person's approval in every mode")
    if mode == "full" or tool.effect == "pure":
        return ALLOW
    if mode == "accept-edits" and _stays_inside(tool, arguments, cwd):
        return ALLOW
    return Decision("ask", f"{tool.name} can change things, and mode {mode} asks before that")


def _stays_inside(tool: Tool[Any], arguments: Any, cwd: Path) -> bool:
    """Whether the call surely changes files in `cwd` only. What cannot be told, for whatever reason, is not sure."""
    try:
        written: object = tool.writes(arguments, cwd)
        if not isinstance(written, (list, tuple)) or not written:
            return False
        home = cwd.resolve()
        return all(_is_inside(path, home) for path in cast("Sequence[object]", written))
    except Exception:  # noqa: BLE001  a tool may be anybody's code, and a path anything
        return False


def _is_inside(path: object, home: Path) -> bool:
    if not isinstance(path, Path):
        return False
    real = Path(os.path.realpath(home / path))
    return real.is_relative_to(home) and not real.is_symlink()  # still a link: one that leads to itself


def headless_denial(decision: Decision) -> str:
    """What the model reads when there is nobody to ask."""
    return f"Not run: {decision.reason}. Nobody is here to approve it: go on without this call, or say what you would need."
