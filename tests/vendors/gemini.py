"""Rules of Google's generateContent. Entry: `GEMINI`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.models.switching.rules import gemini
from tests.vendors.rules import Asked, Json, Rules, images_too_large
from treadle.models.providers.gemini.messages import ANY_SIGNATURE

GEMINI = Rules()
KINDS = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
LOW_UP, MINIMAL_UP = ("LOW", "MEDIUM", "HIGH"), ("MINIMAL", "LOW", "MEDIUM", "HIGH")
LEVELS = {
    **dict.fromkeys(["gemini-4-argon", "gemini-3.8-flash", "gemini-3.7-flash"], LOW_UP),
    **dict.fromkeys(["gemini-3.1-pro-preview", "gemini-3.1-pro-preview-customtools"], LOW_UP),
    **dict.fromkeys(
        [
            "gemini-3.6-flash",
            "gemini-3.5-flash",
            "gemini-3.5-flash-lite",
            "gemini-3.1-flash-lite",
            "gemini-3-flash-preview",
        ],
        MINIMAL_UP,
    ),
    **dict.fromkeys(["gemini-flash-latest", "gemini-flash-lite-latest"], LOW_UP),
    "gemini-3-pro-preview": ("LOW", "HIGH"),
}
"""Source:

"Gemini thinking" and the enterprise platform's "Thinking"; of the aliases, what their newest model
is documented to take.
"""
BUDGETS = {
    "gemini-2.5-pro": (128, 32_768),
    "gemini-2.5-flash": (0, 24_576),
    "gemini-2.5-flash-lite": (512, 24_576),
}
"""Source:

"Gemini thinking", thinking budgets. 0 turns thinking off on Flash and Flash-Lite, -1 is dynamic.
"""
NEVER = ("gemma-4-26b-a4b-it", "gemma-4-31b-it")


@GEMINI.rule("Generating content; Function calling")
def shape_and_pairing(asked: Asked) -> Iterator[str]:
    """The user speaks first and last; as many responses as calls, directly after them; one kind of
    data in a part.
    """
    body = (
        asked.body
        if asked.model in LEVELS
        else {
            **asked.body,
            "contents": [_signed(content) for content in asked.body.get("contents", [])],
        }
    )
    yield from gemini.broken(body)


def _signed(content: Json) -> Json:
    """Models before Gemini 3 do not ask for signatures."""
    parts = [
        {**part, "thoughtSignature": part.get("thoughtSignature", "c2ln")}
        if "functionCall" in part
        else part
        for part in content.get("parts", [])
    ]
    return {**content, "parts": parts}


@GEMINI.rule("Gemini thinking, thinking levels and budgets")
def level_or_budget(asked: Asked) -> Iterator[str]:
    """Gemini 3 takes a level of its own list, Gemini 2.5 a budget in its range, nothing takes both,
    and Gemma takes neither.
    """
    config: Json = asked.body.get("generationConfig", {}).get("thinkingConfig", {})
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if level is not None and budget is not None:
        yield "You can only set one of thinking budget and thinking level."
    if level is not None and level not in LEVELS.get(asked.model, ()):
        yield f"Thinking level {level} is not supported for this model."
    if budget is not None and not _in_range(asked.model, budget):
        yield f"The thinking budget {budget} is invalid. Please choose a value in the range of this model."
    if config and asked.model in NEVER:
        yield "Thinking is not enabled for this model"


def _in_range(model: str, budget: int) -> bool:
    least, most = BUDGETS.get(model, (1, 0))
    return model in BUDGETS and (
        budget == -1 or least <= budget <= most or (budget == 0 and model != "gemini-2.5-pro")
    )


@GEMINI.rule("Thought signatures")
def signatures_stay_on_their_parts(asked: Asked) -> Iterator[str]:
    """A signature goes back on the part with which it came, or is the word that skips the check."""
    for content in asked.body.get("contents", []):
        for part in content["parts"]:
            signature = part.get("thoughtSignature")
            if signature not in (None, ANY_SIGNATURE) and asked.issued.get(signature, "") not in (
                "",
                signed_for(part),
            ):
                yield "Thought signature is not valid"
            elif signature not in (None, ANY_SIGNATURE) and signature not in asked.issued:
                yield "Corrupted thought signature."


def signed_for(part: Json) -> str:
    call = part.get("functionCall", {})
    return json.dumps([call.get("name"), call.get("args")], sort_keys=True)


@GEMINI.rule("Function calling; Structured outputs; Gemini 3 developer guide")
def functions_and_schemas(asked: Asked) -> Iterator[str]:
    """Before Gemini 3 a schema for the answer and functions exclude each other; names are plain,
    and forced ones declared.
    """
    config = asked.body.get("generationConfig", {})
    declared = [
        f for tool in asked.body.get("tools", []) for f in tool.get("functionDeclarations", [])
    ]
    if (
        asked.model not in LEVELS
        and declared
        and config.get("responseMimeType") == "application/json"
    ):
        yield "Function calling with a response mime type: 'application/json' is unsupported"
    if any(
        not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", function["name"])
        for function in declared
    ):
        yield "Invalid function name. Must start with a letter or an underscore."
    calling = asked.body.get("toolConfig", {}).get("functionCallingConfig", {})
    if set(calling.get("allowedFunctionNames", [])) - {function["name"] for function in declared}:
        yield "allowedFunctionNames holds a name that is not declared"
    if calling and not declared:
        yield "Function calling config is set without function_declarations."


@GEMINI.rule("Models; Long decode; the API's own words")
def output_tokens(asked: Asked) -> Iterator[str]:
    """`maxOutputTokens` from 1 to what the model gives."""
    wanted = asked.body.get("generationConfig", {}).get("maxOutputTokens", 1)
    most = (
        1_048_576 if asked.model == "gemini-4-argon" else 32_768 if asked.model in NEVER else 65_536
    )
    if not 1 <= wanted <= most:
        yield f"Unable to submit request because it has a maxOutputTokens value of {wanted} but the supported range is from 1 to {most}."


@GEMINI.rule("Image understanding; File input methods")
def images(asked: Asked) -> Iterator[str]:
    """PNG, JPEG, WEBP, HEIC and HEIF; 3,600 in a request; a request with files inside it has at
    most 100 MB.
    """
    inline = [
        part["inlineData"]
        for content in asked.body.get("contents", [])
        for part in content["parts"]
        if "inlineData" in part
    ]
    sent = [
        (data["mimeType"], data["data"]) for data in inline if data["mimeType"].startswith("image/")
    ]
    yield from images_too_large(sent, kinds=KINDS, most=3600, chars_most=100 << 20)
