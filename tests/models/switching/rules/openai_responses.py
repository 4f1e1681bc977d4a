"""The Responses API, used without its store.

Source: https://platform.openai.com/docs/api-reference/responses/create, the types of SDK 3.51, and
what its 400s say. Entry: `broken`.
"""

from __future__ import annotations

from tests.models.switching.rules.problems import Json, Problems

_SAID_BY = {
    "user": {"input_text", "input_image", "input_file"},
    "assistant": {"output_text", "refusal"},
}
_IN_OUTPUT = {"input_text", "input_image", "input_file"}
_HOSTED = {
    *(
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_call",
        "mcp_approval_request",
    ),
    *(
        "tool_search_call",
        "tool_search_output",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
    ),
    *(
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
    ),
    *("compaction", "program", "program_output"),
}
_ID_BEGINS = {"message": "msg", "function_call": "fc", "reasoning": "rs", "web_search_call": "ws"}


def broken(body: Json) -> list[str]:
    problems = Problems()
    items = body.get("input", [])
    problems.unless(items, "input", "at least one item is needed")
    problems.unless(
        body.get("store") is False,
        "store",
        "items of a conversation that is not stored must not be stored either",
    )
    asked: list[str] = []
    answered: list[str] = []
    for i, item in enumerate(items):
        where, kind = f"input[{i}]", item.get("type", "message")
        if "id" in item and kind in _ID_BEGINS:
            problems.unless(
                item["id"].startswith(_ID_BEGINS[kind]),
                where,
                f"expected an ID that begins with {_ID_BEGINS[kind]!r}, not {item['id']!r}",
            )
        match kind:
            case "message":
                _message(problems, where, item)
            case "function_call":
                problems.fields(
                    item,
                    where,
                    needs=("type", "call_id", "name", "arguments"),
                    may=("id", "status", "namespace", "caller"),
                )
                problems.identifier(item["call_id"], where, 64)
                problems.identifier(item["name"], where, 128)
                problems.arguments(item["arguments"], where)
                problems.unless(item["call_id"] not in asked, where, "a second call of this id")
                asked.append(item["call_id"])
            case "function_call_output":
                _output(problems, where, item)
                problems.unless(
                    item["call_id"] in asked and item["call_id"] not in answered,
                    where,
                    f"no tool call found for {item['call_id']!r}",
                )
                answered.append(item["call_id"])
            case "reasoning":
                problems.fields(
                    item,
                    where,
                    needs=("type", "summary", "encrypted_content"),
                    may=("id", "content", "status"),
                )
                _followed(problems, where, items[i + 1 : i + 2])
            case _:
                problems.unless(kind in _HOSTED, where, f"there is no item of type {kind!r}")
    problems.unless(
        sorted(asked) == sorted(answered),
        "input",
        f"no tool output found for {sorted({*asked} - {*answered})}",
    )
    return problems


def _followed(problems: Problems, where: str, following: list[Json]) -> None:
    own = (
        following
        and (following[0].get("role", "assistant") == "assistant")
        and following[0].get("type") != "function_call_output"
    )
    problems.unless(
        own, where, "a 'reasoning' item was provided without its required following item"
    )


def _message(problems: Problems, where: str, item: Json) -> None:
    problems.fields(item, where, needs=("role", "content"), may=("type", "id", "status", "phase"))
    role, content = item["role"], item["content"]
    problems.unless(
        role in ("user", "assistant", "system", "developer"), where, f"there is no role {role!r}"
    )
    problems.unless(content, where, "content must not be empty")
    for part in content if isinstance(content, list) else ():
        problems.unless(
            part["type"] in _SAID_BY.get(role, {"input_text"}),
            where,
            f"a part of type {part['type']!r} in a message of {role}",
        )
        if "text" in part:
            problems.text(part["text"], where)


def _output(problems: Problems, where: str, item: Json) -> None:
    problems.fields(item, where, needs=("type", "call_id", "output"), may=("id", "status"))
    output = item["output"]
    problems.unless(isinstance(output, str) or output, where, "an empty list as output")
    for part in output if isinstance(output, list) else ():
        problems.unless(
            part["type"] in _IN_OUTPUT, where, f"a part of type {part['type']!r} in an output"
        )
        if "text" in part:
            problems.text(part["text"], where)
