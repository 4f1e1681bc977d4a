"""Thinking, effort and temperature of GPT models, for both OpenAI wires. Entry points: `fit`.

known_models.json lists the abilities of each model. Source: developers.openai.com, "Deployment
checklist", "Reasoning models", and the models' pages; read 2026-11-22.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from treadle.config.model_profile import Abilities
from treadle.models.providers.encoding import effort_for
from treadle.types import Settings

_ALWAYS_THINKS = re.compile(r"o\d|.*-(pro|codex)\b")
"""Ids of models whose thinking cannot be disabled, including models that no list names."""
OFF = "none"


class EffortFit(NamedTuple):
    """Settings of a request in the form that the model accepts."""

    effort: str | None
    temperature: float | None
    notes: tuple[str, ...] = ()
    """Differences from the requested settings, for display."""


def fit(settings: Settings, abilities: Abilities, model_id: str) -> EffortFit:
    """Fit settings to a model.

    An unknown model gets them unchanged, except `thinking`, which the API can express only as an
    effort.
    """
    notes = list[str]()
    effort = (
        _effort(settings, abilities, model_id, notes) if abilities.reasoning is not False else None
    )
    temperature = settings.temperature
    thinks = effort != OFF if effort is not None else abilities.thinks_unasked
    if temperature is not None and abilities.thinks_unasked is not None and thinks:
        notes.append("temperature is not supported while it thinks: it was left out")
        temperature = None
    return EffortFit(effort, temperature, tuple(notes))


def _effort(
    settings: Settings, abilities: Abilities, model_id: str, notes: list[str]
) -> str | None:
    thinking, wanted = settings.thinking, settings.effort
    if thinking is False:
        least = _least(abilities, model_id)
        if least != OFF:
            notes.append(f"thinking cannot be disabled: effort is {least!r}")
        elif wanted is not None:
            notes.append(f"thinking is disabled: effort={wanted!r} was left out")
        return least
    if thinking == "between_tools":
        notes.append("thinking='between_tools' is not supported: the model decides")
    if wanted is not None:
        effort = abilities.effort(wanted)
        if effort != wanted:
            notes.append(f"effort={wanted!r} became {effort!r}")
        return effort
    if isinstance(thinking, int) and thinking is not True:
        effort = abilities.effort(effort_for(thinking))
        notes.append(
            f"a thinking budget is not supported: {thinking:,} tokens became effort={effort!r}"
        )
        return effort
    if thinking in (True, "adaptive") and abilities.thinks_unasked is False:
        notes.append(f"thinking={thinking!r} became effort='medium'")
        return abilities.effort("medium")
    return None


def _least(abilities: Abilities, model_id: str) -> str:
    """Return the effort that disables thinking, or the lowest one if it cannot be disabled."""
    if abilities.minimal_thinking or abilities.thinks_unasked is False:
        return "minimal" if abilities.minimal_thinking else OFF
    return (
        abilities.effort("low")
        if _ALWAYS_THINKS.match(model_id) or abilities.always_thinks
        else OFF
    )
