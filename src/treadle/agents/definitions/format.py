"""JSON Schema of agent definitions, for completion and checks in editors. keys.py does the
validation.

Entry points: `definition_schema`.
"""

from __future__ import annotations

from typing import Any

from treadle.agents.definitions.keys import INPUT_TYPES

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def definition_schema() -> dict[str, Any]:
    """Return the schema of `NAME.yaml`, or of the front matter, which has no `instructions`."""
    return {
        "$schema": DRAFT,
        "title": "Treadle agent",
        "description": (
            "An agent of Treadle: .treadle/agents/NAME.yaml, or the front matter of NAME.md, "
            "whose instructions follow it."
        ),
        "type": "object",
        "properties": _properties(),
        "required": ["description"],
        "additionalProperties": False,
    }


def _properties() -> dict[str, Any]:
    return {
        "description": {
            "type": "string",
            "pattern": r"\S",
            "description": "For what it is, in one sentence. Other agents and MCP clients read it.",
        },
        "model": {
            "type": ["string", "null"],
            "pattern": r"^(large|small|[^:\s]+:.+)$",
            "description": (
                "provider:id, or large or small for the configuration's own; without it the "
                "large one."
            ),
            "examples": ["small", "anthropic:claude-opus-5-5"],
        },
        "tools": {
            "type": ["array", "null"],
            "items": {"type": "string", "pattern": r"\S"},
            "uniqueItems": True,
            "description": "Names of coding tools, of tools of configured modules, of other agents, of "  # noqa: E501
            "tools of MCP servers (SERVER_TOOL, SERVER_*), "
            "or complete. `treadle tools list` shows them. Without it: none.",
            "examples": [["read", "grep", "glob", "ls"]],
        },
        "limits": _limits(),
        "output": {
            "type": ["object", "null"],
            "properties": {"type": {"const": "object"}},
            "required": ["type"],
            "description": "A JSON Schema of an object: its answers are JSON that fits it.",
        },
        "inputs": {
            "type": ["object", "null"],
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": _input(),
            "description": (
                "What ${name} in the instructions stands for. Where there are any, no other "
                "${name} may stand there."
            ),
        },
        "instructions": {
            "type": ["string", "null"],
            "pattern": r"\S",
            "description": "The system prompt. ${name} is an input, $$ a dollar.",
        },
    }


def _limits() -> dict[str, Any]:
    count, amount = (
        {"type": ["integer", "null"], "minimum": 1},
        {"type": ["number", "null"], "exclusiveMinimum": 0},
    )
    return {
        "type": ["object", "null"],
        "properties": {
            "turns": {**count, "description": "Responses of the model."},
            "tool_calls": {**count, "description": "Calls of tools."},
            "seconds": {**amount, "description": "Seconds."},
            "tokens": {**count, "description": "Tokens of the whole run, input and output."},
            "cost_usd": {
                **amount,
                "description": "US dollars for the whole run; the price of the model must be known.",  # noqa: E501
            },
            "repeats": {
                **count,
                "description": (
                    "Equal calls with equal results, nothing changed between them, after which a "
                    "run ends as looping; 10 if unset."
                ),
            },
        },
        "additionalProperties": False,
        "description": (
            "Where its runs stop. A project's definition can only lower what the configuration "
            "says."
        ),
    }


def _input() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "type": {"enum": list(INPUT_TYPES)},
            "required": {"type": "boolean", "default": True},
            "default": {"description": "Its value where none is given."},
            "description": {"type": "string"},
        },
        "required": ["type"],
        "additionalProperties": False,
    }
