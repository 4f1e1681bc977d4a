"""What a person can type after a run that did not complete. How it ended is told by render.py. Entry: `next_steps`."""

from __future__ import annotations

import os
import shlex

from treadle.cli.render import one_line
from treadle.entries import ApprovalAsked
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
    return [f"{show} tells what happened; {_command('run', '--session', started.session_id, *there, *elsewhere)} … goes on"]


def _to_resume(state: RunState, run_id: str, there: tuple[str, ...]) -> list[str]:
    approvals = [word for call_id in state.asked for word in ("--approve", call_id)]
    command = _command("runs", "resume", run_id, *approvals, *there)
    if not state.asked:
        return [f"{command} goes on with it"]
    begun = any(call_id in state.starts for call_id in state.asked)
    instead = "--result CALL=TEXT says what it gave, --deny CALL tells the model that nobody knows" if begun else "--deny CALL says no"
    return [*(_question(state, asked) for asked in state.asked.values()), f"  {command}", f"  {'runs it again; ' if begun else ''}{instead}"]


def _question(state: RunState, asked: ApprovalAsked) -> str:
    why = "nobody knows whether it took effect" if asked.call_id in state.starts else one_line(asked.reason)
    return f"? {asked.name} {one_line(asked.arguments_json, 80)} waits as {asked.call_id}: {why}"


def _command(*words: str) -> str:
    return shlex.join(["treadle", *words])
