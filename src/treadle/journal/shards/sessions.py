"""The sessions of a journal over several shards. Entry point: `ShardedSessions`."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from treadle.errors import AgentError
from treadle.journal.receipts import Said
from treadle.journal.session_names import check_session_id
from treadle.journal.sessions import SearchHit, SessionInfo, Sessions
from treadle.journal.shards.directory import Directory
from treadle.journal.shards.part import PartJournal
from treadle.journal.shards.placement import key_of
from treadle.journal.shards.shard import Shard
from treadle.messages.message import Message
from treadle.types import new_id

T = TypeVar("T")


class ShardedSessions:
    """Sessions over all shards. Every method may be called from any thread, and blocks."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._lock = threading.RLock()
        """Guards `_current`, so that two threads do not both create the first session."""
        self._current: str | None = None

    def _in(self, session_id: str) -> Sessions:
        """Return the sessions of the shard that has a session. Raises MissingShard."""
        return self._directory.session_now(session_id).journal.sessions

    # ------------------------------------------------------------ sessions

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        key = session_id if session_id is not None else new_id("session")
        check_session_id(key)
        with self._lock:
            made = self._in(key).create(title, session_id=key)
            self._current = key
            return made

    def get(self, session_id: str) -> SessionInfo | None:
        return self._in(session_id).get(session_id)

    def current(self) -> SessionInfo:
        with self._lock:
            found = None if self._current is None else self.get(self._current)
            return self.create() if found is None else found

    def set_current(self, session_id: str) -> bool:
        with self._lock:
            if self.get(session_id) is None:
                return False
            self._current = session_id
            return True

    def list(self) -> list[SessionInfo]:
        dated = self._each(lambda journal: journal.dated_sessions())
        merged = heapq.merge(*dated, key=lambda one: one[0], reverse=True)
        return [info for _, info in merged]

    def delete(self, session_id: str) -> bool:
        shard = self._directory.session_now(session_id)
        deleted = shard.journal.sessions.delete(session_id)
        for home in self._directory.homes(key_of(session_id)) if deleted else ():
            if home is not shard and home.missing is None:
                home.journal.forget_now("session", session_id)
        return deleted

    def update_title(self, session_id: str, title: str) -> bool:
        return self._in(session_id).update_title(session_id, title)

    # ------------------------------------------------------------ messages

    def add_message(self, session_id: str, message: Message) -> bool:
        return self._in(session_id).add_message(session_id, message)

    def add_messages(self, session_id: str, messages: Iterable[Message]) -> bool:
        return self._in(session_id).add_messages(session_id, messages)

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        return self._in(session_id).get_messages(session_id, before=before)

    def everything(self, session_id: str) -> Sequence[Message]:
        return self._in(session_id).everything(session_id)

    def clear_messages(self, session_id: str) -> bool:
        return self._in(session_id).clear_messages(session_id)

    def remember(self, session_id: str, said: Sequence[Said], *, run_id: str) -> None:
        """Do nothing, because the journal has the messages of runs."""

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        hits = self._each(lambda journal: journal.sessions.search(words, limit=limit))
        return sorted((hit for some in hits for hit in some), key=lambda hit: hit.at, reverse=True)[
            :limit
        ]

    # ------------------------------------------------------------ all shards

    def _each(self, read: Callable[[PartJournal], T]) -> Iterator[T]:
        """Yield the answers of the shards that are not missing, one after the other."""
        for shard in self._directory.shards.values():
            answer = _answer(shard, read)
            if answer is not None:
                yield answer


def _answer(shard: Shard, read: Callable[[PartJournal], T]) -> T | None:
    if shard.missing is not None:
        return None
    try:
        return read(shard.journal)
    except AgentError as e:
        shard.doubt_now(e)
        if shard.missing is None:
            raise
        return None


if TYPE_CHECKING:
    _: type[Sessions] = ShardedSessions
