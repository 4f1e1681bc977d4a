"""One process that starts a story, or goes on with whatever is left of it: what gets killed. Entry:
`drive`, `finish`.

What the stories are stands in stories.py; the switches that take a guard away, in sabotage.py.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import apsw
import msgspec

from tests.crash.examine import examine, write_account
from tests.crash.faults import fail
from tests.crash.sabotage import Guard, sabotage
from tests.crash.stories import STORIES, Story, World, agent_of, honest
from treadle import Agent, AgentError, RunResult, Runtime
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.tables.sealing import KEY, keys_in
from treadle.messages.events import Event, ToolCallStart, ToolProgress
from treadle.runtime.children import open_below
from treadle.runtime.run_stream import RunStream

STEPS_MOST = 10
"""Processes that go on, until nothing is left."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the process shall do."""

    journal: Path
    witness: Path
    story: str
    url: str = ""
    """Of a PostgreSQL database, which then is the journal; there is no file."""
    lease_s: float = 15.0
    """There."""
    do: Literal["start", "go on", "examine", "end"] = "start"
    """`go on`: with what is left, as often as something is.

    `examine`: nothing but write what there is to the witness. `end`: `go on`, or `examine` if
    nothing is left.
    """
    name: str = "x"
    without: tuple[Guard, ...] = ()
    fault: str = ""
    """As faults.py reads it."""
    busy_timeout_s: float = 15.0
    stop_at: str = ""
    """Where the process stops itself, as stories.py knows the places."""
    force: bool = False
    """`go on` takes runs away from processes that are alive."""
    key: str = ""
    """With which the journal is encrypted."""


@dataclass(frozen=True, slots=True)
class _Stage:
    task: Task
    story: Story
    world: World
    runtime: Runtime
    agent: Agent[object, str]


def text_of(task: Task) -> str:
    return msgspec.json.encode(task, enc_hook=str).decode()


def task_of(text: str) -> Task:
    return msgspec.json.decode(text, type=Task, dec_hook=lambda kind, value: kind(value))


def drive(task: Task) -> None:
    """Prints a line for each run that it drove: its outcome, and its error; `refused`, where it
    could not begin.
    """
    sabotage(task.without, postgres=bool(task.url))
    _use(task.key)
    if task.do == "examine":
        anyio.run(_examine, task)
        return
    if task.fault:
        fail(task.fault)
    _refused_or(task)


def _use(key: str) -> None:
    if key:
        os.environ[KEY] = key


def finish(task: Task) -> None:
    """`drive`, until nothing is left. Each time the journal is opened once more."""
    _use(task.key)
    for _ in range(STEPS_MOST):
        if _refused_or(task):
            return
    raise AssertionError("it does not come to its end")


def _refused_or(task: Task) -> bool:
    """Return True if nothing was left to do."""
    try:
        return anyio.run(_main, task)
    except AgentError as e:
        print(f"refused {e.message}", flush=True)
        return False


async def _examine(task: Task) -> None:
    await examine(task.url or f"sqlite:///{task.journal}", task.witness)


async def _main(task: Task) -> bool:
    """Return True if nothing was left to do."""
    world, story = World(task.witness, stop_at=task.stop_at), STORIES[task.story]
    runtime = Runtime(journal=_opened(task))
    stage = _Stage(task, story, world, runtime, agent_of(story, world))
    is_over = False
    try:
        if task.do == "start":
            await _start(stage)
        else:
            is_over = not await _go_on(stage)
            if is_over and task.do == "end":
                # in the journal that is open: it has not been written to since it was opened
                await write_account(runtime, world)
    finally:
        # what a disk of ours raises comes out of closing too, where SQLite can live with it
        with suppress(*[apsw.Error] if task.fault else []):
            await runtime.aclose()
    return is_over


def _opened(task: Task) -> Journal:
    return (
        open_journal(task.url, lease_s=task.lease_s)
        if task.url
        else SqliteJournal.open(
            task.journal, busy_timeout_s=task.busy_timeout_s, keys=keys_in(os.environ)
        )
    )


async def _start(stage: _Stage) -> None:
    rt, story, task = stage.runtime, stage.story, stage.task
    result = await _watched(
        stage,
        rt.stream(
            stage.agent, f"run {task.name}", on_ask=story.on_ask, on_unknown=story.on_unknown
        ),
    )
    if story.fork:
        await _fork(stage, result.run_id)


async def _fork(stage: _Stage, run_id: str) -> None:
    await _watched(
        stage,
        stage.runtime.fork_stream(
            run_id, turn=1, text=f"run {stage.task.name}-fork", agent=stage.agent
        ),
    )


async def _go_on(stage: _Stage) -> bool:
    """One step: with what is left, else with what a person is asked, else from where nothing has
    begun yet. Return False, and print nothing, once all is over.
    """
    if stage.task.force:
        await _take_away(stage)
    runs = [info for info in await stage.runtime.journal.runs() if info.parent_run_id is None]
    left = [info for info in runs if info.status == "stopped"] or [
        info for info in runs if info.status == "waiting"
    ]
    for info in left:
        await _resume(stage, info.run_id)
    if not runs:
        await _start(stage)
    elif stage.story.fork and not left and not any(info.forked_from for info in runs):
        await _fork(stage, runs[0].run_id)
    else:
        return bool(left)
    return True


async def _take_away(stage: _Stage) -> None:
    journal = stage.runtime.journal
    for info in await journal.runs():
        if info.status == "running":
            await (await journal.take_over(info.run_id, force=True)).release()


async def _resume(stage: _Stage, run_id: str) -> None:
    """With the answers of an honest person, who looks at the world first."""
    state = await stage.runtime.journal.load(run_id)
    answers: dict[str, Any] = {"approve": [], "deny": {}, "results": {}}
    for each in (state, *await open_below(stage.runtime.journal, state)):
        found = honest(stage.world, each)
        answers["approve"] += found["approve"]
        answers["deny"] |= found["deny"]
        answers["results"] |= found["results"]
    await _watched(stage, stage.runtime.resume_stream(run_id, stage.agent, **answers))


async def _watched(stage: _Stage, stream: RunStream[str]) -> RunResult[str]:
    """To its end; whoever listens tells the witness what it saw."""
    steers = stage.story.meanwhile == "steer"
    async with stream:
        async for event in stream:
            _publish(stage.world, event)
            if isinstance(event, ToolCallStart) and steers:
                stream.steer("Mind the gap.")
                steers = False
            elif isinstance(event, ToolProgress) and stage.story.meanwhile == "cancel":
                stream.cancel()
    result = stream.result
    stage.world.ended(result)
    print(
        f"{result.outcome.value} {result.error.message if result.error else ''}".strip(), flush=True
    )
    return result


def _publish(world: World, event: Event) -> None:
    if isinstance(event.id, str):
        world.saw("published", event.run_id, event.id, str(type(event).__struct_config__.tag))


if __name__ == "__main__":
    drive(task_of(sys.argv[1]))
