"""The journal that every later version must read and go on with: one file for each version of the
format.

`python -m tests.journal.sqlite.fixture` writes the one of this version anew; do so only until that
version is released. Entry: `unpack`.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import anyio
import msgspec

from tests.journal.runs import (
    AT,
    answers,
    asks,
    at,
    fact,
    finished,
    gives,
    keeps,
    late,
    message,
    resumed,
    says,
    started,
    steers,
)
from treadle.journal.entries import ApprovalAsked, CancelAsked, Fork, ToolFinished
from treadle.journal.queue import QueuePlace
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.schema import VERSION
from treadle.messages.message import MediaPart, ToolResult

FOLDER = Path(__file__).parent / "versions"
LONG = 'line "one"\n' * 1_500


def unpack(version: int, path: Path) -> Path:
    path.write_bytes(gzip.decompress((FOLDER / f"{version}.db.gz").read_bytes()))
    return path


async def fill(path: Path) -> None:
    """One of everything."""
    journal = SqliteJournal.open(path)
    await says(
        journal, "run_first", "Where is it warm in winter?", "In Lisbon.", session="ada", minute=1
    )
    journal.sessions.add_message("ada", message("A note by hand.", minute=2))
    writer = await journal.begin(
        msgspec.structs.replace(
            started("run_tools", "Look there.", session="ada", minute=3),
            messages=(message("Be kind."),),
        )
    )
    await writer.append(
        [*asks(1, "call_a", "call_b", effect="pure", minute=3), gives("call_a", LONG)]
    )
    picture = MediaPart(media_type="image/png", data="iVBORw0KGgo" * 1_000)
    await writer.append(
        [
            ToolFinished(
                at=AT,
                status="unknown",
                result=ToolResult(
                    call_id="call_b", name="t", content=(picture,), is_error=True, unknown=True
                ),
            )
        ]
    )
    await writer.append(
        [
            steers("Quick!"),
            fact("other"),
            *answers("run_tools", "Done. \ud83e\uddf5 \ud800", minute=4),
            finished(turns=2, tool_calls=2, minute=4),
        ]
    )
    await writer.append([late("call_b", "It had happened.")])
    writer = await journal.begin(started("run_window", "And now?", session="ada", minute=5))
    await writer.append(
        [
            keeps("msg_run_first", "msg_run_tools", 3),
            *answers("run_window", "Now.", minute=5),
            finished(turns=1, minute=5),
        ]
    )
    await says(
        journal,
        "run_fork",
        "Rather this.",
        "That.",
        session="eve",
        fork=Fork(run_id="run_tools", turn=1, seq=6),
        minute=6,
    )

    writer = await journal.begin(started("run_once", "Charge it.", session="bob", minute=7))
    await writer.append(asks(1, "call_done", "call_open", minute=7))
    await writer.append([gives("call_done", LONG)])
    writer = await journal.begin(started("run_waiting", "May I?", session="cleo", minute=8))
    ask = ApprovalAsked(
        at=at(8), call_id="call_ask", name="t", arguments_json="{}", reason="it costs money"
    )
    await writer.append([*asks(1, "call_ask", minute=8)[:2], ask])
    await writer.release(waiting=True)
    writer = await journal.begin(started("run_resumed", "Go on.", minute=9))
    await writer.release()
    writer = await journal.take_over("run_resumed")
    await writer.append(
        [resumed(2, model="other", mode="plan", cwd="/tmp"), CancelAsked(at=at(9), by="user")]
    )
    journal.sessions.create("Empty", session_id="empty")
    await says(journal, "run_gone", "Forget it.", "Forgotten.", session="cleared", minute=10)
    journal.sessions.clear_messages("cleared")
    journal.sessions.search("Lisbon")
    await journal.queue.add(
        [started("run_queued", "In its turn.", minute=11)],
        QueuePlace(queue="nightly", priority=3, tenant="ada", ready_at=at(11)),
    )
    await journal.queue.add(
        [started("run_parked", "Not now.", minute=12)], QueuePlace(ready_at=at(12))
    )
    await journal.queue.park("run_parked", "nobody can")
    await journal.aclose()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        anyio.run(fill, path)
        (FOLDER / f"{VERSION}.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
