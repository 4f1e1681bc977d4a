"""Transfer money in a way that survives a crash: kill the program at any moment, start it again,
and the money has moved exactly once.

    TREADLE_CRASH_AT=7 python examples/bank.py --folder /tmp/bank     # dies by kill -9 at the
                                                                      # 7th durable boundary
    python examples/bank.py --folder /tmp/bank                        # continues the
                                                                      # interrupted run

The transfer is a `once` call: Treadle never repeats it by itself. After a crash, Treadle asks the
probe whether the transfer took place.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from pathlib import Path

from treadle import Agent, DidNotHappen, Happened, Runtime, ToolContext, tool

SCRIPT = Path(__file__).with_suffix(".json")


class Bank:
    """An external system with a database of its own, which our journal does not cover."""

    def __init__(self, file: Path) -> None:
        self.db = sqlite3.connect(file)
        self.db.executescript("""
            CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, euros INTEGER);
            CREATE TABLE IF NOT EXISTS transfers (key TEXT, what TEXT);
            INSERT OR IGNORE INTO accounts VALUES ('Ada', 100), ('Bob', 0);
        """)

    def transfer(self, key: str, giver: str, taker: str, euros: int) -> str:
        with self.db:
            self.db.execute("UPDATE accounts SET euros = euros - ? WHERE name = ?", (euros, giver))
            self.db.execute("UPDATE accounts SET euros = euros + ? WHERE name = ?", (euros, taker))
            self.db.execute(
                "INSERT INTO transfers VALUES (?, ?)", (key, f"{euros} € from {giver} to {taker}")
            )
        return f"{euros} € went from {giver} to {taker}"

    def has(self, key: str) -> bool:
        return (
            self.db.execute("SELECT 1 FROM transfers WHERE key = ?", (key,)).fetchone() is not None
        )

    def balances(self) -> str:
        return ", ".join(
            f"{name} has {euros} €"
            for name, euros in self.db.execute("SELECT * FROM accounts ORDER BY name")
        )


async def was_transferred(
    ctx: ToolContext[Bank], giver: str, taker: str, euros: int
) -> Happened | DidNotHappen:
    return (
        Happened(f"{euros} € went from {giver} to {taker}")
        if ctx.deps.has(ctx.idempotency_key)
        else DidNotHappen()
    )


@tool(effect="once", probe=was_transferred)
async def transfer(ctx: ToolContext[Bank], giver: str, taker: str, euros: int) -> str:
    """Move money from one account to another."""
    return ctx.deps.transfer(ctx.idempotency_key, giver, taker, euros)


@tool(effect="pure")
async def balances(ctx: ToolContext[Bank]) -> str:
    """Return the balance of each account."""
    return ctx.deps.balances()


async def main() -> None:
    parser = argparse.ArgumentParser(description="A bank transfer that survives a crash.")
    parser.add_argument(
        "--model",
        default=f"script:{SCRIPT}",
        help="like anthropic:claude-opus-5-5; a script without a key where nothing is said",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("bank"),
        help="of the journal and of the bank's own database",
    )
    said = parser.parse_args()
    said.folder.mkdir(parents=True, exist_ok=True)
    bank = Bank(said.folder / "bank.db")
    agent = Agent[Bank](
        name="teller",
        instructions="You move money, then look at the accounts.",
        model=said.model,
        tools=[transfer, balances],
    )

    async with Runtime.open(f"sqlite:///{said.folder / 'journal.db'}") as rt:
        last = next(iter(await rt.journal.runs()), None)  # the newest
        if last is None:
            result = await rt.run(agent, "Give Bob 30 € of Ada's.", deps=bank)
        else:
            print(f"there is a run, {last.status}: it goes on, or tells its end again")
            result = await rt.resume(last.run_id, agent, deps=bank)
    print(result.text)
    print(bank.balances())
    bank.db.close()


asyncio.run(main())
