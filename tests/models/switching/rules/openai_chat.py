"""Chat Completions, as the vendor has it, and as templates of open models take it.

Source: https://platform.openai.com/docs/api-reference/chat/create, and what its 400s say (ids of at
most 40 characters). Entry: `broken`.
"""

from __future__ import annotations

import re

from tests.models.switching.rules.problems import Json, Problems

PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_KNOWN = {
    "system": ("role", "content", "name"),
    "developer": ("role", "content", "name"),
    "user": ("role", "content", "name"),
    "tool": ("role", "content", "tool_call_id", "name"),
    "assistant": (
        "role",
        "content",
        "tool_calls",
        "refusal",
        "name",
        "audio",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
    ),
}
_PARTS = {"user": {"text", "image_url", "file", "input_audio"}, "assistant": {"text", "refusal"}}


def broken(
    body: Json, *, call_id: re.Pattern[str] = PLAIN_ID, user_after_tools: bool = True
) -> list[str]:
    """`user_after_tools`: whether the user may speak right after results, as everywhere but at
    Mistral.
    """
    problems = Problems()
    open_calls: list[str] = []
    before = ""
    for i, message in enumerate(body.get("messages", [])):
        where, role = f"messages[{i}]", message.get("role")
        problems.unless(role in _KNOWN, where, f"there is no role {role!r}")
        if role == "tool":
            problems.unless(
                message["tool_call_id"] in open_calls,
                where,
                "role 'tool' must be a response to a preceding message with 'tool_calls'",
            )
            open_calls = [call for call in open_calls if call != message["tool_call_id"]]
        else:
            problems.unless(
                not open_calls, where, f"the calls {open_calls} have no answer directly after them"
            )
            open_calls = [call["id"] for call in message.get("tool_calls", [])]
            problems.unless(
                len(set(open_calls)) == len(open_calls), where, "duplicate ids of calls"
            )
        problems.unless(
            user_after_tools or (before, role) != ("tool", "user"),
            where,
            "unexpected role 'user' after role 'tool'",
        )
        before = role
        problems.fields(message, where, needs=("role",), may=_KNOWN.get(role, ()))
        _content(problems, where, message)
        for k, call in enumerate(message.get("tool_calls", [])):
            _call(problems, f"{where}.tool_calls[{k}]", call, call_id)
    problems.unless(not open_calls, "messages", f"the calls {open_calls} have no answer")
    problems.unless(body.get("messages"), "messages", "at least one is needed")
    return problems


def _content(problems: Problems, where: str, message: Json) -> None:
    role, content = message["role"], message.get("content")
    if role == "assistant":
        problems.unless(
            content or message.get("tool_calls") or message.get("refusal"),
            where,
            "it has neither content nor calls",
        )
        problems.unless(message.get("tool_calls") != [], where, "an empty list of calls")
    elif role == "tool":
        problems.unless(content is not None, where, "a result without content")
    else:
        problems.unless(content, where, "content must not be empty")
    for part in content if isinstance(content, list) else ():
        kind = part["type"]
        problems.unless(
            kind in _PARTS.get(role, {"text"}),
            where,
            f"a part of type {kind!r} in a message of {role}",
        )
        if kind in ("text", "refusal"):
            problems.text(part[kind], where)


def _call(problems: Problems, where: str, call: Json, call_id: re.Pattern[str]) -> None:
    problems.fields(call, where, needs=("id", "type", "function"), may=("extra_content",))
    problems.unless(call_id.fullmatch(call["id"]), where, f"{call['id']!r} is no id that is taken")
    problems.identifier(call["function"]["name"], where, 64)
    problems.arguments(call["function"]["arguments"], where)
