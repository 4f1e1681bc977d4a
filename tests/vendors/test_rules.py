"""Each rule refuses what it is there to refuse; what stands in FINE breaks none."""

from __future__ import annotations

import base64
from copy import deepcopy
from struct import pack
from typing import Any

import pytest

from tests.vendors.rules import Asked, Json
from tests.vendors.server import RULES

OBJECT = {
    "type": "object",
    "properties": {"at": {"type": "string"}},
    "required": ["at"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"at": {"type": "string"}}}
ARRAY = {
    "type": "object",
    "properties": {"at": {"type": "array", "prefixItems": [{"type": "string"}]}},
}
LOOKS = {
    "type": "object",
    "properties": {"at": {"type": "string", "pattern": "(?=a)"}},
    "required": ["at"],
    "additionalProperties": False,
}
MODELS = {
    "anthropic": "claude-opus-5",
    "openai": "gpt-6-sol",
    "openai-chat": "gpt-5.2",
    "gemini": "gemini-3.8-flash",
    "openrouter": "anthropic/claude-opus-5.5",
}
ASK = [{"role": "user", "content": [{"type": "text", "text": "Go."}]}]
FINE: dict[str, Json] = {
    "anthropic": {
        "model": "claude-opus-5",
        "max_tokens": 100,
        "messages": ASK,
        "tools": [{"name": "look", "input_schema": OBJECT}],
    },
    "openai": {
        "store": False,
        "input": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "name": "look", "parameters": OBJECT}],
    },
    "openai-chat": {
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": OBJECT}}],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Go."}]}],
        "tools": [{"functionDeclarations": [{"name": "look"}]}],
        "generationConfig": {},
    },
    "openrouter": {
        "max_tokens": 2_000,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": OBJECT}}],
    },
}
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n" + pack(">I", 13) + b"IHDR" + pack(">II", 9000, 10)
).decode()


def shown(kind: str, data: str, count: int = 1) -> Json:
    block = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return {"messages": [{"role": "user", "content": [block] * count}]}


def thinks(signature: str) -> Json:
    blocks = [
        {"type": "thinking", "thinking": "", "signature": signature},
        {"type": "text", "text": "Yes."},
    ]
    return {"messages": [*ASK, {"role": "assistant", "content": blocks}, *ASK]}


def config(**fields: Any) -> Json:
    return {"generationConfig": fields}


def answer(schema: Json) -> Json:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def function(schema: Json, **more: Any) -> Json:
    return {"type": "function", "name": "look", "parameters": schema, **more}


