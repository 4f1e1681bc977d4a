"""Processes that begin runs themselves, several in each conversation, go on with what others left,
and answer what is asked. Entry: `live`.

Who harms them is crew.py's business.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from contextlib import suppress

import anyio
import anyio.abc

from tests.crash.crew_worker import UNREACHED, Share, orphaned
from tests.crash.stories import World, honest
from treadle import AgentError, Approve, Deny, Runtime
from treadle.journal.run_info import RunInfo
from treadle.tools.approval import ApprovalRequest

AT_ONCE = 4
"""Runs that a process drives side by side."""


async def live(share: Share, number: int) -> int:
    """Until every run has ended, or it is told to end; gives how the process shall end."""
    ended, inside = 0, share.inside(number)
    try:
        async with Runtime(journal=share.opened()) as runtime, anyio.create_task_group() as group:
            group.start_soon(_told_to_end, runtime, group.cancel_scope)
            group.start_soon(orphaned, share.parent)
            group.start_soon(inside.harm, share.plan.fault_s)
            await _Person(share, runtime, group).live()
    except* AgentError as errors:
        print("not reached:", *(str(e) for e in errors.exceptions), flush=True)
        await anyio.sleep(share.plan.pause_s * 10)
        ended = UNREACHED
    return ended


async def _told_to_end(runtime: Runtime, scope: anyio.CancelScope) -> None:
    """Closing leaves the runs to others."""
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            await runtime.aclose()
            scope.cancel()
            return


class _Person:
    def __init__(self, share: Share, runtime: Runtime, driving: anyio.abc.TaskGroup) -> None:
        self._share, self._world, self._runtime, self._driving = (
            share,
            World(share.witness),
            runtime,
            driving,
        )
        self._chance = random.Random()
        self._driven: set[str] = set()

    async def live(self) -> None:
        plan = self._share.plan
        names = [f"{plan.names}{number}" for number in range(plan.runs)]
        while True:
            with suppress(AgentError):  # its journal is away
                infos = {info.run_id: info for info in await self._runtime.journal.runs()}
                if all(name in infos and infos[name].status == "finished" for name in names):
                    await anyio.sleep(0.2)
                    continue
                self._take(names, infos)
            await anyio.sleep(plan.pause_s * self._chance.uniform(1, 20))

    def _take(self, names: Sequence[str], infos: dict[str, RunInfo]) -> None:
        left = [
            name for name in names if name in infos and infos[name].status in ("stopped", "waiting")
        ]
        new = [name for name in names if name not in infos][: AT_ONCE * 2]
        self._chance.shuffle(left)
        self._chance.shuffle(new)
        for name in [name for name in (*left, *new) if name not in self._driven][
            : AT_ONCE - len(self._driven)
        ]:
            self._driven.add(name)
            self._driving.start_soon(self._drive, name, infos.get(name))

    async def _drive(self, name: str, info: RunInfo | None) -> None:
        """Another process may be faster, or the conversation is busy.

        What a caller is told is noted; nothing of it is expected here.
        """
        share, plan = self._share, self._share.plan
        waits = int(name.removeprefix(plan.names)) % 3 == 0
        try:
            if info is None:
                session = f"s{int(name.removeprefix(plan.names)) % plan.sessions}"
                asking = {"on_ask": "wait"} if waits else {"on_approval": self._approve}
                unknown = "wait" if int(name.removeprefix(plan.names)) % 4 < 2 else "tell"
                told = self._runtime.run(
                    share.agent(name),
                    f"run {name}",
                    run_id=name,
                    session=session,
                    on_unknown=unknown,
                    **asking,
                )  # pyright: ignore[reportArgumentType]
            else:
                state = await self._runtime.journal.load(name)
                answers = honest(self._world, state)
                # once a late result has closed the call in question, no answer is due
                if info.status == "waiting" and state.asked and not any(answers.values()):
                    return
                told = self._runtime.resume(
                    name,
                    share.agent(name),
                    seen=state.seq,
                    **answers,
                    **({} if waits else {"on_approval": self._approve}),
                )
            self._world.ended(await told)
        except AgentError as e:
            print(f"{name}: {e.kind}: {e.message}", flush=True)
        finally:
            self._driven.discard(name)

    async def _approve(self, request: ApprovalRequest) -> Approve | Deny:
        """Takes its time; of a call that had started it looks at the world first."""
        await anyio.sleep(self._share.plan.pause_s * self._chance.uniform(1, 30))
        while not self._world.is_over(request.call_id):
            await anyio.sleep(self._share.plan.pause_s)
        if isinstance(request.arguments, dict) and self._world.happened(
            str(request.arguments["mark"])
        ):
            return Deny("it had happened")
        return Approve() if self._chance.random() < 0.8 else Deny("not today")
