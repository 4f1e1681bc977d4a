"""Compare two models on a few cases.

python examples/evaluate.py
"""

import asyncio

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel

CASES = {"Capital of Portugal?": "Lisbon", "Capital of Norway?": "Oslo"}
MODELS = [
    ScriptedModel([{"text": "Lisbon"}, {"text": "Oslo"}], name="script:large"),
    ScriptedModel([{"text": "Lisbon"}, {"text": "Bergen"}], name="script:small"),
]
agent = Agent(name="atlas", instructions="Answer with the name alone.")


async def main() -> None:
    async with Runtime.open() as rt:
        for model in MODELS:
            tried = agent.with_(model=model)
            results = [await rt.run(tried, question) for question in CASES]
            right = sum(result.text == CASES[q] for q, result in zip(CASES, results, strict=True))
            print(f"{model.name}: {right} of {len(CASES)}")


asyncio.run(main())
