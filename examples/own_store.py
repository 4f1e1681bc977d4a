"""Keep conversations in a table of your own, beside the journal.

python examples/own_store.py
"""

import asyncio
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

from treadle import Agent, Message, Runtime, StoredSession
from treadle.messages.message import decode_message, encode_message
from treadle.testing import ScriptedModel

FOLDER = Path(tempfile.mkdtemp())


class TableOfChats:
    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS runs (session, run UNIQUE)")
        self.db.execute("CREATE TABLE IF NOT EXISTS chats (session, message)")

    async def load(self, session_id: str) -> Sequence[Message]:
        query = "SELECT message FROM chats WHERE session = ? ORDER BY rowid"
        return [decode_message(row) for (row,) in self.db.execute(query, [session_id])]

    async def append(self, session_id: str, run_id: str, messages: Sequence[Message]) -> None:
        rows = [(session_id, encode_message(message)) for message in messages]
        self.db.execute("BEGIN IMMEDIATE")
        with self.db:  # commits, or rolls back
            new = "INSERT OR IGNORE INTO runs VALUES (?, ?)"
            if self.db.execute(new, [session_id, run_id]).rowcount:
                self.db.executemany("INSERT INTO chats VALUES (?, ?)", rows)


async def ask(store: TableOfChats, text: str, answer: str) -> None:
    agent = Agent(name="guide", model=ScriptedModel([{"text": answer}]))
    async with Runtime.open(f"sqlite:///{FOLDER / 'runs.db'}") as rt:
        result = await StoredSession(rt, "ada", agent=agent, store=store).send(text)
        print(result.text, [message.text for message in result.messages])


async def main() -> None:
    store = TableOfChats(FOLDER / "chats.db")
    await ask(store, "I am Ada, and I like tea.", "Noted.")
    await ask(store, "What do I like?", "Tea.")
    store.db.close()


if __name__ == "__main__":
    asyncio.run(main())
