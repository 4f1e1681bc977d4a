"""What the rules were built from: all of it is understood, through the same loop and tools as with
any other model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.assistant.people import People
from tests.apps.assistant.utterance_cases import cases, shortcomings
from treadle.runtime.runtime import Runtime

DEV = [
    case
    for name in ("dev.jsonl", "dev2.jsonl")
    for case in cases(Path(__file__).parent / "utterances" / name)
]
TOGETHER = 40
"""Cases of one test. Each has a person and a clock of its own; they share a database and a runtime,
because to open them and run a test takes longer than most cases do.
"""


@pytest.mark.parametrize("first", range(0, len(DEV), TOGETHER))
async def test_it_understands_what_it_was_built_from(people: People, first: int):
    async with Runtime.open() as runtime:
        found = {
            case["id"]: await shortcomings(People(people.database), case, runtime)
            for case in DEV[first : first + TOGETHER]
        }
    assert {name: short for name, short in found.items() if short} == {}


def test_each_case_has_an_id_of_its_own():
    assert len({case["id"] for case in DEV}) == len(DEV)
