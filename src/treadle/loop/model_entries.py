"""Entries for the model's half of a turn. Entry points: `responded`, `switched`.

The loop decides when they are appended (model_turn.py).
"""

from __future__ import annotations

import msgspec

from treadle.journal.entries import ModelRequested, ModelResponded, ModelSwitched
from treadle.messages.events import ErrorInfo
from treadle.messages.message import Message
from treadle.models.model import ModelResponse, Switch
from treadle.types import Usage, now


def responded(
    message: Message,
    response: ModelResponse | None,
    *,
    turn: int,
    attempt: int,
    cost_usd: float | None = None,
    hook: str | None = None,
) -> ModelResponded:
    """Return the entry of a response. `response`: None if the end of the run cut it off, with
    `message` as its beginning.
    """
    if response is None:
        return ModelResponded(
            at=message.created_at,
            turn=turn,
            attempt=attempt,
            message=message,
            usage=Usage(),
            stop_reason=None,
        )
    return ModelResponded(
        at=message.created_at,
        turn=turn,
        attempt=attempt,
        message=message,
        usage=response.usage,
        cost_usd=cost_usd,
        stop_reason=response.stop_reason,
        raw_stop_reason=response.raw_stop_reason,
        response_id=response.id,
        model=response.model,
        provider_data=response.provider_data,
        context_tokens=response.context_tokens,
        results_only=response.results_only,
        withdraws=response.withdraws,
        hook=hook,
        details=response.details,
    )


def switched(
    asked: ModelRequested,
    switch: Switch,
    failed: ErrorInfo,
    *,
    attempt: int,
    spent_usd: float | None,
    free: bool,
) -> tuple[ModelSwitched, ModelRequested]:
    """Return the entries that replace `asked`, which failed, with a request to another model."""
    at, failed = now(), msgspec.structs.replace(failed, kind=switch.kind)
    again = msgspec.structs.replace(
        asked,
        at=at,
        attempt=attempt,
        failed=failed,
        wait_s=0.0,
        spent=switch.usage,
        spent_usd=spent_usd,
        free=free,
    )
    return ModelSwitched(
        at=at, model=switch.model, before=switch.before, why=f"{switch.kind}: {failed.message}"
    ), again
