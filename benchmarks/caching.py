"""Measure which share of a session's bytes a prompt cache could return, and does return, over three
runs and on each wire.

    python -m benchmarks.caching [--turns 20]

A server on loopback keeps what the provider's cache would keep: any prefix that it has seen; for
Claude only those that end at a breakpoint, searched 20 blocks back. `could` is the content of the
previous request. Entry point: `main`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import anyio
from tests.models.caching.conversation import Conversation
from tests.models.caching.pricing import Bill, pricing
from tests.models.providers.conftest import SPEECHES
from tests.models.providers.speech import Speech

from treadle import Runtime, Settings
from treadle.config import Config
from treadle.config.model_profile import Abilities
from treadle.runtime.session import Session

PROMPTS = ("Sort the parcels.", "Once more.", "And again.")


async def bills_of(speech: Speech, turns: int) -> list[list[Bill]]:
    """Return the usage of each run."""
    bills: list[list[Bill]] = []
    async with (
        pricing(speech.wire, *Conversation(speech).answers(turns) * len(PROMPTS)) as server,
        Runtime.open(config=Config()) as rt,
    ):
        connection = speech.connection(server.url, timeout_s=30)
        model = speech.model(
            connection,
            abilities=Abilities(
                earlier_thinking=True, preserved_thinking=speech.wire == "anthropic"
            ),
        )
        sessions: list[Session[Any, Any]] = []
        sessions.append(
            rt.session(
                agent=Conversation(speech, lambda words: sessions[0].steer(words)).agent(model)
            )
        )
        for prompt in PROMPTS:
            before = len(server.bills)
            await sessions[0].send(prompt, settings=Settings(max_tokens=8192))
            bills.append(server.bills[before:])
        await connection.aclose()
    return bills


def share(bills: Sequence[Bill], *, marked: bool) -> str:
    could = sum(bill.could for bill in bills)
    return (
        f"{sum(bill.marked if marked else bill.read for bill in bills) / could:7.2%}"
        if could
        else "      -"
    )


async def main(turns: int) -> None:
    print(f"{'wire':<14}{'all':>8}{'first request of runs 2 and 3':>32}{'MB asked':>10}")
    for speech in SPEECHES:
        runs = await bills_of(speech, turns)
        marked = speech.wire == "anthropic"
        firsts = "  ".join(share(run[:1], marked=marked) for run in runs[1:])
        size = sum(bill.size for run in runs for bill in run) / 1e6
        print(
            f"{speech.wire:<14}{share([bill for run in runs for bill in run], marked=marked):>8}{firsts:>32}{size:>10.1f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=20,
        help="of each run; a session with more than 100 messages shows its next run fewer",
    )
    anyio.run(main, parser.parse_args().turns)
