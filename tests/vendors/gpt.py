"""Rules of OpenAI, for Responses (`RESPONSES`) and for Chat Completions (`CHAT`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.models.switching.rules import openai_chat, openai_responses
from tests.vendors.rules import Asked, Json, Rules, depth_of, every, images_too_large, schemas_in

RESPONSES, CHAT = Rules(), Rules()
KINDS = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


@dataclass(frozen=True)
class Takes:
    """What one model takes."""

    efforts: tuple[str, ...] = ()
    """Of reasoning; none: it does not reason."""
    default: str = "none"
    chat_tools: str = "any"
    """Efforts at which functions can be called over Chat Completions: any, `none` alone, `never`,
    or `unset` (none, or left out).
    """
    output: int = 128_000


_plain, _up, _top = (
    ("low", "medium", "high"),
    ("low", "medium", "high", "xhigh"),
    ("low", "medium", "high", "xhigh", "max"),
)
_always = Takes(_top, "medium", "never")
_gpt_6 = Takes(("none", *_top), "medium", "none")
_gpt_5 = Takes(("minimal", *_plain), "medium")
_opt_in = Takes(("none", *_up))
_pro = Takes(("medium", "high", "xhigh"), "medium")
_o = Takes(_plain, "medium", output=100_000)
MODELS = {
    **dict.fromkeys(["gpt-6-astra", "gpt-6.1-sol"], _always),
    **dict.fromkeys(["gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra"], _gpt_6),
    **dict.fromkeys(
        ["gpt-5.6", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"],
        Takes(("none", *_top), "medium", "unset"),
    ),
    "gpt-5.5": Takes(("none", *_up), "medium", "unset"),
    **dict.fromkeys(
        ["gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"], Takes(("none", *_up), "none", "unset")
    ),
    **dict.fromkeys(["gpt-5.3-codex", "gpt-5.2"], _opt_in),
    "gpt-5.1": Takes(("none", *_plain)),
    **dict.fromkeys(["gpt-5.5-pro", "gpt-5.4-pro", "gpt-5.2-pro"], _pro),
    **dict.fromkeys(["gpt-5", "gpt-5-mini", "gpt-5-nano"], _gpt_5),
    "gpt-5-pro": Takes(("high",), "high", output=272_000),
    **dict.fromkeys(["o1", "o1-pro", "o3", "o3-pro", "o3-mini", "o4-mini"], _o),
    **dict.fromkeys(["gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano"], Takes(output=32_768)),
    **dict.fromkeys(["gpt-4o", "gpt-4o-mini"], Takes(output=16_384)),
    **dict.fromkeys(["gpt-4o-2024-05-13", "gpt-4-turbo"], Takes(output=4_096)),
}
"""Source:

