"""Tag a hundred documents at half price. Started again with the same id, it sends nothing twice.

python examples/batch.py

With a model's name instead of the script, like anthropic:claude-haiku-5-5, the requests go out over
the provider's batch API, and this can take hours. Stop it whenever you like.
"""

import asyncio
import tempfile
from pathlib import Path

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel

agent = Agent(
    name="tagger",
    model=ScriptedModel([{"text": "textile"}] * 100),
    instructions="Name the topic of the document in one word.",
)
URL = f"sqlite:///{Path(tempfile.mkdtemp()) / 'tags.db'}"
DOCUMENTS = [f"Document {number}: on looms." for number in range(100)]


async def main() -> None:
    for _ in range(2):  # the second time as after a restart
        async with Runtime.open(URL) as rt:
            results = await rt.batch(agent, DOCUMENTS, batch_id="tags-1")
        print(sum(result.success for result in results), "of", len(results), results[0].text)


asyncio.run(main())
