"""Rules of Anthropic's Messages API, version 2026-10-21. Entry: `CLAUDE`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from struct import unpack
from typing import Any

from tests.models.switching.rules import anthropic
from tests.vendors.rules import Asked, Json, Rules, every, images_too_large, schemas_in

CLAUDE = Rules()
READ_COMPACTION = "2026-11-26"
ADAPTIVE, BUDGET, OFF, BETWEEN = "adaptive", "enabled", "disabled", "between_tools"
LOW_TO_HIGH = ("low", "medium", "high")
ALL = (*LOW_TO_HIGH, "xhigh", "max")


@dataclass(frozen=True)
class Takes:
    """What one model takes."""

    thinking: frozenset[str]
    efforts: tuple[str, ...] = ALL
    forced: bool = True
    capped: bool = False
    """Whether turning thinking off is refused at efforts above high."""
    binds: bool = False
    """Whether thinking depends on what stands before it."""
    later_system: bool = True
    compacts: bool = True
    output: int = 128_000
    images: int = 600


def _takes(*thinking: str, **other: Any) -> Takes:
    return Takes(frozenset(thinking), **other)


_newest = _takes(ADAPTIVE, forced=False, binds=True)
_with_budget = _takes(
    ADAPTIVE, BUDGET, OFF, efforts=("low", "medium", "high", "max"), later_system=False
)
_budget_alone = _takes(
    BUDGET, OFF, efforts=(), later_system=False, compacts=False, output=64_000, images=100
)
MODELS = {
    **dict.fromkeys(
        [
            "claude-opus-5-5",
            "claude-fable-5-2",
            "claude-fable-5-1",
            "claude-mythos-5-2",
            "claude-mythos-5-1",
        ],
        _newest,
    ),
    **dict.fromkeys(["claude-fable-5", "claude-mythos-5"], _takes(ADAPTIVE)),
    "claude-sonnet-5-5": _takes(ADAPTIVE, BETWEEN, forced=False, capped=True, binds=True),
    "claude-haiku-5-5": _takes(ADAPTIVE, OFF, capped=True, binds=True),
    "claude-opus-5": _takes(ADAPTIVE, OFF, capped=True),
    "claude-sonnet-5": _takes(ADAPTIVE, OFF, later_system=False),
    "claude-opus-4-8": _takes(ADAPTIVE, OFF),
    "claude-opus-4-7": _takes(ADAPTIVE, OFF, later_system=False),
    **dict.fromkeys(["claude-opus-4-6", "claude-sonnet-4-6"], _with_budget),
    "claude-opus-4-5": _takes(
        BUDGET,
        OFF,
        efforts=LOW_TO_HIGH,
        later_system=False,
        compacts=False,
        output=64_000,
        images=100,
    ),
    **dict.fromkeys(["claude-sonnet-4-5", "claude-haiku-4-5"], _budget_alone),
}
"""Source:

