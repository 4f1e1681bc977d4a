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
            "description": "Its purpose, in one sentence. Other agents and MCP clients read it.",
        },
        "model": {
            "type": ["string", "null"],
            "pattern": r"^(large|small|[^:\s]+:.+)$",
            "description": (
                "provider:id, or large or small for the configured models. Default: large."
            ),
            "examples": ["small", "anthropic:claude-opus-5-5"],
        },
        "tools": {
            "type": ["array", "null"],
            "items": {"type": "string", "pattern": r"\S"},
            "uniqueItems": True,
            "description": "Names of coding tools, tools of configured modules, other agents, "
            "tools of MCP servers (SERVER_TOOL, SERVER_*), "
            "or complete. `treadle tools list` shows them. Default: none.",
            "examples": [["read", "grep", "glob", "ls"]],
        },
        "handoffs": _handoffs(),
        "limits": _limits(),
        "output": {
            "type": ["object", "null"],
            "properties": {"type": {"const": "object"}},
            "required": ["type"],
            "description": "JSON Schema of an object, which the output of the agent matches.",
        },
        "inputs": {
            "type": ["object", "null"],
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": _input(),
            "description": (
                "Declarations of the variables ${name} in the instructions. If there are any, "
                "every variable must be declared."
            ),
        },
        "instructions": {
            "type": ["string", "null"],
            "pattern": r"\S",
            "description": "The system prompt. ${name} is an input, $$ a dollar sign.",
        },
    }


def _handoffs() -> dict[str, Any]:
    return {
        "type": ["array", "null"],
        "items": {"type": "string", "pattern": r"\S"},
        "uniqueItems": True,
        "description": "Names of agents that can continue a run after this one. Default: none.",
        "examples": [["billing"]],
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
            "tool_calls": {**count, "description": "Tool calls."},
            "seconds": {**amount, "description": "Active time, in seconds."},
            "tokens": {**count, "description": "Tokens of the whole run, input and output."},
            "cost_usd": {
                **amount,
                "description": "US dollars for the whole run; the price of the model must be known.",  # noqa: E501
            },
            "repeats": {
                **count,
                "description": (
                    "Number of equal calls with equal results, without a change in between, after "
                    "which a run ends as looping. Default: 10."
                ),
            },
        },
        "additionalProperties": False,
        "description": (
            "Limits of its runs. A project's definition can only lower the configured limits."
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
