"""Plan, work in parallel and join, so that a killed program goes on where it was.

python examples/workflow.py
"""

import asyncio
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel

URL = f"sqlite:///{Path(tempfile.mkdtemp()) / 'articles.db'}"


@dataclass
class Plan:
    topics: list[str]


PLAN = ScriptedModel([{"text": '{"topics": ["warp", "weft"]}'}])
planner = Agent(name="planner", output=Plan, model=PLAN)
writer = Agent(name="writer", model=ScriptedModel([{"text": "One."}, {"text": "Two."}]))


async def send(text: str) -> int:
    print("sent:", text)
    return len(text)


async def main() -> None:
    for _ in range(2):  # the second time as after a restart: nothing is called or sent again
        async with Runtime.open(URL) as rt:
            plan = (await rt.ensure(planner, "Plan it.", run_id="a-plan")).unwrap()
            runs = [rt.ensure(writer, topic, run_id=f"a-{topic}") for topic in plan.topics]
            text = " ".join(sorted(run.unwrap() for run in await asyncio.gather(*runs)))
            length = await rt.step("a-send", partial(send, text))
        print(length, "characters")


asyncio.run(main())
