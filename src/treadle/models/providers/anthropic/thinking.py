"""Thinking, effort and tool choice in the form that a Claude model accepts, with notes about
differences. Entry points: `fit`.

Source: platform.claude.com, "Thinking", "Effort", and "What's new" of Opus 5.5, Sonnet 5.5 and
Haiku 5.5, and the migration guide of Fable 5; docs.aws.amazon.com/bedrock, "Adaptive thinking";
read 2026-11-22. The forms of each model are in known_models.json, or reported by the provider.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from treadle.config.model_profile import EFFORTS, Abilities
from treadle.models.providers.encoding import effort_for
from treadle.types import Effort, Settings, Thinking

BUDGETS: dict[Effort | None, int] = {
    "low": 4_000,
    "medium": 10_000,
    None: 16_000,
    "high": 16_000,
    "xhigh": 32_000,
    "max": 32_000,
}
"""Default budgets by effort, for models that accept only a budget."""
LEAST_BUDGET = 1_024

Block = dict[str, Any]


class ThinkingFit(NamedTuple):
    """Settings of a request in the form that the model accepts."""

    thinking: Block | None
    effort: Effort | None
    tool_choice: str | None
    notes: tuple[str, ...] = ()
    """Differences from the requested settings, for display."""


def fit(settings: Settings, abilities: Abilities) -> ThinkingFit:
    """Fit settings to a model. An unknown model gets them unchanged."""
    choice, notes = settings.tool_choice, list[str]()
    if abilities.forced_tools is False and choice not in (None, "auto", "none"):
        notes.append(f"a call cannot be forced: tool_choice={choice!r} became 'auto'")
        choice = "auto"
    effort = (
        None
        if settings.effort is None or abilities.efforts == ()
        else abilities.effort(settings.effort)
    )
    if abilities.thinking_types is None:
        thinking = None if settings.thinking is None else _asked(settings.thinking)
    else:
        thinking, effort = _known(settings, effort, abilities, notes)
    if (
        thinking is not None
        and thinking["type"] == "enabled"
        and choice not in (None, "auto", "none")
    ):
        notes.append(
            f"a call cannot be forced with a budget for thinking: tool_choice={choice!r} became "
            "'auto'"
        )
        choice = "auto"
    if settings.effort is not None and effort != settings.effort:
        notes.append(f"effort={settings.effort!r} became {effort!r}")
    if (
        thinking is not None
        and thinking["type"] == "adaptive"
        and abilities.thinking_types is not None
    ):
        thinking["display"] = "omitted" if settings.show_thinking is False else "summarized"
    return ThinkingFit(thinking, effort, choice, tuple(notes))


def _asked(thinking: Thinking) -> Block:
    if thinking is False:
        return {"type": "disabled"}
    if thinking is True or thinking == "adaptive":
        return {"type": "adaptive"}
    return (
        {"type": "enabled", "budget_tokens": thinking}
        if isinstance(thinking, int)
        else {"type": thinking}
    )


def _known(
    settings: Settings, effort: Effort | None, abilities: Abilities, notes: list[str]
) -> tuple[Block | None, Effort | None]:
    thinking, types = settings.thinking, abilities.thinking_types or ()
    if thinking is None:
        shown = (
            abilities.thinks_unasked
            and abilities.reasoning is not False
            and settings.show_thinking is not False
        )
        return ({"type": "adaptive"} if shown else None), effort
    if thinking is False or thinking == "between_tools":
        return _little(thinking, effort, abilities, notes)
    budget = thinking if isinstance(thinking, int) and thinking is not True else None
    if "adaptive" in types and (budget is None or "enabled" not in types):
        if budget is not None:
            wanted = effort or abilities.effort(effort_for(budget))
            notes.append(
                f"a thinking budget is not supported: {budget:,} tokens became effort={wanted!r}"
            )
            return {"type": "adaptive"}, wanted
        return {"type": "adaptive"}, effort
    if "enabled" not in types:
        notes.append(f"thinking={thinking!r} is not supported: it was left out")
        return None, effort
    room = abilities.output(settings.max_tokens) - 1
    if room < LEAST_BUDGET:
        notes.append(
            f"max_tokens leaves less than {LEAST_BUDGET:,} tokens for thinking: it was left out"
        )
        return None, effort
    tokens = max(LEAST_BUDGET, min(budget or BUDGETS[settings.effort], room))
    if tokens != budget:
        notes.append(f"thinking={thinking!r} became a budget of {tokens:,} tokens")
    return {"type": "enabled", "budget_tokens": tokens}, effort


def _little(
    thinking: Thinking, effort: Effort | None, abilities: Abilities, notes: list[str]
) -> tuple[Block, Effort | None]:
    """Disable thinking, or restrict it to between calls, or else use the lowest effort."""
    types, most, least = (
        abilities.thinking_types or (),
        abilities.off_up_to,
        effort or abilities.effort("low"),
    )
    if most is not None and effort is not None and EFFORTS.index(effort) > EFFORTS.index(most):
        effort = most
    if "between_tools" in types and (thinking == "between_tools" or "disabled" not in types):
        if thinking is False:
            notes.append("thinking cannot be disabled: it became 'between_tools'")
        return {"type": "between_tools"}, effort
    if "disabled" in types:
        if thinking == "between_tools":
            notes.append("thinking='between_tools' is not supported: thinking is disabled")
        return {"type": "disabled"}, effort
    notes.append(f"thinking cannot be disabled: effort is {least!r}")
    return {"type": "adaptive"}, least
