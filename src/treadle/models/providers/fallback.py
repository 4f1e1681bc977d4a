"""A chain of models used as one: if one fails before any visible output, or refuses, the next one
takes its place.

retry.py repeats requests to the same model. This class is stateless: the request names the model
that responded last, and the switch is a delta that the run journals. Entry points: `FallbackModel`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from treadle.config.readers import REFUSAL
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelNotice,
    ModelRequest,
    ReasoningDelta,
    ResponseEnd,
    Switch,
    TextDelta,
    ToolCallStart,
    WholePart,
)
from treadle.types import Settings, StopReason, Usage

ON = (ErrorKind.RATE_LIMIT, ErrorKind.NETWORK, ErrorKind.TIMEOUT, REFUSAL)

_SEEN = (TextDelta, ReasoningDelta, ToolCallStart, ArgumentsDelta, WholePart)


class FallbackModel:
    """Model that asks the first of `models` and uses the others as fallbacks.

    After a switch, later turns ask the new model first, and continue around the chain only if it
    fails too.

    Attributes:
        models: The models as given, in the order in which they are asked.
        on: Kinds of error, and `refusal`, after which the next model is asked.
        names: Names of the models in requests, journals and other processes.
    """

    def __init__(self, *models: Model | str, on: Collection[ErrorKind | str] = ON) -> None:
        """Create a fallback model. `models`: objects, or names that the runtime resolves. `on`:
        error kinds, and `refusal`.

        Raises AgentError(invalid).
        """
        if len(models) < 2:
            raise AgentError(
                "invalid",
                ("FallbackModel needs at least two models: the primary one and a fallback"),
            )
        known = {*(kind.value for kind in ErrorKind), REFUSAL}
        if unknown := sorted({str(kind) for kind in on} - known):
            raise AgentError(
                "invalid",
                (
                    f"FallbackModel(on=...) does not know {unknown[0]!r}: use {REFUSAL!r}, or a "
                    f"kind of error ({', '.join(sorted(known))})"
                ),
            )
        self.models: tuple[Model | str, ...] = models
        self.on = frozenset(str(kind) for kind in on)
        self.names = tuple(model if isinstance(model, str) else model.name for model in models)
        if len(set(self.names)) < len(self.names):
            raise AgentError(
                "invalid", f"FallbackModel got the same model twice: {', '.join(self.names)}"
            )

    @property
    def name(self) -> str:
        """Name of the first model."""
        return self.names[0]

    @property
    def refuses(self) -> frozenset[str]:
        """Settings that the first model rejects. For other models, rejected settings are omitted
        when they are asked.
        """
        return self._resolved(0).refuses

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return the notes of the first model."""
        notes: Callable[[Settings], tuple[str, ...]] | None = getattr(
            self._resolved(0), "notes", None
        )
        return () if notes is None else notes(settings)

    def found(self, find: Callable[[str], tuple[str, Model]]) -> FallbackModel:
        """Return a chain in which `find` has resolved each name to a model and its full name.

        Raises the errors of `find`.
        """
        pairs = [
            find(model) if isinstance(model, str) else (model.name, model) for model in self.models
        ]
        other = FallbackModel(*(model for _, model in pairs), on=self.on)
        other.names = tuple(name for name, _ in pairs)
        return other

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of the first model that responds."""
        first = self.names.index(request.model) if request.model in self.names else 0
        order = [*range(first, len(self.names)), *range(first)]
        for index, following in zip(order, [*order[1:], None], strict=True):
            trial = _Trial(self.on if following is not None else ())
            async with aclosing(trial.stream(self._resolved(index), request)) as deltas:
                async for delta in deltas:
                    yield delta
            if trial.failed is None or following is None:
                return
            yield msgspec.structs.replace(
                trial.failed, model=self.names[following], before=self.names[index]
            )

    def _resolved(self, index: int) -> Model:
        model = self.models[index]
        if isinstance(model, str):
            raise AgentError(
                "invalid",
                (
                    f"FallbackModel({model!r}, ...): names are resolved by a runtime only; "
                    "pass a Model object to use it directly"
                ),
            )
        return model


class _Trial:
    """A single request to one model of the chain."""

    def __init__(self, on: Collection[str]) -> None:
        self._on = on
        self.failed: Switch | None = None
        """The failure, without the model names; None if the model responded."""

    async def stream(self, model: Model, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the model's deltas. Raises the AgentErrors that no fallback handles."""
        asked, left_out = _without(model.refuses, request)
        for name in left_out:
            yield ModelNotice(f"{model.name} does not accept {name}: it was left out")
        seen = False
        try:
            async with aclosing(model.stream(asked)) as deltas:
                async for delta in deltas:
                    if (
                        isinstance(delta, ResponseEnd)
                        and delta.stop_reason is StopReason.REFUSAL
                        and not seen
                        and REFUSAL in self._on
                    ):
                        self._fail(
                            REFUSAL,
                            "it refused to answer",
                            status=200,
                            request_id=None,
                            usage=delta.usage,
                        )
                        return
                    seen = seen or isinstance(delta, _SEEN)
                    yield delta
        except AgentError as error:
            if seen or error.kind.value not in self._on:
                raise
            self._fail(
                error.kind.value, error.message, status=error.status, request_id=error.request_id
            )

    def _fail(
        self,
        kind: str,
        why: str,
        *,
        status: int | None,
        request_id: str | None,
        usage: Usage | None = None,
    ) -> None:
        self.failed = Switch(
            model="",
            before="",
            kind=kind,
            why=why,
            status=status,
            request_id=request_id,
            usage=usage,
        )


def _without(refused: frozenset[str], request: ModelRequest) -> tuple[ModelRequest, Sequence[str]]:
    """Return the request without the settings that the model rejects, and their names."""
    names = sorted(request.settings.given & refused)
    if not names:
        return request, ()
    return msgspec.structs.replace(
        request, settings=msgspec.structs.replace(request.settings, **dict.fromkeys(names))
    ), names


if TYPE_CHECKING:
    _: type[Model] = FallbackModel
