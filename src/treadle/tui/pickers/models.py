"""Picker for models: the configured ones and all models of the providers. Entry points:
`pick_model`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from treadle._internal.units import money, tokens
from treadle.config import Config
from treadle.config.model_profile import Abilities
from treadle.runtime.model_catalog import CatalogModel as Known
from treadle.runtime.model_catalog import ProviderAnswer, look_up, providers
from treadle.tui.picker import Picker, PickerRow

if TYPE_CHECKING:
    from treadle.tui.desk import Desk


async def pick_model(desk: Desk) -> str | None:
    """Return the name of the chosen model, as for `--model`.

    Known models are listed immediately; configured providers are queried and their models added.
    """
    config = desk.config
    answers = [ProviderAnswer(name) for name in providers(config)]
    for answer in answers:
        await look_up(config, answer, True)
    rows = known(config, (row for answer in answers for row in answer.rows))
    picker = Picker(desk.screen, "Models", rows)
    there = {row.value for row in rows}

    async def ask(name: str) -> None:
        await look_up(config, answer := ProviderAnswer(name), False)
        new = [row for row in answer.rows if row.name not in there]
        there.update(row.name for row in new)
        if new:
            picker.add(model_row(row) for row in new)

    chosen: str | None = None
    async with anyio.create_task_group() as group:
        for answer in answers:
            group.start_soon(ask, answer.name)
        chosen = await desk.screen.ask(picker)
        group.cancel_scope.cancel()
    return chosen


def known(config: Config, found: Iterable[Known]) -> list[PickerRow[str]]:
    """Return the rows of the known models, without duplicates, configured ones first."""
    by_name = {row.name: row for row in found}
    names = {
        config.models.large: "large",
        **({} if config.models.small == config.models.large else {config.models.small: "small"}),
    }
    first = [
        model_row(by_name[name], size) if name in by_name else PickerRow(name, name, size)
        for name, size in names.items()
    ]
    return [*first, *(model_row(row) for name, row in by_name.items() if name not in names)]


def model_row(model: Known, size: str = "") -> PickerRow[str]:
    return PickerRow(model.name, model.name, " · ".join(filter(None, (size, *_facts(model)))))


def _facts(model: Known) -> Iterable[str]:
    if model.abilities.context_tokens:
        yield f"{tokens(model.abilities.context_tokens)} tokens"
    if model.input_usd is not None and model.output_usd is not None:
        yield f"{money(model.input_usd)} in, {money(model.output_usd)} out"
    yield ", ".join(_abilities(model.abilities))


def _abilities(can: Abilities) -> Iterable[str]:
    if can.images:
        yield "images"
    if can.reasoning:
        yield "thinks"
    if can.tools is False:
        yield "no tools"
