"""The model of a run, and the run that requests it. Entry points: `ChosenModel`, `Asker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from treadle.budget.prices import Pricing
from treadle.context.native_compaction import CompactingModel
from treadle.journal.entries import Fork
from treadle.journal.run_state import RunState
from treadle.models.model import Model

if TYPE_CHECKING:
    from treadle.models.providers.batching.request_batch import BatchMember
    from treadle.models.providers.run_headers import RunHeaders


class ChosenModel(NamedTuple):
    model: Model
    name: str
    """Name by which another process finds the model."""
    names: tuple[str, ...]
    """Names of all models that may be used."""
    prices: Callable[[str], Pricing]
    """Price of each of them, by name."""
    windows: Callable[[str], int | None]
    """Context window of each of them in tokens; None if unknown."""
    compacting: Callable[[str], CompactingModel | None]
    """Models whose providers compact conversations, by name."""
    outputs: tuple[int, int]
    """Output tokens of one response: default and maximum."""
    at_once: ChosenModel | None = None
    """The same model with requests that are sent at once, if those of `model` go out in batches."""


class Asker(NamedTuple):
    """The run that requests a model. A script continues at the conversation's position."""

    run_id: str
    session_id: str | None
    state: RunState | None = None
    """State of a resumed run."""
    fork: Fork | None = None
    submits: bool = False
    """True if another process will call the model, with its own key."""
    headers: RunHeaders | None = None
    batch: BatchMember | None = None
