"""The GenerateContent API of Gemini 3.

Source: https://ai.google.dev/api/generate-content,
https://ai.google.dev/gemini-api/docs/thought-signatures, and what its 400s say. Entry: `broken`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.models.switching.rules.problems import Json, Problems

_DATA = {
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
}
_BESIDE = {"thought", "thoughtSignature", "partMetadata", "mediaResolution", "videoMetadata"}


def broken(body: Json) -> list[str]:
    problems = Problems()
    contents = body.get("contents", [])
    problems.unless(contents, "contents", "contents is not specified")
    for i, content in enumerate(contents):
        where = f"contents[{i}]"
        problems.fields(content, where, needs=("role", "parts"))
        problems.unless(
            content["role"] in ("user", "model"), where, f"there is no role {content['role']!r}"
        )
        problems.unless(content["parts"], where, "parts must not be empty")
        for k, part in enumerate(content["parts"]):
            _part(problems, f"{where}.parts[{k}]", content["role"], part)
    _order(problems, contents)
    _signatures(problems, contents)
    return problems


def _of(content: Json, kind: str) -> list[Json]:
    return [part[kind] for part in content["parts"] if kind in part]


def _order(problems: Problems, contents: Sequence[Json]) -> None:
    problems.unless(
        contents and contents[0]["role"] == "user",
        "contents[0]",
        "a conversation begins with the user",
    )
    problems.unless(
        contents and contents[-1]["role"] == "user",
        "contents",
        "a request ends with a turn of the user",
    )
    for i, content in enumerate(contents):
        before = contents[i - 1] if i else None
        calls = _of(before, "functionCall") if before is not None else []
        answers = _of(content, "functionResponse")
        names = [call["name"] for call in calls], [answer["name"] for answer in answers]
        same = len(calls) == len(answers) and sorted(names[0]) == sorted(names[1])
        problems.unless(
            same,
            f"contents[{i}]",
            f"the calls {names[0]} want as many responses directly after them, not {names[1]}",
        )
        ids = [call.get("id") for call in calls], [answer.get("id") for answer in answers]
        problems.unless(
            set(ids[0]) == set(ids[1]), f"contents[{i}]", f"responses to {ids[1]}, calls {ids[0]}"
        )
        if _of(content, "functionCall"):
            fine = before is not None and before["role"] == "user"
            problems.unless(
                fine,
                f"contents[{i}]",
                "a function call turn comes immediately after a user turn or after a function response turn",
            )


def _signatures(problems: Problems, contents: Sequence[Json]) -> None:
    """In the current turn (all since the last words of the user) the first call of each step has
    its signature.
    """
    asked = [
        i
        for i, content in enumerate(contents)
        if content["role"] == "user" and not _of(content, "functionResponse")
    ]
    for i in range(asked[-1] if asked else 0, len(contents)):
        calls = [part for part in contents[i]["parts"] if "functionCall" in part]
        problems.unless(
            not calls or calls[0].get("thoughtSignature"),
            f"contents[{i}]",
            "function call is missing a thought_signature",
        )


def _part(problems: Problems, where: str, role: str, part: Json) -> None:
    data = part.keys() & _DATA
    problems.unless(
        len(data) == 1, where, f"exactly one kind of data is needed, not {sorted(data)}"
    )
    problems.unless(
        part.keys() <= _DATA | _BESIDE,
        where,
        f"unknown names {sorted(part.keys() - _DATA - _BESIDE)}",
    )
    if "text" in part:
        problems.unless(part["text"] or "thoughtSignature" in part, where, "an empty text")
    if "thoughtSignature" in part:
        problems.base64(part["thoughtSignature"], where)
        problems.unless(role == "model", where, "a signature in a turn of the user")
    if call := part.get("functionCall"):
        problems.unless(role == "model", where, "a call of the user")
        problems.fields(call, where, needs=("name",), may=("id", "args"))
        problems.unless(isinstance(call.get("args", {}), dict), where, "args must be an object")
        problems.text(call["name"], where)
    if answer := part.get("functionResponse"):
        problems.unless(role == "user", where, "a response of the model")
        problems.fields(
            answer,
            where,
            needs=("name", "response"),
            may=("id", "parts", "willContinue", "scheduling"),
        )
        problems.unless(isinstance(answer["response"], dict), where, "a response must be an object")
