"""One process that starts a run which its provider compacts, or resumes it: what gets killed.

The provider is a server of the test (tests/vendors/server.py), so that it remembers across
processes which signatures it made. Entry: `drive`.
"""

from __future__ import annotations

from functools import partial

import anyio
import msgspec

from tests.models.providers.speech import Reasoning
from tests.vendors.rules import Json
from tests.vendors.server import SPEECHES, Ready, Vendor, call, model_of
from treadle import Agent, Limits, Runtime, Settings, tool
from treadle.config.model_profile import Abilities
from treadle.journal.sqlite import SqliteJournal
from treadle.models.providers.known_models import known

TURNS, SUMMARIES = 5, 2
"""Turns with calls, and compactions between them."""
WORDS = "It was a summary of the parcels."


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of one process, as JSON."""

    journal: str
    url: str
    wire: str
    model_id: str


@tool(effect="pure")
async def look(at: int) -> str:
    """Look at a parcel."""
    return f"parcel {at}: " + "seen\n" * 2_600


class Parcels(Vendor):
    """Answers by the conversation alone: a process that goes on repeats a request."""

    def reply(self, wire: str) -> Ready:
        seen = self.seen[-1]
        body: Json = seen.json
        if "compaction" in body or seen.target.endswith("/compact"):
            return WORDS
        text = seen.body.decode()
        last = max((n for n in range(1, TURNS + 1) if f"parcel {n}: " in text), default=0)
        said = Reasoning(("Hm.",))
        return [said, "Done."] if last == TURNS else [said, call("look", at=last + 1)]


def drive(given: str) -> None:
    """Print the outcome and the text of the run, or the error of its end."""
    anyio.run(_main, msgspec.json.decode(given, type=Given))


async def _main(given: Given) -> None:
    connection = SPEECHES[given.wire].connection(given.url, timeout_s=10)
    model = partial(model_of, given.wire, given.model_id, connection)
    abilities = Abilities(context_tokens=30_000).over(known(given.wire, None, given.model_id))
    agent = Agent(
        name="clerk",
        instructions="Look.",
        tools=[look],
        model=model(abilities, own_host=True),
        settings=Settings(max_tokens=1_000, thinking=True, compact_at_tokens=9_000),
        limits=Limits(turns=30),
    )
    async with Runtime(journal=SqliteJournal.open(given.journal)) as runtime:
        runs = await runtime.journal.runs()
        result = (
            await runtime.resume(runs[0].run_id, agent) if runs else await runtime.run(agent, "Go.")
        )
    await connection.aclose()
    print(result.outcome.value, result.text or result.error, flush=True)
