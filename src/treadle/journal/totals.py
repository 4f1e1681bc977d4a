"""Totals of the trees of runs that a list shows. Entry point: `with_totals`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import structs

from treadle.journal.run_info import RunInfo
from treadle.messages.metrics import RunTotals


def own_total(info: RunInfo) -> RunTotals:
    """Return the figures of one run alone."""
    unpriced = sum(part.unpriced for part in info.spending)
    return RunTotals(
        turns=info.turns,
        tool_calls=info.tool_calls,
        usage=info.usage,
        cost_usd=info.cost_usd,
        unpriced=unpriced,
    )


def with_totals(
    infos: Sequence[RunInfo], children_of: Callable[[Collection[str]], Iterable[RunInfo]]
) -> list[RunInfo]:
    """Fill in `total` of each run, keeping the order. `children_of`: function that returns the runs
    that any of these runs started directly.

    Only runs whose end has no total are looked up, level by level. Imported runs may name each
    other as parents; each counts once.
    """
    found = {info.run_id: info for info in infos}
    asked = [info.run_id for info in infos if not info.total.runs]
    while asked:
        new = {child.run_id: child for child in children_of(asked) if child.run_id not in found}
        found |= new
        asked = [child.run_id for child in new.values() if not child.total.runs]
    totals = {
        run_id: info.total if info.total.runs else own_total(info) for run_id, info in found.items()
    }
    sums = {run_id: [total] for run_id, total in totals.items()}
    for run_id, info in found.items():
        passed, above = {run_id}, info.parent_run_id
        while (
            above is not None
            and above in found
            and above not in passed
            and not found[above].total.runs
        ):
            sums[above].append(totals[run_id])
            passed.add(above)
            above = found[above].parent_run_id
    return [
        structs.replace(info, total=sum(sums[info.run_id][1:], sums[info.run_id][0]))
        for info in infos
    ]
