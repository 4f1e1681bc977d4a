"""Schemas of the eight tools, and validation of their arguments.

The implementation is in acts.py. Entry points: `TOOLS`, `ToolSchema`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from treadle._internal.json_text import JsonText, parse_json
from treadle.apps.assistant.fields import DESCRIPTION_CHARS, PRIORITIES, TITLE_CHARS, WORDS_CHARS
from treadle.apps.assistant.user_names import names_user
from treadle.models.model import ToolDefinition
from treadle.tools.schemas.checked import CheckedSchema
from treadle.tools.schemas.problems import told
from treadle.tools.tool import InvalidArguments
from treadle.types import Effect

logger: Final = logging.getLogger("treadle")

_TITLE: Final = {"type": "string", "minLength": 1, "maxLength": TITLE_CHARS}
_DESCRIPTION: Final = {"type": "string", "maxLength": DESCRIPTION_CHARS}
_PRIORITY: Final = {"type": "string", "enum": list(PRIORITIES)}
_DATE: Final = {"type": "string", "description": "A date, YYYY-MM-DD."}
_TASK: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": WORDS_CHARS,
    "description": "The task's id, or words of its title.",
}
_CONFIRM: Final = {
    "type": "string",
    "maxLength": 100,
    "description": "The code from the first call, once the person has confirmed. Never invent one.",
}
_SEARCH: Final = {
    "type": "string",
    "maxLength": WORDS_CHARS,
    "description": (
        "Words of title or description; or due:YYYY-MM-DD, due:YYYY-MM-DD..YYYY-MM-DD, due:none, "
        "overdue."
    ),
}

_DEEPEST: Final = 32


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """Name, description and arguments of a tool."""

    definition: ToolDefinition
    effect: Effect
    destructive: bool
    checked: CheckedSchema = field(compare=False)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def takes_confirm(self) -> bool:
        return "confirm" in self.checked.schema["properties"]

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        """Parse JSON text and `check` it."""
        try:
            value = parse_json(arguments_json.strip() or "{}")
        except (ValueError, RecursionError) as e:
            raise InvalidArguments(
                f"The arguments of {self.name} are not valid JSON. {self._right}"
            ) from e
        return self.check(value)

    def check(self, value: object) -> dict[str, Any]:
        """Validate arguments and return a new dict. Harmless mistakes of models are corrected;
        arguments that name a user are rejected.

        Raises InvalidArguments with the error and a valid form.
        """
        if _names_user(value):
            logger.warning(
                "security: refused a call of %s that named a user in its arguments",
                self.name,
                extra={"security": "user_named", "tool": self.name},
            )
            raise InvalidArguments(
                f"{self.name} always acts on the tasks of the signed-in person, and takes no "
                f"user. {self._right}"
            )
        if not _is_text(value):
            raise InvalidArguments(
                f"The arguments of {self.name} contain a lone surrogate (such as \\ud83d), which "
                "is not valid text."
            )
        if isinstance(value, dict):
            value = self._mended(cast("dict[str, object]", value))
        if self.checked.fits(value, 0):  # one of our schemas, which takes no time to check
            return cast("dict[str, Any]", value)
        lines = told(self.checked.problems(value, "argument"), "the arguments", 1000)
        raise InvalidArguments(
            "\n".join([f"Wrong arguments for {self.name}:", *lines, self._right])
        )

    @property
    def _right(self) -> str:
        names = ", ".join(
            f"{name} (required)" if name in self.checked.schema["required"] else name
            for name in self.checked.schema["properties"]
        )
        return f"It takes: {names}." if names else "It takes no arguments."

    def _mended(self, value: Mapping[str, object]) -> dict[str, object]:
        """Correct harmless mistakes: null for an omitted value, `high` for `High`, and an invalid
        `confirm`, which is dropped.
        """
        fields = cast("Mapping[str, Mapping[str, Any]]", self.checked.schema["properties"])
        mended: dict[str, object] = {}
        for name, given in value.items():
            wanted = fields.get(name, {})
            if name in fields and (
                (given is None and "null" not in wanted["type"])
                or (name == "confirm" and isinstance(given, bool))
            ):
                continue
            mended[name] = (
                _in_its_case(given, wanted["enum"])
                if isinstance(given, str) and "enum" in wanted
                else given
            )
        return mended


def _in_its_case(given: str, choices: list[str]) -> str:
    return next(
        (choice for choice in choices if choice.casefold() == given.strip().casefold()), given
    )


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _names_user(value: object, depth: int = 0) -> bool:
    """Return True if a key at any depth names a user."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return any(
            names_user(name) or _names_user(inner, depth + 1) for name, inner in fields.items()
        )
    return isinstance(value, list) and any(
        _names_user(inner, depth + 1) for inner in cast("list[object]", value)
    )


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, object],
    *,
    required: tuple[str, ...] = (),
    **more: Any,
) -> ToolSchema:
    parameters: dict[str, object] = {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
    definition = ToolDefinition(name=name, description=description, parameters=parameters)
    checked = CheckedSchema(parameters, f"{name} has", name)
    return ToolSchema(
        definition, more.get("effect", "idempotent"), more.get("destructive", False), checked
    )


TOOLS: Final[Mapping[str, ToolSchema]] = {
    tool.name: tool
    for tool in (
        _tool(
            "add_task",
            "Adds a task to the person's list.",
            {"title": _TITLE, "description": _DESCRIPTION, "priority": _PRIORITY, "due": _DATE},
            required=("title",),
        ),
        _tool(
            "list_tasks",
            "Lists the person's tasks: all of them, or those that match.",
            {
                "status": {"type": "string", "enum": ["all", "open", "completed"]},
                "priority": _PRIORITY,
                "search": _SEARCH,
            },
            effect="pure",
        ),
        _tool("complete_task", "Marks one task as complete.", {"task": _TASK}, required=("task",)),
        _tool(
            "update_task",
            (
                "Changes title, description, priority or due date of one task. Null clears a "
                "description or a due date."
            ),
            {
                "task": _TASK,
                "title": _TITLE,
                "description": {**_DESCRIPTION, "type": ["string", "null"]},
                "priority": _PRIORITY,
                "due": {**_DATE, "type": ["string", "null"]},
            },
            required=("task",),
            destructive=True,
        ),
        _tool(
            "delete_task",
            "Deletes one task. The person is asked first.",
            {"task": _TASK, "confirm": _CONFIRM},
            required=("task",),
            destructive=True,
        ),
        _tool(
            "complete_all",
            "Marks all open tasks as complete. The person is asked first.",
            {"confirm": _CONFIRM},
            destructive=True,
        ),
        _tool(
            "delete_completed",
            "Deletes all completed tasks. The person is asked first.",
            {"confirm": _CONFIRM},
            destructive=True,
        ),
        _tool(
            "undo",
            "Undoes the last change of the person's tasks that is not undone yet.",
            {},
            destructive=True,
        ),
    )
}
"""Tool schemas by name, in listing order."""
