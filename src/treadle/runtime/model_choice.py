"""The model of a run, given by name or as an object, with its fallbacks and their prices.

registry.py resolves names; the loop and FallbackModel switch from one to the next. Entry point:
`ModelChoice`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.budget.ledger import Ledger
from treadle.budget.price_list import Prices
from treadle.budget.prices import Pricing, needed
from treadle.config import Config
from treadle.config.keys import STAND_INS
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.config.sections import Models as Sizes
from treadle.context.compaction import Summariser
from treadle.context.native_compaction import CompactingModel
from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import Fork
from treadle.journal.journal import Journal
from treadle.journal.run_state import RunState
from treadle.models.model import Model
from treadle.models.providers.fallback import FallbackModel
from treadle.models.registry import Models
from treadle.runtime.chosen_model import Asker, ChosenModel
from treadle.types import NO_LIMITS, Limits

if TYPE_CHECKING:
    from treadle.models.providers.run_headers import RunHeaders


replaced: dict[str, str | Model] = {}
"""Models that replace agents' own, by agent name. Set only by tests."""


class ModelChoice:
    """Resolver of models. Each configuration has one."""

    def __init__(self, config: Config, models: Models, journal: Journal) -> None:
        self._config = config
        self._models = models
        self._journal = journal
        self._prices = Prices(config)

    async def choose(
        self, asked: str | Model, asker: Asker, limits: Limits, above: Ledger | None = None
    ) -> ChosenModel:
        """Resolve a model. Raises AgentError: invalid for an unknown name, or for an unknown price
        if cost is limited, also by the run `above`; auth if there is no key.
        """
        if isinstance(asked, str) and asker.batch is None and (others := self._in_its_place(asked)):
            asked = FallbackModel(asked, *others, on=self._config.fallback.on)
        if isinstance(asked, FallbackModel):
            model = await self._found(asked, asker)
            chosen = ChosenModel(
                model,
                model.name,
                model.names,
                self._priced(model.models, model.names),
                _windows(model.models, model.names),
                _compacting(model.models, model.names),
                _outputs(model.models[0]),
            )
        elif isinstance(asked, str):
            name, found = await self._named(asked, asker)
            chosen = ChosenModel(
                found,
                name,
                (name,),
                self._prices.of,
                _windows((found,), (name,)),
                _compacting((found,), (name,)),
                _outputs(found),
            )
        else:
            _check_model(asked)
            _place(asked, asker.state)
            name = asked.name
            chosen = ChosenModel(
                asked,
                name,
                (name,),
                self._priced((asked,), (name,)),
                _windows((asked,), (name,)),
                _compacting((asked,), (name,)),
                _outputs(asked),
            )
        if asker.batch is not None:
            from treadle.runtime.batches import batched_choice  # noqa: PLC0415  few runs are in a batch

            chosen = batched_choice(self._models, asked, chosen, asker)
        if limits.cost_usd is not None or (above is not None and above.counts_money):
            await _check_prices(chosen)
        return chosen

    def headers(self, asked: str | Model, given: object) -> RunHeaders | None:
        """Return the headers of a run, for the provider of its model `asked`; None for a script or
        a tape. Raises AgentError(invalid).
        """
        from treadle.models.providers.run_headers import RunHeaders  # noqa: PLC0415  few runs have any

        first = asked.models[0] if isinstance(asked, FallbackModel) else asked
        name = first if isinstance(first, str) else first.name
        provider, _ = self._config.split(name) if isinstance(first, str) else name.split(":", 1)
        if (headers := RunHeaders.of(provider, given)) is None:
            return None
        if provider in ("script", "tape"):
            return None
        if provider == "record" or not isinstance(first, str):
            raise AgentError(
                "invalid",
                f"headers= cannot be sent by {name!r}: they need a model that is given by name, "
                "like 'anthropic:claude-haiku-5-5'",
            )
        return headers

    async def is_priced(self, asked: str | Model) -> bool:
        """Return True if the prices of all models that may be used are known, so that a cost limit
        can be enforced.
        """
        try:
            await self.choose(asked, Asker("", None, submits=True), Limits(cost_usd=1.0))
        except AgentError:
            return False
        return True

    def _in_its_place(self, name: str) -> list[str]:
        """Return the configured fallbacks. A model that is a file has none."""
        provider, model_id = self._config.split(name)
        others = [
            other
            for other in self._config.fallback.models
            if ":".join(self._config.split(other)) != f"{provider}:{model_id}"
        ]
        return [] if provider in STAND_INS else others

    async def _found(self, fallback: FallbackModel, asker: Asker) -> FallbackModel:
        found = {
            name: await self._named(name, asker)
            for name in fallback.models
            if isinstance(name, str)
        }
        for model in fallback.models:
            if not isinstance(model, str):
                _check_model(model)
                _place(model, asker.state)
        return fallback.found(found.__getitem__) if found else fallback

    async def _named(self, asked: str, asker: Asker) -> tuple[str, Model]:
        scope = asker.session_id or asker.run_id
        name, place = from_anywhere(asked), 0
        if asker.submits:
            return name, self._models.described(name)
        if self._models.plays(name, scope=scope):
            run_id = asker.run_id if asker.state is not None else None
            place = await _used_up(self._journal, name, run_id, asker.session_id, asker.fork)
        found = self._models.get(name, scope=scope, place=place, headers=asker.headers)
        return (found.name if name.startswith("record:") else name), found

    def _priced(
        self, models: tuple[Model | str, ...], names: tuple[str, ...]
    ) -> Callable[[str], Pricing]:
        """Return the price of a model object, which may be reached at another address than its name
        implies.
        """
        addresses = {
            name: address
            for name, model in zip(names, models, strict=True)
            if (address := getattr(model, "base_url", None)) is not None
        }
        if not addresses:
            return self._prices.of
        own = {name: self._prices.reached_at(name, address) for name, address in addresses.items()}
        return lambda name: own.get(name) or self._prices.of(name)

    async def summarisers(self, own: ChosenModel, asker: Asker) -> AsyncGenerator[Summariser, None]:
        """Yield the small model; if it is unavailable or fails, the run's own."""
        own, missed = own.at_once or own, ""
        try:
            small = await self.choose(self._config.models.small, asker, NO_LIMITS)
        except AgentError as e:
            missed = missed_small(self._config, own.name, e)
        else:
            yield Summariser(
                small.model,
                small.name,
                small.prices,
                small.windows(small.name),
                names=small.names,
            )
        yield Summariser(own.model, own.name, own.prices, own.windows(own.name), missed, own.names)


