"""Extract a dataclass from a text, and show the partial value while the model is still writing.

python examples/extract.py
python examples/extract.py --model anthropic:claude-opus-5-5 --text "…"
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass

from treadle import Agent, Runtime
from treadle.events import TextDelta
from treadle.testing import ScriptedModel

TEXT = "Hi, it's Ada. Could two of us come on Friday at eight? We'd need one vegan menu; my number is 555-0199."  # noqa: E501


@dataclass
class Guest:
    name: str
    phone: str | None = None


@dataclass
class Booking:
    """A table reservation."""

    guest: Guest
    day: str
    hour: int
    people: int
    wishes: list[str]


ANSWER = {
    "guest": {"name": "Ada", "phone": "555-0199"},
    "day": "Friday",
    "hour": 20,
    "people": 2,
    "wishes": ["one vegan menu"],
}


async def main() -> None:
    parser = argparse.ArgumentParser(description="Typed extraction.")
    parser.add_argument(
        "--model",
        help="like anthropic:claude-opus-5-5; a script without a key where nothing is said",
    )
    parser.add_argument("--text", default=TEXT)
    said = parser.parse_args()
    model = said.model or ScriptedModel([{"text": json.dumps(ANSWER, indent=1), "delay_ms": 15}])
    agent = Agent(
        name="bookings", instructions="Take down the booking.", model=model, output=Booking
    )

    async with Runtime.open() as rt, rt.stream(agent, said.text) as run:
        before = None
        async for event in run:
            if isinstance(event, TextDelta) and run.partial_output != before:
                before = run.partial_output
                print("so far:", before)
    booking = run.result.unwrap()  # a Booking; raises where there is none
    print(
        f"{booking.guest.name}: {booking.people} on {booking.day} at {booking.hour}:00, {', '.join(booking.wishes) or 'no wishes'}"  # noqa: E501
    )


asyncio.run(main())
