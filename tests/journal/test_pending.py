"""Who waits for the work of a thread gets what it gave, however often it is cancelled."""

from __future__ import annotations

import asyncio

import anyio

from treadle.journal.pending import Pending


async def test_a_result_between_a_cancellation_and_the_turn_of_its_task_is_not_lost() -> None:
    pending = Pending[int]()
    outcome = pending.awaited(lambda handed_in: None)
    assert isinstance(pending.future, asyncio.Future)
    pending.future.cancel()
    pending.result = 7
    pending.settle()
    got: list[int] = []

    async def go_on() -> None:
        got.append(await outcome)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(go_on)
    assert got == [7]
