"""Subscriptions to the events of one run: from the journal up to now, then live, without gaps or
duplicates.

A reader subscribes first, then reads the journal, then skips events that it has seen. Entry points:
`follow`, `notices`, `events_so_far`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

import anyio
import msgspec
from starlette.responses import Response

from treadle.errors import AgentError, ErrorKind
from treadle.messages.events import Event, RunEnd, ToolCallStart
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.elsewhere import DEPTH_MOST, reply_of
from treadle.service.fan_out import EncodedEvent, Position, Reader
from treadle.service.live import StoredReply, notice, notices_of
from treadle.service.sse import SseResponse, frame_of, position_of, said
from treadle.service.state import Service


class Subscribed(NamedTuple):
    """Subscription of one reader."""

    reader: Reader
    held: AsyncExitStack
    """Stack that releases the subscription when closed."""


async def subscribe(service: Service, scope: Scope, key: str) -> Subscribed:
    """Subscribe from now on. Raises Problem(429) if the user has too many open streams."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(service.limits.stream(scope))
        reader = service.live.channels.open(key)
        stack.callback(service.elsewhere.left, key)
        stack.callback(service.live.channels.leave, key, reader)
        return Subscribed(reader, stack.pop_all())


async def follow(
    service: Service, scope: Scope, run: ServedRun, after: Position | None
) -> Response:
    """Stream the events after `after`, the last durable event that the reader has; None: from the
    beginning.

    Returns an empty response (204) to a reader that has all events of a finished run, because a
    browser would otherwise reconnect forever. Raises Problem(429).
    """
    reader, held = await subscribe(service, scope, run.run_id)
    try:
        # Read before the journal: if the reply exists, the journal is complete.
        reply = await _reply(service, scope, run)
        events = await events_so_far(service, scope, run)
        # Another reader has read further in the meantime, and only later events are published.
        while (_last(run.run_id, events) or (0, -1)) < reader.begins:
            events = await events_so_far(service, scope, run)
        frames = _frames(events, run.run_id, after)
        _pass_over(reader, events)
        if reply is not None or _is_over(run, events):
            frames.extend([said("reply", reply.shown, last=True)] if reply is not None else ())
            reader.finish()
            if after is not None and not frames:
                await held.aclose()
                return Response(status_code=204)
        else:
            service.elsewhere.watch(scope, run, _last(run.run_id, events))
        return SseResponse(reader, frames, over=held.aclose)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await held.aclose()
        raise


async def notices(service: Service, scope: Scope, name: str) -> Response:
    """Stream the notices that `ServiceHost.notify` sends to this user under this name. The first is
    sent immediately.

    Raises Problem(429).
    """
    reader, held = await subscribe(service, scope, notices_of(scope, name))
    return SseResponse(reader, [notice(name)], over=held.aclose)


async def events_so_far(service: Service, scope: Scope, run: ServedRun) -> list[Event]:
    """Return the run's events that a user may see; empty for a run that never began."""
    if (view := service.view_of(scope, run)) is not None:
        return [
            seen for event in await _journaled(service, run.run_id) for seen in view.take(event)
        ]
    return await of_tree(service, run.run_id)


async def of_tree(service: Service, run_id: str) -> list[Event]:
    """Return the journaled events of a run and its child runs."""
    return await _with_children(service, await _journaled(service, run_id), DEPTH_MOST)


async def _journaled(service: Service, run_id: str) -> list[Event]:
    try:
        return await service.runtime.events(run_id)
    except AgentError as e:
        if e.kind is ErrorKind.INVALID:
            return []
        raise


async def _with_children(service: Service, events: list[Event], depth: int) -> list[Event]:
    """Insert the events of child runs after the start of the call that started them."""
    if not depth or not any(isinstance(event, ToolCallStart) for event in events):
        return events
    below = await _children(service, events[0].run_id)
    told: list[Event] = []
    for event in events:
        told.append(event)
        for child in below.pop(event.call_id, ()) if isinstance(event, ToolCallStart) else ():
            children = await _with_children(service, await _journaled(service, child), depth - 1)
            told.extend(_under(one, event.run_id) for one in children)
    return told


async def _children(service: Service, run_id: str) -> dict[str, list[str]]:
    """Return the ids of child runs by the call that started them."""
    journal, found = service.runtime.journal, dict[str, list[str]]()
    for info in await journal.children(run_id):
        state = await journal.load(info.run_id)
        if state.started is not None and state.started.parent_call_id is not None:
            found.setdefault(state.started.parent_call_id, []).append(info.run_id)
    return found


def _under(event: Event, parent_run_id: str) -> Event:
    return (
        event
        if isinstance(event.parent_run_id, str)
        else msgspec.structs.replace(event, parent_run_id=parent_run_id)
    )


def _frames(events: list[Event], run_id: str, after: Position | None) -> list[EncodedEvent]:
    """Encode the events after `after`. Non-durable events are included only if `after` is None, and
    events of child runs only with the start of their call.
    """
    if after is None:
        return [frame_of(event, run_id) for event in events]
    wanted: list[EncodedEvent] = []
    behind = False
    for event in events:
        frame = frame_of(event, run_id)
        if event.run_id == run_id:
            behind = frame.position is not None and frame.position > after
        if behind:
            wanted.append(frame)
    return wanted


def _pass_over(reader: Reader, events: list[Event]) -> None:
    for event in events:
        if isinstance(event.id, str) and (position := position_of(event.id)) is not None:
            reader.pass_over(event.run_id, position)


def _last(run_id: str, events: list[Event]) -> Position | None:
    """Return the position up to which the journal was read."""
    own = (
        position_of(event.id)
        for event in reversed(events)
        if event.run_id == run_id and isinstance(event.id, str)
    )
    return next(own, None)


async def _reply(service: Service, scope: Scope, run: ServedRun) -> StoredReply | None:
    """Return the stored reply to a message, which comes last in its stream."""
    return (
        None
        if run.conversation_id is None
        else await service.database.read(scope, partial(reply_of, scope, run.run_id))
    )


def _is_over(run: ServedRun, events: list[Event]) -> bool:
    """Return True if a run that answers no message has ended."""
    return run.conversation_id is None and any(
        isinstance(event, RunEnd) and event.run_id == run.run_id for event in events
    )
