"""The Messages API, version 2026-10-21.

Source: https://platform.claude.com/docs/en/api/messages,
…/build-with-claude/mid-conversation-system-messages, …/thinking-troubleshooting, and what its 400s
say. Entry: `broken`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.models.switching.rules.problems import Json, Problems

_HOSTED_RESULTS = ("_tool_result",)
_HOSTED = {
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "compaction",
    "fallback",
}
_IN_RESULTS = {"text", "image", "document", "search_result", "tool_reference"}


def broken(body: Json) -> list[str]:
    problems = Problems()
    messages = body.get("messages", [])
    problems.unless(messages, "messages", "at least one is needed")
    for i, message in enumerate(messages):
        _message(problems, f"messages[{i}]", message)
    _order(problems, messages)
    _pairs(problems, _merged(messages))
    marks = str(body).count("'cache_control'")
    problems.unless(marks <= 4, "cache_control", f"{marks} breakpoints, and 4 are the most")
    return problems


def _order(problems: Problems, messages: Sequence[Json]) -> None:
    roles = [message["role"] for message in messages]
    problems.unless(roles[:1] == ["user"], "messages[0]", "the first one is the user's")
    for i, role in enumerate(roles):
        if role == "system":
            ends_hosted = (
                i
                and roles[i - 1] == "assistant"
                and messages[i - 1]["content"][-1]["type"] in _HOSTED
            )
            problems.unless(
                i and (roles[i - 1] == "user" or ends_hosted),
                f"messages[{i}]",
                "role 'system' must follow a 'user' message",
            )
            problems.unless(
                roles[i + 1 : i + 2] in ([], ["assistant"]),
                f"messages[{i}]",
                "role 'system' must precede an 'assistant' message or end the array",
            )


def _merged(messages: Sequence[Json]) -> list[Json]:
    """The API takes messages of one role in a row for one."""
    merged: list[Json] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1] = {
                "role": message["role"],
                "content": [*merged[-1]["content"], *message["content"]],
            }
        else:
            merged.append(message)
    return merged


def _pairs(problems: Problems, messages: Sequence[Json]) -> None:
    seen: set[str] = set()
    for i, message in enumerate(messages):
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        before = (
            [block["id"] for block in messages[i - 1]["content"] if block["type"] == "tool_use"]
            if i
            else []
        )
        answered = [
            block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"
        ]
        problems.unless(
            len(set(asked)) == len(asked) and not seen & {*asked},
            f"turn {i}",
            "`tool_use` ids must be unique",
        )
        seen.update(asked)
        problems.unless(
            sorted(answered) == sorted(before),
            f"turn {i}",
            f"the calls {before} want a result each, directly after them, and get {answered}",
        )
        problems.unless(
            not asked or i + 1 < len(messages),
            f"turn {i}",
            f"the calls {asked} want a result each, directly after them, and get none",
        )
        first = [block["type"] for block in message["content"][: len(answered)]]
        problems.unless(
            first == ["tool_result"] * len(answered),
            f"turn {i}",
            "results come first in their message",
        )


def _message(problems: Problems, where: str, message: Json) -> None:
    problems.fields(message, where, needs=("role", "content"))
    role, content = message["role"], message["content"]
    problems.unless(role in ("user", "assistant", "system"), where, f"there is no role {role!r}")
    problems.unless(content, where, "content must not be empty")
    texts = [block["text"] for block in content if block["type"] == "text"]
    problems.unless(
        not texts or any(text.strip() for text in texts),
        where,
        "text content blocks must contain non-whitespace text",
    )
    last = content[-1]["type"] if content else ""
    problems.unless(
        last not in ("thinking", "redacted_thinking"), where, "the last block cannot be thinking"
    )
    for k, block in enumerate(content):
        _block(problems, f"{where}.content[{k}]", role, block)


def _block(problems: Problems, where: str, role: str, block: Json) -> None:
    kind = block["type"]
    match kind:
        case "text":
            problems.fields(
                block,
                where,
                needs=("type", "text"),
                may=("cache_control", "citations") if role == "assistant" else ("cache_control",),
            )
            problems.text(block["text"], where)
        case "tool_use":
            problems.fields(
                block, where, needs=("type", "id", "name", "input"), may=("cache_control", "caller")
            )
            problems.identifier(block["id"], where, 256)
            problems.identifier(block["name"], where, 128)
            problems.unless(isinstance(block["input"], dict), where, "input must be an object")
        case "tool_result":
            problems.fields(
                block,
                where,
                needs=("type", "tool_use_id"),
                may=("content", "is_error", "cache_control"),
            )
            _result(problems, where, block)
        case "image" | "document":
            problems.fields(
                block,
                where,
                needs=("type", "source"),
                may=("cache_control", "title", "context", "citations"),
            )
            problems.unless(role == "user", where, f"{kind} blocks are the user's")
        case "thinking":
            problems.fields(block, where, needs=("type", "thinking", "signature"))
            problems.text(block.get("signature"), where)
        case "redacted_thinking":
            problems.fields(block, where, needs=("type", "data"))
        case _:
            problems.unless(
                kind in _HOSTED or kind.endswith(_HOSTED_RESULTS),
                where,
                f"there is no block of type {kind!r}",
            )
    at = {
        "text": "system, user and assistant",
        "tool_result": "user",
        "image": "user",
        "document": "user",
    }.get(kind, "assistant")
    problems.unless(role in at, where, f"a {kind} block in a message of {role}")


def _result(problems: Problems, where: str, block: Json) -> None:
    content = block.get("content")
    problems.unless(
        content or not block.get("is_error"), where, "content cannot be empty if `is_error` is true"
    )
    if isinstance(content, str) or content is None:
        problems.unless(content is None or content.strip(), where, "blank content")
        return
    for inner in content:
        problems.unless(inner["type"] in _IN_RESULTS, where, f"a {inner['type']} block in a result")
        problems.unless(inner["type"] != "text" or inner["text"], where, "an empty text block")