"What's new" of Opus 5.5, Sonnet 5.5 and Haiku 5.5, "Thinking", "Effort", the migration guides,
"Mid-conversation system messages".
"""

MESSAGE = (
    "messages.{at}.content.{block}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


@CLAUDE.rule("Messages API reference; Tool use; Prompt caching")
def shape_and_pairing(asked: Asked) -> Iterator[str]:
    """Roles alternate, each call has one result directly after it, ids are unique, and there are at
    most four breakpoints.
    """
    messages = asked.body.get("messages", [])
    summary = {"role": "user", "content": [{"type": "text", "text": "a summary"}]}
    if messages and compaction_of(messages[0]) is not None:  # it stands for the user's words too
        messages = [summary, *messages[1:]]
    yield from anthropic.broken({**asked.body, "messages": messages})


@CLAUDE.rule("Thinking; What's new in Claude Opus 5.5, Sonnet 5.5 and Haiku 5.5")
def thinking_form(asked: Asked) -> Iterator[str]:
    """A model takes some forms of thinking and answers 400 to the others; `between_tools` and
    `disabled` take no other field.
    """
    thinking: Json = asked.body.get("thinking", {})
    kind = thinking.get("type")
    if kind is not None and kind not in MODELS[asked.model].thinking:
        yield f"thinking.type {kind!r} is not supported on this model"
    if kind in (BETWEEN, OFF) and thinking.keys() - {"type"}:
        yield f"thinking: {sorted(thinking.keys() - {'type'})} cannot be sent with {kind!r}"
    if kind == BUDGET and not 1024 <= thinking["budget_tokens"] < asked.body["max_tokens"]:
        yield "thinking.budget_tokens: must be at least 1024 and less than max_tokens"
    if thinking.get("display", "summarized") not in ("summarized", "omitted"):
        yield "thinking.display: unknown value"


@CLAUDE.rule("Effort; What's new in Claude Sonnet 5.5; Migrating to Claude Opus 5")
def effort_of_the_model(asked: Asked) -> Iterator[str]:
    """Levels differ by model; without thinking up front some take none above high."""
    takes, effort = MODELS[asked.model], asked.body.get("output_config", {}).get("effort")
    if effort is not None and effort not in takes.efforts:
        yield f"output_config.effort: {effort!r} is not supported on this model"
    if (
        takes.capped
        and effort in ("xhigh", "max")
        and asked.body.get("thinking", {}).get("type") in (OFF, BETWEEN)
    ):
        yield f"thinking cannot be turned off at effort {effort!r}"


@CLAUDE.rule("API release notes, version 2026-10-21; Migrating to Claude Opus 4.7")
def no_sampling_settings(asked: Asked) -> Iterator[str]:
    """`temperature`, `top_p` and `top_k` are a 400."""
    yield from (
        f"{name}: not supported" for name in ("temperature", "top_p", "top_k") if name in asked.body
    )


@CLAUDE.rule("Tool use, Forcing tool use; What's new in Claude Sonnet 5.5")
def forced_tools(asked: Asked) -> Iterator[str]:
    """Newer models take no forced call, no model takes one with a budget for thinking, and a choice
    needs tools.
    """
    choice = asked.body.get("tool_choice", {})
    forced = choice.get("type") in ("any", "tool")
    if choice and not asked.body.get("tools"):
        yield "tool_choice: may only be specified while providing tools"
    if forced and not MODELS[asked.model].forced:
        yield 'tool_choice: type "tool" and "any" are not supported for this model.'
    if forced and asked.body.get("thinking", {}).get("type") == BUDGET:
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if choice.get("type") == "tool" and choice.get("name") not in {
        tool.get("name") for tool in asked.body.get("tools", [])
    }:
        yield f"tool_choice.tool.name: Tool {choice.get('name')!r} not found in provided tools"


@CLAUDE.rule("Models overview")
def output_tokens(asked: Asked) -> Iterator[str]:
    """`max_tokens` is at least 1 and at most what the model gives."""
    most = MODELS[asked.model].output
    if not 1 <= asked.body["max_tokens"] <= most:
        yield f"max_tokens: {asked.body['max_tokens']} > {most}, which is the maximum allowed number of output tokens"


@CLAUDE.rule("Mid-conversation system messages")
def later_system_messages(asked: Asked) -> Iterator[str]:
    """Models before Opus 4.8 refuse role `system` in `messages`; Sonnet 5 takes it without effect."""
    if not MODELS[asked.model].later_system and any(
        message["role"] == "system" for message in asked.body["messages"]
    ):
        yield "role 'system' is not supported on this model"


@CLAUDE.rule("Vision; Errors, request size limits")
def images(asked: Asked) -> Iterator[str]:
    """5 MB of base64 each, 100 or 600 in a request, at most 8000 pixels, 2000 in a request with
    more than 20; 32 MB in all.
    """
    sources = [
        block["source"]
        for block in every(asked.body["messages"], "image")
        if block["source"]["type"] == "base64"
    ]
    kinds = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
    sent = [(source["media_type"], source["data"]) for source in sources]
    yield from images_too_large(
        sent, kinds=kinds, most=MODELS[asked.model].images, chars_most=5 << 20
    )
    pixels = 2000 if len(sent) > 20 else 8000
    yield from (
        f"image dimensions exceed max allowed size: {pixels} pixels"
        for kind, data in sent
        if kind == "image/png" and _longest_side(data) > pixels
    )
    if len(json.dumps(asked.body)) > 32 << 20:
        yield "request_too_large"


@CLAUDE.rule("PDF support", READ_COMPACTION)
def pdf_pages(asked: Asked) -> Iterator[str]:
    """At most 600 pages in a request, 100 with a window of 200,000 tokens."""
    documents = [
        block["source"]["data"]
        for block in every(asked.body["messages"], "document")
        if block["source"].get("media_type") == "application/pdf"
    ]
    pages = sum(len(_PAGE.findall(base64.b64decode(data))) for data in documents)
    if pages > (most := MODELS[asked.model].images):
        yield f"A maximum of {most} PDF pages may be provided."


_PAGE = re.compile(rb"/Type\s*/Page\b")


def _longest_side(png: str) -> int:
    head = base64.b64decode(png[:44])
    return max(unpack(">II", head[16:24])) if len(head) >= 24 else 0


@CLAUDE.rule("Structured outputs; the SDK's transform_schema (2.11)")
def schema_of_an_answer(asked: Asked) -> Iterator[str]:
    """Objects are closed; bounds, maps and recursion are refused.

    The same holds for tools that ask to be strict.
    """
    form = asked.body.get("output_config", {}).get("format", {})
    strict = [tool["input_schema"] for tool in asked.body.get("tools", []) if tool.get("strict")]
    for schema in [*([form["schema"]] if form else []), *strict]:
        for part in schemas_in(schema):
            if part.get("type") == "object" and part.get("additionalProperties") is not False:
                yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
            if unknown := part.keys() & {
                "minimum",
                "maximum",
                "multipleOf",
                "minLength",
                "maxLength",
                "maxItems",
                "uniqueItems",
                "oneOf",
                "prefixItems",
            }:
                yield f"properties {sorted(unknown)} are not supported"


@CLAUDE.rule("Define tools")
def tool_definitions(asked: Asked) -> Iterator[str]:
    """Names are unique and plain; a schema is an object without a choice at its top."""
    tools = [tool for tool in asked.body.get("tools", []) if "input_schema" in tool]
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    for tool in tools:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            yield f"tools: name {tool['name']!r} does not match the pattern"
        if tool["input_schema"].get("type") != "object" or tool["input_schema"].keys() & {
            "oneOf",
            "anyOf",
            "allOf",
        }:
            yield f"tools: input_schema of {tool['name']!r} must be an object without oneOf, allOf or anyOf at the top level"


@CLAUDE.rule("Preserved thinking; Prefix checks on thinking blocks")
def preserved_thinking(asked: Asked) -> Iterator[str]:
    """A signature is this vendor's own, and holds while `system`, the set of `tools` and all
    messages before it are unchanged.

    Each block records the one before it: blocks may be removed from the start, from the end, or
    all; a gap invalidates those that follow.
    """
    last: str | None = None
    for at, message in enumerate(asked.body["messages"]):
        for number, block in enumerate(
            message["content"] if isinstance(message["content"], list) else []
        ):
            if block["type"] != "thinking":
                continue
            made_for = asked.issued.get(block["signature"])
            moved = (
                made_for is not None
                and MODELS[asked.model].binds
                and made_for != prefix(asked.body, at, asked.issued)
            )
            if (
                made_for is None
                or moved
                or (
                    MODELS[asked.model].binds
                    and last is not None
                    and json.loads(block["signature"])["before"] != _short(last)
                )
            ):
                yield MESSAGE.format(at=at, block=number)
            last = block["signature"]


COMPACT_BETA = "compact-2026-09-04"
ON_DEMAND = "Compaction on demand"


def compaction_of(message: Json) -> Json | None:
    """The signed summary with which a message begins."""
    content = message["content"]
    first = content[0] if isinstance(content, list) and content else {}
    return first if first.get("type") == "compaction" else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _has_beta(asked: Asked) -> bool:
    return COMPACT_BETA in asked.headers.get("anthropic-beta", "").split(",")


@CLAUDE.rule(ON_DEMAND, READ_COMPACTION)
def request_for_a_summary(asked: Asked) -> Iterator[str]:
    """`compaction` wants its beta header, and goes with no stop sequences, output format, forced
    call or context management.
    """
    if "compaction" not in asked.body:
        return
    config = asked.body["compaction"]
    if not _has_beta(asked):
        yield f"compaction: requires anthropic-beta: {COMPACT_BETA}"
    if not MODELS[asked.model].compacts:
        yield "compaction: not supported on this model"
    if (
        config.get("type") != "summarize"
        or config.keys() - {"type", "instructions"}
        or len(config.get("instructions", "")) > 16_384
    ):
        yield "compaction: invalid"
    for name in ("stop_sequences", "context_management"):
        if name in asked.body:
            yield f"compaction: cannot be combined with {name}"
    if "format" in asked.body.get("output_config", {}):
        yield "compaction: cannot be combined with output_config.format"
    if asked.body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "compaction: cannot be combined with a forced tool_choice"


@CLAUDE.rule(ON_DEMAND, READ_COMPACTION)
def signed_summaries(asked: Asked) -> Iterator[str]:
    """One block, first in `messages`, as it was returned, with the beta header; not together with
    context management.
    """
    blocks = list(every(asked.body["messages"], "compaction"))
    if not blocks:
        return
    if not _has_beta(asked):
        yield "messages.0.content.0: Input tag 'compaction' found using 'type' does not match any of the expected tags"
    if compaction_of(asked.body["messages"][0]) is None:
        yield "compaction_block_misplaced: remove the messages before the compaction block"
    if len(blocks) > 1:
        yield "a request takes one compaction block"
    if "context_management" in asked.body:
        yield "context_management: cannot be sent with a signed compaction block"
    for block in blocks:
        issued = asked.issued.get(block.get("signature", ""))
        if not isinstance(issued, Summary):
            yield "compaction_signature_invalid: the compaction block was changed"
        elif {
            name: value for name, value in block.items() if name != "cache_control"
        } != issued.block:
            yield "compaction_content_mismatch: the compaction block was changed"


@dataclass(frozen=True)
class Summary:
    """A signed summary, and the messages that it stands for."""

    block: Json
    messages: list[Json]


def restored(messages: list[Json], issued: Mapping[str, object]) -> list[Json]:
    """The messages as the check of thinking sees them: those that a summary stands for in its
    place, and messages of one role in a row as one.
    """
    block = compaction_of(messages[0]) if messages else None
    known = issued.get(block.get("signature", "")) if block is not None else None
    if not isinstance(known, Summary):
        return messages
    before, after = known.messages, messages[1:]
    if before and after and before[-1]["role"] == after[0]["role"]:
        joined = {**before[-1], "content": [*before[-1]["content"], *after[0]["content"]]}
        return [*before[:-1], joined, *after[1:]]
    return [*before, *after]


def signature(body: Json, number: int, issued: Mapping[str, object]) -> str:
    """The signature of the thinking of the answer to `body`."""
    blocks = list(every(body["messages"], "thinking"))
    before = _short(blocks[-1]["signature"]) if blocks else None
    made_for = prefix(body, len(body["messages"]), issued)
    return json.dumps({"before": before, "number": number, "prefix": made_for}, sort_keys=True)


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def prefix(body: Json, messages: int, issued: Mapping[str, object]) -> str:
    """A digest of what thinking depends on; neither cache_control nor thinking is part of it."""
    parts = [
        body.get("system", []),
        sorted(body.get("tools", []), key=lambda tool: tool["name"]),
        restored(body["messages"][:messages], issued),
    ]
    return _short(json.dumps(_lasting(parts), sort_keys=True))


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lasting(inner) for name, inner in value.items() if name != "cache_control"}  # pyright: ignore[reportUnknownVariableType]  JSON
    if isinstance(value, list):
        return [
            _lasting(inner)
            for inner in value
            if not (isinstance(inner, dict) and inner.get("type") == "thinking")
        ]  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return value
