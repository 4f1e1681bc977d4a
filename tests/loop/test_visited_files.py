"""The files that a minimal run enters: one agent, one tool, no other feature."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import treadle
from tests.doubles import open_runtime
from treadle import Agent, tool
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.sqlite import SqliteJournal
from treadle.testing import ScriptedModel

SOURCE = Path(treadle.__file__).parent.as_posix() + "/"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


BOTH = """
_internal: crash ids json_text redaction
agents: agent fingerprint registry templates
budget: ledger price_list prices tree
config: model_profile
events: feed live_deltas tracing
journal: context_state entries notifier repetition run_messages run_state run_values
journal/memory: notifier
loop: calls deadline ending loop model_turn outcome output plan recorder session_past shown_results tool_code toolbox
messages: history images message
models: model registry retry
models/providers: scripted
policy: decision permissions policy
runtime: assembly children model_choice options prompt results run_stream runs sandboxing session session_grants toolbox_factory
.: testing types
tools/function: arguments function_tool returned threads
tools: registry spill
"""
MEMORY = """
journal/memory: journal run
"""
SQLITE = """
journal: pending projection session_names
journal/sqlite: database driving guard journal log workers write_turn writer writes
journal/tables: beginning conversations driving holding listing rows stopping
"""


async def visited(journal: Journal) -> set[str]:
    """Return the files that the second of two equal runs enters; the first one fills caches."""
    entered, is_over = set[str](), False

    def seen(frame: FrameType, event: str, _: object) -> None:
        if is_over:  # in the thread of the tool, which outlives the run
            sys.setprofile(None)
        elif event == "call" and (name := frame.f_code.co_filename).startswith(SOURCE):
            entered.add(name.removeprefix(SOURCE).removesuffix(".py"))

    async with open_runtime(journal=journal) as runtime:
        for _ in range(2):
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            model = ScriptedModel([{"tool_calls": [call]}, {"text": "3"}])
            agent = Agent(name="sum", instructions="Add.", model=model, tools=[add])
            before = sys.getprofile()
            entered.clear()
            sys.setprofile(seen)
            threading.setprofile(seen)
            try:
                result = await runtime.run(agent, "1 + 2")
            finally:
                sys.setprofile(before)
                threading.setprofile(None)
            assert result.unwrap() == "3"
    is_over = True
    return entered


def files(*texts: str) -> set[str]:
    return {
        name if folder == "." else f"{folder}/{name}"
        for line in "".join(texts).split("\n")
        if line
        for folder, names in [line.split(": ")]
        for name in names.split()
    }


async def test_a_run_enters_no_file_of_a_feature_that_it_does_not_use(tmp_path: Path) -> None:
    assert await visited(MemoryJournal()) == files(BOTH, MEMORY)
    assert await visited(SqliteJournal.open(tmp_path / "runs.db")) == files(BOTH, SQLITE)
