"""The connection on which a process sends and receives signed notifications. Entry point:
`NotificationConnection`.

channels.py packs messages; notifier.py opens the connection, and decides what is sent when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final, LiteralString

import psycopg

from treadle.journal.postgres.channels import (
    ChannelKey,
    Notification,
    Unpacking,
    batches,
    packed,
)
from treadle.journal.postgres.connections import PostgresServer, is_pooled

_NOTIFY: Final[LiteralString] = """
with fast as materialized (select set_config('synchronous_commit', 'off', true))
select pg_notify(channel, told) from fast, unnest(%s::text[], %s::text[]) as given(channel, told)
"""


_CHANNELS: Final[LiteralString] = """
select set_config('treadle.unlisten', %s, false), set_config('treadle.listen', %s, false)
"""


_SUBSCRIBE: Final[LiteralString] = """
do $$ declare channel text; begin
  foreach channel in array string_to_array(current_setting('treadle.unlisten'), ',') loop
    execute format('unlisten %I', channel);
  end loop;
  foreach channel in array string_to_array(current_setting('treadle.listen'), ',') loop
    execute format('listen %I', channel);
  end loop;
end $$
"""
"""LISTEN takes no parameters, and statement texts are visible to roles with pg_read_all_stats,
which monitoring systems have.
"""


class NotificationConnection:
    """An open connection for notifications."""

    def __init__(self, server: PostgresServer, db: psycopg.Connection, me: str) -> None:
        self.db = db
        self._silence = server.silence
        with self._silence.over(db):
            self.is_deaf = is_pooled(db)
            self.key = ChannelKey(_key_of(db))
        self.asked = False
        """True if another process asked for the topics of this one."""
        self._me = me
        self._serial = 0
        self._subscribed: set[str] = set()
        self._unpacking: dict[str, Unpacking] = {}
        self._came: deque[psycopg.Notify] = deque()
        db.add_notify_handler(self._came.append)

    def subscribe(self, channels: Collection[str]) -> None:
        """Listen to exactly these channels. Raises psycopg.Error."""
        if self.is_deaf or self._subscribed == {*channels}:
            return
        wanted = {*channels}
        with self._silence.over(self.db):
            before, now = self._subscribed - wanted, wanted - self._subscribed
            self.db.execute(_CHANNELS, (",".join(before), ",".join(now)))
            self.db.execute(_SUBSCRIBE)
        self._subscribed = {*channels}

    def notify(self, told: Collection[tuple[str, Collection[Notification]]]) -> None:
        """Send a notification. Raises psycopg.Error."""
        channels: list[str] = []
        texts: list[str] = []
        for channel, some in told:
            for batch in batches(some):
                self._serial += 1
                for text in packed(self._me, self._serial, batch):
                    channels.append(channel)
                    texts.append(self.key.signed(channel, text))
        if texts:
            with self._silence.over(self.db):
                self.db.execute(_NOTIFY, (channels, texts))

    def heard(self) -> list[Notification]:
        """Return new notifications. Raises psycopg.Error."""
        self.db.pgconn.consume_input()
        while (notify := self.db.pgconn.notifies()) is not None:
            self._came.append(
                psycopg.Notify(notify.relname.decode(), notify.extra.decode(), notify.be_pid)
            )
        if self.db.pgconn.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
        told: list[Notification] = []
        while self._came:
            notify = self._came.popleft()
            if (text := self.key.verified(notify.channel, notify.payload)) is None:
                continue  # any role that can connect to the database can notify
            some = self._unpacking.setdefault(notify.channel, Unpacking(self._me)).take(text)
            told += (
                [Notification(f"wish {one.topic}", b"") for one in some]
                if notify.channel == self.key.wishes
                else some
            )
        return told


def _key_of(db: psycopg.Connection) -> bytes:
    """Read the journal's key. Raises psycopg.Error for a role that may not read it."""
    row = db.execute("select key from treadle.notify_key", prepare=False).fetchone()
    if row is None:
        raise psycopg.DataError("the table treadle.notify_key is empty")
    return bytes(row[0])
