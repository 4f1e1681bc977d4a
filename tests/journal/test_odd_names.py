"""Whatever stands in an id, a name or a reason: it is kept, or refused with words, in a file as at
a server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.journal.runs import started
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_urls as postgres_urls
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace, WorkerCard

ODD = ("it's", 'a "b"', "a\\b", "50%s ?", "é😀", "two\nlines", "x" * 3000)
UNHOLDABLE = ("a\0b", "a\ud800b")
CARD = WorkerCard(name="w", host="h", pid=1, version="1", engine="local", queues=(), slots=3)


@pytest.fixture(params=["sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "postgres":
        urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
        opened = open_journal(urls(tmp_path))
    else:
        opened = open_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("text", ODD)
async def test_odd_texts_are_kept(journal: Journal, text: str) -> None:
    await journal.queue.add([started(text)], QueuePlace(queue=text, tenant=text))
    assert [
        (ticket.run_id, ticket.tenant)
        for ticket in await journal.queue.claim([text], engine="local", most=1)
    ] == [(text, text)]
    await journal.queue.park(text, text)
    assert [parked.why for parked in await journal.queue.parked()] == [text]
    assert (await journal.info(text)).run_id == text
    await journal.queue.register(replace(CARD, name=text))
    assert [worker.card.name for worker in await journal.queue.workers()] == [text]


@pytest.mark.parametrize("text", UNHOLDABLE)
async def test_what_no_table_can_hold_is_refused_or_found_nowhere(
    journal: Journal, text: str
) -> None:
    card = replace(CARD, name=text)
    refused: list[Callable[[], Awaitable[object]]] = [
        lambda: journal.begin(started(text)),
        lambda: journal.begin(started(session=text)),
        lambda: journal.queue.add([started()], QueuePlace(queue=text)),
        lambda: journal.queue.add([started()], QueuePlace(tenant=text)),
        lambda: journal.queue.register(card),
        lambda: journal.info(text),
        lambda: journal.take_over(text),
    ]
    for ask in refused:
        with pytest.raises(AgentError) as raised:
            await ask()
        assert raised.value.kind == "invalid"
    assert (
        await journal.children(text)
        == await journal.runs(session_id=text)
        == await journal.queue.claim([text], engine="local", most=1)
        == []
    )
    assert await journal.runs() == []


@pytest.mark.parametrize("text", UNHOLDABLE)
async def test_a_reason_is_shown_as_far_as_it_can_be(journal: Journal, text: str) -> None:
    await journal.queue.add([started()], QueuePlace())
    await journal.queue.park("run_1", text)
    (parked,) = await journal.queue.parked()
    assert (parked.why[0], parked.why[-1]) == ("a", "b")
