"""Let three agents research side by side, and a fourth one, which has them as tools, write the
answer.

    python examples/research.py
    python examples/research.py --model anthropic:claude-opus-5-5 --question "…"

Each agent has its own history and spends from the budget of the first.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from treadle import Agent, Limits, Runtime
from treadle.events import ChildEnd, ChildStart
from treadle.testing import ScriptedModel

QUESTION = "Should our bakery buy an electric van?"
FIELDS = {
    "costs": (
        "What things cost, over years.",
        "Over eight years it is some 4,000 € cheaper: current instead of diesel, hardly any service.",  # noqa: E501
    ),
    "rules": (
        "What laws and towns allow.",
        "The old town lets only electric vans in from 2028 on.",
    ),
    "practice": (
        "What daily work is like.",
        "60 km of rounds a day are a quarter of a charge; it loads at night beside the ovens.",
    ),
}
ANSWER = "Yes. It is cheaper over eight years, it will still be let into the old town in 2028, and a night of charging covers four days of rounds."  # noqa: E501


def researcher(name: str, model: str | None) -> Agent[Any, str]:
    description, finding = FIELDS[name]
    instructions = f"You look into one side of a question: {description} Answer in two sentences."
    return Agent(
        name=name,
        description=description,
        instructions=instructions,
        model=model or ScriptedModel([{"text": finding}]),
    )


def lead(model: str | None, question: str) -> Agent[Any, str]:
    ask_all = [
        {"name": name, "arguments": {"prompt": f"{question} Look at {name}."}} for name in FIELDS
    ]
    return Agent(
        name="lead",
        instructions="Ask all of your researchers at once, in one turn; then answer in three sentences.",  # noqa: E501
        model=model or ScriptedModel([{"tool_calls": ask_all}, {"text": ANSWER}]),
        tools=[researcher(name, model) for name in FIELDS],
        limits=Limits(turns=8, tokens=200_000),
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description="Research with three subagents.")
    parser.add_argument(
        "--model",
        help="like anthropic:claude-opus-5-5; scripts without a key where nothing is said",
    )
    parser.add_argument("--question", default=QUESTION)
    said = parser.parse_args()

    async with Runtime.open() as rt:
        async with rt.stream(lead(said.model, said.question), said.question) as run:
            async for event in run:
                if isinstance(event, ChildStart):
                    print(f"{event.agent} begins")
                elif isinstance(event, ChildEnd):
                    print(f"a researcher is {event.outcome.value}")
        for child in await rt.journal.children(run.run_id):
            print(f"  {child.agent}: {child.turns} turn(s), {child.usage.total_tokens} tokens")
    print(run.result.unwrap())


asyncio.run(main())
