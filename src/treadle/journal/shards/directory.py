"""Finding the shard of a run or session, and the notifications of a run there. Entry points:
`Directory`, `ShardedNotifier`.

A session is in the shard of its key, or has a reservation there. A run is remembered; otherwise the
shard of its id is asked, then all others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.memory.notifier import LocalNotifier
from treadle.journal.notifier import Listening, Notifier
from treadle.journal.shards.placement import Generation, homes, is_generated, key_of, key_of_run
from treadle.journal.shards.shard import Shard, ask_all, first_missing

REMEMBERED_MOST: Final = 20_000
"""Maximum number of runs whose shards are remembered."""


class Directory:
    """Shards of runs and sessions. Safe from any thread."""

    def __init__(self, shards: Mapping[str, Shard], generations: Sequence[Generation]) -> None:
        self.shards = shards
        self._generations = generations
        self._removed = any(
            name not in shards for generation in generations for name in generation.names
        )
        """True if a shard was removed from the list, with the reservations in it."""
        self._lock = threading.Lock()
        """Guards the attribute below."""
        self._runs: OrderedDict[str, Shard] = OrderedDict()

    def homes(self, key: str) -> list[Shard]:
        """Return the shards in which a key belongs or belonged, the current one first."""
        found = homes(self._generations, key)
        every = [*found, *self.shards] if self._removed else found
        return [self.shards[name] for name in dict.fromkeys(every) if name in self.shards]

    # ------------------------------------------------------------ runs

    def remember(self, run_id: str, shard: Shard) -> None:
        with self._lock:
            self._runs[run_id] = shard
            self._runs.move_to_end(run_id)
            if len(self._runs) > REMEMBERED_MOST:
                self._runs.popitem(last=False)

    def forget(self, run_id: str) -> None:
        with self._lock:
            self._runs.pop(run_id, None)

    def known(self, run_id: str) -> Shard | None:
        """Return the shard of a run, if it is remembered."""
        return self._runs.get(run_id)

    async def find(self, run_id: str) -> Shard | None:
        """Return the shard of a run; None if all shards answer and none has it. Raises
        MissingShard.
        """
        if (known := self._runs.get(run_id)) is not None:
            return known
        first = self.homes(key_of(run_id))
        found = await self._asked("run", run_id, first)
        if found is None:
            others = [shard for shard in self.shards.values() if shard not in first]
            has_it = await ask_all(others, lambda journal: journal.has_run(run_id))
            found = next((shard for shard, has in has_it if has), None)
        if found is not None:
            self.remember(run_id, found)
        elif (missing := first_missing([*self.shards.values()])) is not None:
            raise missing
        return found

    # ------------------------------------------------------------ sessions

    async def session(self, session_id: str) -> tuple[Shard, bool]:
        """Return the shard of a session, or the one in which it belongs, and True if it exists.
        Raises MissingShard.
        """
        first = self.homes(key_of(session_id))
        found = await self._asked("session", session_id, first)
        if found is None and (missing := first_missing(first)) is not None:
            raise missing
        return found or first[0], found is not None

    def session_now(self, session_id: str) -> Shard:
        """Find the shard of a session, but block the calling thread. Raises MissingShard."""
        first = self.homes(key_of(session_id))
        for shard in first:
            if (name := shard.journal.where_now("session", session_id)) is not None:
                return self._named(name)
        return first[0]

    async def _asked(self, kind: str, name: str, shards: Sequence[Shard]) -> Shard | None:
        answers = await ask_all(shards, lambda journal: journal.where(kind, name))
        return next((self._named(shard) for _, shard in answers if shard is not None), None)

    def _named(self, name: str) -> Shard:
        shard = self.shards.get(name)
        if shard is None:
            raise AgentError(
                "invalid",
                f"shard {name!r} is no longer in the list of shards: to reach its runs, add it to "
                "the list again, under `draining`",
            )
        return shard

    # ------------------------------------------------------------ new runs

    async def place(self, started: RunStarted) -> Shard:
        """Return the shard for a new run, and reserve its id.

        Raises AgentError(busy) if another shard has the run, AgentError(invalid) if its session is
        in another shard than the run that it continues, and MissingShard.
        """
        shard = await self._wanted(started)
        if not is_generated(started.run_id):
            await self._reserve("run", started.run_id, shard)
        return shard

    async def _wanted(self, started: RunStarted) -> Shard:
        origin = started.fork.run_id if started.fork is not None else started.parent_run_id
        beside = None if origin is None else await self.find(origin)
        if started.session_id is None:
            return beside or self.homes(key_of_run(started))[0]
        session, exists = await self.session(started.session_id)
        if beside is None or beside is session:
            return session
        if exists:
            raise AgentError(
                "invalid",
                f"session {started.session_id!r} is in shard {session.name!r}, and run {origin} in "
                f"shard {beside.name!r}: continue that run in a new session",
            )
        await self._reserve("session", started.session_id, beside)
        return beside

    async def _reserve(self, kind: str, name: str, shard: Shard) -> None:
        first, *before = self.homes(key_of(name))
        held = await first.do(lambda journal: journal.reserve(kind, name, shard.name))
        if held == shard.name and before:
            if (missing := first_missing(before)) is not None:
                raise missing
            elsewhere = await self._asked(kind, name, before)
            held = held if elsewhere is None else elsewhere.name
        if held != shard.name:
            raise AgentError(
                "busy", f"{kind} {name} already exists, in shard {held!r}: use another id"
            )


class ShardedNotifier:
    """Notifier over all shards. A run's topics are those of its shard, if that is known."""

    def __init__(self, directory: Directory, local: LocalNotifier) -> None:
        self._directory, self._local = directory, local

    def _of(self, topic: str) -> list[Notifier]:
        run_id = topic.partition(":")[2]
        known = self._directory.known(run_id) if run_id else None
        shards = self._directory.shards.values() if known is None else [known]
        return [shard.opened.notifier for shard in shards if shard.opened and shard.missing is None]

    @asynccontextmanager
    async def listen(self, *topics: str) -> AsyncGenerator[Listening]:
        """Listen in each shard. All of them share the subscribers of this process, so that one
        subscription receives everything.
        """
        by_notifier: dict[int, tuple[Notifier, list[str]]] = {}
        for topic in topics:
            for notifier in self._of(topic):
                by_notifier.setdefault(id(notifier), (notifier, []))[1].append(topic)
        async with AsyncExitStack() as stack:
            listening = await stack.enter_async_context(self._local.listen(*topics))
            for notifier, some in by_notifier.values():
                await stack.enter_async_context(notifier.listen(*some))
            yield listening

    def tell(self, topic: str, payload: bytes = b"") -> None:
        notifiers = self._of(topic)
        for notifier in notifiers:
            notifier.tell(topic, payload)
        if not notifiers:
            self._local.tell(topic, payload)

    def wanted(self, topic: str) -> bool:
        return any(notifier.wanted(topic) for notifier in self._of(topic))

    def close(self) -> None:
        """Wake the remaining subscribers. Idempotent."""
        self._local.close()


if TYPE_CHECKING:
    _: type[Notifier] = ShardedNotifier
