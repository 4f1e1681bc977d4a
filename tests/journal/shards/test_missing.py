"""A shard whose server is away: its own runs wait, and no others."""

from __future__ import annotations

import logging
from functools import partial

import anyio
import pytest
from msgspec import structs

from tests.crash.postgres import ChaosServer
from tests.journal.runs import finished, refuses, says, started
from tests.journal.shards.conftest import Shards, ids_in, one_in
from tests.journal.test_queue_contract import card
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.queue import QueuePlace
from treadle.journal.shards import ShardedJournal
from treadle.journal.shards.membership import checked_again, joined
from treadle.journal.shards.placement import read_list

Servers = dict[str, ChaosServer]
KEY = bytes(range(32))


async def until_back(journal: ShardedJournal) -> None:
    with anyio.fail_after(30):
        while journal.missing:
            await anyio.sleep(0.05)


async def test_a_missing_shard_blocks_only_its_own_runs(
    apart: Shards, two_servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "treadle.journal")
    journal = apart.open("a", "b")
    in_a, in_b = ids_in("a", "ab"), ids_in("b", "ab")
    here, there = next(in_a), next(in_b)
    await says(journal, here, "hello", "hi", session=one_in("a", prefix="ada"))
    writer = await journal.begin(started(there, session=one_in("b", prefix="eve")))
    await journal.queue.add([started(next(in_b))], QueuePlace())
    await journal.queue.register(card())
    two_servers["b"].stop()

    assert [info.run_id for info in await journal.runs()] == [here]
    assert [*journal.missing] == ["b"]
    assert (await journal.costs("agent")).total.runs == 1
    assert len(journal.sessions.list()) == 1
    await journal.queue.add([started(queued := next(in_a))], QueuePlace())
    tickets = await journal.queue.claim(["default"], engine="local", most=5)
    assert [ticket.run_id for ticket in tickets] == [queued]
    await says(journal, next(in_a), "hello", "hi")
    for refused in (
        journal.info(there),
        journal.begin(started(next(in_b))),
        journal.view(one_in("b", prefix="new")),
        journal.queue.add([started(next(in_b))], QueuePlace()),
        journal.info("run_that_may_be_there"),
        journal.remove(["run_that_may_be_there"]),
    ):
        with refuses("agent", "shard 'b' of the journal does not answer"):
            await refused

    two_servers["b"].start()
    await until_back(journal)
    assert {there, here} < {info.run_id for info in await journal.runs()}
    assert len(await journal.queue.claim(["default"], engine="local", most=5)) == 1
    await writer.append([finished()])
    assert (await journal.info(there)).status == "finished"
    assert [info.card.name for info in await journal.queue.workers()] == ["ada"]
    assert ["does not answer" in caplog.text, "answers again" in caplog.text] == [True, True]
    assert "hidden" not in caplog.text


async def test_a_journal_opens_without_a_shard_and_takes_it_up_when_it_is_there(
    apart: Shards, two_servers: Servers
) -> None:
    await apart.open("a", "b").aclose()
    two_servers["b"].stop()
    journal = apart.open()
    asked: list[str] = []
    journal.on_stop(asked.append)
    await journal.queue.register(card())
    await journal.begin(started(one_in("a")))
    with refuses("agent", "shard 'b' of the journal does not answer"):
        await journal.begin(started(one_in("b")))
    two_servers["b"].start()
    await until_back(journal)
    writer = await journal.begin(started(run_id := one_in("b")))
    assert await journal.ask_to_stop(run_id)
    with anyio.fail_after(20):
        while not asked:
            await anyio.sleep(0.05)
    await writer.append([finished()])
    await journal.queue.claim(["default"], engine="local", most=1)
    assert [info.running for info in await journal.queue.workers()] == [1]


async def test_a_new_list_needs_all_its_shards(apart: Shards, two_servers: Servers) -> None:
    two_servers["b"].stop()
    with refuses("invalid", "is new, so all its shards must answer, and 'b' does not"):
        apart.open("a", "b")
    two_servers["b"].start()
    await apart.open("a", "b").aclose()
    two_servers["b"].stop()
    with refuses("invalid", r"new version \(2\), so all its shards must answer"):
        apart.open("a", "b", version=2, draining="b")
    two_servers["a"].stop()
    with pytest.raises(AgentError, match=r"no shard of .* answers") as caught:
        apart.open("a", "b")
    assert (caught.value.kind, "hidden" in caught.value.message) == ("invalid", False)


async def test_a_list_that_is_refused_encrypts_nothing(apart: Shards, two_servers: Servers) -> None:
    apart.write("a", "b")
    two_servers["b"].stop()
    with refuses("invalid", "is new, so all its shards must answer"):
        open_journal(f"postgresql+shards:///{apart.file}", keys=[KEY])
    await apart.alone("a").runs()


async def test_an_encrypted_shard_has_its_keys_after_a_crash_and_is_taken_up(
    apart: Shards, two_servers: Servers
) -> None:
    apart.write("a", "b")
    url = f"postgresql+shards:///{apart.file}"
    kept = partial(two_servers["b"].sql_of, apart.url_of("b"), "select * from treadle.seal_keys")
    await open_journal(url, keys=[KEY]).aclose()
    two_servers["b"].stop()
    journal = open_journal(url, keys=[KEY])
    assert isinstance(journal, ShardedJournal)
    apart.opened.append(journal)
    two_servers["b"].start()
    assert kept()
    await until_back(journal)
    await says(journal, one_in("b"), "hello", "hi")
    assert [info.prompt for info in await journal.runs()] == ["hello"]


async def test_a_shard_that_comes_back_as_another_is_not_taken_up(apart: Shards) -> None:
    journal = apart.open("a", "b")
    listed = read_list(apart.file)
    record, accepted, _ = joined(listed, ())
    for shard in accepted.values():
        shard.reading.close()
    assert checked_again(listed, "b", record, ()) is None
    other = structs.replace(record, journal="another")
    with pytest.raises(AgentError, match=r"shard 'b' of .* is back with another identity or list"):
        checked_again(listed, "b", other, ())
    assert not journal.missing
