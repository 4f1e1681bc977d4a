"""Commands suggested after a run that did not complete. Its outcome is rendered in render.py. Entry
points: `next_steps`.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from treadle._internal.terminal_text import revealed_line
from treadle.cli.asked_call import CallLines, call_lines
from treadle.journal.entries import ApprovalAsked
from treadle.journal.journal import Journal
from treadle.journal.run_state import RunState


class _Waiting(NamedTuple):
    """Call that waits for an answer, in the run or in one of its child runs."""

    asked: ApprovalAsked
    state: RunState

    @property
    def run_id(self) -> str:
        assert self.state.started is not None, "a run begins with run.started"
        return self.state.started.run_id

    @property
    def begun(self) -> bool:
        return self.asked.call_id in self.state.current.starts

    @property
    def shown(self) -> CallLines:
        return call_lines(self.asked, str)

    @property
    def answer(self) -> tuple[str, str]:
        """Option that most people want, as name and value."""
        return (
            ("--result", f"{self.asked.call_id}=TEXT")
            if self.asked.deferred
            else ("--approve", self.asked.call_id)
        )


async def next_steps(runs: Journal, state: RunState, *, journal: str | None = None) -> list[str]:
    """Return the suggested commands as lines for stderr, which may contain secrets and escape
    sequences. For a waiting run: each call, and the command that answers it.

    `journal`: its URL if it is not the default journal.
    """
    started = state.started
    assert started is not None, "a run begins with run.started"
    there = () if journal is None else ("--journal", journal)
    if state.finished is None:
        return _to_resume(await _waiting(runs, state), started.run_id, there)
    show = _command("runs", "show", started.run_id, *there)
    if started.session_id is None:
        return [f"{show} shows what happened"]
    elsewhere = () if state.cwd == os.getcwd() else ("--cwd", state.cwd)
    return [
        (
            f"{show} shows what happened; "
            f"{_command('run', '--session', started.session_id, *there, *elsewhere)} … continues it"
        )
    ]


def follow_command(run_id: str, journal: str | None) -> str:
    """Return the command that follows a run in another process."""
    return _command("runs", "follow", run_id, *(() if journal is None else ("--journal", journal)))


async def _waiting(runs: Journal, state: RunState) -> list[_Waiting]:
    """Return the calls that need an answer, except those that only wait for a child run, whose own
    calls are listed.
    """
    if not state.approvals.asked:
        return []
    from treadle.runtime.children import open_below  # noqa: PLC0415  it brings the loop, and `runs show` seldom needs it

    below = (
        await open_below(runs, state)
        if any(asked.deferred for asked in state.approvals.asked.values())
        else []
    )
    parents = {
        one.started.parent_call_id
        for one in below
        if one.started is not None and one.approvals.asked
    }
    return [
        _Waiting(asked, one)
        for one in (state, *below)
        for asked in one.approvals.asked.values()
        if asked.call_id not in parents
    ]


def _to_resume(waiting: Sequence[_Waiting], run_id: str, there: tuple[str, ...]) -> list[str]:
    if not waiting:
        return [f"{_command('runs', 'resume', run_id, *there)} continues it"]
    times = Counter(one.asked.call_id for one in waiting)
    of_run: dict[str, list[_Waiting]] = {}
    shown = [one for one in waiting if one.shown.whole]
    for one in shown:  # an id that waits in several runs is answered in each of them
        of_run.setdefault(run_id if times[one.asked.call_id] == 1 else one.run_id, []).append(one)
    lines = [line for one in waiting for line in _question(one, run_id)]
    for each, calls in sorted(of_run.items(), key=lambda item: item[0] == run_id):
        lines.append(
            "  "
            f"{_command('runs', 'resume', each, *[word for one in calls for word in one.answer], *there)}"  # noqa: E501
        )
    if len(shown) < len(waiting):
        whole = _command("runs", "show", "--json", run_id, *there)
        lines.append(f"  {whole} shows all of it; read it before you approve")
    if run_id not in of_run:
        lines.append(f"  {_command('runs', 'resume', run_id, *there)} continues it then")
    return [*lines, f"  {_instead(waiting)}"]


def _instead(waiting: Sequence[_Waiting]) -> str:
    if any(one.begun and not one.asked.deferred for one in waiting):
        return (
            "runs it again; --result CALL=TEXT gives its result, --deny CALL reports it to the "
            "model as unknown"
        )
    return (
        "TEXT is its result; --deny CALL abandons it"
        if all(one.asked.deferred for one in waiting)
        else "--deny CALL denies it"
    )


def _question(one: _Waiting, run_id: str) -> list[str]:
    """Return a pending call as lines: its name and, below it, its complete arguments."""
    asked = one.asked
    why = (
        "it is unknown whether it took effect"
        if one.begun and not asked.deferred
        else revealed_line(asked.reason)
    )
    where = "" if one.run_id == run_id else f" in {one.run_id}"
    name, call_id = revealed_line(asked.name), revealed_line(asked.call_id)
    head = f"? {name} waits as {call_id}{where}: {why}"
    return [head, *(f"?   {line}" for line in one.shown.lines)]


def _command(*words: str) -> str:
    return shlex.join(["treadle", *words])