async def _check_prices(chosen: ChosenModel) -> None:
    """Load the prices of all models that may be used. Raises AgentError(invalid)."""
    for name in chosen.names:
        await chosen.prices(name).load()
        needed(chosen.prices(name), name)


def _check_model(model: object) -> None:
    """Raise AgentError(invalid) for an object that cannot be a `Model`. The message names its class
    and the fix.
    """
    made = type(model).__qualname__
    for name, hint in _REQUIRED:
        try:
            getattr(model, name)
        except AttributeError as e:
            raise AgentError("invalid", f"{made} has no `{name}`: add {hint}") from e
    if inspect.iscoroutinefunction(getattr(model, "stream", None)):
        raise AgentError(
            "invalid",
            (
                f"{made}.stream is a coroutine function, not an async generator: use `yield` for "
                "each delta in `async def stream(self, request)`, and a ResponseEnd at the end, "
                "instead of returning a value"
            ),
        )


_REQUIRED = (
    ("name", "a property, or an attribute, with the name as `provider:id`"),
    (
        "refuses",
        "`refuses = frozenset()`, with the names of the `Settings` fields that it does not take",
    ),
)


def _windows(
    models: tuple[Model | str, ...], names: tuple[str, ...]
) -> Callable[[str], int | None]:
    """Return the context windows of models that declare their `abilities`."""
    known = {
        name: getattr(getattr(model, "abilities", None), "context_tokens", None)
        for name, model in zip(names, models, strict=True)
    }
    return known.get


def _compacting(
    models: tuple[Model | str, ...], names: tuple[str, ...]
) -> Callable[[str], CompactingModel | None]:
    """Return the models that have the methods of a `CompactingModel`."""
    able: dict[str, Any] = {
        name: model
        for name, model in zip(names, models, strict=True)
        if hasattr(model, "can_compact") and hasattr(model, "compact")
    }
    return able.get


def _outputs(model: Model | str) -> tuple[int, int]:
    abilities: Abilities = getattr(model, "abilities", UNKNOWN)
    return abilities.output(), abilities.most_output()


def _place(model: Model, state: RunState | None) -> None:
    """Move a new script to the position at which the run stopped."""
    if state is not None and isinstance(place := getattr(model, "place", None), int):
        model.place = max(place, state.spending.used_up.get(model.name, 0))  # pyright: ignore[reportAttributeAccessIssue]  it has one


async def _used_up(
    journal: Journal, name: str, run_id: str | None, session_id: str | None, fork: Fork | None
) -> int:
    """Return the number of entries of a script or recording that earlier runs of the conversation
    used, including the runs it was forked from.
    """
    before = [] if run_id is None else [run_id]
    if session_id is not None and journal.sessions.get(session_id) is not None:
        before = [info.run_id for info in await journal.runs(session_id=session_id)]
    used = 0 if fork is None else await _used_at(journal, name, fork)
    for run in before:
        state = await journal.load(run)
        used += state.spending.used_up.get(name, 0)
        if state.started is not None and state.started.fork is not None:
            used += await _used_at(journal, name, state.started.fork)
    return used


async def _used_at(journal: Journal, name: str, fork: Fork) -> int:
    state = RunState()
    for record in (await journal.read(fork.run_id))[: fork.seq]:
        state.apply(record.entry)
    started = state.started
    assert started is not None, "a run begins with run.started"
    used = state.spending.used_up.get(name, 0)
    if started.fork is not None:
        return used + await _used_at(journal, name, started.fork)
    if started.session_id is None:
        return used
    run_ids = [info.run_id for info in await journal.runs(session_id=started.session_id)]
    # none if that run was deleted
    older = [*dropwhile(lambda run_id: run_id != fork.run_id, run_ids)][1:]
    states = [await journal.load(run_id) for run_id in older]
    return used + sum(before.spending.used_up.get(name, 0) for before in states)


def missed_small(config: Config, own: str, error: AgentError) -> str:
    """Explain that the small model is unavailable and `own` is used instead. Empty if none was
    configured and its key is missing.
    """
    if (
        error.kind is ErrorKind.AUTH
        and config.models.small == Sizes().small
        and config.origin("models", "small").source == "default"
    ):
        return ""
    return f"models.small cannot be used, so {own} summarizes older messages: {error.message}"


def from_anywhere(model: str) -> str:
    """Return a model's name that is valid in any directory, with the absolute path of a script or
    recording.
    """
    kind, colon, path = model.partition(":")
    return (
        f"{kind}:{Path(path).absolute()}"
        if colon and kind in ("script", "tape") and path
        else model
    )
