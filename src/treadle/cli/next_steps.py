"""What a person can type after a run that did not complete. How it ended is told by render.py. Entry: `next_steps`."""

from __future__ import annotations

import os
import shlex

from treadle.cli.render import one_line
from treadle.run_state import RunState


def next_steps(state: RunState, *, journal: str | None = None) -> list[str]:
    """Lines for stderr, as they may hold secrets and escape sequences. Of a run that waits: each call that does, and the command that answers.

    `journal`: its URL where a command has to be told, because it is not where a command looks by itself.
    """
    started = state.started
    assert started is not None, "a run begins with run.started"
    there = () if journal is None else ("--journal", journal)
    if state.finished is None:
        return _to_resume(state, started.run_id, there)
    show = _command("runs", "show", started.run_id, *there)
    if started.session_id is None:
        return [f"{show} tells what happened"]
    elsewhere = () if state.cwd == os.getcwd() else ("--cwd", state.cwd)
    return [f"{show} tells what happened; {_command('run', '--continue', *there, *elsewhere)} … goes on"]


def _to_resume(state: RunState, run_id: str, there: tuple[str, ...]) -> list[str]:
    approvals = [word for call_id in state.asked for word in ("--approve", call_id)]
    command = _command("runs", "resume", run_id, *approvals, *there)
    if not state.asked:
        return [f"{command} goes on with it"]
    questions = [f"? {asked.name} {one_line(asked.arguments_json, 80)} waits as {call_id}: {one_line(asked.reason)}" for call_id, asked in state.asked.items()]
    if any(call_id in state.starts for call_id in state.asked):
        other = "runs it again. Instead, --result CALL=TEXT says what it gave, and --deny CALL tells the model that nobody knows"
    else:
        other = "runs it. Instead, --deny CALL says no"
    return [*questions, f"  {command}", f"  {other}"]


def _command(*words: str) -> str:
    return shlex.join(["treadle", *words])
