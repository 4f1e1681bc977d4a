"""A run whose database fails over to a standby: what the standby lacks may have happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.postgres import ChaosServer, needed
from tests.journal.postgres.payer import payer
from tests.journal.postgres.standby import Standby
from tests.journal.processes import Process
from treadle import Outcome, RunResult, Runtime
from treadle.messages.message import ToolResult

pytestmark = pytest.mark.postgres


@pytest.fixture
def primary() -> Iterator[ChaosServer]:
    needed()
    with ChaosServer() as server:
        yield server


@pytest.fixture
def standby(primary: ChaosServer) -> Iterator[Standby]:
    with Standby(primary) as server:
        yield server


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def lost(primary: ChaosServer, standby: Standby, witness: Path) -> str:
    """The URL of a journal whose run has charged, which the server that holds it does not know."""
    url = primary.journal()
    driver = Process("tests.journal.postgres.payer", url, str(witness))
    with ExitStack() as stack:
        stack.callback(driver.close)
        driver.ready()
        assert driver.hear() == "reserving"
        standby.catch_up()
        standby.stop()
        assert driver.ask("reserved") == "charged"
        primary.stop()
    return failed_over(standby, url)


def failed_over(standby: Standby, url: str, *, running: bool = False) -> str:
    """The same journal on the standby, which becomes the primary."""
    if not running:
        standby.start()
    standby.promote()
    return standby.past_the_proxy(url)


async def resumed(url: str, witness: Path, **traits: object) -> RunResult[str]:
    """By a process that finds the other one gone."""
    async with Runtime.open(url) as runtime:
        (info,) = await runtime.journal.runs()
        return await runtime.resume(info.run_id, payer(witness, place=1, **traits))


def results(result: RunResult[str]) -> Sequence[ToolResult]:
    return result.messages[2].tool_results


async def test_a_call_whose_start_was_lost_is_unknown_and_not_made_again(
    lost: str, witness: Path
) -> None:
    result = await resumed(lost, witness)
    assert [one.unknown for one in results(result)] == [True, True]
    assert "failed over" in results(result)[1].text
    assert "failed over" in result.messages[3].text, "what was lost may hold other calls"
    assert result.outcome is Outcome.COMPLETED
    assert witness.read_text() == "charged\n"


async def test_a_synchronous_standby_has_every_entry_and_the_run_goes_on(
    primary: ChaosServer, standby: Standby, witness: Path
) -> None:
    url = primary.journal()
    primary.sql("alter system set synchronous_standby_names = '*'")
    primary.restart()
    driver = Process("tests.journal.postgres.payer", url, str(witness))
    with ExitStack() as stack:
        stack.callback(driver.close)
        driver.ready()
        assert driver.hear() == "reserving"
        assert driver.ask("reserved") == "charged"
        acknowledged = primary.sql_of(url, "select place, body from treadle.entries order by 1")
        primary.stop()
    url = failed_over(standby, url, running=True)
    result = await resumed(url, witness)
    assert [(one.text, one.unknown) for one in results(result)[:1]] == [("reserved", False)]
    assert results(result)[1].unknown, "it had started"
    assert result.outcome is Outcome.COMPLETED
    assert witness.read_text() == "charged\n"
    entries = standby.sql_of(url, "select place, body from treadle.entries order by 1")
    assert entries[: len(acknowledged)] == acknowledged