"Deployment checklist", "Reasoning models", "Using GPT-6", the models' pages; gpt-5.x of old as the
API answered others (2026-07 to 2026-10).
"""


@RESPONSES.rule("API reference, Create a response")
def shape_and_pairing(asked: Asked) -> Iterator[str]:
    """Each call has one output and each output a call; reasoning stands before what it led to."""
    always = {"stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
    body = {**always, **asked.body} if asked.target.endswith("/compact") else asked.body
    yield from openai_responses.broken(body)


@CHAT.rule("API reference, Create a chat completion")
def shape_and_pairing_of_chat(asked: Asked) -> Iterator[str]:
    """Results follow their calls directly, each once."""
    yield from openai_chat.broken(asked.body)


@RESPONSES.rule("Deployment checklist; Reasoning models")
@CHAT.rule("Deployment checklist; Reasoning models")
def effort_of_the_model(asked: Asked) -> Iterator[str]:
    """Values of effort differ by model; GPT-6 Astra and GPT-6.1 Sol have no `none`, models that do
    not reason take no reasoning at all.
    """
    takes, effort = MODELS[asked.model], _effort(asked.body)
    if not takes.efforts and ("reasoning" in asked.body or "reasoning_effort" in asked.body):
        field = next(iter(asked.body.get("reasoning", {"effort": None})))
        yield f"Unsupported parameter: 'reasoning.{field}' is not supported with this model."
    elif effort is not None and effort not in takes.efforts:
        yield f"Unsupported value: 'reasoning.effort' does not support {effort!r} with this model. Supported values are: {takes.efforts}."


@RESPONSES.rule("Deployment checklist; Using GPT-6, parameter compatibility")
@CHAT.rule("Deployment checklist; Using GPT-6, parameter compatibility")
def sampling_while_reasoning(asked: Asked) -> Iterator[str]:
    """`temperature`, `top_p` and log probabilities are refused unless the effort is `none`."""
    takes = MODELS[asked.model]
    reasons = bool(takes.efforts) and (_effort(asked.body) or takes.default) != "none"
    sampling = asked.body.keys() & {
        "temperature",
        "top_p",
        "top_logprobs",
        "logprobs",
        "presence_penalty",
        "frequency_penalty",
    }
    if reasons and sampling:
        yield f"Unsupported parameter: {sorted(sampling)} is not supported with this model."


@CHAT.rule("Deployment checklist; Using GPT-6, and the API's own words")
def functions_over_chat(asked: Asked) -> Iterator[str]:
    """Since GPT-5.4 functions and reasoning do not go together here; GPT-6 takes functions with
    effort `none` alone, Astra and 6.1 Sol never.
    """
    allowed, effort = MODELS[asked.model].chat_tools, _effort(asked.body)
    fine = {
        "any": True,
        "unset": effort in (None, "none"),
        "none": effort == "none",
        "never": False,
    }[allowed]
    if asked.body.get("tools") and not fine:
        yield f"Function tools with reasoning_effort are not supported for {asked.model} in /v1/chat/completions. To use function tools, use /v1/responses."


@CHAT.rule("Reasoning models; API reference, Create a chat completion")
def words_of_chat(asked: Asked) -> Iterator[str]:
    """Models that reason take `max_completion_tokens` and no stop sequences; system messages come
    from the developer.
    """
    if MODELS[asked.model].efforts:
        yield from (
            f"Unsupported parameter: {name!r} is not supported with this model."
            for name in ("max_tokens", "stop")
            if name in asked.body
        )


@RESPONSES.rule("API reference, Create a response; Models")
@CHAT.rule("API reference, Create a chat completion; Models")
def output_tokens(asked: Asked) -> Iterator[str]:
    """At most what the model gives; Responses takes no fewer than 16."""
    wanted = asked.body.get(
        "max_output_tokens", asked.body.get("max_completion_tokens", asked.body.get("max_tokens"))
    )
    least, most = (16 if "max_output_tokens" in asked.body else 1), MODELS[asked.model].output
    if wanted is not None and not least <= wanted <= most:
        yield f"Invalid 'max_output_tokens': {wanted} is not between {least} and {most}"


@RESPONSES.rule("API reference, Create a response")
def unknown_fields(asked: Asked) -> Iterator[str]:
    """Responses has no stop sequences, and calls things by other names than Chat Completions."""
    yield from (
        f"Unknown parameter: {name!r}."
        for name in ("stop", "messages", "max_tokens", "reasoning_effort", "response_format")
        if name in asked.body
    )


@RESPONSES.rule("Structured outputs, supported schemas")
@CHAT.rule("Structured outputs, supported schemas")
def strict_subset(asked: Asked) -> Iterator[str]:
    """Where `strict` is asked for: closed objects with all properties required, ten levels, 5,000
    properties, the supported keywords.
    """
    for schema in _strict(asked.body):
        parts = list(schemas_in(schema))
        if schema.get("type") != "object":
            yield "schema must have type 'object'"
        if depth_of(schema) > 10 or sum(len(part.get("properties", {})) for part in parts) > 5000:
            yield "schema exceeds the limits of 10 levels and 5,000 properties"
        for part in parts:
            if (part.get("type") == "object" or "properties" in part) and (
                part.get("additionalProperties") is not False
                or sorted(part.get("required", [])) != sorted(part.get("properties", {}))
            ):
                yield "'additionalProperties' is required to be false, and 'required' to include every key in properties"
            if unknown := part.keys() & {
                "oneOf",
                "allOf",
                "not",
                "if",
                "prefixItems",
                "uniqueItems",
                "patternProperties",
                "default",
            }:
                yield f"{sorted(unknown)} is not permitted"
            if re.search(r"\(\?[=!<]", part.get("pattern", "")):
                yield "pattern: look-around is not supported"


@RESPONSES.rule("Function calling; AnswerDotAI/fastcore#798")
@CHAT.rule("Function calling; AnswerDotAI/fastcore#798")
def function_schemas(asked: Asked) -> Iterator[str]:
    """Strict or not, parameters are an object with properties, and an array says of what."""
    for function in _functions(asked.body):
        schema = function.get("parameters", {})
        if schema.get("type") != "object" or "properties" not in schema:
            yield f"Invalid schema for function {function['name']!r}: object schema missing properties"
        if any(part.get("type") == "array" and "items" not in part for part in schemas_in(schema)):
            yield f"Invalid schema for function {function['name']!r}: array schema missing items"


@RESPONSES.rule("Function calling, tool choice")
@CHAT.rule("Function calling, tool choice")
def choice_names_a_tool(asked: Asked) -> Iterator[str]:
    """A choice needs tools, and a named one is among them."""
    choice = asked.body.get("tool_choice")
    if choice is not None and not asked.body.get("tools"):
        yield "'tool_choice' is only allowed when 'tools' are specified."
    if isinstance(choice, dict):
        name = choice.get("name", choice.get("function", {}).get("name"))
        if name not in [function["name"] for function in _functions(asked.body)]:
            yield f"Tool choice {name!r} not found in 'tools' parameter."


@RESPONSES.rule("Images and vision")
@CHAT.rule("Images and vision")
def images(asked: Asked) -> Iterator[str]:
    """PNG, JPEG, WEBP and GIF; at most 1,500 in a request and 512 MB in all."""
    urls = [part["image_url"] for part in every(asked.body, "input_image")] + [
        part["image_url"]["url"] for part in every(asked.body, "image_url")
    ]
    sent = [
        (match[1], match[2])
        for url in urls
        if (match := re.fullmatch(r"data:([^;]*);base64,(.*)", url))
    ]
    yield from images_too_large(sent, kinds=KINDS, most=1500, chars_most=512 << 20)


@RESPONSES.rule("Reasoning models, encrypted reasoning items")
def reasoning_is_ours(asked: Asked) -> Iterator[str]:
    """Encrypted reasoning that the vendor did not write cannot be verified."""
    for item in every(asked.body["input"], "reasoning"):
        if item.get("encrypted_content") not in asked.issued:
            yield "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed."


def _effort(body: Json) -> str | None:
    return body.get("reasoning", {}).get("effort", body.get("reasoning_effort"))


def _functions(body: Json) -> list[Json]:
    return [
        tool.get("function", tool)
        for tool in body.get("tools", [])
        if tool.get("type") == "function"
    ]


def _strict(body: Json) -> list[Json]:
    forms = [
        body.get("text", {}).get("format", {}),
        body.get("response_format", {}).get("json_schema", {}),
    ]
    return [form["schema"] for form in forms if form.get("strict")] + [
        function["parameters"] for function in _functions(body) if function.get("strict")
    ]


@RESPONSES.rule("Apply patch; types of the SDK 3.52")
def patches_are_answered(asked: Asked) -> Iterator[str]:
    """The built-in tool has no fields of a function, each of its calls an operation on one file,
    and each call one output with a status.
    """
    for tool in asked.body.get("tools", []):
        if tool["type"] == "apply_patch" and tool.keys() - {"type", "allowed_callers"}:
            yield f"Unknown parameter: 'tools.{sorted(tool.keys() - {'type'})[0]}'."
    calls = [item for item in asked.body["input"] if item.get("type") == "apply_patch_call"]
    for item in calls:
        if item.get("status") not in ("in_progress", "completed") or item.get("operation", {}).get(
            "type"
        ) not in ("create_file", "update_file", "delete_file"):
            yield "Missing required parameter of apply_patch_call."
    outputs = [
        item for item in asked.body["input"] if item.get("type") == "apply_patch_call_output"
    ]
    if any(item.get("status") not in ("completed", "failed") for item in outputs):
        yield "Missing required parameter: 'status'."
    if missing := {item["call_id"] for item in calls} ^ {item["call_id"] for item in outputs}:
        yield f"No tool output found for apply patch call {sorted(missing)[0]}."


@RESPONSES.rule("Compaction; types of the SDK 3.52", "2026-11-26")
def compacted_windows(asked: Asked) -> Iterator[str]:
    """The endpoint takes few fields; the window that it returns goes back whole, as it came."""
    if asked.target.endswith("/compact"):
        taken = {
            "model",
            "input",
            "instructions",
            "previous_response_id",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "service_tier",
            "image",
        }
        yield from (f"Unknown parameter: {name!r}." for name in sorted(asked.body.keys() - taken))
    for item in asked.body["input"]:
        if item.get("type") != "compaction":
            continue
        window = asked.issued.get(item.get("encrypted_content", ""))
        if not isinstance(window, list):
            yield "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed."
        elif asked.body["input"][: len(window)] != window:  # pyright: ignore[reportUnknownArgumentType]
            yield "the compacted window is not what was returned"
