"""Declared inputs of an agent, and the variables in its texts.

Entry points: `Input`, `check_inputs`, `values_of`, `expand`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.messages.message import Message, TextPart

VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}


@dataclass(frozen=True, kw_only=True)
class Input:
    """A declared input of an agent. Its value fills `${name}` in instructions and initial messages.

    Attributes:
        type: JSON Schema type of the value.
        required: True to reject a run without a value, unless there is a default.
        default: Value for runs that do not pass one.
        description: Meaning of the input, shown in lists and to models.
    """

    type: Literal["string", "integer", "number", "boolean", "array", "object"] = "string"
    required: bool = True
    default: Any = None
    description: str = ""


def check_inputs(
    agent: str, inputs: Mapping[str, Input], variables: Collection[str], *, reads_all: bool = False
) -> None:
    """Check an agent's declared inputs against the `variables` in its texts. `reads_all`: functions
    of the agent may read any input.

    Raises AgentError(invalid).
    """
    for name, declared in inputs.items():
        if declared.type not in PYTHON_TYPES:
            raise AgentError(
                "invalid",
                (
                    f"agent {agent!r}: the input {name!r} has the type {declared.type!r}; "
                    f"use one of: {', '.join(PYTHON_TYPES)}"
                ),
            )
        if declared.default is not None:
            _check_type(agent, name, declared, declared.default)
    if inputs and (unknown := sorted(set(variables) - set(inputs))):
        raise AgentError(
            "invalid",
            (
                f"agent {agent!r} uses ${{{unknown[0]}}}, which is not among its declared "
                f"inputs ({', '.join(inputs)})"
            ),
        )
    if not reads_all:
        _refuse_unused(agent, set(inputs), variables)


def values_of(
    agent: str,
    inputs: Mapping[str, Input],
    variables: Collection[str],
    given: Mapping[str, Any],
    *,
    reads_all: bool = False,
) -> dict[str, Any]:
    """Return the inputs of a run with defaults filled in. `reads_all`: as for `check_inputs`.

    Raises AgentError(invalid) if an input is missing, unknown or of the wrong type.
    """
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  it may be anything
        raise AgentError(
            "invalid",
            (
                f"agent {agent!r}: inputs= is a {type(given).__name__}: pass values by "
                "name, like inputs={'who': 'Ada'}"
            ),
        )
    values = {**given}
    for name, declared in inputs.items():
        if name in values:
            _check_type(agent, name, declared, values[name])
        elif not declared.required or declared.default is not None:
            values[name] = "" if declared.default is None else declared.default
    if inputs and (unknown := sorted(set(given) - set(inputs))):
        raise AgentError(
            "invalid",
            f"agent {agent!r} has no input {unknown[0]!r}; it has: {', '.join(inputs)}",
        )
    if not reads_all:
        _refuse_unused(agent, set(given) - set(inputs), variables)
    required = {name for name, declared in inputs.items() if declared.required}
    if missing := sorted(required.union(variables) - set(values)):
        raise AgentError(
            "invalid",
            f"agent {agent!r} needs the input(s) {', '.join(missing)}: pass "
            f"inputs={{{missing[0]!r}: ...}}, or write $${{{missing[0]}}} to keep it as text",
        )
    for name, value in values.items():
        _check_json(agent, name, value)
    return values


def _refuse_unused(agent: str, names: set[str], variables: Collection[str]) -> None:
    if unused := sorted(names.difference(variables)):
        why = f"its instructions, context and messages do not contain ${{{unused[0]}}}"
        raise AgentError(
            "invalid",
            (
                f"agent {agent!r} does not use the input {unused[0]!r}: {why}. Write it there, or "
                "leave the input out"
            ),
        )


def _check_type(agent: str, name: str, declared: Input, value: object) -> None:
    wrong_bool = isinstance(value, bool) and declared.type in ("integer", "number")
    if not isinstance(value, PYTHON_TYPES[declared.type]) or wrong_bool:
        article = "an" if declared.type[0] in "aio" else "a"
        raise AgentError(
            "invalid",
            (
                f"agent {agent!r}: the input {name!r} must be {article} {declared.type}, "
                f"not {value!r}"
            ),
        )


def _check_json(agent: str, name: str, value: object) -> None:
    try:
        encode_json(value)
    except (TypeError, ValueError, RecursionError) as e:
        raise AgentError(
            "invalid",
            f"agent {agent!r}: the input {name!r} cannot be encoded as JSON: {e}",
        ) from e


def expand(template: str, values: Mapping[str, Any]) -> str:
    """Replace `${name}` with its value and `$$` with `$`. Values are not expanded again."""
    return VARIABLE.sub(lambda hole: "$" if hole[1] is None else str(values[hole[1]]), template)


def expand_message(message: Message, values: Mapping[str, Any]) -> Message:
    return message.with_parts(
        [
            msgspec.structs.replace(p, text=expand(p.text, values))
            if isinstance(p, TextPart)
            else p
            for p in message.parts
        ]
    )
