"""System prompts that tell the day or the branch: when these change between the runs of a session,
caches and thinking stay.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agents.coding.conftest import Place
from tests.vendors.rules import every
from tests.vendors.server import VENDORS, Reply, Vendor, call, think, vendor
from treadle import Agent, Input, Outcome, RunResult, Runtime, tool
from treadle.types import SystemBlock

GOOD = 0.95
MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6-sol",
    "openai-chat": "gpt-4.1",
    "gemini": "gemini-3.8-flash",
}
LONG = "\n".join(
    f"Rule {i}: parcels of kind {i} go to the shelf of that number, never to another one."
    for i in range(80)
)


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at a thing."""
    return f"{at}: " + "seen " * 40


def clerk(server: Vendor, wire: str = "anthropic", **other: Any) -> Agent[None, str]:
    options: dict[str, Any] = {
        "instructions": LONG,
        "context": [SystemBlock(text="Today is ${day}.", passing=True)],
        "inputs": {"day": Input()},
        "model": server.model(wire, MODELS[wire]),
        "tools": [look],
    }
    return Agent(name="clerk", **(options | other))


def a_run(words: str, wire: str = "anthropic") -> list[Reply]:
    thinks = [think()] if wire != "openai-chat" else []
    return [[*thinks, call("look", at="x")], [*thinks, words]]


def thoughts(server: Vendor) -> list[int]:
    return [sum(1 for _ in every(body["messages"], "thinking")) for body in server.bodies]


def times_told(server: Vendor, words: str) -> list[int]:
    return [str(body).count(words) for body in server.bodies]


def check_cache(server: Vendor, wire: str = "anthropic") -> None:
    for bill in server.bills[1:]:
        assert (bill.marked if wire == "anthropic" else bill.read) >= GOOD * bill.could, bill.parted


@pytest.mark.parametrize("wire", VENDORS)
async def test_the_next_run_of_a_session_on_another_day_reads_the_whole_conversation_from_the_cache(
    wire: str,
) -> None:
    async with (
        vendor(*a_run("one", wire), *a_run("two", wire), *a_run("three", wire)) as server,
        Runtime.open() as runtime,
    ):
        session = runtime.session(agent=clerk(server, wire))
        for day in ("Monday", "Tuesday", "Tuesday"):
            assert (
                await session.send("Sort the parcels.", inputs={"day": day})
            ).outcome is Outcome.COMPLETED
    assert server.refused == []
    check_cache(server, wire)
    assert times_told(server, "Today is Monday.") == [1] * 6
    assert times_told(server, "Today is Tuesday.") == [0, 0, 1, 1, 1, 1], "once, as it changes"
    if wire == "anthropic":
        assert thoughts(server) == [0, 1, 2, 3, 4, 5]


async def test_a_day_that_comes_back_is_told_again() -> None:
    async with vendor("one", "two", "three") as server, Runtime.open() as runtime:
        session = runtime.session(agent=clerk(server))
        for day in ("Monday", "Tuesday", "Monday"):
            await session.send("Sort the parcels.", inputs={"day": day})
    assert (times_told(server, "Today is Monday."), times_told(server, "Today is Tuesday.")) == (
        [1, 1, 2],
        [0, 1, 1],
    )


async def test_a_run_that_goes_on_in_another_runtime_and_the_one_after_it_keep_the_prompt_of_their_session(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"

    @tool(effect="pure", needs_approval=True)
    async def ship(what: str) -> str:
        """Ship a parcel."""
        return what

    script = [
        *a_run("one"),
        [think(), call("ship", "ship_1", what="x")],
        [think(), "two"],
        *a_run("three"),
    ]
    async with vendor(*script) as server:
        agent = clerk(server, tools=[look, ship])
        async with Runtime.open(url) as runtime:
            assert (
                await runtime.session("s", agent=agent).send("One.", inputs={"day": "Monday"})
            ).text == "one"
            waiting = await runtime.session("s", agent=agent).send(
                "Two.", inputs={"day": "Tuesday"}, on_ask="wait"
            )
            assert waiting.outcome is Outcome.APPROVAL_NEEDED
        async with Runtime.open(url) as runtime:
            assert (
                await runtime.resume(waiting.run_id, agent=agent, approve=["ship_1"])
            ).text == "two"
            assert (
                await runtime.session("s", agent=agent).send("Three.", inputs={"day": "Wednesday"})
            ).text == "three"
    assert (server.refused, thoughts(server)) == ([], [0, 1, 2, 3, 4, 5])
    check_cache(server)


async def test_a_fork_on_another_day_reads_what_its_origin_had_sent() -> None:
    async with vendor(*a_run("one"), *a_run("two"), "forked") as server, Runtime.open() as runtime:
        session = runtime.session(agent=clerk(server))
        await session.send("One.", inputs={"day": "Monday"})
        second: RunResult[str] = await session.send("Two.", inputs={"day": "Tuesday"})
        forked = await runtime.fork(
            second.run_id, turn=1, text="Three.", inputs={"day": "Wednesday"}
        )
    assert (forked.text, server.refused) == ("forked", [])
    assert server.bills[-1].marked >= GOOD * server.bills[2].size
    assert times_told(server, "Today is Wednesday.")[-1] == 1


async def test_what_is_no_passing_block_is_told_as_it_is_now() -> None:
    async with vendor("one", "two") as server, Runtime.open() as runtime:
        session = runtime.session(
            agent=clerk(server, context=[SystemBlock(text="Today is ${day}.")])
        )
        for day in ("Monday", "Tuesday"):
            await session.send("Sort the parcels.", inputs={"day": day})
    assert times_told(server, "Today is Monday.") == [1, 0]


async def test_the_assistant_on_another_branch_keeps_its_session_in_the_cache(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)

    def assistant() -> Agent[Any, str]:
        return replace(place.assistant().agent, model=server.model("anthropic", "claude-opus-5-5"))

    replies: list[Reply] = [[think(), call("ls", path=".")], [think(), "done"]]
    async with vendor(*replies, *replies, *replies) as server, Runtime.open() as runtime:
        for branch in ("main", "feature", "feature"):
            (place.root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
            result = await runtime.session("s", agent=assistant()).send(
                "Look around.", cwd=place.here
            )
            assert result.outcome is Outcome.COMPLETED, result.error
    assert (server.refused, thoughts(server)) == ([], [0, 1, 2, 3, 4, 5])
    check_cache(server)
    assert times_told(server, "branch feature") == [0, 0, 1, 1, 1, 1]
