"""Writes a text wherever a user's text can go in a journal. Entry: `confide`, `forms`, `stored`.

`python -m tests.journal.confidant URL` does so, and is killed while it drives a run.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import anyio

from tests.journal.runs import answers, asks, at, finished, gives, late, message, says, started
from treadle.journal import open_journal
from treadle.journal.entries import ApprovalAsked, Fork
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace
from treadle.messages.message import MediaPart, Message

MARK = "Zwiebelfisch4711"
LONG = f'{MARK} "so" \n' * 1_000


def forms(text: str = MARK) -> set[bytes]:
    """The text as it is, in hexadecimal digits, and in base64 at each of the three offsets."""
    data = text.encode()
    encoded = {base64.b64encode(b"\0" * n + data)[4 : len(data)] for n in range(3)}
    return {data, data.hex().encode(), *encoded}


async def confide(journal: Journal) -> None:
    """Up to a run that this process drives, and that waits for an answer."""
    await says(journal, "run_first", f"{MARK}?", f"{MARK}!", session="ada", minute=1)
    journal.sessions.add_message("ada", message(f"By hand: {MARK}", minute=2))
    journal.sessions.create(f"About {MARK}", session_id="titled")
    await journal.queue.add(
        [started("run_parked", f"Not now, {MARK}", minute=3)], QueuePlace(ready_at=at(3))
    )
    await journal.queue.park("run_parked", f"it failed: {MARK}")
    photo = MediaPart(media_type="image/png", data=base64.b64encode(MARK.encode()).decode())
    prompt = Message(id="msg_photo", role="user", parts=(photo,), created_at=at(4))
    first = started(
        "run_tools", LONG, session="ada", minute=4, messages=(prompt,), metadata={"who": MARK}
    )
    writer = await journal.begin(first)
    await writer.append(asks(1, "call_a", "call_b", text=MARK, minute=4))
    await writer.append([gives("call_a", LONG)])
    await writer.append(
        [
            ApprovalAsked(
                at=at(4),
                call_id="call_b",
                name="t",
                arguments_json=f'{{"a": "{MARK}"}}',
                reason=MARK,
            )
        ]
    )


async def conclude(journal: Journal) -> None:
    """Another process goes on with that run, and others follow it."""
    writer = await journal.take_over("run_tools", force=True)
    end = [*answers("run_tools", f"{MARK}.", minute=5), finished(turns=2, tool_calls=2, minute=5)]
    await writer.append([gives("call_b", MARK), *end])
    await writer.append([late("call_b", f"It had happened: {MARK}")])
    fork = Fork(run_id="run_tools", turn=1, seq=4)
    await says(journal, "run_fork", MARK, MARK, session="eve", fork=fork, minute=6)


def stored(url: str, folder: Path) -> bytes:
    """All bytes of the journal: its files, or every row of its tables."""
    if url.startswith("sqlite"):
        return b"\n".join(
            path.read_bytes() for path in sorted(folder.glob("journal.db*")) if path.is_file()
        )
    import psycopg

    with psycopg.connect(url) as db:
        tables = db.execute(
            "select relname from pg_class where relnamespace = 'treadle'::regnamespace and relkind = 'r'"
        ).fetchall()
        return "\n".join(
            row
            for (table,) in tables
            for row in _rows(db.execute(f"select t::text from treadle.{table} t".encode()))
        ).encode()


def _rows(found: Iterable[tuple[str]]) -> list[str]:
    return [text for (text,) in found]


async def _main(url: str) -> None:
    await confide(open_journal(url))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1])