REFUSED: list[tuple[str, str, str, Json]] = [
    (
        "anthropic",
        "shape_and_pairing",
        "",
        {"messages": [*ASK, {"role": "assistant", "content": [{"type": "text", "text": " "}]}]},
    ),
    ("anthropic", "thinking_form", "", {"thinking": {"type": "between_tools"}}),
    (
        "anthropic",
        "thinking_form",
        "claude-sonnet-5-5",
        {"thinking": {"type": "between_tools", "display": "summarized"}},
    ),
    (
        "anthropic",
        "thinking_form",
        "claude-opus-4-6",
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    ),
    ("anthropic", "effort_of_the_model", "claude-opus-4-5", {"output_config": {"effort": "max"}}),
    (
        "anthropic",
        "effort_of_the_model",
        "",
        {"output_config": {"effort": "max"}, "thinking": {"type": "disabled"}},
    ),
    ("anthropic", "no_sampling_settings", "", {"temperature": 0.5}),
    ("anthropic", "forced_tools", "claude-opus-5-5", {"tool_choice": {"type": "any"}}),
    ("anthropic", "forced_tools", "", {"tool_choice": {"type": "tool", "name": "other"}}),
    ("anthropic", "forced_tools", "", {"tool_choice": {"type": "auto"}, "tools": []}),
    ("anthropic", "output_tokens", "", {"max_tokens": 200_000}),
    (
        "anthropic",
        "later_system_messages",
        "claude-sonnet-5",
        {
            "messages": [
                *ASK,
                {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            ]
        },
    ),
    ("anthropic", "images", "", shown("image/tiff", "aaaa")),
    ("anthropic", "images", "", shown("image/jpeg", "a" * ((5 << 20) + 4))),
    ("anthropic", "images", "claude-haiku-4-5", shown("image/jpeg", "aaaa", 101)),
    ("anthropic", "images", "", shown("image/png", PNG)),
    ("anthropic", "schema_of_an_answer", "", answer(OPEN)),
    (
        "anthropic",
        "schema_of_an_answer",
        "",
        answer({**OBJECT, "properties": {"at": {"type": "string", "maxLength": 3}}}),
    ),
    (
        "anthropic",
        "tool_definitions",
        "",
        {"tools": [{"name": "look", "input_schema": {"anyOf": [OBJECT]}}]},
    ),
    ("anthropic", "preserved_thinking", "", thinks("another's")),
    ("anthropic", "request_for_a_summary", "", {"compaction": {"type": "summarize"}}),
    (
        "anthropic",
        "signed_summaries",
        "",
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "compaction", "content": "It was.", "signature": "s"}],
                },
                *ASK,
            ]
        },
    ),
    ("openai", "shape_and_pairing", "", {"store": True}),
    ("openai", "effort_of_the_model", "gpt-6-astra", {"reasoning": {"effort": "none"}}),
    ("openai", "effort_of_the_model", "gpt-4.1", {"reasoning": {"summary": "auto"}}),
    ("openai", "sampling_while_reasoning", "", {"temperature": 0.5}),
    ("openai", "output_tokens", "", {"max_output_tokens": 15}),
    ("openai", "unknown_fields", "", {"stop": ["END"]}),
    ("openai", "strict_subset", "", {"tools": [function(OPEN, strict=True)]}),
    ("openai", "strict_subset", "", {"tools": [function(LOOKS, strict=True)]}),
    ("openai", "function_schemas", "", {"tools": [function(ARRAY)]}),
    ("openai", "choice_names_a_tool", "", {"tool_choice": {"type": "function", "name": "other"}}),
    (
        "openai",
        "images",
        "",
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_image", "image_url": "data:image/tiff;base64,aaaa"}
                    ],
                }
            ]
        },
    ),
    (
        "openai",
        "compacted_windows",
        "",
        {
            "input": [
                {"type": "compaction", "id": "cmp_1", "encrypted_content": "another's"},
                *FINE["openai"]["input"],
            ]
        },
    ),
    (
        "openai",
        "reasoning_is_ours",
        "",
        {
            "input": [
                {"role": "user", "content": "Go."},
                {"type": "reasoning", "summary": [], "encrypted_content": "e"},
                {"role": "assistant", "content": "Yes."},
            ]
        },
    ),
    (
        "openai",
        "patches_are_answered",
        "",
        {"tools": [{"type": "apply_patch", "name": "apply_patch"}]},
    ),
    (
        "openai-chat",
        "shape_and_pairing_of_chat",
        "",
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": ""}]},
    ),
    ("openai-chat", "functions_over_chat", "gpt-6-luna", {"reasoning_effort": "low"}),
    ("openai-chat", "functions_over_chat", "gpt-6-astra", {}),
    ("openai-chat", "words_of_chat", "", {"max_tokens": 100}),
    (
        "gemini",
        "shape_and_pairing",
        "",
        {"contents": [{"role": "model", "parts": [{"text": "Yes."}]}]},
    ),
    (
        "gemini",
        "level_or_budget",
        "",
        config(thinkingConfig={"thinkingLevel": "LOW", "thinkingBudget": 1}),
    ),
    ("gemini", "level_or_budget", "", config(thinkingConfig={"thinkingLevel": "MINIMAL"})),
    ("gemini", "level_or_budget", "gemini-2.5-pro", config(thinkingConfig={"thinkingBudget": 0})),
    (
        "gemini",
        "level_or_budget",
        "gemma-4-31b-it",
        config(thinkingConfig={"includeThoughts": True}),
    ),
    (
        "openrouter",
        "shape_and_pairing",
        "",
        {"messages": [{"role": "tool", "tool_call_id": "a", "content": "b"}]},
    ),
    (
        "openrouter",
        "breakpoints",
        "",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
                    ]
                    * 5,
                }
            ]
        },
    ),
    ("openrouter", "reasoning", "", {"reasoning": {"max_tokens": 2_000}}),
    (
        "openrouter",
        "reasoning_details",
        "",
        {
            "messages": [
                {"role": "user", "content": "Go."},
                {
                    "role": "assistant",
                    "content": "Yes.",
                    "reasoning_details": [{"type": "reasoning.text", "signature": "another's"}],
                },
                {"role": "user", "content": "Go."},
            ]
        },
    ),
    (
        "openrouter",
        "images",
        "",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,aaaa"}}
                    ],
                }
            ]
        },
    ),
    ("openrouter", "forced_tools", "", {"tool_choice": "required"}),
    (
        "anthropic",
        "pdf_pages",
        "claude-haiku-4-5",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {
                                "type": "base64",
                                "media_type": "application/pdf",
                                "data": base64.b64encode(b"/Type /Page " * 101).decode(),
                            },
                        }
                    ],
                }
            ]
        },
    ),
    (
        "gemini",
        "signatures_stay_on_their_parts",
        "",
        {
            "contents": [
                *FINE["gemini"]["contents"],
                {"role": "model", "parts": [{"text": "Yes.", "thoughtSignature": "c2ln"}]},
                *FINE["gemini"]["contents"],
            ]
        },
    ),
    (
        "gemini",
        "functions_and_schemas",
        "gemini-2.5-flash",
        config(responseMimeType="application/json"),
    ),
    (
        "gemini",
        "functions_and_schemas",
        "",
        {
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["other"]}
            }
        },
    ),
    ("gemini", "output_tokens", "", config(maxOutputTokens=70_000)),
    (
        "gemini",
        "images",
        "",
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [{"inlineData": {"mimeType": "image/gif", "data": "aaaa"}}],
                }
            ]
        },
    ),
]


@pytest.mark.parametrize("wire", RULES)
def test_a_plain_request_breaks_no_rule(wire: str) -> None:
    assert RULES[wire].broken(Asked(MODELS[wire], FINE[wire])) == []


@pytest.mark.parametrize(("wire", "rule", "model", "change"), REFUSED)
def test_a_rule_refuses_what_its_source_says(
    wire: str, rule: str, model: str, change: Json
) -> None:
    asked = Asked(model or MODELS[wire], deepcopy(FINE[wire]) | change)
    assert {name for name, _ in RULES[wire].broken(asked)} == {rule}


@pytest.mark.parametrize("wire", RULES)
def test_every_rule_has_a_source_and_a_request_that_breaks_it(wire: str) -> None:
    shared = {
        rule.name
        for other in ("openai", "openai-chat")
        for rule in RULES[other]
        if wire.startswith("openai")
    }
    broken = {
        rule
        for on, rule, *_ in REFUSED
        if on == wire or (on.startswith("openai") and rule in shared)
    }
    assert {rule.name for rule in RULES[wire]} <= broken
    assert all(rule.source and rule.read and rule.check.__doc__ for rule in RULES[wire])
