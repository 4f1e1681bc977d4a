"""Conversations whose messages are in a store of the user's own.

Entry points: `MessageStore`, `StoredSession`.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Protocol

from typing_extensions import Unpack

from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError
from treadle.journal.run_info import UnknownRun
from treadle.messages.message import Message, Prompt
from treadle.messages.result import Out, RunResult
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import RunOptions, SessionOptions


class MessageStore(Protocol):
    """Store of conversations outside the journal."""

    async def load(self, session_id: str) -> Sequence[Message]:
        """Return the messages that the next run sees, oldest first; empty for an unknown session.

        They have the ids with which they were appended. Older ones may be left out.
        """
        ...

    async def append(self, session_id: str, run_id: str, messages: Sequence[Message]) -> None:
        """Add the messages of an ended run, all or none.

        Called at least once per run. A call with a known `run_id` changes nothing.
        """
        ...


class StoredSession(Generic[Deps, Out]):
    """A conversation in your own store. The journal remains the record of each run.

    The id of a run follows from the session and its last message, so of several callers that send
    at the same time, one starts a run.

    Attributes:
        id: Id of the session in the store.
    """

    def __init__(
        self, runtime: Runtime, session_id: str, *, agent: Agent[Deps, Out], store: MessageStore
    ) -> None:
        self.id = session_id
        self._runtime, self._agent, self._store = runtime, agent, store

    async def send(
        self, text: Prompt, *, deps: Deps = None, **options: Unpack[SessionOptions]
    ) -> RunResult[Out]:
        """Run a prompt after the messages of the store, and append the run's messages.

        Raises AgentError(busy) if the previous run has not ended. Errors of the store propagate: if
        `append` fails, the next call delivers the messages first.
        """
        begun = await self._begin(options)
        result = await self._runtime.run(self._agent, text, deps=deps, **begun)
        if not result.waiting:
            await self.deliver()
        return result

    @asynccontextmanager
    async def stream(
        self, text: Prompt, *, deps: Deps = None, **options: Unpack[SessionOptions]
    ) -> AsyncGenerator[RunStream[Out], None]:
        """Stream a run: `async with session.stream(…) as run: async for event in run: …`.

        The run's messages are appended at the end of the block, or before the next run.
        """
        begun = await self._begin(options)
        async with self._runtime.stream(self._agent, text, deps=deps, **begun) as run:
            yield run
        await self.deliver()

    async def deliver(self) -> None:
        """Append the messages of an ended run that the store does not have yet, for example after
        `Runtime.resume`.
        """
        await self._next()

    async def _begin(self, options: SessionOptions) -> RunOptions:
        messages, run_id, open_run = await self._next()
        if open_run:
            raise AgentError(
                "busy",
                f"run {run_id} of the stored session {self.id!r} has not ended: wait for it, or "
                "resume it",
            )
        return RunOptions(**options, messages=messages, run_id=run_id)

    async def _next(self) -> tuple[Sequence[Message], str, bool]:
        """Return the messages and the id of the next run, and True if that run is in progress.

        Delivers earlier runs first.
        """
        messages, without_effect = await self._store.load(self.id), 0
        while True:
            last = messages[-1].id if messages else ""
            run_id = _run_id(self.id, last, without_effect)
            try:
                info = await self._runtime.journal.info(run_id)
            except UnknownRun:
                return messages, run_id, False
            if info.status != "finished":
                return messages, run_id, True
            ended = await self._runtime.journal.load(run_id)
            given = 0 if ended.started is None else len(ended.started.messages)
            await self._store.append(self.id, run_id, ended.context.own_messages(given))
            messages = await self._store.load(self.id)
            changed = (messages[-1].id if messages else "") != last
            without_effect = 0 if changed else without_effect + 1


def _run_id(session_id: str, last: str, attempt: int) -> str:
    """Return the id of the run that follows the message `last`.

    `attempt` counts the earlier runs after that message which added none.
    """
    key = "\0".join((session_id, last, str(attempt)))
    return f"run_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
