"""The batches of runs of a runtime, and the models of their runs.

batched_runs.py starts these runs; models/providers/batching sends their requests. Entry points:
`Batches`, `batched_choice`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from treadle._internal.clock import Clock
from treadle.budget.prices import BatchPrice, Pricing
from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.models.model import Model
from treadle.models.providers.batching.policy import BatchPolicy
from treadle.models.registry import Models
from treadle.runtime.chosen_model import Asker, ChosenModel

if TYPE_CHECKING:
    from treadle.models.providers.batching.request_batch import BatchMember, RequestBatch


class Batches:
    """Batches of runs, by name, as long as a run of theirs is active here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: WeakValueDictionary[str, RequestBatch] = WeakValueDictionary()
        self.members: dict[str, BatchMember] = {}
        """Runs of `Runtime.batch` that may start, by id."""

    def begin(self, name: str, policy: BatchPolicy, *, is_ordinary: bool) -> RequestBatch:
        """Return the batch of a call of `Runtime.batch`. Calls with one name share it."""
        from treadle.models.providers.batching.request_batch import RequestBatch  # noqa: PLC0415  few programs use it

        batch = self._known.get(name)
        if batch is None:
            batch = RequestBatch(name, policy, self._clock, is_ordinary=is_ordinary)
            self._known[name] = batch
        return batch

    def expect(self, batch: RequestBatch, run_id: str) -> None:
        """Note that a run of this id belongs to a batch, and may start soon."""
        batch.busy.add(run_id)
        self.members[run_id] = self._member(batch, run_id)

    def _member(self, batch: RequestBatch, run_id: str) -> BatchMember:
        from treadle.models.providers.batching.request_batch import BatchMember  # noqa: PLC0415  as above

        return BatchMember(batch, run_id)

    def again(self, started: RunStarted) -> BatchMember | None:
        """Return the place of a resumed run in its batch; None if it has none."""
        if not started.batch:
            return None
        # it has started, so its provider has a batch API, or the batch does without
        batch = self.begin(started.batch, BatchPolicy(), is_ordinary=True)
        return self._member(batch, started.run_id)


def batched_choice(
    models: Models, asked: str | Model, chosen: ChosenModel, asker: Asker
) -> ChosenModel:
    """Return a model whose requests go out in batches. A model that runs in this process, for
    example a script, is asked at once.

    Raises AgentError(invalid) if the provider has no batch API, unless the batch does without.
    """
    assert asker.batch is not None, "a run of a batch"
    if isinstance(asked, str):
        name, model = chosen.name, models.batched(chosen.name, asker.batch, asker.headers)
        if model is not None:
            return _at_half_price(chosen, model)
        is_local = models.is_local(name)
        why = f"the provider of {asked!r} has no batch API that Treadle knows"
    else:
        is_local = len(chosen.names) == 1 and getattr(asked, "base_url", None) is None
        why = f"a batch needs one model by its name, not a {type(asked).__name__}"
    if is_local or asker.batch.batch.is_ordinary:
        return chosen
    raise AgentError(
        "invalid",
        f"{why}: use Runtime.run, or pass ordinary=True, which sends ordinary requests at the full "
        "price",
    )


def _at_half_price(chosen: ChosenModel, model: Model) -> ChosenModel:
    def prices(name: str) -> Pricing:
        return BatchPrice(chosen.prices(name))

    # a provider's own compaction is not a request that a batch takes
    return chosen._replace(model=model, prices=prices, compacting=_nothing, at_once=chosen)


def _nothing(name: str) -> None:
    return None
