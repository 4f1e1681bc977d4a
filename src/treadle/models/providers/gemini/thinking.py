"""Thinking of Gemini models: levels since Gemini 3, budgets before. Entry points: `fit`.

Source: https://ai.google.dev/gemini-api/docs/thinking, and "Thinking" of the Gemini Enterprise
Agent Platform, read 2026-11-22. known_models.json lists the levels of each model.
"""

from __future__ import annotations

from typing import NamedTuple

from treadle.config.model_profile import Abilities
from treadle.models.providers.encoding import Json
from treadle.models.providers.gemini.naming import GENERATION_OF_LEVELS, is_older
from treadle.types import Effort, Settings

_LEVELS: dict[Effort, str] = {
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
    "max": "XHIGH",
}
_BUDGETS: dict[Effort, int] = {
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 24576,
    "max": 24576,
}
"""Budgets by effort, for models without levels.

Source: the table of https://ai.google.dev/gemini-api/docs/openai, and the maximum of each 2.5
model.
"""
_DYNAMIC = -1
_LEAST = {"gemini-2.5-pro": 128, "gemini-2.5-flash-lite": 512}
"""Minimum nonzero budgets."""
_MOST, _MOST_OF_PRO = 24_576, 32_768
_ALWAYS_THINKS = "gemini-2.5-pro"


class GeminiThinking(NamedTuple):
    """Thinking of a request in the form that the model accepts."""

    config: Json
    """Fields to send; empty for none."""
    notes: tuple[str, ...] = ()
    """Differences from the requested settings, for display."""


def fit(settings: Settings, abilities: Abilities, model_id: str) -> GeminiThinking:
    """Fit thinking to a model, as a level or a budget, never both: the API rejects that.

    Thought summaries are requested together with thinking.
    """
    thinking = settings.thinking
    if thinking is None and settings.effort is None:
        return GeminiThinking({})
    notes = list[str]()
    if abilities.thinking_types == ():
        return GeminiThinking(
            {},
            () if not thinking else (f"thinking={thinking!r} is not supported: it was left out",),
        )
    if thinking == "between_tools":
        notes.append("thinking='between_tools' is not supported: the model decides")
    shown: Json = (
        {}
        if thinking is None
        else {"includeThoughts": thinking is not False and settings.show_thinking is not False}
    )
    settings_left = (thinking, settings.effort)
    way = (
        _budget(settings_left, model_id, notes)
        if is_older(model_id, GENERATION_OF_LEVELS)
        else _level(settings_left, abilities, notes)
    )
    return GeminiThinking({**shown, **way}, tuple(notes))


def _level(asked: tuple[object, Effort | None], abilities: Abilities, notes: list[str]) -> Json:
    thinking, effort = asked
    if thinking is False:
        least = "MINIMAL" if abilities.minimal_thinking else "LOW"
        notes.append(f"thinking cannot be disabled: its level is {least.lower()!r}")
        return {"thinkingLevel": least}
    if effort is None and isinstance(thinking, int) and thinking is not True:
        enough: list[Effort] = [name for name, budget in _BUDGETS.items() if thinking <= budget]
        effort = abilities.effort(enough[0] if enough else "high")
        notes.append(
            f"a thinking budget is not supported: {thinking:,} tokens became effort={effort!r}"
        )
        return {"thinkingLevel": _LEVELS[effort]}
    if effort is None:
        return {}
    fitted = abilities.effort(effort)
    if fitted in ("xhigh", "max") and not abilities.efforts:
        fitted = "high"  # the highest level that any is known to accept
    if fitted != effort:
        notes.append(f"effort={effort!r} became {fitted!r}")
    return {"thinkingLevel": _LEVELS[fitted]}


def _budget(asked: tuple[object, Effort | None], model_id: str, notes: list[str]) -> Json:
    thinking, effort = asked
    least = next((tokens for name, tokens in _LEAST.items() if name in model_id), 0)
    if thinking is False and _ALWAYS_THINKS in model_id:
        notes.append(f"thinking cannot be disabled: its budget is {least} tokens")
        return {"thinkingBudget": least}
    if thinking is False:
        return {"thinkingBudget": 0}
    if isinstance(thinking, int) and thinking is not True:
        most = _MOST_OF_PRO if _ALWAYS_THINKS in model_id else _MOST
        budget = max(least, min(thinking, most))
        if budget != thinking:
            notes.append(f"a budget of {thinking:,} tokens for thinking became {budget:,}")
        return {"thinkingBudget": budget}
    return {"thinkingBudget": _DYNAMIC if effort is None else _BUDGETS[effort]}
