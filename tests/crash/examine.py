"""Writes to the witness what Treadle itself gives once all is over: each run replayed, each session
counted. Entry: `examine`.

`python -m tests.crash.examine URL WITNESS`. The checker, which shares no code with Treadle,
compares it with what the world saw meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from tests.crash.accounts import NAME
from tests.crash.stories import World, account, digest
from tests.crash.witness import chain
from treadle import Runtime
from treadle.journal import open_journal
from treadle.journal.entries import ModelRequested, Record, RunStarted
from treadle.journal.journal import Journal
from treadle.journal.load import load
from treadle.messages.message import Message


async def examine(url: str, witness: Path) -> None:
    async with Runtime(journal=open_journal(url)) as runtime:
        await write_account(runtime, World(witness))


async def write_account(runtime: Runtime, world: World) -> None:
    """Examine a journal that has been opened, and not written to since."""
    journal = runtime.journal
    records = {info.run_id: await journal.read(info.run_id) for info in await journal.runs()}
    for run_id, own in records.items():
        started = own[0].entry
        assert isinstance(started, RunStarted), "a run begins with run.started"
        name = NAME.fullmatch(started.input.text)
        told = {
            "id": run_id,
            "run": run_id if name is None else name[1],
            "requests": _requests(journal, records, run_id),
        }
        world.saw("replay", json.dumps({**told, **account(await runtime.replay(run_id))}))
    for info in runtime.sessions.list():
        messages = len(await runtime.messages(info.id))
        world.saw(
            "view",
            json.dumps({"session": info.id, "count": info.message_count, "messages": messages}),
        )


def _requests(journal: Journal, records: Mapping[str, Sequence[Record]], run_id: str) -> list[str]:
    """What its model was shown at each request, by the entries before it."""
    first, *others = records[run_id]
    state = load(run_id, lambda of: [first] if of == run_id else records[of], journal.sessions)
    digests: dict[int, tuple[Message, str]] = {}
    shown: list[str] = []
    for record in others:
        state.apply(record.entry)
        if isinstance(record.entry, ModelRequested):
            seen = state.context.history if state.context.seen is None else state.context.seen
            for message in seen:
                if id(message) not in digests:
                    digests[id(message)] = message, digest(message)
            shown.append(chain(digests[id(message)][1] for message in seen))
    return shown


if __name__ == "__main__":
    anyio.run(examine, sys.argv[1], Path(sys.argv[2]))
