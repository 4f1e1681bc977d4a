"""Over real runs in a SQLite file: replay is the run again, and a fork, replayed, is its parent up
to the cut.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import Agent, RunResult, Runtime, tool
from treadle.journal.sqlite import SqliteJournal
from treadle.testing import ScriptedModel


@tool(effect="once")
async def say(text: str, times: int = 1) -> str:
    return text * times


@tool(effect="pure", parallel=False)
async def fail(text: str) -> str:
    raise ValueError(text)


def _call(name: str, text: str, times: int) -> dict[str, Any]:
    return {
        "name": name,
        "arguments": {"text": text, **({"times": times} if name == "say" else {})},
    }


def _turn(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": text, "tool_calls": calls}


CALL = st.one_of(
    st.builds(
        _call, st.sampled_from(["say", "fail"]), st.text(max_size=8), st.sampled_from([1, 3, 2_000])
    ),
    st.sampled_from([_call("nobody", "", 1), {"name": "say", "arguments": "{broken"}]),
)
SCRIPT = st.lists(
    st.builds(_turn, st.text(max_size=12), st.lists(CALL, min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)


def _agent(*script: dict[str, Any]) -> Agent[object, str]:
    return Agent(name="a", model=ScriptedModel(script), tools=[say, fail])


def _same(one: RunResult[Any], other: RunResult[Any]) -> None:
    assert one.messages == other.messages
    assert (one.outcome, one.text, one.output, one.metrics.usage) == (
        other.outcome,
        other.text,
        other.output,
        other.metrics.usage,
    )


async def _check(script: list[dict[str, Any]], folder: Path) -> None:
    async with Runtime(journal=SqliteJournal.open(folder / "journal.db")) as runtime:
        result = await runtime.run(_agent(*script, {"text": "The end."}), "go")
        replayed = await runtime.replay(result.run_id)
        _same(replayed, result)
        stored = await runtime.journal.read_bytes(result.run_id)
        ends = [
            i + 1 + bool(m.tool_calls)
            for i, m in enumerate(result.messages)
            if m.role == "assistant"
        ]
        """Of each turn: behind its answer and the results, before what the model is told next."""
        for turn in range(result.turn_count + 1):
            fork = await runtime.fork(
                result.run_id, turn=turn, text="otherwise", agent=_agent({"text": "So be it."})
            )
            cut = len(fork.messages) - 2
            assert fork.messages[:cut] == result.messages[:cut]
            assert cut == (ends[turn - 1] if turn else 0)
            _same(await runtime.replay(fork.run_id), fork)
        assert await runtime.journal.read_bytes(result.run_id) == stored, (
            "a fork leaves its parent as it is"
        )


@settings(max_examples=25, deadline=None)
@given(script=SCRIPT)
def test_a_fork_replayed_is_its_parent_up_to_the_cut(script: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(_check, script, Path(folder))
