"""Compare two models on a few cases.

python examples/evaluate.py
"""

import asyncio

from treadle import Agent, Runtime
from treadle.apps.evals import Case, Dataset, Exact, evaluate
from treadle.testing import ScriptedModel

dataset = Dataset(
    [Case("Capital of Portugal?", "Lisbon"), Case("Capital of Norway?", "Oslo", name="norway")],
    [Exact()],
)
MODELS = [
    ScriptedModel([{"text": "Lisbon"}, {"text": "Oslo"}], name="script:large"),
    ScriptedModel([{"text": "Lisbon"}, {"text": "Bergen"}], name="script:small"),
]
agent = Agent(name="atlas", instructions="Answer with the name alone.")


async def main() -> None:
    async with Runtime.open() as rt:
        large, small = [
            await evaluate(rt, agent.with_(model=model), dataset, at_once=1) for model in MODELS
        ]
    print(f"{large.passed} and {small.passed} of {len(dataset.cases)}")
    print(small.compared_with(large).splitlines()[0])


asyncio.run(main())
