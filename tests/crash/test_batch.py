"""A batch whose process is stopped at its boundaries and copied; another one continues each copy."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from tests.crash.nursery import NOWHERE, Ended, Nursery, Stops
from tests.models.providers.speech import Call
from tests.vendors.batches import batch_server, last_text
from treadle.journal import open_journal
from treadle.types import Outcome

EVERY, ENOUGH = 5, 100
STATE = ("held", "files", "issued", "ordinary")
"""What the vendor remembers."""


def reply(text: str) -> str | Call:
    return f"Wet: {text}" if "rain" in text else Call("c1", "look", (json.dumps({"place": text}),))


@pytest.mark.parametrize(("wire", "first"), [("anthropic", 4), ("openai", 6)])
async def test_a_batch_that_is_killed_is_continued_and_paid_for_once(
    nursery: Nursery, tmp_path: Path, wire: str, first: int
) -> None:
    story = tmp_path / "story"
    story.mkdir()
    copies: dict[int, dict[str, Any]] = {}
    numbers = range(first, ENOUGH, EVERY)
    async with batch_server(reply=reply, looks=1) as server:

        def copy(number: int, ended: Ended) -> None:
            shutil.copytree(story, tmp_path / f"{number}", copy_function=shutil.copyfile)
            copies[number] = {name: deepcopy(getattr(server, name)) for name in STATE}

        def run(folder: Path, stops: Stops) -> Ended:
            url = f"sqlite:///{folder}/runs.db"
            return nursery.call("tests.crash.batch_run", url, str(server.port), wire, stops=stops)

        ended = await to_thread.run_sync(run, story, Stops(numbers, copy))
        assert ended.code == 0
        assert ENOUGH > len(copies) * EVERY + first > 12
        copy(numbers[len(copies)], ended)
        for number, state in copies.items():
            vars(server).update(state)
            done = await to_thread.run_sync(run, tmp_path / f"{number}", NOWHERE)
            assert done.said.splitlines() == ["Wet: rain in Rome", "Wet: rain in Oslo"], number
            paid = Counter(
                last_text(body) for held in server.held for body in held.requests.values()
            )
            assert paid == dict.fromkeys(["Rome", "Oslo", "rain in Rome", "rain in Oslo"], 1), (
                number
            )
            assert server.ordinary == []
            opened = open_journal(f"sqlite:///{tmp_path}/{number}/runs.db")
            assert {info.outcome for info in await opened.runs()} == {Outcome.COMPLETED}
            await opened.aclose()
