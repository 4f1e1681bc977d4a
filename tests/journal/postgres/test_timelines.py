"""Runs whose last driver knew another server: their calls without a start may have happened.

A real failover is in test_failover.py; here the run's row gets another timeline.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.postgres.payer import payer
from tests.journal.runs import resumed as run_resumed
from tests.journal.runs import started
from treadle import DidNotHappen, Happened, Outcome, Runtime, ToolContext

pytestmark = pytest.mark.postgres

ELSEWHERE = "update treadle.runs set timeline = 'FFFFFFFF 1'"


@pytest.fixture
async def runtime(postgres_url: str) -> AsyncIterator[Runtime]:
    async with Runtime.open(postgres_url) as opened:
        yield opened


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    (tmp_path / "witness").touch()
    return tmp_path / "witness"


@pytest.fixture
async def waiting(runtime: Runtime, witness: Path, look: Look) -> str:
    """A run whose charge waits for an approval, requested before a failover."""
    result = await runtime.run(payer(witness, needs_approval=True), "Pay.", on_ask="wait", cwd="/")
    assert result.outcome is Outcome.APPROVAL_NEEDED
    look(ELSEWHERE)
    return result.run_id


async def test_a_yes_to_a_question_from_before_a_failover_is_asked_for_again(
    runtime: Runtime, waiting: str, witness: Path
) -> None:
    agent = payer(witness, place=1, needs_approval=True)
    again = await runtime.resume(waiting, agent, approve=["call_charge"])
    assert again.outcome is Outcome.APPROVAL_NEEDED
    (asked,) = (await runtime.journal.load(waiting)).approvals.asked.values()
    assert "failed over" in asked.reason
    assert witness.read_text() == ""
    result = await runtime.resume(waiting, agent, approve=["call_charge"])
    assert (result.outcome, witness.read_text()) == (Outcome.COMPLETED, "charged\n")


async def test_an_answer_that_waits_for_a_worker_is_not_trusted_either(
    runtime: Runtime, witness: Path, look: Look
) -> None:
    agent = payer(witness, needs_approval=True)
    run_id = await runtime.submit(agent, "Pay.", on_ask="wait", cwd="/")
    await runtime.resume(run_id, agent)
    look(ELSEWHERE)
    await runtime.wake(run_id, approve=["call_charge"])
    agent = payer(witness, place=1, needs_approval=True)
    again = await runtime.resume(run_id, agent)
    assert (again.outcome, witness.read_text()) == (Outcome.APPROVAL_NEEDED, "")


async def test_a_call_that_a_person_denies_after_a_failover_is_unknown(
    runtime: Runtime, waiting: str, witness: Path
) -> None:
    agent = payer(witness, place=1, needs_approval=True)
    result = await runtime.resume(waiting, agent, deny={"call_charge": "too dear"})
    assert result.messages[2].tool_results[1].unknown
    assert result.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("found", [Happened("paid"), DidNotHappen(), None])
async def test_a_probe_decides_what_became_of_a_call_without_a_start(
    runtime: Runtime, waiting: str, witness: Path, found: Happened | DidNotHappen | None
) -> None:
    async def probe(ctx: ToolContext[Any]) -> Happened | DidNotHappen | None:
        assert ctx.idempotency_key == f"{waiting}:call_charge"
        return found

    agent = payer(witness, place=1, probe=probe)  # it needs no approval any more
    result = await runtime.resume(waiting, agent)
    if found is None:
        assert result.outcome is Outcome.APPROVAL_NEEDED
    else:
        text = "paid" if isinstance(found, Happened) else "charged"
        assert result.messages[2].tool_results[1].text == text
    assert witness.read_text() == ("charged\n" if isinstance(found, DidNotHappen) else "")


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_may_run_again_does(
    runtime: Runtime, waiting: str, witness: Path, effect: str
) -> None:
    result = await runtime.resume(waiting, payer(witness, place=1, effect=effect))
    assert result.messages[2].tool_results[1].text == "charged"


async def test_a_run_that_is_killed_after_a_failover_reports_its_calls_as_unknown(
    runtime: Runtime, waiting: str
) -> None:
    await runtime.kill(waiting)
    result = await runtime.replay(waiting)
    assert result.messages[2].tool_results[1].unknown


async def test_a_driver_that_dies_before_it_appends_leaves_the_doubt_to_the_next(
    runtime: Runtime, look: Look
) -> None:
    journal = runtime.journal
    await (await journal.begin(started())).release()
    look(ELSEWHERE)
    first = await journal.take_over("run_1")
    await first.release()
    second = await journal.take_over("run_1")
    assert (first.failed_over, second.failed_over) == (True, True)
    await second.append([run_resumed(second.fence)])
    await second.release()
    assert not (await journal.take_over("run_1")).failed_over


async def test_a_run_of_a_version_that_noted_no_timeline_is_not_doubted(
    runtime: Runtime, look: Look
) -> None:
    await (await runtime.journal.begin(started())).release()
    look("update treadle.runs set timeline = null")
    assert not (await runtime.journal.take_over("run_1")).failed_over


async def test_a_server_that_tells_no_timeline_any_more_is_another_one(
    runtime: Runtime, look: Look
) -> None:
    await (await runtime.journal.begin(started())).release()
    look("create or replace function treadle.timeline() returns text language sql as 'select null'")
    assert (await runtime.journal.take_over("run_1")).failed_over


async def test_the_timeline_is_that_of_the_log_which_is_written(
    runtime: Runtime, look: Look
) -> None:
    (found,) = look(
        "select treadle.timeline(), left(pg_walfile_name(pg_current_wal_lsn()), 8), "
        "system_identifier::text from pg_control_system()"
    )
    assert found[0] == f"{found[1]} {found[2]}"


@pytest.mark.parametrize(
    ("forbidden", "left"),
    [
        ("pg_current_wal_lsn()", 2),
        ("pg_control_system()", 1),
        ("pg_current_wal_lsn(), pg_control_system()", 1),
        ("pg_current_wal_lsn(), pg_control_checkpoint()", 0),
    ],
)
async def test_a_role_without_the_functions_gets_on_with_what_is_left(
    runtime: Runtime, postgres_url: str, forbidden: str, left: int
) -> None:
    """As on a managed service. All of it is one transaction, which is undone."""
    import psycopg

    with psycopg.connect(postgres_url) as db:
        whole = db.execute("select treadle.timeline()").fetchone()
        for statement in (
            "create role plain",
            "grant usage on schema treadle to plain",
            f"revoke execute on function {forbidden} from public",
            "set local role plain",
        ):
            db.execute(statement.encode())
        found = db.execute("select treadle.timeline()").fetchone()
        db.rollback()
    assert whole is not None
    assert found == (" ".join(whole[0].split()[:left]) or None,)
