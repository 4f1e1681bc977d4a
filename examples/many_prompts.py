"""Run two hundred prompts, sixteen at a time. Started again, it does only what is missing.

python examples/many_prompts.py
"""

import asyncio
import tempfile
from pathlib import Path

from treadle import Agent, RunResult, Runtime
from treadle.testing import ScriptedModel

agent = Agent(name="tagger", model=ScriptedModel([{"text": "textile"}] * 200))
URL = f"sqlite:///{Path(tempfile.mkdtemp()) / 'tags.db'}"


async def main() -> None:
    slots = asyncio.Semaphore(16)

    async def tag(rt: Runtime, number: int) -> RunResult[str]:
        async with slots:
            return await rt.ensure(agent, f"Tag document {number}.", run_id=f"tags-1-{number}")

    for _ in range(2):  # the second time as after a restart
        async with Runtime.open(URL) as rt:
            results = await asyncio.gather(*(tag(rt, number) for number in range(200)))
        print(sum(result.success for result in results), "of", len(results))


asyncio.run(main())
