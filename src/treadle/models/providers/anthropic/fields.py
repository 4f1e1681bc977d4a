"""Settings as fields and beta headers of a request to the Messages API.

Entry points: `settings_fields`, `beta_header`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from treadle.config.model_profile import Abilities
from treadle.errors import AgentError
from treadle.models.providers.anthropic.compaction import BETA
from treadle.models.providers.anthropic.content import Block
from treadle.models.providers.anthropic.schemas import fitted
from treadle.models.providers.anthropic.thinking import fit
from treadle.types import Settings

FAST_BETA = "fast-mode-2026-02-01"
"""Beta header that some models require for `speed`, and none rejects.

Source: platform.claude.com, "Fast mode", and SDK 2.11; read 2026-11-22.
"""
SINCE = "thinking_since"
"""Field of `settings.extra` that is not sent: time, in seconds since 1970, up to which thinking is
omitted.
"""
AS_TEXT = "compacted_as_text"
"""Field of `settings.extra` that is not sent: send a summary by the API as plain text."""


def with_types(extra: Block, body: Block) -> Block:
    """Add the types of `thinking` and `tool_choice` that the API requires, if neither the extras
    nor our settings contain them.
    """
    usual = {"thinking": "adaptive", "tool_choice": "auto"}
    bare = {
        name: cast("Block", extra[name])
        for name in usual
        if isinstance(extra.get(name), dict) and name not in body
    }
    return {**extra, **{name: {"type": usual[name], **fields} for name, fields in bare.items()}}


def thinking_since(settings: Settings) -> float:
    since = (settings.extra or {}).get(SINCE, 0)
    return float(since) if isinstance(since, int | float) else 0.0


def beta_header(extra: Block) -> dict[str, str]:
    """Return `betas` of the extras as a header, as the vendor's SDK does."""
    betas = extra.pop("betas", None)
    if betas is None:
        return {}
    names = (
        [str(name) for name in cast("list[object]", betas)]
        if isinstance(betas, list | tuple)
        else []
    )
    if not names or not all(
        name.isascii() and name.isprintable() and "," not in name for name in names
    ):
        raise AgentError(
            "invalid", f"settings.extra['betas'] must be a list of beta names, not {betas!r}"
        )
    return {"anthropic-beta": ",".join(names)}


def with_beta(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Add the beta header for compaction."""
    names = [name for name in headers.get("anthropic-beta", "").split(",") if name]
    return headers if BETA in names else {**headers, "anthropic-beta": ",".join([*names, BETA])}


def settings_fields(settings: Settings, abilities: Abilities, *, has_tools: bool) -> Block:
    fields: Block = {"max_tokens": abilities.output(settings.max_tokens)}
    if settings.temperature is not None:
        fields["temperature"] = settings.temperature
    if settings.service_tier is not None and settings.service_tier != "flex":
        fields |= (
            {"speed": "fast"}
            if settings.service_tier == "fast"
            else {"service_tier": "standard_only"}
        )
    if settings.stop:
        fields["stop_sequences"] = settings.stop
    thinking, effort, choice, _ = fit(settings, abilities)
    if thinking is not None:
        fields["thinking"] = thinking
    if choice is not None and has_tools:  # rejected without tools
        fields["tool_choice"] = (
            {"type": choice}
            if choice in ("auto", "any", "none")
            else {"type": "tool", "name": choice}
        )
    output: Block = {}
    if effort is not None:
        output["effort"] = effort
    if settings.output_schema is not None:
        output["format"] = {
            "type": "json_schema",
            "schema": fitted(settings.output_schema) or settings.output_schema,
        }
    if output:
        fields["output_config"] = output
    return fields
