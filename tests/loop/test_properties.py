"""What holds for every run, whatever its model says, its tools do, its limits cut and whenever it
is stopped.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import PlainTool, agent, check, label, open_runtime
from treadle import ToolContext, ToolFailed
from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.runtime.run_stream import RunStream
from treadle.types import Effect, Limits, Mode, Outcome

TOOLS: dict[str, tuple[Effect, bool]] = {
    "quick": ("pure", True),
    "slow": ("once", True),
    "alone": ("once", False),
    "again": ("idempotent", True),
    "raises": ("once", True),
    "fails": ("once", True),
    "exits": ("pure", True),
}

calls = st.fixed_dictionaries(
    {
        "name": st.sampled_from([*TOOLS, "unknown"]),
        "arguments": st.one_of(
            st.fixed_dictionaries({"n": st.integers(0, 2)}), st.sampled_from(["{", "[]", ""])
        ),
    },
    optional={"id": st.sampled_from(["a", "b", "a_2"])},
)
entries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["", " ", "Some words that make it more than one delta."]),
        "reasoning": st.sampled_from(["", "Let me think about it for a while."]),
        "tool_calls": st.lists(calls, max_size=5),
        "stop": st.sampled_from(
            [
                "complete",
                "tool_use",
                "max_tokens",
                "pause",
                "refusal",
                "stop_sequence",
                "context_overflow",
            ]
        ),
        "error": st.fixed_dictionaries(
            {"kind": st.sampled_from(["network", "rate_limit", "invalid", "context_overflow"])}
        ),
        "usage": st.fixed_dictionaries(
            {"input_tokens": st.integers(0, 500), "output_tokens": st.integers(0, 500)}
        ),
    },
)
limits = st.one_of(
    st.none(),
    st.builds(
        Limits,
        turns=st.none() | st.integers(1, 5),
        tool_calls=st.none() | st.integers(1, 5),
        tokens=st.none() | st.integers(1, 3000),
    ),
)
modes: st.SearchStrategy[Mode] = st.sampled_from(["full", "ask", "plan", "accept-edits"])


@dataclass(frozen=True, kw_only=True)
class Case:
    script: list[dict[str, Any]]
    limits: Limits | None
    mode: Mode
    stop_after: int | None
    """Steps of the event loop."""
    steer_after: int | None


cases = st.builds(
    Case,
    script=st.lists(entries, max_size=6),
    limits=limits,
    mode=modes,
    stop_after=st.none() | st.integers(0, 60),
    steer_after=st.none() | st.integers(0, 30),
)


class Bench:
    """The tools of one case, and which calls really ran."""

    def __init__(self) -> None:
        self.ran: set[str] = set()

    def tools(self) -> list[PlainTool]:
        return [
            PlainTool(name=name, does=self._does(name), effect=effect, parallel=parallel)
            for name, (effect, parallel) in TOOLS.items()
        ]

    def _does(self, name: str) -> Any:
        async def does(ctx: ToolContext[None], arguments: object) -> str:
            assert ctx.call_id not in self.ran, "a call runs once"
            self.ran.add(ctx.call_id)
            for _ in range(0 if name == "quick" else 3):
                ctx.progress("on it")
                await anyio.lowlevel.checkpoint()
            match name:
                case "raises":
                    raise ValueError("no")
                case "fails":
                    raise ToolFailed("Perhaps it happened.", happened=None)
                case "exits":
                    raise SystemExit(1)
                case _:
                    return f"done by {name}"

        return does


@settings(max_examples=250, deadline=None)
@given(case=cases)
def test_a_run_ends_with_a_valid_history_and_tells_what_happened(case: Case) -> None:
    anyio.run(_holds, case)


async def _holds(case: Case) -> None:
    bench, rt, seen = Bench(), open_runtime(), list[Event]()
    options: dict[str, Any] = {"limits": case.limits} if case.limits is not None else {}
    stream: RunStream[Any] = rt.stream(
        agent(case.script, *bench.tools()), "go", session="s", mode=case.mode, **options
    )

    async def read() -> None:
        async with stream:
            async for event in stream:
                seen.append(event)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            steps_of(case, stream, group)
    assert len(asyncio.all_tasks()) == 1
    result = stream.result
    records = await rt.journal.read(stream.run_id)
    check(result, seen, records)
    assert await rt.messages("s") == result.messages
    assert case.stop_after is not None or result.outcome is not Outcome.CANCELLED

    labels = [label(record.entry) for record in records]
    started = {one.split(":")[1] for one in labels if one.startswith("tool.started")}
    assert bench.ran <= started
    assert result.metrics.tool_calls == len(started)
    for told in (told for message in result.messages for told in message.tool_results):
        assert not (told.unknown and told.call_id not in bench.ran), "what never ran is not unknown"
        assert not (told.text.startswith("Not run") and told.call_id in bench.ran), (
            "what ran is not called not run"
        )
    if case.limits is not None:
        assert result.turn_count <= (case.limits.turns or 100)
        assert len(started) <= (case.limits.tool_calls or 100)
    if case.mode == "plan":
        assert not {name for name in labels if name.endswith(":unknown")}


def steps_of(case: Case, stream: RunStream[Any], group: TaskGroup) -> None:
    """Stops and steers the run when the case says."""
    group.start_soon(_after, case.stop_after, stream.cancel)
    group.start_soon(_after, case.steer_after, lambda: stream.steer("and be quick"))


async def _after(steps: int | None, what: Any) -> None:
    if steps is not None:
        for _ in range(steps + 2):
            await asyncio.sleep(0)
        with suppress(AgentError):  # steering comes too late where the run is over
            what()
