"""What processes tell each other over the database: soon, in order, and without a word where nobody
listens.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.postgres.conftest import Look
from tests.journal.runs import fact, started
from treadle.journal.notifier import QUEUE, Listening, delta_topic, run_topic

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

from treadle.journal.postgres import PostgresJournal, connections, notification_connection, notifier
from treadle.journal.postgres.channels import TEXT_MAX, Notification, Unpacking, batches, packed
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.notifier import PostgresNotifier


@pytest.fixture
async def made(postgres_url: str) -> str:
    """Database with the tables of a journal, and so with a key."""
    await PostgresJournal.open(postgres_url).aclose()
    return postgres_url


@pytest.fixture
async def here(made: str) -> AsyncIterator[PostgresNotifier]:
    one = PostgresNotifier(PostgresServer(made), poll_s=60)
    yield one
    await anyio.to_thread.run_sync(one.close)


@pytest.fixture
async def there(made: str) -> AsyncIterator[PostgresNotifier]:
    """Of another process, as far as the database knows."""
    one = PostgresNotifier(PostgresServer(made), poll_s=60)
    yield one
    await anyio.to_thread.run_sync(one.close)


async def heard(ear: Listening, count: int) -> list[bytes]:
    came: list[bytes] = []
    with anyio.fail_after(20):
        while len(came) < count:
            came += await ear.wait()
    return came


async def test_what_is_told_is_heard_elsewhere_and_here(
    here: PostgresNotifier, there: PostgresNotifier
) -> None:
    async with here.listen(QUEUE) as ear, there.listen(QUEUE) as far:
        here.tell(QUEUE, b"one")
        assert await heard(far, 1) == [b"one"]
        assert await heard(ear, 1) == [b"one"]


async def test_many_messages_come_in_order_together_and_once(
    here: PostgresNotifier, there: PostgresNotifier
) -> None:
    topic = delta_topic("run_1")
    async with there.listen(topic) as ear:
        sent = [
            json.dumps({"text": "ü" * (number % 50), "n": number}).encode()
            for number in range(2000)
        ]
        came: list[bytes] = []
        for first in range(0, 2000, 500):
            for payload in sent[first : first + 500]:
                here.tell(topic, payload)
            came += await heard(ear, 500)
        assert came == sent


async def test_a_payload_of_any_length_and_bytes_comes_whole(
    here: PostgresNotifier, there: PostgresNotifier
) -> None:
    async with there.listen(QUEUE) as ear:
        for payload in (
            b"x" * 100_000,
            bytes(range(256)),
            "\ud800 ü 語".encode("utf-8", "surrogatepass"),
        ):
            here.tell(QUEUE, payload)
            assert await heard(ear, 1) == [payload]


async def test_only_the_topics_that_are_listened_to_are_heard(
    here: PostgresNotifier, there: PostgresNotifier
) -> None:
    topics = [run_topic(f"run_{n}") for n in range(100)]
    async with there.listen(topics[3], topics[7]) as ear:
        for topic in topics:
            here.tell(topic, topic.encode())
        assert sorted(await heard(ear, 2)) == [b"run:run_3", b"run:run_7"]


async def test_it_is_known_elsewhere_that_somebody_listens(
    here: PostgresNotifier, there: PostgresNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "UNKNOWN_S", 0.0)
    topic = delta_topic("run_1")
    assert not here.wanted(topic)
    async with there.listen(topic) as ear:
        with anyio.fail_after(20):
            while not here.wanted(topic):
                await anyio.sleep(0.01)  # looked at again, not waited for
        here.tell(topic, b"x")
        assert await heard(ear, 1) == [b"x"]
        assert not here.wanted(delta_topic("run_2"))


async def test_who_comes_later_hears_who_listens_already(
    here: PostgresNotifier, there: PostgresNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "UNKNOWN_S", 0.0)
    monkeypatch.setattr(notifier, "WISH_S", 3600.0)
    topic = delta_topic("run_1")
    async with there.listen(topic):
        with anyio.fail_after(20):
            while not here.wanted(topic):
                await anyio.sleep(0.01)  # looked at again, not waited for


async def test_a_wish_that_is_not_renewed_is_over(
    here: PostgresNotifier, there: PostgresNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "UNKNOWN_S", 0.0)
    monkeypatch.setattr(notifier, "WISH_S", 0.1)
    topic = delta_topic("run_1")
    async with there.listen(topic):
        with anyio.fail_after(20):
            while not here.wanted(topic):
                await anyio.sleep(0.01)  # looked at again, not waited for
    with anyio.fail_after(20):
        while here.wanted(topic):
            await anyio.sleep(0.01)  # looked at again, not waited for


async def test_a_connection_that_ends_is_replaced_and_those_who_listen_look_again(
    here: PostgresNotifier, there: PostgresNotifier, look: Look
) -> None:
    async with there.listen(QUEUE) as ear:
        here.tell(QUEUE, b"one")
        assert await heard(ear, 1) == [b"one"]
        look(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
        with anyio.fail_after(20):
            assert await ear.wait() == [], "something may have been missed"
            came: list[bytes] = []
            while not came:
                here.tell(QUEUE, b"two")
                with anyio.move_on_after(0.5):
                    came = await ear.wait()
        assert set(came) == {b"two"}


async def test_behind_a_pooler_nothing_is_heard_of_others_and_all_is_told(
    here: PostgresNotifier,
    there: PostgresNotifier,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with there.listen(QUEUE, delta_topic("run_1")) as far:
        monkeypatch.setattr(connections, "is_pooled", lambda db: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  whichever
        monkeypatch.setattr(notification_connection, "is_pooled", lambda db: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  whichever
        async with here.listen(QUEUE) as ear:
            there.tell(QUEUE, b"unheard")
            here.tell(QUEUE, b"one")
            here.tell(delta_topic("run_1"), b"two")
            assert sorted(await heard(far, 3)) == [b"one", b"two", b"unheard"]
            assert await heard(ear, 1) == [b"one"]
            assert here.wanted(delta_topic("any"))


async def test_an_append_is_told_to_those_who_listen_elsewhere(postgres_url: str) -> None:
    journal, other = PostgresJournal.open(postgres_url), PostgresJournal.open(postgres_url)
    writer = await journal.begin(started())
    async with other.notifier.listen(run_topic("run_1")) as ear:
        with anyio.fail_after(20):
            await writer.append([fact("a")])
            await ear.wait()
    assert [record.seq for record in await other.read("run_1")] == [1, 2]
    await journal.aclose()
    await other.aclose()


async def test_where_the_server_is_away_telling_and_listening_fail_nobody(tmp_path: object) -> None:
    one = PostgresNotifier(
        PostgresServer(f"postgresql://nobody@/nothing?host={tmp_path}"), poll_s=0.1
    )
    async with one.listen(QUEUE) as ear:
        one.tell(QUEUE, b"here")
        assert await heard(ear, 1) == [b"here"]
        with anyio.fail_after(20):
            while await ear.wait():
                pass
    await anyio.to_thread.run_sync(one.close)
    one.tell(QUEUE, b"too late")
    one.close()


async def test_it_begins_nothing_before_it_is_used(postgres_url: str) -> None:
    one = PostgresNotifier(PostgresServer(postgres_url))
    assert "treadle-notifier" not in {thread.name for thread in threading.enumerate()}
    one.close()


# ---------------------------------------------------------------- how messages are packed

told = st.lists(
    st.builds(
        Notification,
        st.text(st.characters(exclude_categories=()), max_size=30),
        st.binary(max_size=9000),
    ),
    max_size=8,
)


@given(told)
def test_what_is_packed_is_unpacked(messages: list[Notification]) -> None:
    unpacking, came = Unpacking("me"), list[Notification]()
    for serial, batch in enumerate(batches(messages)):
        for text in packed("other", serial, batch):
            assert len(text.encode("ascii")) <= TEXT_MAX
            came += unpacking.take(text)
    assert came == messages


@given(st.text())
def test_what_is_not_understood_is_nothing(text: str) -> None:
    for given_text in (
        text,
        f"other 1 1 1 {text}",
        f"other 1 1 2 {text}",
        f"other 1 2 2 {text}",
        f'other 1 1 1 [["a"]]{text}',
    ):
        assert Unpacking("me").take(given_text) == [] or '"' in text


@pytest.mark.parametrize(
    "text",
    [
        "[" * 7_000,
        '{"a":' * 1_400,
        '[["t", ' + "[" * 7_000,
        "[[[[]]]]",
        "[[1, 2, 3]]",
        "null",
        "1e999",
    ],
)
def test_a_notification_that_anybody_may_send_is_survived(text: str) -> None:
    assert Unpacking("me").take(f"x 1 1 1 {text}") == []


def test_a_message_of_which_a_part_got_lost_is_dropped_and_the_next_one_comes() -> None:
    unpacking = Unpacking("me")
    first, second, *others = packed("other", 1, [Notification("t", b"x" * 30_000)])
    assert unpacking.take(first) == []
    del second
    assert [unpacking.take(part) for part in others] == [[]] * len(others)
    (whole,) = packed("other", 2, [Notification("t", b"y")])
    assert unpacking.take(whole) == [Notification("t", b"y")]
    assert Unpacking("other").take(whole) == [], "one's own"


@pytest.mark.parametrize("number", ["1" * 5_000, "\u0661", "-1", "", "0"])
async def test_a_part_with_a_number_of_no_use_is_dropped(number: str) -> None:
    """Review 4: one of 5,000 digits raised ValueError."""
    assert Unpacking("me").take(f'other 1 {number} 2 [["t","p"]]') == []


async def test_what_is_stored_is_no_error_where_telling_it_needs_memory(
    here: PostgresNotifier, there: PostgresNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = notifier.Notification, list[str]()

    def once(topic: str, payload: bytes) -> Notification:
        if threading.current_thread() is threading.main_thread() and not failed:
            failed.append(topic)
            raise MemoryError
        return real(topic, payload)

    monkeypatch.setattr(notifier, "Notification", once)
    async with there.listen(QUEUE) as ear:
        here.tell(QUEUE)
        assert failed == [QUEUE]
        here.tell(QUEUE)
        with anyio.fail_after(20):
            await ear.wait()
