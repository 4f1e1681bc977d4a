"""The usage of a run that waits for a person counts once, whoever counts it and when."""

from __future__ import annotations

from pathlib import Path

import anyio
from sqlmodel import select

from tests.service.chatting import serving
from tests.service.test_replicas import Places, at_hand, in_folder, work
from tests.service.test_runs import agents, asked_for, start
from tests.service.test_totals import _long_ago
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.tables import Spent
from treadle.service.queueing import account
from treadle.service.running import decide, open_calls, start_run
from treadle.service.shares import look
from treadle.tools.approval import Approve


async def test_a_queued_run_that_waited_for_a_person_counts_once(tmp_path: Path) -> None:
    places = Places(*in_folder(tmp_path))
    async with at_hand(places, queue="default") as (service, ada), work(places) as runtime:
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        run_id = await start_run(service, ada.scope, walker, "launch it", {})
        waits = await runtime.resume(run_id)
        assert waits.waiting
        await service.database.run_unscoped(_long_ago)
        await look(service)
        run = await service.database.read(
            ada.scope, lambda session: ConversationStore(session, ada.scope).run(run_id)
        )
        assert run is not None
        (call_id,) = (await open_calls(service, run_id))[0]
        await decide(service, ada.scope, run, call_id, Approve())
        result = await runtime.resume(run_id)
        await account(service, ada.scope)
        used = await service.database.read_unscoped(service.limits.totals.used)
        mine = await service.database.read(
            ada.scope, lambda session: session.exec(select(Spent.tokens)).all()
        )
        total = (await runtime.journal.info(run_id)).total.usage.total_tokens
        assert (result.outcome, used.tokens, sum(mine)) == ("completed", total, total)


async def test_a_run_that_waits_over_a_restart_counts_once(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "rocket", "use launch")
        call_id = await asked_for(ada, run_id)
        headers = ada.headers
    async with serving(tmp_path, agents=agents()) as served, served.person("bob") as ada:
        ada.headers = headers
        assert (
            await ada.ask(
                "POST", f"/runs/{run_id}/approvals/{call_id}", json={"decision": "approve"}
            )
        ).status_code == 202
        await ada.all_events("GET", f"/runs/{run_id}/events")
        service = served.service
        total = (await service.runtime.journal.info(run_id)).total.usage.total_tokens
        with anyio.fail_after(10):
            while service.live.get(run_id) is not None:
                await anyio.sleep(0)
        used = await service.database.read_unscoped(service.limits.totals.used)
        assert (used.tokens, used.reserved_tokens) == (total, 0)
