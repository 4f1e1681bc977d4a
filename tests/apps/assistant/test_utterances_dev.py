"""What the rules were built from: all of it is understood, through the same loop and tools as with
any other model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.assistant.people import People
from tests.apps.assistant.utterance_cases import cases, shortcomings

DEV = [
    case
    for name in ("dev.jsonl", "dev2.jsonl")
    for case in cases(Path(__file__).parent / "utterances" / name)
]


@pytest.mark.parametrize("case", DEV, ids=[case["id"] for case in DEV])
async def test_it_understands_what_it_was_built_from(people: People, case: dict[str, object]):
    assert await shortcomings(people, case) == []
