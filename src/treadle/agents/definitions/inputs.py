"""Input values of agents: type checks, parsing of command-line text, and missing inputs.

`Agent` declares the inputs. Entry points: `typed`, `missing`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

from treadle.agents.templates import Input
from treadle.config.keys import shown
from treadle.errors import AgentError

InputType: TypeAlias = Literal["string", "integer", "number", "boolean", "array", "object"]

HOLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`$$`, or a variable in the instructions."""
_WORDS: dict[str, bool] = {"true": True, "false": False}


def misfit(kind: InputType, value: Any) -> str:
    """Return the reason why `value`, which is plain data, does not have the type; "" if it does."""
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return f"must be a string, not {shown(value)}: put it in quotes"
    if not _is(kind, value):
        return f"must be {_article(kind)}, not {shown(value)}"
    return ""


def _is(kind: InputType, value: object) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and math.isfinite(value)
            )
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)


def typed(name: str, text: str, declared: Input | None) -> Any:
    """Parse the user's text as a value of the declared type. An undeclared input stays text.

    Raises AgentError(invalid).
    """
    kind: InputType = declared.type if declared is not None else "string"
    if kind == "string":
        return text
    try:
        value: Any = (
            _WORDS.get(text.strip().lower())
            if kind == "boolean"
            else json.loads(text, parse_constant=_refused)
        )
    except (ValueError, RecursionError):
        value = None
    if value is None or not _is(kind, value):
        how = {
            "boolean": "true or false",
            "array": 'a JSON array, like ["a", "b"]',
            "object": 'a JSON object, like {"a": 1}',
        }.get(kind, _article(kind))
        raise AgentError("invalid", f"the input {name!r} must be {how}, not {shown(text)}")
    return value


def missing(inputs: Mapping[str, Input], instructions: object, given: Collection[str]) -> list[str]:
    """Return the required inputs that are not among `given`, in declaration order. A function
    of instructions needs none.
    """
    needed = [name for name, one in inputs.items() if one.required and one.default is None]
    if not inputs and isinstance(instructions, str):
        needed = [name for name in dict.fromkeys(HOLE.findall(instructions)) if name]
    return [name for name in needed if name not in given]


def _refused(word: str) -> None:
    raise ValueError(word)


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"
