"""LISTEN and NOTIFY need no right but to connect to the database. A role without any other right
neither hears nor forges a notification, and the journal refuses a schema that is open to all roles.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.notifications import hostile
from tests.journal.postgres.conftest import Look
from tests.journal.runs import fact, started
from tests.service.database.postgres import PostgresServer as RealServer

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
import psycopg
from psycopg import sql

from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.notifier import QUEUE, Listening
from treadle.journal.postgres import notifier
from treadle.journal.postgres.channels import ChannelKey, Notification, packed
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.notification_connection import NotificationConnection
from treadle.journal.postgres.notifier import PostgresNotifier

OLD_CHANNELS = ("treadle_wishes", *(f"treadle_{number}" for number in range(32)))


@pytest.fixture
async def made(postgres_url: str) -> str:
    """Database with the tables of a journal."""
    await open_journal(postgres_url).aclose()
    return postgres_url


@pytest.fixture
async def here(made: str) -> AsyncIterator[PostgresNotifier]:
    one = PostgresNotifier(PostgresServer(made), poll_s=60)
    yield one
    await anyio.to_thread.run_sync(one.close)


@pytest.fixture
async def there(made: str) -> AsyncIterator[PostgresNotifier]:
    one = PostgresNotifier(PostgresServer(made), poll_s=60)
    yield one
    await anyio.to_thread.run_sync(one.close)


@pytest.fixture
def outsider(postgres_server: RealServer, made: str) -> Iterator[psycopg.Connection]:
    """Connection of a role that may connect, and nothing else."""
    postgres_server.sql("CREATE ROLE outsider LOGIN")
    database = made.split("/")[3].split("?")[0]
    with psycopg.connect(postgres_server.url(database, user="outsider"), autocommit=True) as db:
        yield db
    postgres_server.sql("DROP ROLE outsider")


async def payloads(ear: Listening) -> list[bytes]:
    """The first payloads; that a listener may look again comes without any."""
    with anyio.fail_after(20):
        while not (came := await ear.wait()):
            pass
    return came


async def test_a_role_without_rights_hears_nothing(
    outsider: psycopg.Connection, here: PostgresNotifier, there: PostgresNotifier
) -> None:
    for channel in OLD_CHANNELS:
        outsider.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
    async with there.listen(QUEUE) as ear:
        here.tell(QUEUE, b"a secret answer")
        assert await payloads(ear) == [b"a secret answer"]
    assert list(outsider.notifies(timeout=0.1, stop_after=1)) == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        outsider.execute("select key from treadle.notify_key")


async def test_a_role_that_sees_statements_reads_no_channel(
    look: Look, postgres_server: RealServer, made: str
) -> None:
    """Review 3: with `pg_read_all_stats`, as monitoring has it, a role could listen to them."""
    channel = ChannelKey(look("select key from treadle.notify_key")[0][0]).channel_of(QUEUE)
    with psycopg.connect(made, autocommit=True) as db:
        line = NotificationConnection(
            PostgresServer(made), db, "me"
        )  # no other process overwrites its last statement
        for subscribed in ([channel], []):
            line.subscribe(subscribed)
            pid = db.info.backend_pid
            (said,) = postgres_server.sql(f"select query from pg_stat_activity where pid = {pid}")
            assert channel not in str(said)
            found = db.execute("select pg_listening_channels()").fetchall()
            assert [name for (name,) in found] == subscribed


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_forged_notification_is_not_heard_though_its_channel_is_known(
    seed: int,
    look: Look,
    outsider: psycopg.Connection,
    here: PostgresNotifier,
    there: PostgresNotifier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifier, "UNKNOWN_S", 0.0)
    key = ChannelKey(look("select key from treadle.notify_key")[0][0])
    channels = ("treadle_wishes", key.wishes, key.channel_of(QUEUE))
    random = chance(seed, "notifications")
    async with there.listen(QUEUE) as ear:
        for _ in range(40):
            text = hostile(random, QUEUE)
            outsider.execute("select pg_notify(%s, %s)", (random.choice(channels), text))
        here.tell(QUEUE, b"the word of a process of ours")
        assert await payloads(ear) == [b"the word of a process of ours"]
    assert not there.wanted("delta:forged")


async def test_a_signed_text_is_believed_on_its_own_channel_only(look: Look, made: str) -> None:
    key = ChannelKey(look("select key from treadle.notify_key")[0][0])
    (text,) = packed("other", 1, [Notification(QUEUE, b"x")])
    channel = key.channel_of(QUEUE)
    signed = key.signed(channel, text)
    assert key.verified(channel, signed) == text
    assert key.verified(key.wishes, signed) is None
    assert key.verified(channel, signed + " ") is None
    assert ChannelKey(b"another installation").verified(channel, signed) is None


def test_two_journals_have_no_channel_in_common() -> None:
    names = [ChannelKey(key).channel_of(QUEUE) for key in (b"one", b"two")]
    assert len({*names, *OLD_CHANNELS}) == len(OLD_CHANNELS) + 2


@pytest.mark.parametrize("right", ["usage", "create"])
async def test_a_schema_that_is_open_to_every_role_is_refused(
    look: Look, made: str, right: str
) -> None:
    look(f"grant {right} on schema treadle to public")
    with pytest.raises(AgentError, match="revoke all on schema treadle from public") as refused:
        open_journal(made)
    assert refused.value.kind == "invalid"
    look("revoke all on schema treadle from public")
    await open_journal(made).aclose()


async def test_a_role_that_may_append_gets_the_key_when_the_tables_are_upgraded(
    look: Look, made: str, postgres_server: RealServer
) -> None:
    postgres_server.sql('CREATE ROLE "an appender"')
    look('grant insert on treadle.runs to "an appender"')
    look("drop table treadle.notify_key, treadle.seal_keys")
    look("alter table treadle.runs drop column agent, drop column user_id, drop column tags")
    look("delete from treadle.versions where version >= 5")
    await open_journal(made).aclose()
    granted = "select has_table_privilege('an appender', 'treadle.notify_key', 'select')"
    assert look(granted) == [(True,)]
    look('drop owned by "an appender"')
    postgres_server.sql('DROP ROLE "an appender"')


async def test_the_documented_rights_are_enough_to_drive_a_run(
    look: Look,
    made: str,
    postgres_server: RealServer,
    outsider: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for right in (
        "usage on schema treadle",
        "select, insert, update, delete on all tables in schema treadle",
        "usage on all sequences in schema treadle",
        "execute on all functions in schema treadle",
    ):
        look(f"grant {right} to outsider")
    look("revoke insert, update, delete on treadle.versions, treadle.notify_key from outsider")
    database = made.split("/")[3].split("?")[0]
    journal = open_journal(postgres_server.url(database, user="outsider"))
    writer = await journal.begin(started())
    async with journal.notifier.listen(QUEUE):
        await writer.append([fact("a")])
    assert [record.seq for record in await journal.read("run_1")] == [1, 2]
    assert not caplog.records
    look("revoke select on treadle.notify_key from outsider")
    other = open_journal(postgres_server.url(database, user="outsider"))
    async with other.notifier.listen(QUEUE):
        assert [record.seq for record in await other.read("run_1")] == [1, 2]
    assert "grant select on treadle.notify_key" in caplog.text
    await journal.aclose()
    await other.aclose()
    look("drop owned by outsider")


def test_generated_notifications_are_texts_that_a_server_takes() -> None:
    for seed in range(50):
        text = hostile(chance(seed, "notifications"), QUEUE)
        assert len(text.encode()) < 8000
        assert "\0" not in text
        assert json.dumps(text)
